"""The command line: one command per verb, the same words as in Python."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
import polars as pl

from ilba import __version__
from ilba.building import build
from ilba.errors import IlbaError, InputError, MissingExtra, Notice, SecretError, UnsafeRelease, nearest, some
from ilba.finest import FinestTable, open_store, read_rds, secret_path
from ilba.secret import Secret
from ilba.table import csv_text, write_csv

_MISSING = "(missing)"


def main() -> NoReturn:
    """Run the command line; errors of this package become one line on stderr and an exit code."""
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", Notice)
    warnings.showwarning = _show
    try:
        commands.main(standalone_mode=False)
    except click.exceptions.Abort:
        _fail("stopped. Nothing was half written.", 130)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (InputError, SecretError) as problem:
        _fail(str(problem), 2)
    except IlbaError as problem:
        _fail(str(problem), 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    sys.exit(0)


def _fail(text: str, code: int) -> NoReturn:
    click.echo(f"error: {text}", err=True)
    sys.exit(code)


def _show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    click.echo(f"note: {message}", err=True)


class _Verbs(click.Group):
    """A group that suggests the nearest command for a misspelled one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            raise click.UsageError(
                f"no such command {args[0]!r}.{nearest(args[0], known)} Commands: {', '.join(known)}.", ctx
            )
        return super().resolve_command(ctx, args)


def _example(text: str) -> Callable[[click.Command], click.Command]:
    """Put an example at the end of a command's help."""

    def add(command: click.Command) -> click.Command:
        command.epilog = f"\b\nExample:\n  {text}"
        return command

    return add


def _list(value: str | list[str]) -> list[str]:
    """Names or values with commas between them; one that holds a comma goes into double quotes."""
    if isinstance(value, list):
        return value
    rows = list(csv.reader([value], skipinitialspace=True))
    return [cell.strip() for cell in rows[0]] if rows else []


def _labels(texts: list[str]) -> list[str | None]:
    """Labels as typed: a missing one is written as it is shown."""
    return [None if text == _MISSING else text for text in texts]


def _named(values: tuple[str, ...], option: str, names: list[str] | None = None) -> Any:
    """`a,b` as a list; `x=a,b` given once or more as a mapping; nothing as an empty list.

    With `names`, only these stand before an equals sign: a label may hold one too.
    """
    if not values:
        return []
    if not any("=" in value and (names is None or value.partition("=")[0].strip() in names) for value in values):
        return [name for value in values for name in _list(value)]
    if not all("=" in value for value in values):
        raise InputError(f"{option} has some values with a name and some without. Write {option} name=a,b for each.")
    return {name.strip(): _list(rest) for name, _, rest in (v.partition("=") for v in values)}


def _level(text: str) -> Any:
    """`3`, `LA3`, or `area=3,industry=1`."""
    if "=" not in text:
        return int(text) if text.lstrip("-").isdecimal() else text
    pairs = (part.partition("=") for part in _list(text))
    return {name.strip(): _level(level.strip()) for name, _, level in pairs}


class _Progress:
    """A moving bar with the present stage and the time on a terminal; nothing in a pipe."""

    def __init__(self, quiet: bool = False) -> None:
        self._bar: Any = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:<10}"), BarColumn(pulse_style="cyan"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> _Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, stage: str) -> None:
        """Name the stage that begins."""
        if self._bar:
            self._bar.update(self._task, description=stage)

    def share(self, done: int, total: int) -> None:
        """Show how much is done."""
        if self._bar:
            self._bar.update(self._task, completed=done, total=total)

    def aside(self, show: Callable[[], object]) -> None:
        """Print something while the bar is out of the way."""
        self.__exit__()
        show()
        self.__enter__()


