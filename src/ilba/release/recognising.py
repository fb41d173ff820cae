"""Whose counts these are: the ledger and the chapter that belong to some counts. Confidential.

A ledger knows the people of each population by keyed checksums and hashes. So the same people are recognised under
another name, with other labels, and as a part of those who were published.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ilba.design.design import Design
from ilba.errors import Notice, UnsafeRelease, listing, notice
from ilba.release import bookmarks
from ilba.release.chapter import COMPARED, Chapter
from ilba.release.ledger import ENVIRONMENT, LOG, Ledger
from ilba.release.net import SKETCH, Net, columns_of, net, parts_of
from ilba.secret.secret import Secret
from ilba.tables.beside import ledger_path
from ilba.tables.engine import AnyFinestTable

Path_: TypeAlias = str | os.PathLike[str]
Given: TypeAlias = "Ledger | Path_ | bool | None"


def place_of(secret: Secret | None) -> Path | None:
    """Where the ledger is if nobody names it: as ILBA_LEDGER says, else beside the secret."""
    if place := os.environ.get(ENVIRONMENT):
        return Path(place)
    return None if secret is None or secret.place is None else ledger_path(secret.place)


def ledger_of(
    given: Given, secret: Secret | None, is_trial: bool, anew: bool = False, look: bool = False
) -> Ledger | None:
    """The ledger for a publication; None for a requested trial.

    Parameters
    ----------
    given
        A ledger or its path; False for none; None for ILBA_LEDGER, otherwise the one beside the secret.
    secret
        The secret that drew the masks, if available.
    is_trial
        Whether the secret was made for these masks and is not saved.
    anew
        Whether a lost ledger may be started again, because its publications are being entered anew.
    look
        Whether it is only read: then None if there is none, and none is made.
    """
    if given is False:
        return None
    if is_trial:
        raise UnsafeRelease(
            "the secret of these masks is not saved, so this is a trial: publish it with ledger=False "
            "(--no-ledger). For a publication, save the store, which saves its secret, or give secret= when you build."
        )
    if isinstance(given, Ledger):
        return given
    place = given if isinstance(given, str | os.PathLike) else place_of(secret)
    if secret is None:
        raise UnsafeRelease(
            "masks are kept in a ledger beside a secret, and no secret was given. Give the one of earlier "
            "publications: secret= (--secret agency.secret), or ILBA_SECRET. If nothing was published, make "
            "one: ilba secret new agency.secret. A trial is published with ledger=False (--no-ledger)."
        )
    if place is None:
        raise UnsafeRelease(
            "the secret of these masks is only in memory, so no ledger is beside it: this is a trial. Publish "
            "it with ledger=False (--no-ledger). For a publication, give ledger=PATH (--ledger), set ILBA_LEDGER, "
            "or keep the secret in a file and give its path."
        )
    if not anew:
        bookmarks.refuse_older(
            secret, Path(os.path.realpath(place)), lambda number, digest: (Path(place) / LOG).exists()
        )
    if look:
        return Ledger(place) if (Path(place) / LOG).exists() else None
    made = Ledger.create(place)
    if not anew and not made.publications:
        bookmarks.tell_others(secret, made.path)
    return made


@contextlib.contextmanager
def opened(
    finest: AnyFinestTable,
    secret: Secret | None,
    ledger: Ledger | None,
    waiting: Callable[[], object] | None = None,
    noted: bool = True,
) -> Iterator[Chapter]:
    """The chapter of the population of some data, held for writing.

    `noted` checks the files beside store and secret, which tell whether the ledger is an old copy.
    """
    if ledger is None:
        bookmarks.refuse_trial(finest.place)
        notice(
            "this is a trial: without a ledger nobody remembers these masks. Never publish the same people again from "
            "other masks."
        )
        yield Chapter(None, secret)
        return
    assert secret is not None  # noqa: S101 - `ledger_of` refuses otherwise
    with ledger.writing(waiting):
        yield _found(finest, secret, ledger, noted)


def looked_up(finest: AnyFinestTable, secret: Secret, ledger: Ledger) -> Chapter:
    """The chapter of the population of some data, for reading only."""
    return _found(finest, secret, ledger, True)


def at_hand(finest: AnyFinestTable, given: Secret | Path_ | None = None) -> Chapter | None:
    """The chapter of the population of some data in the ledger at hand, for reading only; None without a ledger."""
    secret = finest.own_secret(given)
    place = place_of(secret)
    if place is None or secret is None or not (place / LOG).exists():
        return None
    with warnings.catch_warnings(action="ignore", category=Notice):  # nothing is published here
        return looked_up(finest, secret, Ledger(place))


def kept_masks(finest: AnyFinestTable, given: Secret | Path_ | None) -> dict[str, Any]:
    """The options with which a release of this table would choose masks: those in the ledger at hand stay."""
    chapter = at_hand(finest, given)
    return {} if chapter is None else chapter.kept(finest, chapter.move(finest.design.threshold))


def is_later(finest: AnyFinestTable) -> bool:
    """Whether a ledger has masks of this table from earlier publications, which this one keeps."""
    if finest.keeps_masks is not None:
        return finest.keeps_masks
    chapter = at_hand(finest)
    return chapter is not None and chapter.keeps_masks(finest)


def _found(finest: AnyFinestTable, secret: Secret, ledger: Ledger, look: bool) -> Chapter:
    noted = bookmarks.population_at(finest.place, ledger) if look else ""
    if look:
        bookmarks.refuse_older(secret, ledger.path, ledger.holds)
    data = _data(finest, secret, ledger)
    population = finest.population
    same = [name for name, entries in ledger.populations.items() if any(entry["data"] == data for entry in entries)]
    same.sort(key=ledger.unseen.__contains__)  # a name that nobody saw comes last
    chapter = Chapter(ledger, secret, population.name, population.wave, data, finest.place)
    if (population.name or next(iter(same), None)) not in same:
        columns = columns_of(finest.design)
        counts, parts = finest.column_counts(columns, parts_of(finest.codes))
        tags, small = finest.smallest_tags(secret, "ledger net cells", SKETCH)
        chapter.net = net(counts, tags, small, secret, parts, [one.columns[-1] for one in columns])
    if not population.declared:
        looks_like = _caught(chapter.net, ledger, "") or _caught(chapter.net, ledger, "", Net.part_of)
        chapter.name = (same[0] if same else "") or noted or looks_like or _unnamed(ledger)
        if chapter.name == looks_like and not same and not noted:
            notice(
                f"these look like the people of {looks_like!r}, so they are published as such. If they are others, "
                f"name their population: population= (--population) of build, from_counts or read_rds (ilba convert)."
            )
        return _checked(chapter, finest.design)
    other = next((name for name in same if name != population.name and name not in ledger.unseen), "")
    other = other or _caught(chapter.net, ledger, population.name)
    if not other and (part := _caught(chapter.net, ledger, population.name, Net.part_of)):
        chapter.conflicts.append(
            f"these look like a part of the people of the population {part!r}, or like those people and more. That "
            f"population was published before, and these are declared as {population.name!r}. {COMPARED} Declare "
            f"population={part!r}. A part is published with where= (--where) and from_ledger= (--from-ledger), the "
            f"path of the store of all."
        )
    if other:
        chapter.conflicts.append(
            f"these look like the people of the population {other!r}, which was published before, and are declared as "
            f"{population.name!r}. {COMPARED} Declare population={other!r} with a wave of its own."
        )
    return _checked(chapter, finest.design)


def _data(finest: AnyFinestTable, secret: Secret, ledger: Ledger) -> str:
    """The keyed checksum of the true counts: the one that the ledger has, also with the columns in another order."""

    def data(columns: Sequence[str]) -> str:
        return f"{int(derived.hashes([finest.marks(columns)[0]])[0]):016x}"

    own, derived = finest.design.columns, secret.derived("ledger data")
    known = {entry["data"] for entries in ledger.populations.values() for entry in entries}
    orders = dict.fromkeys([own, *(one.columns for one in ledger.publications if {*one.columns} == {*own})])
    return next((found for columns in orders if (found := data(columns)) in known), data(own))


def _checked(chapter: Chapter, design: Design) -> Chapter:
    """Note a conflict if the same people have other labels, because their cells would get other masks."""
    now = chapter.net
    same = {frozenset(one.columns) for one in chapter.publications if not one.sums}
    nets = [Net.from_json(entry["net"]) for entry in chapter.entries]
    if now is None or frozenset(design.columns) not in same:
        return chapter
    otherwise = [now.labelled_otherwise(before) for before in nets]
    as_before = [now.same_columns(one) and not moved for one, moved in zip(nets, otherwise, strict=True)]
    if any(otherwise) and not any(as_before):
        chapter.conflicts.append(
            f"the population {chapter.name!r} was published with other labels for the same people: '01' for '1', "
            f"'TRUE' for 'true', or other groups. {COMPARED} Label them as before, or publish coarser groups with "
            f"from_ledger= (--from-ledger) and the path of the finer store."
        )
    elif nets and all(map(now.no_cells, nets)):
        chapter.conflicts.append(
            f"the population {chapter.name!r} was published before, and none of its small cells is found here, so all "
            f"masks would be new: labels are spelled otherwise ('TRUE' for 'true', '1' for '01'), or these are other "
            f"people. {COMPARED} Label them as before; give other people another population."
        )
    elif respelled := now.respelled(nets):
        chapter.conflicts.append(
            f"the population {chapter.name!r} was published with other zeros or capital letters in its labels, and "
            f"here it has {listing(respelled, 5)}. {COMPARED} Label them as before: codes such as 01 are text."
        )
    return chapter


def _caught(now: Net | None, ledger: Ledger, name: str, looks: Callable[[Net, Net], bool] = Net.catches) -> str:
    """The other population that these people look like."""
    if now is None:
        return ""
    published = {one.population for one in ledger.publications}
    for other, entries in ledger.populations.items():
        nets = (Net.from_json(entry["net"]) for entry in entries)
        if other != name and other in published and any(looks(now, one) for one in nets):
            return other
    return ""


def _unnamed(ledger: Ledger) -> str:
    known = ledger.populations
    return next(name for n in range(1, len(known) + 2) if (name := f"unnamed-{n}") not in known)
