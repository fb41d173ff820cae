"""Commands for the methodologist: loss, disclosure and the comparison of methods."""

from __future__ import annotations

import shutil
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import polars as pl

from ilba.cli.words import (
    OutputFile,
    ProgressBar,
    commands,
    example,
    json_option,
    lang_of_page,
    named_tables,
    opened,
    page_lang,
    plan_option,
    print_frame,
    print_json,
    secret_of,
    shown,
    some_tables,
    typed_level,
    typed_list,
    typed_pairs,
)
from ilba.errors import InputError, SecretError, UnsafeRelease
from ilba.progress import Progress, ProgressStep
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store
from ilba.tables.store import ABOUT


@example("ilba report full_tb.parquet --out report.html --max-keys 2")
@commands.command("report", short_help="Report the loss of every table")
@click.argument("store")
@click.option("-o", "--out", default="report.html", show_default=True, help="The HTML file to write.")
@page_lang
@some_tables
@json_option
def report_command(
    store: str, out: str, levels: tuple[str, ...], keys: list[str] | None, max_keys: int | None, as_json: bool
) -> None:
    """Write a report on the loss of every table, with charts (confidential).

    Tables have the published masks if there are any, else those of iLBA.
    """
    from ilba.output.report import report

    with ProgressBar(as_json) as bar:
        bar.stage("opening")
        finest = _as_published(opened(store))
        bar.stage("tables")
        report(
            finest,
            out,
            [typed_level(level) for level in levels] or None,
            keys,
            max_keys,
            lang=lang_of_page(),
            progress=bar,
        )
    if as_json:
        print_json({"report": out})
    else:
        _told_of_method(finest, None, as_json, "ilba compare --method controlled")
        click.echo(f"{out}: confidential")