def _json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def _print_frame(frame: pl.DataFrame, rows: int) -> None:
    """A frame in a terminal: numbers right, labels left, the rest counted."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for name, dtype in frame.schema.items():
        shown.add_column(Text(name), justify="right" if dtype.is_numeric() else "left")
    for row in frame.head(rows).iter_rows():
        shown.add_row(*(Text(_shown(value)) for value in row))
    console = Console()
    console.print(shown)
    if frame.height > rows:
        console.print(f"... {frame.height - rows:,} more rows; --out FILE writes all of them, --rows N shows more.")


def _shown(value: object) -> str:
    if value is None:
        return _MISSING
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _called() -> str:
    """What to type for this command here: its name where that finds it, else its path."""
    typed = Path(sys.argv[0])
    found = shutil.which("ilba")
    if typed.stem != "ilba" or (found and Path(found).resolve() == typed.resolve()):
        return "ilba"
    return str(typed)


def _opened(path: str) -> FinestTable:
    return read_rds(path) if path.lower().endswith(".rds") else open_store(path)


_json_option = click.option("--json", "as_json", is_flag=True, help="Machine output: one JSON document.")
_level_option = click.option(
    "--level",
    default="0",
    show_default=True,
    metavar="N|NAME",
    help="Level as a number, a column name, or area=3,industry=1.",
)
_named_tables = click.option(
    "--tables", type=_list, metavar="A,B,..", help="Names such as LA3.gender.age; leave it out for every table."
)


def _some_tables(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that cut all tables of a store down."""
    for option in (
        click.option("--max-keys", type=click.IntRange(min=0), help="At most so many keys in a table."),
        click.option("--keys", type=_list, metavar="A,B,..", help="Only subsets of these keys [all]."),
        click.option(
            "--levels", multiple=True, metavar="N|NAME", help="Only this level; once for each [all, 0 included]."
        ),
    ):
        command = option(command)
    return command


_key_option = click.option(
    "--key", type=_list, metavar="A,B,..", default=[], help="Keys of the table, with commas between them."
)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ilba")
def commands() -> None:
    """Publish frequency tables from microdata without giving people away."""


@_example("ilba demo")
@commands.command("demo")
@click.option("--out", default="ilba-demo", show_default=True, help="The folder to write to.")
@click.option(
    "--records", type=click.IntRange(min=1000), default=1_000_000, show_default=True, help="Size of the census."
)
def demo_command(out: str, records: int) -> None:
    """A guided tour on a synthetic census of a million people; takes some seconds."""
    from ilba import demo

    with _Progress() as stage:
        demo.run(
            out,
            say=lambda text: stage.aside(lambda: click.echo(text)),
            show=lambda frame: stage.aside(lambda: _print_frame(frame, frame.height)),
            stage=stage,
            n=records,
            command=_called(),
        )


