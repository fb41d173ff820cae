"""Commands from files to a publication: inspect, init, plan, publish."""

from __future__ import annotations

import shlex
import time
from functools import partial
from typing import Any

import click

from ilba.cli.words import ProgressBar, called, commands, engines, example, json_option, print_json, session_of
from ilba.errors import Notice, UnsafeRelease, listing

_encoding = click.option(
    "--encoding", default="", help="Encoding of csv files that are not UTF-8, such as cp1254 [a guess]."
)


@example("ilba inspect people.csv towns.xlsx towns.gpkg")
@commands.command("inspect", short_help="Inspect files: columns, problems, matching codes")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--mask-thr", type=int, default=5, show_default=True, help="Hide numbers of records below K.")
@_encoding
@json_option
def inspect_command(paths: tuple[str, ...], mask_thr: int, encoding: str, as_json: bool) -> None:
    """Inspect records, code lists and maps: columns, hierarchies, matches (confidential). Writes nothing."""
    from ilba.data.inspecting import inspect

    found = inspect(*paths, mask_thr=mask_thr, encoding=encoding)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(str(found))
    for one in found.files:
        if one.problem is not None:
            raise one.problem


@example("ilba init people.csv towns.xlsx towns.gpkg --population census-2026")
@commands.command("init", short_help="Propose publication.toml from your files")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER...")
@click.option("-o", "--out", default="publication.toml", show_default=True, help="The publication file to write.")
@click.option("--mask-thr", type=int, default=5, show_default=True, help="The threshold K, at least 3.")
@click.option("--population", default="", help="A name for the people in the records [the name of the file].")
@click.option("--wave", default="", help="The name of this count of the population, such as 2026.")
@_encoding
@json_option
def init_command(
    paths: tuple[str, ...], out: str, mask_thr: int, population: str, wave: str, encoding: str, as_json: bool
) -> None:
    """Inspect files and propose a publication: one commented file to edit and keep."""
    from ilba.data.letters import shown
    from ilba.publication.file import load
    from ilba.publication.proposing import init, recodes

    file = init(*paths, out=out, mask_thr=mask_thr, population=population, wave=wave, encoding=encoding)
    said = load(file)
    becomes = recodes(file, said)
    if as_json:
        plain = {"file": str(file), "source": said.source.file, "proposed": list(said.proposed)}
        print_json({**plain, "recodes": becomes})
        return
    areas = [(one if isinstance(one, list) else [*one.levels, one.column]) for one in said.hierarchies.values()]
    chains = "; ".join(" > ".join(columns) for columns in areas)
    click.echo(f"records of {said.source.file} by {chains}; keys {', '.join(said.keys) or 'none'}")
    for column, pairs in becomes.items():
        changes = (f"{shown(old)} becomes {shown(new)}" for old, new in pairs.items())
        click.echo(f"{column}: {listing(changes)}. Is this right?")
    click.echo(f"{file}: check and correct each proposed entry, then remove it from the list `proposed`")
    click.echo(f"Next: {called()} plan{'' if out == 'publication.toml' else ' ' + shlex.quote(str(file))}")


_wave = click.option("--wave", default="", help="The wave, instead of that of the file, such as 2026-11-18.")
_publication = click.argument("publication", required=False, metavar="[PUBLICATION.TOML]")


@example("ilba plan")
@commands.command("plan", short_help="Dry run: tables, loss, risk; writes nothing")
@_publication
@_wave
@click.option("--full", is_flag=True, help="Compare methods even with many cells, which is slow.")
@json_option
def plan_command(publication: str | None, wave: str, full: bool, as_json: bool) -> None:
    """Dry run of a publication file: records, cells, tables, ledger, loss and risk (confidential).

    It counts in this process, also if `publish` counts on Spark. `ilba --strict plan` stops where
    `ilba --strict publish` would.
    """
    from ilba.publication.planning import plan

    with ProgressBar(as_json) as bar:
        found = plan(publication, wave=wave, full=full, progress=bar)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(str(found))
    if not found.is_possible:
        raise UnsafeRelease("this publication would be refused: see REFUSED above.")
    if found.stops and click.get_current_context().find_root().params["strict"]:
        raise Notice(f"`{called()} --strict publish` would stop here: {found.stops[0]}")


@example("ilba publish")
@commands.command("publish", short_help="Count, mask, audit, release, export, report")
@_publication
@_wave
@click.option("--accept-conflict", metavar="ID", help="Publish despite this conflict with the ledger, and record it.")
@click.option("--correction", is_flag=True, help="The records correct the wave that was published; replace it.")
@engines
@json_option
def publish_command(
    publication: str | None,
    wave: str,
    accept_conflict: str | None,
    correction: bool,
    engine: dict[str, Any],
    as_json: bool,
) -> None:
    """Publish by a publication file. Continues a killed run; does nothing if nothing changed."""
    begun = time.monotonic()
    from ilba.publication.publishing import publish

    with ProgressBar(as_json) as bar:
        spark = partial(session_of, engine) if engine["engine"] == "spark" else None
        found = publish(
            publication,
            wave=wave,
            spark=spark,
            accept_conflict=accept_conflict,
            correction=correction,
            progress=bar,
        )
    if as_json:
        plain = {"release": str(found.release.path), "done": list(found.done), "tables": list(found.release.tables)}
        print_json({"confidential": True, **plain, "decision": [str(page) for page in found.decision]})
        return
    click.echo(str(found))
    for match in found.matches:
        click.echo(f"  {match}")
    for page in found.decision:
        click.echo(f"  {page}: for the person who signs, confidential")
    click.echo(f"Next: {called()} serve{'' if not publication else ' ' + shlex.quote(publication)}")
    click.echo(f"took {time.monotonic() - begun:.0f} s", err=True)