@example("ilba audit release-2025 release-2026 --store full_tb.parquet --out audit.html")
@commands.command("audit", short_help="Show what can be proven from all tables together")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--store",
    "stores",
    multiple=True,
    type=click.Path(),
    help="With releases: their store, to count the cells that are truly small. Repeatable.",
)
@click.option("--unchanged", is_flag=True, help="Several releases: assume that no count changed between their waves.")
@click.option("--changed", type=int, metavar="N", help="Several releases: assume that no count changed by more than N.")
@click.option("--rename", multiple=True, metavar="COL=OTHER", help="Several releases: name of a column in the others.")
@click.option("--regroup", multiple=True, metavar="COL=FILE", help="Several releases: csv of finer and coarser label.")
@click.option(
    "--method",
    multiple=True,
    help="ilba, controlled, r-file (as R writes its files), r-rows, sca-sums, sca-aggregates, or one of `ilba "
    "compare`. Repeatable.",
)
@click.option("--mask-thr", type=int, multiple=True, help="Try this threshold K. Repeatable.")
@named_tables
@some_tables
@click.option("-o", "--out", type=OutputFile(), help="Write the report as HTML (confidential).")
@page_lang
@click.option(
    "--chart", type=OutputFile(), help="With several methods or K: chart of risk and loss as html, svg or png."
)
@click.option(
    "--secret",
    type=click.Path(),
    help="The secret of the store [else the one beside it], or for --mask-thr [else a temporary secret].",
)
@click.option("--within", metavar="AREA", help="Only this area of the top level, for a store larger than memory.")
@click.option("--areas", is_flag=True, help="One top-level area after the other, for a large store or release.")
@click.option(
    "--solver-seconds",
    type=float,
    default=0.0,
    help="For iLBA: processor seconds for an exact solver on undecided cells, if the finest table is not published.",
)
@click.option("--require-safe", is_flag=True, help="Exit with 1 unless the audit finds all tables safe.")
@json_option
def audit_command(
    sources: tuple[str, ...],
    stores: tuple[str, ...],
    unchanged: bool,
    changed: int | None,
    rename: tuple[str, ...],
    regroup: tuple[str, ...],
    method: tuple[str, ...],
    mask_thr: tuple[int, ...],
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    out: str | None,
    chart: str | None,
    secret: str | None,
    within: str | None,
    areas: bool,
    solver_seconds: float,
    require_safe: bool,
    as_json: bool,
) -> None:
    """Attack all tables of a store or a release together and show what everybody can prove (confidential).

    Tables of a store have the published masks if there are any, else those of iLBA. Several releases of the same people
    are attacked together if each is by iLBA or controlled, also with different thresholds and columns; audit a release
    by another method alone. Releases of different waves are compared only with --unchanged or --changed.
    """
    from ilba.attack.audit import audit, by_field, store_of
    from ilba.release import Release

    chosen = method or mask_thr or tables or levels or keys or max_keys is not None or within is not None or areas
    if len(sources) > 1:
        if chosen or chart or secret:
            raise InputError(
                "several releases are audited unchanged: leave out --method, --mask-thr, --within, --areas, --chart, "
                "--secret and the choice of tables."
            )
        _several(sources, stores, unchanged, changed, rename, regroup, out, as_json, require_safe)
        return
    if unchanged or changed is not None or rename or regroup or len(stores) > 1:
        raise InputError("--unchanged, --changed, --rename, --regroup and a second --store go with several releases.")
    source, store = sources[0], next(iter(stores), None)
    wanted: dict[str, Any] = {
        "tables": tables or "all",
        "levels": [typed_level(level) for level in levels] or None,
        "keys": keys,
        "max_keys": max_keys,
    }
    if Path(source).is_dir() and not (Path(source) / ABOUT).exists():
        own = _needs_method(source) and len(method) == 1
        if (method and not own) or mask_thr or tables or levels or keys or max_keys is not None or within is not None:
            raise InputError(
                "a release is audited unchanged: leave out --method, --mask-thr, --within and the choice of tables."
            )
        with ProgressBar(as_json) as bar:
            bar.stage("attacking")
            counted: AnyFinestTable | None = opened(store) if store else None
            if counted is not None and secret:
                counted = store_of(Release(source), counted, method[0] if own else None, secret)
            report = audit(
                Release(source), method[0] if own else None, store=counted, solver_seconds=solver_seconds, areas=areas,
                progress=bar,
            )  # fmt: skip
        _told_of_audit(report, out, as_json, require_safe)
        return
    if store and Path(source).exists():
        raise InputError("--store goes with a release. Here the store itself is audited.")
    if areas:
        if within is not None or mask_thr or len(method) > 1 or solver_seconds or chart:
            raise InputError(
                "--areas audits by one method: leave out --within, --mask-thr, --chart and --solver-seconds."
            )
        with ProgressBar(as_json) as bar:
            bar.stage("attacking")
            report = audit(source, method[0] if method else None, **wanted, areas=True, progress=bar)
        _told_of_audit(report, out, as_json, require_safe)
        return
    finest = opened(source) if within is None else open_store(source, within=within)
    if not method and not mask_thr:
        finest = _as_published(finest, secret)
    if mask_thr or len(method) > 1:
        if require_safe:
            raise InputError("--require-safe needs one audit. Leave out --mask-thr, and give at most one --method.")
        if out:
            raise InputError("--out writes the report of one audit. For several methods or another K, use --chart.")
        own = secret_of(source, secret)
        methods, thresholds = method or (finest.method,), mask_thr or (finest.design.threshold,)
        _what_if(finest, methods, thresholds, wanted, own, chart, as_json)
        return
    if chart:
        raise InputError("--chart draws several methods or K. Give --method or --mask-thr, each once or more.")
    _tell_of_length(finest, wanted, as_json)
    with ProgressBar(as_json) as bar:
        bar.stage("attacking")
        own_method: Any = method[0] if method else finest.method
        if secret and method and (asked := by_field(own_method)) is not None:
            finest, own_method = finest.with_method(asked, secret), asked
        report = audit(finest, own_method, **wanted, solver_seconds=solver_seconds, progress=bar)
    _told_of_method(finest, method, as_json)
    _told_of_audit(report, out, as_json, require_safe)


def _needs_method(release: str) -> bool:
    """Whether a release holds only the checksum of its p-table, so that its method has to be given."""
    from ilba.release import Release

    return "ptable" in Release(release).manifest.get("parameters", {})