@_example("ilba build people.csv --hkey LA1,LA2,LA3 --key gender,age --mask-thr 5 --out full_tb.parquet")
@commands.command("build")
@click.argument("data")
@click.option(
    "--hkey",
    multiple=True,
    required=True,
    metavar="A,B,..",
    help="Hierarchy, coarse to fine. Several: --hkey area=A,B --hkey industry=X,Y.",
)
@click.option(
    "--key",
    type=_list,
    metavar="A,B,..",
    help="Key variables; left out, all other columns with at most --key-thr values.",
)
@click.option("--mask-thr", type=int, default=5, show_default=True, help="The threshold K, at least 3.")
@click.option("--out", default="full_tb.parquet", show_default=True, help="The store to write.")
@click.option(
    "--secret",
    type=click.Path(),
    help="Key file made by `ilba secret new`. Else ILBA_SECRET, else the key beside the store.",
)
@click.option(
    "--cells",
    type=click.Choice(["observed", "grid"]),
    default="observed",
    show_default=True,
    help="Which small cells count in S.",
)
@click.option(
    "--hkey-rank", type=_list, metavar="A,B,..", help="Ranks of the --hkey columns, if they are not coarse to fine."
)
@click.option("--key-thr", type=int, help="Leave out keys with more different values than this [100 without --key].")
@click.option(
    "--missing",
    type=click.Choice(["drop", "category"]),
    default="drop",
    show_default=True,
    help="What to do with missing values.",
)
@click.option(
    "--missing-values",
    type=_list,
    metavar="A,B,..",
    default=[],
    help="Labels that stand for a missing value, such as NA.",
)
@click.option(
    "--schema",
    type=_list,
    default=[],
    metavar="COL=int,..",
    help="CSV columns to read as whole numbers; all others are text.",
)
@click.option(
    "--labels", type=click.Path(), help="Code list: csv or json of variable, code, label_en, label_ko, parent."
)
@_json_option
def build_command(
    data: str,
    hkey: tuple[str, ...],
    key: list[str] | None,
    mask_thr: int,
    out: str,
    secret: str | None,
    cells: Any,
    hkey_rank: list[str] | None,
    key_thr: int | None,
    missing: Any,
    missing_values: list[str],
    schema: list[str],
    labels: str | None,
    as_json: bool,
) -> None:
    """Count microdata into the finest table, mask it and save it as a store."""
    types = dict(pair.partition("=")[::2] for pair in schema)
    with _Progress(as_json) as stage:
        finest = build(
            data,
            _named(hkey, "--hkey"),
            key,
            mask_thr,
            secret=secret,
            cells=cells,
            hkey_rank=None if hkey_rank is None else _ranks(hkey_rank),
            key_thr=key_thr,
            missing=missing,
            missing_values=missing_values,
            schema=types or None,
            labels=labels,
            output_path=out,
            stage=stage,
        )
    _told_of_store(finest, out, as_json)


def _ranks(texts: list[str]) -> list[float]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise InputError(f"--hkey-rank {','.join(texts)} holds something that is not a number.") from None


def _told_of_store(finest: FinestTable, out: str, as_json: bool) -> None:
    design = finest.design
    if as_json:
        _json({"store": out, "n_cells": len(finest), "fingerprint": finest.fingerprint, **design.to_json()})
        return
    click.echo(f"{out}: {len(finest):,} cells, K={design.threshold} (confidential)")
    for hierarchy in design.hierarchies:
        steps = " > ".join(f"{rank} {column}" for rank, column in enumerate(hierarchy.columns, 1))
        click.echo(f"  levels of {hierarchy.name}: {steps}")
    click.echo(f"  keys: {', '.join(design.keys) or '(none)'}")
    example = f"--level {design.hierarchies[0].columns[0]}" + (f" --key {design.keys[0]}" if design.keys else "")
    click.echo(f"Next: ilba table {out} {example}")


@_example("ilba table full_tb.parquet --level 3 --key gender,age --out table.csv --loss loss.csv")
@commands.command("table")
@click.argument("store")
@_level_option
@_key_option
@click.option("--public", is_flag=True, help="Only labels and masked counts, without rows that are 0.")
@click.option("--out", type=click.Path(), help="Write the whole table as CSV.")
@click.option("--loss", type=click.Path(), help="Write the distribution of the information loss as CSV.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many rows to show on a terminal.",
)
@_json_option
def table_command(
    store: str,
    level: str,
    key: list[str],
    public: bool,
    out: str | None,
    loss: str | None,
    rows: int,
    as_json: bool,
) -> None:
    """One table masked by iLBA: shown on a terminal, as CSV in a pipe, or written to a file."""
    with _Progress(as_json) as stage:
        stage("opening")
        finest = _opened(store)
        stage("masking")
        table = finest.table(_level(level), key)
        frame = table.public() if public else table.frame
        stage("writing")
        if out:
            table.write_csv(out, loss, public=public)
        elif loss:
            table.write_loss(loss)
    if as_json:
        plain: dict[str, Any] = {
            "columns": frame.columns,
            "rows": frame.rows(),
            "mask_thr": finest.design.threshold,
        }
        if not public:
            plain["loss"] = table.loss.to_dicts()
        _json(plain)
    elif sys.stdout.isatty():
        click.echo(f"{table.title} (K={finest.design.threshold}{'' if public else ', confidential'})")
        _print_frame(frame, rows)
        if not public:
            click.echo("Information loss (masked minus true)")
            _print_frame(table.loss, table.loss.height)
    elif not out:
        click.echo(csv_text(frame), nl=False)
    if out and not as_json:
        click.echo(f"wrote {out}: {frame.height:,} rows{'' if public else ' (confidential: holds flags)'}", err=True)


