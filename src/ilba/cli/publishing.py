"""Commands that publish: a release, its exports, the service."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click

from ilba.cli.words import (
    OutputFile,
    ProgressBar,
    called,
    commands,
    engines,
    example,
    json_option,
    ledger_options,
    method_option,
    named_tables,
    opened_on,
    plan_option,
    print_json,
    some_tables,
    typed_level,
    typed_list,
    typed_pairs,
)
from ilba.design.design import shown_name
from ilba.errors import Advice, InputError, MissingExtra, listing, nearest, notice, some


@example("ilba release full_tb.parquet --out release --max-keys 3 --title 'Census 2010' --labels codes.csv")
@commands.command("release", short_help="Publish tables as a folder of masked counts")
@click.argument("store")
@click.option(
    "-o",
    "--out",
    default="release",
    show_default=True,
    help="The folder to publish; an older release there is replaced.",
)
@named_tables
@some_tables
@click.option(
    "--rows",
    type=click.Choice(["nonzero", "grid"]),
    default="nonzero",
    show_default=True,
    help="Leave out rows of 0, or list every combination.",
)
@click.option("--title", default="Frequency tables", show_default=True, help="The title of the release.")
@click.option("--description", default="", help="The content, in one sentence.")
@click.option("--source", default="", help="Where the data comes from.")
@click.option("--licence", default="", help="The licence of the tables, its name or address.")
@click.option("--texts", type=click.Path(), help="Title, source, unit .. in further languages: json or toml.")
@click.option("--labels", type=click.Path(), help="Code list: csv or json of variable, code, label_en .., parent.")
@click.option(
    "--geometry",
    multiple=True,
    metavar="COL=FILE",
    help="GeoJSON of an area column; code in id, code or COL. Repeatable.",
)
@method_option("How tables are masked: controlled (jointly) [default]; ilba, cell-key:D=5,V=3 .. after an audit.")
@click.option(
    "--bound",
    type=click.IntRange(min=1),
    help="The largest loss allowed when masks are chosen; never published.",
)
@click.option(
    "--sweeps", type=click.IntRange(min=10), help="Amount of work for sums nearer to the truth [10; with --move 200]."
)
@click.option(
    "--move",
    type=click.IntRange(min=0),
    help="Largest change of large counts, for more accurate sums; published [as before, else 0].",
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Choose masks of this share of small cells for a count that is one off; published [as before, else 0].",
)
@click.option(
    "--state-bound",
    "stated_bound",
    type=click.IntRange(min=1),
    metavar="N",
    help="State this bound in the release, if it holds in every table.",
)
@click.option("--secret", type=click.Path(), help="The secret of the store [ILBA_SECRET, else beside it].")
@plan_option
@ledger_options
@click.option("--from-ledger", help="A finer published store: publish sums of its masks.")
@click.option(
    "--regroup", multiple=True, metavar="COL=FILE", help="With --from-ledger: csv of finer and coarser label."
)
@click.option(
    "--where", multiple=True, metavar="COL=A,B", help="With --from-ledger: the labels that this store counts."
)
@click.option("--rename", multiple=True, metavar="COL=OLD", help="With --from-ledger: the name of a column there.")
@click.option("--audit", "audit_path", type=OutputFile(), help="Write the report of the audit here (confidential).")
@click.option(
    "--require-safe", is_flag=True, help="Refuse --accept-risk: publish only tables that are certified or found safe."
)
@click.option(
    "--accept-risk",
    is_flag=True,
    help="With another method than controlled: publish tables that are not found safe, or not audited.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="EPSILON",
    help="With noise: the largest total epsilon for these people; declared once.",
)
@engines
@json_option
def release_command(
    store: str,
    out: str,
    tables: list[str] | None,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    geometry: tuple[str, ...],
    audit_path: str | None,
    plan: list[str] | None,
    regroup: tuple[str, ...],
    where: tuple[str, ...],
    rename: tuple[str, ...],
    engine: dict[str, Any],
    as_json: bool,
    **options: Any,
) -> None:
    """Publish tables: a folder of labels and masked counts, code lists and a manifest.

    The printed output is confidential. The folder is public.
    """
    with ProgressBar(as_json) as bar:
        bar.stage("opening")
        finest = opened_on(engine, store)
        release = finest.release(
            out,
            tables=tables or "all",
            levels=[typed_level(level) for level in levels] or None,
            keys=keys,
            max_keys=max_keys,
            geometry=typed_pairs("--geometry", geometry, "areas.geojson"),
            audit=audit_path,
            plan=plan or "all",
            regroup=typed_pairs("--regroup", regroup, "groups.csv"),
            where={column: typed_list(labels) for column, labels in typed_pairs("--where", where).items()},
            rename=typed_pairs("--rename", rename),
            progress=bar,
            **options,
        )
    if as_json:
        print_json(
            {"confidential": True, "release": out, "method": release.manifest["method"], "tables": list(release.tables)}
        )
    else:
        click.echo(f"{out}: {some(len(release.tables), 'table')} by {release.manifest['method']}, public")
        click.echo(
            "  proven: the folder depends only on masked counts and declared items (this output is confidential)"
        )
        click.echo(f"Next: {called()} serve {shlex.quote(out)}")


@example("ilba export release --table LA3.gender.age --out table.xlsx --lang ko")
@commands.command("export", short_help="Write a published table as csv, xlsx, JSON-stat, SDMX, PX")
@click.argument("release", nargs=-1, required=True, metavar="RELEASE...")
@click.option(
    "--table",
    help="The name of the table, such as LA3.gender.age, or LA3.gender.age.time with several releases; it may also "
    "follow the release.",
)
@click.option(
    "--format", "kind", help="csv, parquet, xlsx, json-stat, sdmx-csv, sdmx-ml or px [by the ending of --out]."
)
@click.option(
    "-o", "--out", type=OutputFile(), help="The file to write [the table's name with the ending of the format]."
)
@click.option("--lang", default="en", show_default=True, help="Language of the labels, such as ko.")
@click.option("--agency", default="ILBA", show_default=True, help="Maintenance agency in SDMX identifiers.")
@click.option("--spreadsheet", is_flag=True, help="Csv for Excel: with a byte order mark, and without formulas.")
@json_option
def export_command(
    release: tuple[str, ...],
    table: str | None,
    kind: str | None,
    out: str | None,
    lang: str,
    agency: str,
    spreadsheet: bool,
    as_json: bool,
) -> None:
    """Write one table of a release in another format; with several waves of one population, as a time series."""
    from ilba.output.export import FORMATS, export
    from ilba.output.naming import file_names
    from ilba.output.series import opened as opened_as_one

    *folders, last = release
    opened = opened_as_one(release if table is not None or not folders else folders)
    if table is None:
        names = [shown_name(name) for name in opened.tables]
        near = nearest(last, names) if folders else ""
        try:
            table = opened.named(last if folders else "").name
        except InputError:
            raise InputError(f"name a table with --table.{near} This release has {listing(names, 20)}.") from None
    endings = {kind: kind for kind in FORMATS} | {"json-stat": "json", "sdmx-csv": "sdmx.csv", "sdmx-ml": "xml"}
    if kind is None:
        fitting = [kind for kind, ending in endings.items() if out and out.lower().endswith(f".{ending}")]
        if not fitting:
            raise InputError(
                f"the format is unknown. Give --format, or --out with one of: {listing(endings.values())}."
            )
        kind = fitting[-1]  # sdmx.csv before csv
    name, ending = opened.named(table).name, endings.get(kind, kind)
    target = Path(out or f"{file_names(opened.tables)[name]}.{ending}")
    earlier = Path(f"{name}.{ending}")
    if not out and earlier != target and earlier.exists():
        notice(f"{str(earlier)!r} has this table under the name that earlier versions gave it. Remove it.", Advice)
    files = export(opened, name, kind, target, lang, agency=agency, spreadsheet=spreadsheet)
    written = [str(target.with_name(file.name)) for file in files]
    if as_json:
        print_json({"files": written})
    else:
        for file in written:
            click.echo(f"{file}: public")


@example("ilba serve release --port 8000 --workers 2")
@commands.command("serve", short_help="Serve published tables as a page and an open API")
@click.argument("releases", nargs=-1, metavar="[RELEASE|PUBLICATION.TOML...]")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port; 0 for a free one."
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
@click.option(
    "--max-connections",
    type=click.IntRange(min=1, max=100_000),
    default=1000,
    show_default=True,
    help="The most connections of one worker; further ones get 503.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1, max=3600),
    default=20,
    show_default=True,
    help="Seconds for each: head of a request, its body, the work, 64 KB of the answer.",
)
@click.option("--license", default="", help="The licence of the data, as an address; clients read it.")
@click.option("--languages", type=typed_list, metavar="A,B,..", help="Languages to offer, the default first [all].")
@click.option("--rules", default="", metavar="FILE", help="Rules for tables on demand, as TOML.")
@click.option(
    "--address", default="", help="The public address, such as https://stats.example.org [that of the request]."
)
@click.option("--access-log/--no-access-log", default=True, show_default=True, help="Write a line for each request.")
def serve_command(
    releases: tuple[str, ...],
    host: str,
    port: int,
    workers: int,
    max_cells: int,
    max_connections: int,
    timeout: float,
    license: str,
    languages: list[str] | None,
    rules: str,
    address: str,
    access_log: bool,
) -> None:
    """Serve release folders: a public page and an open API (PxWebApi 2). Never a store.

    Without a folder it serves the releases of publication.toml; another publication file can be named.
    """
    if address and not re.fullmatch(r"https?://[^\s/\"'<>?#]+(/[^\s\"'<>?#]*)?", address):
        raise InputError(
            f"--address {address[:80]!r} is not an address. Type the whole address, such as https://stats.example.org"
        )
    if not releases or any(release.endswith(".toml") for release in releases):
        from ilba.publication.publishing import released_by

        named = [released_by(one) if one.endswith(".toml") else [one] for one in releases] or [released_by()]
        releases = tuple(str(one) for some_ in named for one in some_)
    try:
        from ilba.service.answers import Settings
        from ilba.service.connection import Limits
        from ilba.service.on_demand import DemandRules, rules_of
        from ilba.service.run import run
    except ModuleNotFoundError as problem:
        raise MissingExtra(f"serving needs {problem.name}. Type: pip install 'ilba[serve]'") from None

    def ready(address: str, catalog: Any) -> None:
        offered = sum(len(served.entries) for served in catalog.releases)
        click.echo(f"{some(offered, 'table')} at {address} (the API at {address}api/v2); Ctrl-C stops", err=True)

    run(
        releases,
        host=host,
        port=port,
        workers=workers,
        settings=Settings(
            max_cells, license, tuple(languages or ()), address.rstrip("/"), rules_of(rules) if rules else DemandRules()
        ),
        limits=Limits(timeout, max_connections),
        access_log=access_log,
        ready=ready,
    )