def _several(
    sources: tuple[str, ...],
    stores: tuple[str, ...],
    unchanged: bool,
    changed: int | None,
    rename: tuple[str, ...],
    regroup: tuple[str, ...],
    out: str | None,
    as_json: bool,
    require_safe: bool,
) -> None:
    """Audit several release folders together."""
    from ilba.attack.audit import audit
    from ilba.release import Release

    for source in sources:
        if not Path(source).is_dir() or (Path(source) / ABOUT).exists():
            raise InputError(
                f"{source!r} is not a release. Only releases are audited together; give stores as --store. Audit "
                f"files of the R package by themselves: --method r-file."
            )
    with ProgressBar(as_json) as bar:
        bar.stage("attacking")
        report = audit(
            [Release(source) for source in sources],
            stores=[opened(store) for store in stores],
            unchanged=unchanged,
            changed=changed,
            rename=typed_pairs("--rename", rename),
            regroup=typed_pairs("--regroup", regroup),
            progress=bar,
        )
    _told_of_audit(report, out, as_json, require_safe)


def _told_of_audit(report: Any, out: str | None, as_json: bool, require_safe: bool) -> None:
    if out:
        report.to_html(out, lang_of_page())
    click.echo(report.to_json() if as_json else str(report))
    if out and not as_json:
        click.echo(f"{out}: the whole report, confidential")
    if require_safe and not report.safe:
        raise UnsafeRelease("the audit does not find these tables safe.")


def _tell_of_length(finest: FinestTable, wanted: dict[str, Any], as_json: bool) -> None:
    """Warn before a long attack on many tables."""
    from ilba.design.tables import wanted_tables

    tables = len(wanted_tables(finest.design, **wanted))
    if tables * len(finest) > 3_000_000 and not as_json:
        click.echo(
            f"note: the attack on {tables} tables of {len(finest):,} finest cells may take minutes. Fewer tables: "
            f"--tables with those that are published, --max-keys 2, --levels NAME.",
            err=True,
        )


def _as_published(finest: FinestTable, secret: str | None = None) -> FinestTable:
    """The counts with their published masks if there are any."""
    with suppress(InputError, SecretError, UnsafeRelease):  # no secret or ledger here, or one without these counts
        return finest.published(secret=secret).collect()
    return finest


def _told_of_method(finest: FinestTable, method: object, as_json: bool, instead: str = "--method controlled") -> None:
    """Say that `ilba release` uses another method by default."""
    if not method and not as_json and finest.method == "ilba":
        click.echo(f"These are tables by iLBA. For the default of `ilba release` and `ilba publish`: {instead}.")


def _what_if(
    finest: FinestTable,
    methods: tuple[str, ...],
    thresholds: tuple[int, ...],
    wanted: dict[str, Any],
    secret: Any,
    chart: str | None,
    as_json: bool,
) -> None:
    """Compare proof and loss for several methods and thresholds. Only the chart is written."""
    from ilba.attack.choosing import what_if
    from ilba.output.choosing import in_words

    _require_charts(chart)
    with ProgressBar(as_json) as bar:
        bar.stage("attacking")
        rows = what_if(finest, methods, thresholds, attackers="proof", secret=secret, **wanted, progress=bar)
    if chart:
        from ilba.output import drawing, loss_charts

        drawing.save(loss_charts.risk(rows), chart)
    if as_json:
        print_json(rows.to_dicts())
        return
    words = in_words(rows)
    needed = sum(max(map(len, [column.name, *map(shown, column)])) + 2 for column in words)
    if needed <= shutil.get_terminal_size((80, 24)).columns:
        print_frame(words, rows.height)
    else:
        click.echo(_in_columns(words))


def _in_columns(words: pl.DataFrame) -> str:
    """The rows of `what_if` as a column each, for a narrow terminal."""
    from ilba.output.compare import side_by_side

    called = [" ".join(str(part) for part in row) for row in words.select(_called(words)).iter_rows()]
    measures = words.drop("method", "K", "bound", strict=False).insert_column(0, pl.Series("method", called))
    return side_by_side(measures, shutil.get_terminal_size((80, 24)).columns)