@_example("ilba cell full_tb.parquet --level 3 --hkey-value 01,0104,010407 --key gender --key-value 2")
@commands.command("cell")
@click.argument("store")
@_level_option
@_key_option
@click.option(
    "--hkey-value",
    multiple=True,
    metavar="A,B,..",
    help="The path down to the level. Several: --hkey-value area=01,0104.",
)
@click.option(
    "--key-value", type=_list, metavar="A,B,..", default=[], help="One value for each key; (missing) for a missing one."
)
@_json_option
def cell_command(
    store: str, level: str, key: list[str], hkey_value: tuple[str, ...], key_value: list[str], as_json: bool
) -> None:
    """The masked count of one cell."""
    finest = _opened(store)
    names = [hierarchy.name for hierarchy in finest.design.hierarchies]
    path = _named(hkey_value, "--hkey-value", names)
    asked = {name: _labels(part) for name, part in path.items()} if isinstance(path, dict) else _labels(path)
    masked, occurs = finest.lookup(_level(level), key, asked, _labels(key_value))
    if not occurs:
        click.echo("note: this combination does not occur.", err=True)
    _json({"N_masked": masked}) if as_json else click.echo(str(masked))


@_example("ilba cube full_tb.parquet --out cube --max-keys 3")
@commands.command("cube")
@click.argument("store")
@click.option("--out", default="cube", show_default=True, help="The folder to write to, one Parquet file per table.")
@_some_tables
@_json_option
def cube_command(
    store: str, out: str, levels: tuple[str, ...], keys: list[str] | None, max_keys: int | None, as_json: bool
) -> None:
    """Every table of a store, masked by iLBA (confidential). Goes on where an interrupted run stopped."""
    with _Progress(as_json) as stage:
        stage("opening")
        cube = _opened(store).cube([_level(level) for level in levels] or None, keys, max_keys)
        stage("tables")
        cube.write(out, progress=stage.share)
    if as_json:
        _json({"cube": out, "tables": [selection.name for selection in cube.selections]})
    else:
        click.echo(f"{out}: {some(len(cube), 'table')} (confidential: holds flags)")


