"""Commands on earlier publications: the ledger, and the check of files of every version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import polars as pl

from ilba.cli.words import (
    OutputFile,
    Verbs,
    commands,
    example,
    json_option,
    opened,
    print_frame,
    print_json,
    typed_list,
)
from ilba.errors import InputError, some
from ilba.files import replacing
from ilba.release.examining import examine
from ilba.release.ledger import Ledger, Publication
from ilba.release.reading import Release


@commands.group("ledger", cls=Verbs, short_help="The record of publications and masks (confidential)")
def ledger_commands() -> None:
    """Manage the ledger: the record of all publications and masks (confidential)."""


@example("ilba ledger show agency.ledger")
@ledger_commands.command("show", short_help="List the publications")
@click.argument("ledger")
@click.option("--population", help="Only those of this population.")
@json_option
def show_command(ledger: str, population: str | None, as_json: bool) -> None:
    """List the publications in a ledger, the oldest first."""
    book = Ledger(ledger)
    found = [one for one in book.publications if population in (None, one.population)]
    spent = book.spent
    budgets: list[dict[str, Any]] = [
        {"population": name, "epsilon": epsilon, "spent": spent.get(name, 0.0)}
        for name, epsilon in book.budgets.items()
        if population in (None, name)
    ]
    if as_json:
        print_json({"confidential": True, "publications": [_plain(one) for one in found], "budgets": budgets})
        return
    rows = [
        {
            "no.": one.number, "date": one.date[:10], "population": f"{one.population} {one.wave}".rstrip(),
            "method": f"{one.method} K={one.threshold}", "tables": len(one.tables), "place": Path(one.place).name,
            "note": _note(one),
        }
        for one in found
    ]  # fmt: skip
    if rows:
        print_frame(pl.DataFrame(rows), len(rows))
    for one in budgets:
        click.echo("{population}: epsilon {spent:g} of {epsilon:g} is spent".format(**one))
    click.echo(f"{some(len(found), 'publication')} (confidential)")


def _plain(one: Publication) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def _note(one: Publication) -> str:
    notes = {
        "withdrawn": one.withdrawn,
        "adopted": one.adopted,
        "conflict accepted": one.accepted_conflict,
        "sums of a finer table": one.sums,
        one.audit: one.method != "controlled" and one.epsilon is None,
        f"epsilon {one.epsilon or 0:g}": one.epsilon is not None,
    }
    return ", ".join(note for note, holds in notes.items() if holds)


@example("ilba ledger verify agency.ledger")
@ledger_commands.command("verify", short_help="Check every entry and every file")
@click.argument("ledger")
@json_option
def verify_command(ledger: str, as_json: bool) -> None:
    """Check a ledger: each entry against the one before, and each file against its checksum."""
    entries = Ledger(ledger).verify()
    if as_json:
        print_json({"ledger": ledger, "entries": entries, "valid": True})
    else:
        click.echo(f"{ledger}: {some(entries, 'line')} of the log, all as written")


@example("ilba ledger adopt agg_tb.csv --store full_tb.rds --population census --secret agency.secret")
@ledger_commands.command("adopt", short_help="Enter publications made without a ledger")
@click.argument("releases", nargs=-1, metavar="[RELEASE|CSV]...")
@click.option("--store", required=True, help="The store of the releases, or R's full_tb.rds.")
@click.option("--masks", help="The published masks: NAME.masks.parquet, or R's full_tb.rds.")
@click.option(
    "--tables", type=typed_list, default=[], metavar="A,B,..", help="Tables by R whose csv files are lost: LA3.gender."
)
@click.option("--encoding", default="", help="Encoding of csv files that are not UTF-8, such as cp949 or cp1252.")
@click.option("--population", default="", help="The name of the population, if the store has none. It stays.")
@click.option("--wave", default="", help="With --population: the name of this count of it, such as 2026.")
@click.option("--secret", type=click.Path(), help="The secret of the store [ILBA_SECRET, else beside it].")
@click.option("--ledger", help="The ledger [ILBA_LEDGER, else beside the secret].")
@click.option("--accept-conflict", metavar="ID", help="Enter despite this conflict; the error prints the ID.")
@json_option
def adopt_command(
    releases: tuple[str, ...],
    store: str,
    masks: str | None,
    tables: list[str],
    encoding: str,
    population: str,
    wave: str,
    secret: str | None,
    ledger: str | None,
    accept_conflict: str | None,
    as_json: bool,
) -> None:
    """Enter releases of earlier versions, or csv files of the R package, so that later ones use the same masks."""
    from ilba.design.population import Population
    from ilba.release.adopting import adopt, told
    from ilba.release.recognising import ledger_of

    finest = opened(store)
    if population or wave:
        finest.declared_as(Population(population, wave))
    own = finest.own_secret(secret)
    written = [file for file in releases if file.endswith(".csv")]
    folders = [Release(release) for release in releases if release not in written]
    shown = opened(masks) if masks else None
    book = ledger_of(ledger, own, finest.unsaved, anew=True)
    if book is None:
        raise InputError("no ledger was given. Name one with --ledger.")
    before = book.publications
    with book.begun():
        entered = adopt(
            book, folders, finest, masks=shown, tables=[*written, *tables], secret=own,
            accept_conflict=accept_conflict, read={"encoding": encoding},
        )  # fmt: skip
    if as_json:
        print_json({"confidential": True, "publications": [_plain(one) for one in entered]})
    else:
        click.echo(f"{book.path}: {told(entered, before)} (confidential)")
        if not finest.population.name:
            click.echo(
                f"note: no population was named, so this is {entered[-1].population!r}. To name it, withdraw it and "
                f"enter it again at once with --population: ilba ledger withdraw {book.path} {entered[-1].number} "
                f"--unseen",
                err=True,
            )


@example("ilba ledger withdraw agency.ledger 12 --reason 'wrong month'")
@ledger_commands.command("withdraw", short_help="Record that a publication was taken down")
@click.argument("ledger")
@click.argument("number", type=int)
@click.option("--unseen", is_flag=True, help="Nobody outside saw it: later publications need not agree with it.")
@click.option("--reason", default="", help="Why, in a sentence.")
@json_option
def withdraw_command(ledger: str, number: int, unseen: bool, reason: str, as_json: bool) -> None:
    """Record that a publication was taken down. Its masks stay, because somebody may have a copy."""
    book = Ledger(ledger)
    with book.writing():
        book.withdraw(number, unseen, reason)
    if as_json:
        print_json({"ledger": ledger, "withdrawn": number, "unseen": unseen})
    else:
        click.echo(
            f"{ledger}: publication {number} is withdrawn"
            + ("; later publications need not agree with it" if unseen else "")
        )


@example("ilba ledger export agency.ledger --out publications.json")
@ledger_commands.command("export", short_help="Write the publications as JSON or CSV")
@click.argument("ledger")
@click.option("-o", "--out", type=OutputFile(), required=True, help="The file: .json or .csv (confidential).")
def export_ledger_command(ledger: str, out: str) -> None:
    """Write the list of publications, without masks, to a file that only you can read."""
    import json

    rows = [_plain(one) for one in Ledger(ledger).publications]
    kind = Path(out).suffix.lower()
    if kind not in (".json", ".csv"):
        raise InputError(f"{out!r} has an unknown ending. Known endings: .json, .csv.")
    with replacing(out) as temporary:
        if kind == ".json":
            plain = {"confidential": True, "publications": rows}
            temporary.write_text(json.dumps(plain, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        else:
            flat = [{name: ",".join(v) if isinstance(v, tuple) else v for name, v in row.items()} for row in rows]
            pl.DataFrame(flat).write_csv(temporary)
    click.echo(f"{out}: {some(len(rows), 'publication')} (confidential)")


@example("ilba doctor full_tb.parquet release agency.ledger")
@commands.command("doctor", short_help="Find old or conflicting files, and say what to type")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@json_option
def doctor_command(paths: tuple[str, ...], as_json: bool) -> None:
    """Check stores, releases, secrets and ledgers of every version: those named, else all here. Changes nothing."""
    findings = examine([Path(path) for path in paths or (".",)])
    if as_json:
        print_json({"confidential": True, "findings": [one._asdict() for one in findings]})
    else:
        for one in findings:
            mark = "!" if one.problem else "-"
            click.echo(f"{mark} {one.path}: {one.text}")
            if one.remedy:
                click.echo(f"    type: {one.remedy}")
    if any(one.problem for one in findings):
        raise click.exceptions.Exit(1)