@example("ilba choose-k full_tb.parquet --mask-thr 3 --mask-thr 5 --method ilba --method controlled --out choice.html")
@commands.command("choose-k", short_help="Compare K, bounds and methods by risk and loss")
@click.argument("store")
@click.option("--mask-thr", type=int, multiple=True, help="A threshold K to try. Repeatable [3, 5 and 10].")
@click.option("--method", "methods", multiple=True, help="A method of `ilba audit`. Repeatable [ilba, controlled].")
@click.option(
    "--bound", "bounds", type=int, multiple=True, help="Choose controlled masks for this bound, and state it."
)
@click.option(
    "--attacker",
    "attackers",
    multiple=True,
    help="proof, outsider, neighbour, insider or attribute. Repeatable [all].",
)
@click.option("--register", multiple=True, metavar="TABLE=FILE", help="An exact table from elsewhere, with a column N.")
@named_tables
@some_tables
@plan_option
@click.option("--secret", type=click.Path(), help="The secret that draws the masks [else a temporary one].")
@click.option("-o", "--out", type=OutputFile(), help="Write the rows with a chart as HTML (confidential).")
@click.option("--chart", type=OutputFile(), help="Write only the chart, as html, svg or png (confidential).")
@json_option
def choose_k_command(
    store: str,
    mask_thr: tuple[int, ...],
    methods: tuple[str, ...],
    bounds: tuple[int, ...],
    attackers: tuple[str, ...],
    register: tuple[str, ...],
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    plan: list[str] | None,
    secret: str | None,
    out: str | None,
    chart: str | None,
    as_json: bool,
) -> None:
    """Compare what each attacker learns, and the loss, for several K, methods and bounds (confidential).

    Nothing is published. After the first combination it says about how long the others take. Fewer tables
    (--max-keys 1) take less time. `controlled` chooses masks for all tables in any case, as `release` does.
    """
    from ilba.attack.attackers import Register, read_register
    from ilba.attack.choosing import what_if
    from ilba.attack.risk import ALL
    from ilba.output.choosing import MEANING, in_words, write_page

    _require_charts(chart, out)
    named: list[Any] = list(attackers or ALL)
    if register:
        named.append(Register(dict(read_register(spec) for spec in register)))
    with ProgressBar(as_json) as bar:
        bar.stage("attacking")
        rows = what_if(
            opened(store),
            methods or ("ilba", "controlled"),
            mask_thr or (3, 5, 10),
            attackers=named,
            bounds=bounds or (None,),
            secret=secret_of(store, secret),
            tables=tables or "all",
            levels=[typed_level(level) for level in levels] or None,
            keys=keys,
            max_keys=max_keys,
            plan=plan or "all",
            progress=bar if as_json else _with_time_left(bar),
        )
    if chart:
        from ilba.output import drawing, loss_charts

        drawing.save(loss_charts.attackers(rows), chart)
    if out:
        write_page(rows, out)
    if as_json:
        print_json(rows.to_dicts())
        return
    click.echo("What each attacker learns, and the loss (confidential)")
    click.echo(_in_columns(in_words(rows)))
    click.echo(textwrap.fill(MEANING, min(shutil.get_terminal_size((80, 24)).columns, 100)))
    if out:
        click.echo(f"{out}: with a chart, confidential")


def _with_time_left(bar: ProgressBar) -> Progress:
    """Show the steps of `what_if`, and say after the first way to publish about how long the others take."""
    begun = time.perf_counter()

    def step(one: ProgressStep) -> None:
        bar(one)
        if one.stage == "comparing" and one.done == 1 and one.total is not None and one.total > 1:
            taken = time.perf_counter() - begun
            left = f"the first of {one.total} took {taken:.0f} s; the others take about {taken * (one.total - 1):.0f} s"
            bar.aside(lambda: click.echo(left, err=True))

    return step


def _require_charts(*files: str | None) -> None:
    """Raise an error before the work if a chart cannot be drawn."""
    if any(files):
        from ilba.output import drawing

        drawing.require()


def _called(rows: pl.DataFrame) -> list[pl.Expr]:
    """Name a row on a terminal: its method, K and the bound, if any."""
    names = [pl.col("method"), pl.format("K={}", "K").alias("K")]
    if "bound" in rows.columns:
        names.append(pl.when(pl.col("bound").is_null()).then(pl.lit("")).otherwise(pl.format("bound={}", "bound")))
    return names