@_example("ilba release full_tb.parquet --out release --max-keys 3 --title 'Census 2010' --labels codes.csv")
@commands.command("release")
@click.argument("store")
@click.option(
    "--out", default="release", show_default=True, help="The folder to publish; an older release there is replaced."
)
@_named_tables
@_some_tables
@click.option(
    "--rows",
    type=click.Choice(["nonzero", "grid"]),
    default="nonzero",
    show_default=True,
    help="Rows that are 0: none, or all.",
)
@click.option("--title", default="Frequency tables", show_default=True, help="The title of the release.")
@click.option("--description", default="", help="What it holds, in a sentence.")
@click.option("--source", default="", help="Where the data comes from.")
@click.option(
    "--labels", type=click.Path(), help="Code list: csv or json of variable, code, label_en, label_ko, parent."
)
@click.option("--geometry", multiple=True, metavar="COL=FILE", help="GeoJSON of an area column; give it once for each.")
@click.option("--method", type=click.Choice(["ilba", "controlled"]), help="How tables are masked [as the store is].")
@click.option("--bound", type=click.IntRange(min=1), help="With controlled: how far a count may lie from the truth.")
@click.option(
    "--secret", type=click.Path(), help="With controlled: the key of the store [ILBA_SECRET, else beside it]."
)
@click.option(
    "--audit", "audit_path", type=click.Path(), help="Audit before publishing and write the report here (confidential)."
)
@click.option("--require-safe", is_flag=True, help="Publish only what the audit finds safe; else exit with 1.")
@_json_option
def release_command(
    store: str,
    out: str,
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    rows: Any,
    title: str,
    description: str,
    source: str,
    labels: str | None,
    geometry: tuple[str, ...],
    method: str | None,
    bound: int | None,
    secret: str | None,
    audit_path: str | None,
    require_safe: bool,
    as_json: bool,
) -> None:
    """Publish tables: a folder of labels and masked counts, code lists and a manifest. Nothing else gets in."""
    with _Progress(as_json) as stage:
        stage("opening")
        finest = _opened(store)
        wanted: dict[str, Any] = {
            "tables": tables or "all",
            "levels": [_level(level) for level in levels] or None,
            "keys": keys,
            "max_keys": max_keys,
        }
        if audit_path or require_safe:
            from ilba.audit import audit

            if method == "controlled" and finest.method != method:
                stage("choosing")
                finest = finest.controlled(**wanted, bound=bound, secret=_key_of(store, secret))
            stage("attacking")
            report = audit(finest, finest.method, **wanted, progress=stage.share)
            if audit_path:
                report.to_html(audit_path)
            if require_safe and not report.safe:
                raise UnsafeRelease(
                    "the audit does not find this release safe, so nothing was published. Release fewer tables "
                    "(--max-keys, --levels), build with a larger --mask-thr, or use masks that were chosen jointly "
                    "(method 'controlled'). `ilba audit` shows what can be proven."
                )
        stage("tables")
        release = finest.release(
            out,
            **wanted,
            method=method,
            bound=bound,
            secret=_key_of(store, secret),
            rows=rows,
            title=title,
            description=description,
            source=source,
            labels=labels,
            geometry=dict(pair.partition("=")[::2] for pair in geometry),
            progress=stage.share,
        )
    if as_json:
        _json({"release": out, "tables": list(release.tables)})
    else:
        click.echo(f"{out}: {some(len(release.tables), 'table')}, public")


@_example("ilba export release --table LA3.gender.age --format xlsx --out table.xlsx --lang ko")
@commands.command("export")
@click.argument("release")
@click.option("--table", required=True, help="The name of the table, such as LA3.gender.age.")
@click.option("--format", "kind", required=True, help="csv, parquet, xlsx, json-stat, sdmx-csv or px.")
@click.option("--out", type=click.Path(), help="The file to write [the table's name with the ending of the format].")
@click.option("--lang", default="en", show_default=True, help="Language of the labels: en or ko.")
@click.option("--agency", default="ILBA", show_default=True, help="Maintenance agency in SDMX identifiers.")
@_json_option
def export_command(release: str, table: str, kind: str, out: str | None, lang: str, agency: str, as_json: bool) -> None:
    """One table of a release in a format that others read."""
    from ilba.export import export

    endings = {"json-stat": "json", "sdmx-csv": "sdmx.csv"}
    written = export(release, table, kind, out or f"{table}.{endings.get(kind, kind)}", lang, agency=agency)
    if as_json:
        _json({"files": [str(file) for file in written]})
    else:
        for file in written:
            click.echo(f"{file}: public")


@_example("ilba report full_tb.parquet --out report.html --max-keys 2")
@commands.command("report")
@click.argument("store")
@click.option("--out", default="report.html", show_default=True, help="The HTML file to write.")
@_some_tables
@_json_option
def report_command(
    store: str, out: str, levels: tuple[str, ...], keys: list[str] | None, max_keys: int | None, as_json: bool
) -> None:
    """The methodologist's report on the loss in every table, with charts (confidential)."""
    from ilba.report import report

    with _Progress(as_json) as stage:
        stage("opening")
        finest = _opened(store)
        stage("tables")
        report(finest, out, [_level(level) for level in levels] or None, keys, max_keys, progress=stage.share)
    if as_json:
        _json({"report": out})
    else:
        click.echo(f"{out}: confidential, for you alone")


