"""Commands on stores: build, tabulate and convert them; and the secret."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import click
import polars as pl

from ilba.cli.words import (
    OutputFile,
    ProgressBar,
    Verbs,
    called,
    commands,
    engines,
    example,
    json_option,
    key_option,
    ledger_options,
    level_option,
    method_option,
    named_lists,
    opened,
    opened_on,
    print_frame,
    print_json,
    session_of,
    some_tables,
    typed_labels,
    typed_level,
    typed_list,
    typed_pairs,
)
from ilba.errors import InputError, Notice, listing, some
from ilba.files import on_disk, replacing
from ilba.secret.secret import Secret, given_secret
from ilba.tables.beside import make_beside, secret_for
from ilba.tables.opening import read_rds
from ilba.tables.store import OF_R
from ilba.tables.table import Table, csv_text, write_csv

_METHOD = "How counts are masked: ilba, or cell-key:D=5,V=3,js=2 [the method of the store]."


@example("ilba demo")
@commands.command("demo", short_help="A guided tour on a synthetic census")
@click.option("-o", "--out", default="ilba-demo", show_default=True, help="The folder to write to.")
@click.option(
    "--records", type=click.IntRange(min=1000), default=1_000_000, show_default=True, help="Size of the census."
)
def demo_command(out: str, records: int) -> None:
    """Take a guided tour on a synthetic census of a million people, in some seconds."""
    from ilba import demo

    with ProgressBar() as bar:
        demo.run(
            out,
            say=lambda text: bar.aside(lambda: click.echo(text)),
            show=lambda frame: bar.aside(lambda: print_frame(frame, frame.height)),
            progress=bar,
            n=records,
            command=called(),
        )


@example("ilba build people.csv --hkey LA1,LA2,LA3 --key gender,age --mask-thr 5 --out full_tb.parquet")
@commands.command("build", short_help="Count microdata, mask the counts, save the store")
@click.argument("data")
@click.option(
    "--hkey",
    multiple=True,
    required=True,
    metavar="A,B,..",
    help="Hierarchy, coarse to fine. Several: --hkey area=A,B --hkey industry=X,Y.",
)
@click.option(
    "--hrc",
    multiple=True,
    metavar="COL=FILE",
    help="File of tau-ARGUS with the levels above a column: --hkey A,B,COL --hrc COL=x.hrc.",
)
@click.option(
    "--key",
    type=typed_list,
    metavar="A,B,..",
    help="Key variables [all other columns with at most --key-thr values].",
)
@click.option("--mask-thr", type=int, default=5, show_default=True, help="The threshold K, at least 3.")
@click.option("-o", "--out", default="full_tb.parquet", show_default=True, help="The store to write.")
@click.option(
    "--secret",
    type=click.Path(),
    help="Secret file made by `ilba secret new`. Else ILBA_SECRET, else the secret beside the store.",
)
@click.option(
    "--cells",
    type=click.Choice(["observed", "grid"]),
    default="observed",
    show_default=True,
    help="Small cells in S: those that occur, or all of the grid.",
)
@click.option(
    "--hkey-rank",
    type=typed_list,
    metavar="A,B,..",
    help="Ranks of the --hkey columns, if they are not coarse to fine.",
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
    type=typed_list,
    metavar="A,B,..",
    default=[],
    help="Spellings of a missing value, such as NA.",
)
@click.option(
    "--schema",
    type=typed_list,
    default=[],
    metavar="COL=int,..",
    help="CSV columns to read as whole numbers; all others are text.",
)
@click.option("--encoding", default="", help="Encoding of a csv file that is not UTF-8, such as cp949 or cp1252.")
@click.option("--separator", default="", help="Separator of a csv file: ';', '|' or tab.")
@click.option("--sheet", default="", help="The sheet of a workbook [the first].")
@click.option(
    "--header", type=click.IntRange(min=0), default=0, help="The line of a csv file or sheet with the column names."
)
@click.option("--notes", type=click.Choice(["drop"]), help="Leave out titles, footnotes and repeated column names.")
@click.option("--labels", type=click.Path(), help="Code list: csv or json of variable, code, label_en .., parent.")
@click.option(
    "--population",
    default="",
    help="A name for the people in the data, such as census-2026; one for all data about them.",
)
@click.option("--wave", default="", help="The name of this count of the population, such as 2026.")
@click.option("--period", default="", help="The reference time of the data, such as 2026-07-01.")
@click.option("--unit", default="", help="The unit of a record, such as persons.")
@click.option(
    "--record-key", help="The column of record keys, 0 to 255, 0 to 10^8-1 or decimals, for cell-key [drawn]."
)
@engines
@json_option
def build_command(
    data: str,
    hkey: tuple[str, ...],
    hrc: tuple[str, ...],
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
    encoding: str,
    separator: str,
    sheet: str,
    header: int,
    notes: str | None,
    labels: str | None,
    engine: dict[str, Any],
    as_json: bool,
    **of_whom: Any,
) -> None:
    """Count microdata into the finest table, mask it and save it as a store."""
    from ilba.publication.doubts import tell_doubts
    from ilba.tables.building import build

    if len(hkey) > 1 and not any("=" in one for one in hkey):
        raise InputError("several hierarchies need names: --hkey area=A,B --hkey industry=X,Y. One: --hkey A,B.")
    types = dict(pair.partition("=")[::2] for pair in schema)
    with ProgressBar(as_json) as bar:
        source: Any = data
        how: Any = {
            "encoding": encoding, "separator": separator, "sheet": sheet, "header": header, "notes": notes or ""
        }  # fmt: skip
        if engine["engine"] == "spark":
            from ilba.spark import free_place, read

            out = on_disk(out)
            target = out if "://" in out else free_place(out)  # before Spark starts, which can take minutes
            if given_secret(secret) is None:
                secret = str(secret_for(target) or make_beside(Path(target)))
            bar.stage("starting")
            source, types, how = read(session_of(engine), data, types, how), {}, {}
        finest = build(
            source,
            named_lists(hkey, "--hkey"),
            key,
            mask_thr,
            secret=secret,
            cells=cells,
            hkey_rank=None if hkey_rank is None else _ranks(hkey_rank),
            key_thr=key_thr,
            missing=missing,
            missing_values=missing_values,
            schema=types or None,
            read=how if any(how.values()) else None,
            labels=labels,
            hrc=typed_pairs("--hrc", hrc, "x.hrc"),
            **of_whom,
            output_path=out,
            progress=bar,
        )
    tell_doubts(finest)
    _told_of_store(finest, out, as_json)


def _ranks(texts: list[str]) -> list[float]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise InputError(f"--hkey-rank {','.join(texts)} contains a value that is not a number.") from None


def _told_of_store(finest: Any, out: str, as_json: bool) -> None:
    design = finest.design
    if as_json:
        told = {"confidential": True, "store": out, "n_cells": len(finest), "fingerprint": finest.fingerprint}
        print_json({**told, **design.to_json()})
        return
    click.echo(f"{out}: {len(finest):,} cells, K={design.threshold} (confidential)")
    for hierarchy in design.hierarchies:
        steps = " > ".join(f"{rank} {column}" for rank, column in enumerate(hierarchy.columns, 1))
        click.echo(f"  levels of {hierarchy.name}: {steps}")
    click.echo(f"  keys: {', '.join(design.keys) or '(none)'}")
    example = f"--level {shlex.quote(design.hierarchies[0].columns[0])}"
    example += f" --key {shlex.quote(design.keys[0])}" if design.keys else ""
    click.echo(f"Next: {called()} table {shlex.quote(out)} {example}")


@example("ilba table full_tb.parquet --level 3 --key gender,age --out table.csv --loss loss.csv")
@commands.command("table", short_help="One masked table")
@click.argument("store")
@level_option
@key_option
@method_option(_METHOD)
@click.option("--public", is_flag=True, help="Only the public part of the table, by the rules of `ilba release`.")
@click.option("--accept-risk", is_flag=True, help="With --public: also if the audit does not find the table safe.")
@click.option(
    "--secret", type=click.Path(), help="With --public: the secret of the store [ILBA_SECRET, else beside it]."
)
@ledger_options
@click.option("-o", "--out", type=OutputFile(), help="Write the whole table: .csv, .xlsx or .parquet.")
@click.option("--loss", type=OutputFile(), help="Write the distribution of the information loss as CSV.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many rows to show on a terminal.",
)
@engines
@json_option
def table_command(
    store: str,
    level: str,
    key: list[str],
    method: str | None,
    public: bool,
    accept_risk: bool,
    secret: str | None,
    ledger: Any,
    accept_conflict: str | None,
    out: str | None,
    loss: str | None,
    rows: int,
    engine: dict[str, Any],
    as_json: bool,
) -> None:
    """Make one table masked by iLBA or --method: formatted on a terminal, CSV in a pipe, or a file."""
    if public and loss:
        raise InputError("--loss is confidential and does not go with --public.")
    ending = Path(out).suffix.lower() if out else ".csv"
    if ending not in _TABLE_ENDINGS:
        raise InputError(f"{out!r} has an unknown ending. Known endings: {listing(_TABLE_ENDINGS)}.")
    if loss and Path(loss).suffix.lower() != ".csv":
        raise InputError(f"--loss writes csv, but {loss!r} does not end with .csv. Write --loss loss.csv.")
    with ProgressBar(as_json) as bar:
        bar.stage("opening")
        finest = opened_on(engine, store, method)
        if public:
            finest = finest.publishable(
                typed_level(level),
                key,
                accept_risk=accept_risk,
                remember=bool(out),
                secret=secret,
                ledger=ledger,
                accept_conflict=accept_conflict,
                progress=bar,
            )
        else:
            finest.tell_other_numbers()
        bar.stage("masking")
        table = finest.table(typed_level(level), key)
        if engine["engine"] == "spark":
            if out and ending == ".csv" and not as_json and not sys.stdout.isatty():
                with warnings.catch_warnings(action="ignore", category=Notice):  # it was audited above
                    table.write_csv(out, loss, public=public)  # streamed: it may be larger than memory
                click.echo(f"wrote {out}{'' if public else ' (confidential: contains flags)'}", err=True)
                return
            table = table.collect()
        frame = table.public() if public else table.frame
        bar.stage("writing")
        if out and ending == ".csv":
            write_csv(frame, out) if public else table.write_csv(out, loss)
        elif out:
            _write_table(frame, table, out, public)
        if loss and not (out and ending == ".csv"):
            table.write_loss(loss)
    if as_json:
        loss_rows = {} if public else {"loss": table.loss.to_dicts()}
        print_json({"columns": frame.columns, "rows": frame.rows(), "mask_thr": finest.design.threshold, **loss_rows})
        return
    if sys.stdout.isatty():
        _show_table(frame, table, rows, public)
    elif not out:
        click.echo(csv_text(frame), nl=False)
    if out:
        click.echo(f"wrote {out}: {frame.height:,} rows{'' if public else ' (confidential: contains flags)'}", err=True)


def _show_table(frame: pl.DataFrame, table: Table, rows: int, public: bool) -> None:
    """Show the first rows of a table on a terminal, and its loss unless it is public."""
    click.echo(f"{table.title} (K={table.design.threshold}{'' if public else ', confidential'})")
    print_frame(frame, rows)
    if not public:
        click.echo("Information loss (masked minus true)")
        print_frame(table.loss, table.loss.height)


_TABLE_ENDINGS = (".csv", ".xlsx", ".parquet")


def _write_table(frame: pl.DataFrame, table: Table, out: str, public: bool) -> None:
    """Write a table as Excel or Parquet, readable only for its owner."""
    from ilba.output.export import spare_store
    from ilba.output.formats.xlsx import workbook

    if out.lower().endswith(".parquet"):
        spare_store(Path(out))
        with replacing(out, instead_of=b"PAR1") as temporary:
            frame.write_parquet(temporary)
        return
    notes = [f"Masked with K={table.design.threshold}."]
    notes.append("Combinations that are not listed are 0." if public else "CONFIDENTIAL: contains flags.")
    content = workbook(frame, table.selection.name, table.title, notes, frame.width - len(table.selection.columns))
    with replacing(out, instead_of=b"PK") as temporary:
        temporary.write_bytes(content)


@example("ilba cell full_tb.parquet --level 3 --hkey-value 01,0104,010407 --key gender --key-value 2")
@commands.command("cell", short_help="The masked count of one cell")
@click.argument("store")
@level_option
@key_option
@click.option(
    "--hkey-value",
    multiple=True,
    metavar="A,B,..",
    help="The path down to the level. Several: --hkey-value area=01,0104.",
)
@click.option(
    "--key-value",
    type=typed_list,
    metavar="A,B,..",
    default=[],
    help="One value for each key; (missing) for a missing one.",
)
@method_option(_METHOD)
@engines
@json_option
def cell_command(
    store: str,
    level: str,
    key: list[str],
    hkey_value: tuple[str, ...],
    key_value: list[str],
    method: str | None,
    engine: dict[str, Any],
    as_json: bool,
) -> None:
    """Print the masked count of one cell by the masks of the store (confidential).

    Notes say if a combination does not occur, and if the store was published with other masks: `ilba table --public`
    has those.
    """
    finest = opened_on(engine, store, method)
    names = [hierarchy.name for hierarchy in finest.design.hierarchies]
    path = named_lists(hkey_value, "--hkey-value", names)
    asked = {name: typed_labels(part) for name, part in path.items()} if isinstance(path, dict) else typed_labels(path)
    masked, occurs = finest.lookup(typed_level(level), key, asked, typed_labels(key_value))
    finest.tell_other_numbers()
    if not occurs:
        click.echo("note: this combination does not occur (confidential).", err=True)
    print_json({"N_masked": masked}) if as_json else click.echo(str(masked))


@example("ilba cube full_tb.parquet --out cube --max-keys 3")
@commands.command("cube", short_help="Every table of a store")
@click.argument("store")
@click.option(
    "-o", "--out", default="cube", show_default=True, help="The folder to write to, one Parquet file per table."
)
@some_tables
@method_option(_METHOD)
@engines
@json_option
def cube_command(
    store: str,
    out: str,
    levels: tuple[str, ...],
    keys: list[str] | None,
    max_keys: int | None,
    method: str | None,
    engine: dict[str, Any],
    as_json: bool,
) -> None:
    """Make every table of a store, masked by iLBA or --method (confidential). Continues an interrupted run."""
    with ProgressBar(as_json) as bar:
        bar.stage("opening")
        finest = opened_on(engine, store, method)
        finest.tell_other_numbers()
        cube = finest.cube([typed_level(level) for level in levels] or None, keys, max_keys)
        cube.write(out, progress=bar)
    if as_json:
        print_json({"cube": out, "tables": [selection.name for selection in cube.selections]})
    else:
        click.echo(f"{out}: {some(len(cube), 'table')} (confidential: contains flags)")


@example("ilba convert full_tb.rds full_tb.parquet")
@commands.command("convert", short_help="R's file to a store, a store to csv")
@click.argument("source")
@click.argument("out")
@click.option("--population", default="", help="R's file: a name for the people in it, as in `ilba build`.")
@click.option("--wave", default="", help="R's file: the name of this count of them, such as 2026.")
@json_option
def convert_command(source: str, out: str, population: str, wave: str, as_json: bool) -> None:
    """Convert R's full_tb.rds or a folder from Spark to a store, or a store to csv (confidential)."""
    ending, is_rds = Path(out).suffix.lower(), source.lower().endswith(OF_R)
    if (population or wave) and not (is_rds and ending == ".parquet"):
        raise InputError(
            "--population and --wave are for R's file to .parquet. A store has those with which it was made, by `ilba "
            "build` or from_counts(..., population=, wave=)."
        )
    if ending == ".parquet" and (is_rds or Path(source).is_dir()):
        finest = read_rds(source, population=population, wave=wave) if is_rds else opened(source)
        finest.save(out)
        _told_of_store(finest, out, as_json)
    elif ending == ".csv":
        frame = opened(source).frame
        write_csv(frame, out)
        if as_json:
            print_json({"csv": out, "cells": frame.height})
        else:
            click.echo(f"{out}: {frame.height:,} cells with their true counts (confidential)")
    else:
        raise InputError(
            f"cannot convert {source!r} to {out!r}. Possible: .rds or a folder from Spark to .parquet, a store to "
            f".csv. `ilba build` makes a store of records, ilba.FinestTable.from_counts of counts."
        )


@commands.group("secret", cls=Verbs, short_help="The secret that draws the masks")
def secret_commands() -> None:
    """Make the secret that draws the masks."""


@example("ilba secret new agency.secret")
@secret_commands.command("new", short_help="Make a new secret")
@click.argument("path", type=click.Path())
@json_option
def secret_new_command(path: str, as_json: bool) -> None:
    """Make a new secret and save it in a file that only you can read."""
    secret = Secret.new()
    secret.to_file(path)
    if as_json:
        print_json({"secret": path, "fingerprint": secret.fingerprint})
    else:
        click.echo(f"{path}: a new secret (fingerprint {secret.fingerprint}). Keep it safe: it cannot be made again.")