@example("ilba risk full_tb.parquet --attacker outsider --attacker insider --out risk.html")
@commands.command("risk", short_help="Measure what named attackers learn from all tables")
@click.argument("source")
@click.option(
    "--attacker",
    "attackers",
    multiple=True,
    help="proof, outsider, neighbour, insider or attribute. Repeatable [all].",
)
@click.option("--register", multiple=True, metavar="TABLE=FILE", help="An exact table from elsewhere, with a column N.")
@click.option("--unknown", type=int, multiple=True, help="An insider who knows everybody except this many people.")
@click.option("--bound", type=int, help="The known bound of the loss of controlled sums.")
@click.option(
    "--solver-seconds", type=float, default=0.0, help="For iLBA: processor seconds for a solver on undecided cells."
)
@click.option("--store", type=click.Path(), help="With a release: its store, to compare with the truth.")
@click.option("--method", help="A method of `ilba audit` [as published, else ilba].")
@click.option("--secret", type=click.Path(), help="The secret of the store [ILBA_SECRET, else the one beside it].")
@click.option(
    "--cells", type=int, help="Compute probabilities for at most this many finest cells, in a sample of areas."
)
@click.option("--within", metavar="AREA", help="Only this area of the top level, for a store larger than memory.")
@named_tables
@some_tables
@plan_option
@click.option("-o", "--out", type=OutputFile(), help="Write the report as HTML (confidential).")
@page_lang
@json_option
def risk_command(
    source: str,
    attackers: tuple[str, ...],
    register: tuple[str, ...],
    unknown: tuple[int, ...],
    bound: int | None,
    solver_seconds: float,
    store: str | None,
    method: str | None,
    secret: str | None,
    cells: int | None,
    within: str | None,
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    plan: list[str] | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Measure what named attackers learn, by proof, by probability and with knowledge from outside (confidential).

    Tables of a store have the published masks if there are any, else those of iLBA. --method controlled chooses masks
    for all tables, as `release` does, also if only some are measured.
    """
    from ilba.attack.attackers import Insider, Register, read_register
    from ilba.attack.audit import by_field, store_of
    from ilba.attack.risk import ALL, CELLS, risk
    from ilba.release import Release

    chosen: list[Any] = [*(attackers or ALL), *(Insider(unknown=number) for number in unknown)]
    if register:
        chosen.append(Register(dict(read_register(spec) for spec in register)))
    is_release = Path(source).is_dir() and not (Path(source) / ABOUT).exists()
    other = method and not (is_release and _needs_method(source))
    if is_release and (tables or levels or keys or max_keys is not None or other or within is not None):
        raise InputError("a release is measured unchanged: leave out --method, --within and the choice of tables.")
    if store and not is_release and Path(source).exists():
        raise InputError("--store goes with a release. Here the store itself is measured.")
    measured: Any = Release(source) if is_release else opened(source) if within is None else None
    with ProgressBar(as_json) as bar:
        bar.stage("attacking")
        measured = measured or open_store(source, within=within)
        counted: AnyFinestTable | None = opened(store) if store else None
        if is_release and counted is not None and secret:
            counted = store_of(measured, counted, method, secret)
        elif not is_release and not method:
            measured = _as_published(measured, secret)
        elif not is_release and method and secret and (asked := by_field(method)) is not None:
            measured, method = measured.with_method(asked, secret), None
        report = risk(
            measured,
            chosen,
            tables or "all",
            method=method,
            levels=[typed_level(level) for level in levels] or None,
            keys=keys,
            max_keys=max_keys,
            plan=plan or "all",
            bound=bound,
            cells=CELLS if cells is None else cells,
            solver_seconds=solver_seconds,
            store=counted,
            progress=bar,
        )
    if out:
        report.to_html(out, lang_of_page())
    if not is_release:
        _told_of_method(measured, method, as_json)
    click.echo(report.to_json() if as_json else str(report))
    if out and not as_json:
        click.echo(f"{out}: the whole report, confidential")


_MEANING = (
    "Loss: absolute difference of masked and true count; suppressed cells have none. Totals: tables of at most one "
    "variable. Differences, ranks: of neighbouring areas; ranks turned: of those that truly differ, the share "
    "published in the wrong order or as equal. Over bound: a loss above K plus K/2. Bias: of the finest counts 1 to"
    " K-1, the largest distance between such a count and the mean of its published numbers. Invented: empty cells "
    "published above 0; lost: the share of the other counts published as 0. Provable: the share of finest cells "
    "with 1..K-1 that the audit proves from these tables, a lower bound; provable counts: the share of all small "
    "counts of the tables; exact counts: the share of those that are proven exactly; aggregates: the number of those "
    "in coarser tables. Guessed: the share of small cells whose true count is the most frequent one for their "
    "published number. Likely: the share of small cells whose published number alone means a small count in more than "
    "95 of 100 cells. After the name of an attacker, likely: the share of small cells that it rightly believes to be "
    "small with more than .95, from all tables unless a remark names one; proven: the share of small finest cells "
    "that it proves. "
    "{relies}Safe: nothing is proven, and every cell is certified."
)


@example("ilba compare full_tb.parquet --method controlled --method rounding:base=5 --method cell-key:D=5,V=3,js=2")
@commands.command("compare", short_help="Compare methods on the same tables")
@click.argument("store")
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME[:P=V,..]",
    help="A method with its parameters, such as rounding:base=3. Repeatable [all variants of ours].",
)
@click.option(
    "--attacker",
    "attackers",
    multiple=True,
    help="outsider, neighbour, insider or attribute, besides proof. Repeatable.",
)
@named_tables
@some_tables
@plan_option
@click.option(
    "--secret", type=click.Path(), help="The secret of the store [ILBA_SECRET, else the secret beside the store]."
)
@click.option(
    "--measure",
    "measures",
    type=typed_list,
    metavar="NAME,..",
    help="Show only these columns, one line per method: mean_loss,provable; of attackers 'neighbour: proven'.",
)
@click.option("-o", "--out", type=OutputFile(), help="Write the comparison with its chart as HTML (confidential).")
@page_lang
@click.option("--csv", "csv_path", type=OutputFile(), help="Write the rows as csv (confidential).")
@json_option
def compare_command(
    store: str,
    methods: tuple[str, ...],
    attackers: tuple[str, ...],
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    plan: list[str] | None,
    secret: str | None,
    measures: list[str] | None,
    out: str | None,
    csv_path: str | None,
    as_json: bool,
) -> None:
    """Compare methods on the same tables: loss, bias, and what everybody can prove (confidential).

    Methods: sca, ilba, controlled, cell-key, rounding, small-count-rounding, suppression, noise. `controlled` chooses
    masks for all tables, as `release` does: --levels town gives the loss of the towns in a release of everything.
    """
    from ilba.attack.attackers import RELIES
    from ilba.output.compare import check_measures, compare, measures_of

    _require_charts(out)
    check_measures(measures or (), measures_of(attackers))  # before the work, not after it
    with ProgressBar(as_json) as bar:
        bar.stage("comparing")
        comparison = compare(
            opened(store),
            tables or "all",
            methods=methods or None,
            attackers=attackers,
            levels=[typed_level(level) for level in levels] or None,
            keys=keys,
            max_keys=max_keys,
            plan=plan or "all",
            secret=secret_of(store, secret),
            progress=bar,
        )
    if csv_path:
        comparison.to_csv(csv_path)
    if out:
        comparison.to_html(out, lang_of_page())
    if as_json:
        print_json(comparison.rows.to_dicts())
    else:
        click.echo(f"{comparison.title} (confidential)")
        wide = shutil.get_terminal_size((80, 24)).columns
        click.echo(comparison.text(measures, wide))
        if not measures:
            relies = f"{RELIES} " if "insider" in attackers else ""
            click.echo(textwrap.fill(_MEANING.format(relies=relies), 79))
        for text in comparison.remarks:
            click.echo(textwrap.fill(text, 79))
        for name, strong, weak in () if measures else comparison.notes:
            click.echo(textwrap.fill(f"{name}: {strong}. But: {weak}.", 79, subsequent_indent="  "))