@_example("ilba audit full_tb.parquet --max-keys 3 --out audit.html")
@commands.command("audit")
@click.argument("source")
@click.option("--store", type=click.Path(), help="With a release: its store, to know how many cells are truly small.")
@click.option(
    "--method", multiple=True, help="ilba, controlled, sca-sums, sca-aggregates, r-file, r-rows; several to compare."
)
@click.option("--mask-thr", type=int, multiple=True, help="What if K were this? Several to compare.")
@_named_tables
@_some_tables
@click.option("--out", type=click.Path(), help="Write the report as HTML (confidential).")
@click.option("--chart", type=click.Path(), help="With several methods or K: risk against loss as html, svg or png.")
@click.option(
    "--secret", type=click.Path(), help="The key for --mask-thr; without one a throw-away key draws the masks."
)
@_json_option
def audit_command(
    source: str,
    store: str | None,
    method: tuple[str, ...],
    mask_thr: tuple[int, ...],
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    out: str | None,
    chart: str | None,
    secret: str | None,
    as_json: bool,
) -> None:
    """Attack all tables of a store or a release together: what can everybody prove? (confidential)"""
    from ilba.audit import audit
    from ilba.release import Release

    wanted: dict[str, Any] = {
        "tables": tables or "all",
        "levels": [_level(level) for level in levels] or None,
        "keys": keys,
        "max_keys": max_keys,
    }
    if Path(source).is_dir():
        if method or mask_thr or tables or levels or keys or max_keys is not None:
            raise InputError("a release is audited as it is: leave out --method, --mask-thr and the choice of tables.")
        with _Progress(as_json) as stage:
            stage("attacking")
            report = audit(Release(source), store=_opened(store) if store else None, progress=stage.share)
        _told_of_audit(report, out, as_json)
        return
    if store:
        raise InputError("--store goes with a release. Here the store itself is audited.")
    finest = _opened(source)
    if len(method) + len(mask_thr) > max(len(method), 1) or len(method) > 1:
        _what_if(
            finest, method or (finest.method,), mask_thr or (finest.design.threshold,), wanted, secret, chart, as_json
        )
        return
    with _Progress(as_json) as stage:
        stage("attacking")
        report = audit(finest, method[0] if method else finest.method, **wanted, progress=stage.share)
    _told_of_audit(report, out, as_json)


def _told_of_audit(report: Any, out: str | None, as_json: bool) -> None:
    if out:
        report.to_html(out)
    click.echo(report.to_json() if as_json else str(report))
    if out and not as_json:
        click.echo(f"{out}: the whole report, confidential")


def _what_if(
    finest: FinestTable,
    methods: tuple[str, ...],
    thresholds: tuple[int, ...],
    wanted: dict[str, Any],
    secret: str | None,
    chart: str | None,
    as_json: bool,
) -> None:
    """Risk against loss for several methods and thresholds, nothing written but the chart."""
    from ilba.audit import what_if

    with _Progress(as_json) as stage:
        stage("attacking")
        rows = what_if(finest, methods, thresholds, secret=secret, **wanted, progress=stage.share)
    if chart:
        from ilba import charts

        points = rows.select(pl.format("{} K={}", "method", "K").alias("method"), "mean_loss", pl.col("provable") / 100)
        charts.save(charts.risk(points), chart)
    if as_json:
        _json(rows.to_dicts())
    else:
        _print_frame(rows, rows.height)


@_example("ilba compare full_tb.parquet --max-keys 2 --out compare.html")
@commands.command("compare")
@click.argument("store")
@_named_tables
@_some_tables
@click.option("--secret", type=click.Path(), help="The key of the store [ILBA_SECRET, else the key beside the store].")
@click.option("--out", type=click.Path(), help="Write the comparison with its chart as HTML (confidential).")
@_json_option
def compare_command(
    store: str,
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    secret: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Every method on the same tables: loss, bias, and what everybody can prove (confidential)."""
    from ilba.compare import compare

    with _Progress(as_json) as stage:
        stage("comparing")
        comparison = compare(
            _opened(store),
            tables or "all",
            levels=[_level(level) for level in levels] or None,
            keys=keys,
            max_keys=max_keys,
            secret=_key_of(store, secret),
            progress=stage.share,
        )
    if out:
        comparison.to_html(out)
    if as_json:
        _json(comparison.rows.to_dicts())
    else:
        _print_frame(comparison.rows, comparison.rows.height)


def _key_of(store: str, secret: str | None) -> Any:
    """The key that was given, or the one beside the store where none is."""
    beside = secret_path(Path(store))
    return secret or (beside if not os.environ.get("ILBA_SECRET") and beside.exists() else None)


@_example("ilba serve release --port 8000 --workers 2")
@commands.command("serve")
@click.argument("releases", nargs=-1, required=True, metavar="RELEASE...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at; 0.0.0.0 is everywhere.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port; 0 takes a free one."
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that share the address."
)
@click.option(
    "--max-cells",
    type=click.IntRange(min=1, max=1_000_000),
    default=100_000,
    show_default=True,
    help="The most cells in one answer.",
)
@click.option("--license", default="", help="The licence of the data, as an address; clients read it.")
@click.option("--access-log/--no-access-log", default=True, show_default=True, help="Write a line for each request.")
def serve_command(
    releases: tuple[str, ...], host: str, port: int, workers: int, max_cells: int, license: str, access_log: bool
) -> None:
    """Serve release folders: a page for everybody and an open API (PxWebApi 2). Never a store."""
    try:
        from ilba.service.answers import Settings
        from ilba.service.run import run
    except ModuleNotFoundError as problem:
        raise MissingExtra(f"serving needs {problem.name}. Type: pip install 'ilba[serve]'") from None

    def ready(address: str, shelf: Any) -> None:
        offered = sum(len(served.offers) for served in shelf.releases)
        click.echo(f"{some(offered, 'table')} at {address} (the API at {address}api/v2); Ctrl-C stops", err=True)

    run(
        releases,
        host=host,
        port=port,
        workers=workers,
        settings=Settings(max_cells, license),
        access_log=access_log,
        ready=ready,
    )


@_example("ilba convert full_tb.rds full_tb.parquet")
@commands.command("convert")
@click.argument("source")
@click.argument("out")
@_json_option
def convert_command(source: str, out: str, as_json: bool) -> None:
    """Turn R's full_tb.rds into a store, or a store into csv (confidential: with true counts)."""
    ending = Path(out).suffix.lower()
    if source.lower().endswith(".rds") and ending == ".parquet":
        finest = read_rds(source)
        finest.save(out)
        _told_of_store(finest, out, as_json)
    elif ending == ".csv":
        frame = _opened(source).frame
        write_csv(frame, out)
        if as_json:
            _json({"csv": out, "cells": frame.height})
        else:
            click.echo(f"{out}: {frame.height:,} cells with their true counts (confidential)")
    else:
        raise InputError(
            f"cannot turn {source!r} into {out!r}. It goes from .rds to .parquet, and from a store to .csv."
        )


@commands.group("secret", cls=_Verbs)
def secret_commands() -> None:
    """The key with which masks are drawn."""


@_example("ilba secret new agency.secret")
@secret_commands.command("new")
@click.argument("path", type=click.Path())
@_json_option
def secret_new_command(path: str, as_json: bool) -> None:
    """Make a new key and save it in a file that only you can read."""
    secret = Secret.new()
    secret.to_file(path)
    if as_json:
        _json({"secret": path, "fingerprint": secret.fingerprint})
    else:
        click.echo(f"{path}: a new key (fingerprint {secret.fingerprint}). Keep it safe: it cannot be made again.")


if __name__ == "__main__":
    main()
