"""Make a release.

Everything in the folder is a function of the masked counts and of the declarations: hierarchies, keys, K, reading, code
lists, the list of tables, titles, maps, the time. `folder.py` writes files from those alone. This module decides
whether they may be published. `proving.py` proves the rule for each release, and `replacing.py` looks after the release
that is already in the folder.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import polars as pl

from ilba.cells.codes import CodeLists
from ilba.data.codelists import as_spelled, listed_paths, read_labels
from ilba.data.shapes import with_code
from ilba.design.design import Design, Level, Names, Selection, columns_named
from ilba.design.tables import Tables, wanted_tables
from ilba.errors import Advice, InputError, Notice, UnsafeRelease, listing, nearest, notice, some
from ilba.files import making, writable
from ilba.methods.controlled.search import Chosen, bound_of, move_of, noise_of
from ilba.progress import Progress, ProgressStep, silent
from ilba.release.chapter import Chapter
from ilba.release.coarser import Finer, sums_of
from ilba.release.folder import Declared, Rows, fill, tell_of_unnamed
from ilba.release.proving import prove, shown_rows, tell_of_lists_from_the_data
from ilba.release.reading import MANIFEST, Path_, Release, digest
from ilba.release.recognising import Given, at_hand, ledger_of, looked_up, opened
from ilba.release.replacing import free_folder, parameters_of, refuse_another, refuse_other_masks, spelled, way
from ilba.release.texts import read_texts
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

if TYPE_CHECKING:
    from ilba.methods.method import Method

_ACCEPTED = "accept_risk=True (--accept-risk; accept_risk = true in publication.toml)"
_SHOWN = "release(audit='audit.html') (`ilba release --audit audit.html`) shows what is proven or undecided."


def release(
    finest: AnyFinestTable,
    path: Path_,
    *,
    method: Method | str | None,
    tables: Tables,
    plan: Tables,
    levels: Iterable[Level] | None,
    keys: Names | None,
    max_keys: int | None,
    rows: Rows,
    title: str,
    description: str,
    source: str,
    licence: str,
    texts: Any,
    labels: Any,
    geometry: Mapping[str, Any] | None,
    bound: int | None,
    sweeps: int | None,
    move: int | None,
    noise: float | None,
    stated_bound: int | None,
    secret: Secret | Path_ | None,
    ledger: Given,
    accept_conflict: str | None,
    from_ledger: Any,
    regroup: Mapping[str, Any] | None,
    where: Mapping[str, Any] | None,
    rename: Mapping[str, str] | None,
    require_safe: bool,
    accept_risk: bool,
    budget: float | None,
    audit: Path_ | None,
    progress: Progress | None,
) -> Release:
    """Publish tables of a store: see `FinestTable.release`."""
    if rows not in get_args(Rows):
        raise InputError(f"rows={rows!r} is not known. It is 'nonzero' or 'grid'.")
    if require_safe and accept_risk:
        raise InputError("require_safe and accept_risk contradict each other. Leave one of them out.")
    target = free_folder(path)
    finer = Finer.of(from_ledger, regroup, where, rename)
    design = finest.design
    wanted = wanted_tables(design, tables, levels, keys, max_keys)
    finest, chosen_method = by_method(finest, method, stated_bound, secret)
    is_chosen_now = chosen_method == "controlled" and not finest.chosen and finer is None
    planned = wanted_tables(design, plan) if is_chosen_now or plan != "all" else wanted
    _refuse_dropped(finest)
    given = finest.labels if labels is None else as_spelled(read_labels(labels, design), finest.codes)
    maps = _maps(geometry, design)
    in_languages = read_texts(texts)
    if audit is not None:
        writable(audit)
    if stated_bound is not None:
        bound_of(stated_bound, design.threshold)
    move, noise = _move(finest, chosen_method, move), _noise(finest, chosen_method, noise)
    if (chosen_method == "ilba" and design.cells == "grid") or (finest.by is not None and finest.by.fills):
        _check_declared_grid(finest, given, chosen_method)
    epsilon = None if finest.by is None else finest.by.spends
    _check_budget(budget, epsilon, require_safe)
    subject = finest if finer is None else finer.table
    own = subject.own_secret(secret)
    book = ledger_of(ledger, own, subject.unsaved)
    with opened(subject, own, book) as chapter, contextlib.ExitStack() as last:
        moved = (chapter.move(design.threshold) if chosen_method == "controlled" else 0) if move is None else move
        refuse_another(target, way(chosen_method, design, finest.by, moved), design, finest.by)
        if finer is not None:
            _refuse_sums(chosen_method, chapter)
        numbers = finest.numbers_mark(wanted)
        now = way(chosen_method, subject.design, finest.by, moved)
        for doubt in chapter.doubts(design, now):
            notice(doubt)  # before a refusal, too: it may be a reason not to accept the conflict
        chapter.check(subject, now, accept_conflict, wanted, numbers)
        _tell_of_no_name(subject, chapter)
        _tell_of_other_records(subject, chapter, accept_conflict)
        if epsilon is not None:
            chapter.spend(epsilon, budget, wanted, numbers)
        if stated_bound is not None:
            chapter.check_bound()
        if finer is not None:
            finest = _summed(finest, finer, chapter, moved)
        elif chosen_method == "controlled":
            asked = _Asked(bound if stated_bound is None else stated_bound, moved, sweeps, noise)
            finest = _jointly_masked(finest.at_hand(), planned, wanted, asked, secret, chapter, progress)
            _refuse_interrupted(finest)
        else:
            finest = chapter.as_published(finest)
        found = _audited(finest, wanted, chapter, accept_risk, audit, progress)
        if stated_bound is not None:
            _check_bound(finest, wanted, stated_bound, chapter)
        created = _time()
        declared = Declared(
            design, tuple(wanted), finest.method, rows, title, description, source, licence, in_languages,
            finest.population, given, maps, finest.origins, stated_bound, finer is not None, created,
            *_said(finest),
        )  # fmt: skip
        steps = _Steps(progress, 2 * len(wanted))
        with making(target) as temporary:
            shown = fill(temporary, shown_rows(finest, declared, steps), declared)
            tell_of_unnamed(given, shown)
            tell_of_lists_from_the_data(finest, declared, shown)
            prove(temporary, finest, declared, steps)
            refuse_other_masks(target, temporary, declared, chapter)
            for file in (*temporary.rglob("*"), temporary):
                file.chmod(0o755 if file.is_dir() else 0o644)
                os.utime(file, (stamp := datetime.datetime.fromisoformat(created).timestamp(), stamp))
            told = {**entry_of(finest, wanted, found, accept_risk, stated_bound, numbers), "sums": finer is not None}
            if finer is None:
                chapter.keep_masks(finest)  # before the folder: published masks must never be lost
            last.enter_context(chapter.publishing(target, digest(temporary / MANIFEST), told))
    return Release(target)


def publishable(
    finest: AnyFinestTable,
    level: Level,
    key: Names | None,
    *,
    accept_risk: bool,
    remember: bool,
    secret: Secret | Path_ | None,
    ledger: Given,
    accept_conflict: str | None,
    progress: Progress | None,
) -> AnyFinestTable:
    """See `FinestTable.publishable`."""
    wanted = wanted_tables(finest.design, [finest.design.select(level, key)])
    _refuse_dropped(finest)
    own = finest.own_secret(secret)
    book = ledger_of(ledger, own, finest.unsaved)
    with opened(finest, own, book) as chapter:
        is_plain = not finest.chosen and finest.remembers
        count, series = chapter.beside()
        is_chosen_now = is_plain and any(one.method == "controlled" for one in (*count, *series))
        move = chapter.move(finest.design.threshold) if is_chosen_now else finest.move
        method = "controlled" if is_chosen_now else finest.method
        if method == "ilba" and finest.design.cells == "grid":
            _check_declared_grid(finest, finest.labels, method)
        if finest.by is not None and finest.by.joint:
            raise InputError(f"{finest.by.name} publishes tables together: publish them with release.")
        numbers = finest.numbers_mark(wanted)
        chapter.check(finest, way(method, finest.design, finest.by, move), accept_conflict, wanted, numbers)
        if is_chosen_now:
            planned = wanted_tables(finest.design, "all")
            asked = _Asked(None, move)
            finest = _jointly_masked(finest.at_hand(), planned, wanted, asked, secret, chapter, progress)
            _refuse_interrupted(finest)
        elif method == "ilba":
            finest = chapter.as_published(finest)
        found = _audited(finest, wanted, chapter, accept_risk, None, progress)
        if remember:
            chapter.keep_masks(finest)
            chapter.enter(entry_of(finest, wanted, found, accept_risk, None, numbers))
    return finest


OUTSIDE = (
    "Comparing the two reveals small counts, so give out only the published numbers: from the release, from "
    "finest.published(), or from `ilba table --public`."
)
"""what follows for numbers that somebody may give out"""
INSIDE = "So this is not about the published tables; finest.published() has their masks."
"""what follows for an audit or a measure of risk"""


def tell_other_numbers(finest: AnyFinestTable, so: str = OUTSIDE) -> None:
    """Give a notice if the ledger at hand has these people published by another method, K or masks than this table."""
    if told := other_numbers(finest, so):
        notice(told)


def other_numbers(finest: AnyFinestTable, so: str = OUTSIDE) -> str:
    """What to say if the ledger at hand has these people published with other numbers than this table's; else empty."""
    chapter = at_hand(finest)
    if chapter is None:
        return ""
    own = way(finest.method, finest.design, finest.by, finest.move)
    if (last := chapter.otherwise(own)) is not None:
        return (
            f"the population {last.population!r} was published with method={last.method!r} and K={last.threshold}, and "
            f"this table has method={finest.method!r} and K={finest.design.threshold}. {so}"
        )
    if chapter.shows_others(finest, own):
        what = "masks" if finest.remembers else "record keys"
        return f"the population {chapter.name!r} was published with other {what} than this table has. {so}"
    return ""


def published(finest: AnyFinestTable, *, secret: Secret | Path_ | None, ledger: Given) -> AnyFinestTable:
    """See `FinestTable.published`."""
    own = finest.own_secret(secret)
    book = ledger_of(ledger, own, finest.unsaved, look=True)
    if book is not None and own is not None:
        chapter = looked_up(finest, own, book)
        ways = [one for one in chapter.publications if one.threshold == finest.design.threshold]
        for one in reversed([one for one in ways if one.has_masks]):
            known = chapter.known(finest, one.method, one.move)
            if not known.unknown:
                choice = chapter.choice(one.method, one.threshold, one.move)
                shown = finest.with_masks(known, Chosen.from_json(dict(choice)) if choice else None)
                shown.keeps_masks = chapter.keeps_masks(finest)
                return shown
    raise InputError("masks of these counts were never published.")


def _move(finest: AnyFinestTable, method: str, given: int | None) -> int | None:
    """How far large counts may move: as requested or as already chosen; None if the ledger decides."""
    if given is not None and method != "controlled":
        raise InputError("move goes with method='controlled'. Other methods have their own rules for large counts.")
    move = None if given is None else move_of(given, finest.design.threshold)
    if finest.chosen and move not in (None, finest.move):
        raise InputError(f"move={move}: the masks of this store were chosen with move={finest.move}. Leave it out.")
    return finest.move if finest.chosen else move


def _noise(finest: AnyFinestTable, method: str, given: float | None) -> float | None:
    """The share of small cells whose target is shifted by one; None if the ledger decides."""
    if given is None:
        return None
    if method != "controlled":
        raise InputError("noise= goes with method='controlled'. The method 'noise' has an epsilon: 'noise:epsilon=1'.")
    noise = noise_of(given)
    if finest.chosen and noise != finest.noise:
        raise InputError(f"noise={given}: the masks of this store were chosen with {finest.noise}. Leave it out.")
    return noise


def _said(finest: AnyFinestTable) -> tuple[Mapping[str, Any], bool, bool, bool]:
    """What the method tells readers: its parameters, and whether sums hold and counts are left blank."""
    if finest.by is None:
        told = {"move": finest.move, "noise": finest.noise}
        return {name: of for name, of in told.items() if of}, finest.method == "controlled", False, False
    by = finest.by
    return by.parameters, by.additive, by.blanks and not by.absent_blank, by.absent_blank


def entry_of(
    finest: AnyFinestTable,
    wanted: Sequence[Selection],
    audit: str,
    accepted_risk: bool,
    stated_bound: int | None,
    numbers: str | None = None,
) -> dict[str, Any]:
    """What the ledger keeps about a publication."""
    design, by = finest.design, finest.by
    return {
        "method": finest.method,
        "threshold": design.threshold,
        "cells": design.cells,
        "columns": list(design.columns),
        "tables": sorted(table.name for table in wanted),
        "masks": numbers or finest.marks()[1],
        "audit": audit,
        "accepted_risk": accepted_risk,
        "stated_bound": stated_bound,
        **({"parameters": spelled({"move": finest.move})} if finest.move else {}),
        **({} if by is None else {"parameters": parameters_of(by), "has_masks": False}),
        **({} if by is None or by.spends is None else {"epsilon": by.spends}),
        **({"joint": True} if by is not None and by.renumbers else {}),
    }


def _time() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class _Steps:
    """Progress over both worlds."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._tell, self._total, self._done = progress or silent, total, 0
        self._tell(ProgressStep("writing tables", 0, total))

    def __call__(self) -> None:
        self._done += 1
        self._tell(ProgressStep("writing tables", self._done, self._total))


# --- may it be published?


def by_method(
    finest: AnyFinestTable, given: Method | str | None, stated_bound: int | None, secret: Secret | Path_ | None
) -> tuple[AnyFinestTable, str]:
    """The table with the requested method, and the name of that method."""
    if given is None and finest.by is None:
        return finest, _method(finest, None, stated_bound)
    from ilba.methods.lab import method_of  # imports all methods, so only when needed

    asked = method_of(given) if given is not None else finest.by
    if asked is None or asked.policy is not None:
        return finest, _method(finest, asked, stated_bound)
    if not asked.publishes:
        raise InputError(f"method={asked.name!r} is for comparison only.")
    if finest.chosen:
        raise InputError("the masks of this store were chosen jointly: its method is 'controlled'.")
    if stated_bound is not None:
        raise InputError("stated_bound goes with method='controlled'. Other methods state how far they move a count.")
    if given is not None:
        finest = (finest if asked.keyed else finest.collect()).with_method(asked, secret)
    return finest, asked.name


def _tell_of_no_name(finest: AnyFinestTable, chapter: Chapter) -> None:
    """Say that a release does not name a population that the ledger has by name."""
    named = [one for one in chapter.of_same_data() if one.wave]
    if named and not finest.population.declared:
        notice(
            f"the ledger has these people as {chapter.name!r}, wave {named[0].wave!r}, but this release does not name "
            f"them, so it cannot be shown beside other waves. Give population= and wave= (--population, --wave) to "
            f"build, from_counts or read_rds (ilba convert).",
            Advice,
        )


def _tell_of_other_records(finest: AnyFinestTable, chapter: Chapter, accepted: str | None) -> None:
    """Say that a release has the wave of an earlier one, but other true counts.

    If it is published despite a conflict, unchanged counts may get other masks.
    """
    if chapter.has_other_data(finest.design):
        kept = " Unchanged counts keep their masks." if accepted is None else ""
        notice(
            f"wave {chapter.wave!r} of {chapter.name!r} was published from other records.{kept} Unless this release "
            f"replaces that one, give the records a wave of their own: wave= (--wave) of build, from_counts or "
            f"read_rds (ilba convert).",
            Advice,
        )


def _check_budget(budget: float | None, epsilon: float | None, require_safe: bool) -> None:
    if epsilon is None and budget is not None:
        raise InputError("budget goes with noise: an epsilon that is added up. This method spends none.")
    if budget is not None and (isinstance(budget, bool) or not 0 < budget < float("inf")):
        raise InputError(f"budget={budget!r} is not a number above 0.")
    if epsilon is not None and require_safe:
        raise InputError(
            "noise is never called safe: no count is proven, and none is impossible. Its promise is the epsilon of the "
            "budget. Leave require_safe (--require-safe) out."
        )


def _method(finest: AnyFinestTable, asked: Method | None, stated_bound: int | None) -> str:
    method = None if asked is None else asked.name
    if asked is not None and asked.publishes and asked != type(asked)():
        raise InputError(
            f"{asked.label!r}: the bound is given with bound=, and the reading of S when a store is built."
        )
    if asked is not None and not asked.publishes:
        from ilba.methods.lab import METHODS

        able = [name for name, made in METHODS.items() if getattr(made, "publishes", True)]
        raise InputError(
            f"method={method!r} is for comparison only. Publish with {listing(able)}; try others with ilba.compare."
        )
    if finest.chosen:
        if method == "ilba":
            raise InputError("the masks of this store were chosen jointly: its method is 'controlled'.")
        return "controlled"
    if method is None and finest.fingerprint is None:
        raise InputError(
            "the masks of this store came with its counts, so say how to publish. If tables with these masks were "
            "published: method='ilba' (--method ilba). If these counts never were: method='controlled' (--method "
            "controlled) chooses new ones, and nobody can prove a small count. Both need a secret file: ilba secret "
            "new agency.secret, then secret= (--secret agency.secret)."
        )
    if method == "controlled" and finest.fingerprint is None:
        notice(
            "the masks of this store came with its counts, and new ones are chosen now, except where the ledger has "
            "one. Where others were published, comparing the two publications reveals small counts."
        )
    if method == "ilba" and stated_bound is not None:
        raise InputError("stated_bound goes with method='controlled'. How far iLBA moves a count is known from K.")
    return method or "controlled"


def _refuse_dropped(finest: AnyFinestTable) -> None:
    """Refuse dropped keys: a key that is absent because of one person's value tells something about that person."""
    if finest.origins.dropped:
        raise UnsafeRelease(
            f"{listing(finest.origins.dropped)} was left out when the store was built, because of how many values the "
            f"data has there. What is published must not depend on that: build again and name the keys with key= "
            f"(--key)."
        )


def _check_declared_grid(finest: AnyFinestTable, given: pl.DataFrame, method: str) -> None:
    """Refuse code lists found in the data for a method that counts or fills every cell of the lists."""
    called = "iLBA with cells='grid'" if method == "ilba" else method
    for columns, listed in zip(CodeLists.dimensions(finest.design), finest.codes.lists, strict=True):
        if any(column.null_count() for column in listed.labels.get_columns()):
            raise InputError(
                f"{columns[-1]!r} has missing labels, which no code list can declare. {called} needs "
                f"every code declared: give missing labels a code of their own, or publish with method='controlled'."
            )
        counted = listed.labels.cast(pl.String)
        declared = listed_paths(given, columns).unique()
        same = declared.height == counted.height and declared.join(counted, on=columns, how="anti").is_empty()
        if not same:
            raise InputError(
                f"{called} needs a declared code list for {listing(columns)}: the method works on every "
                f"cell of the list, so the list is published, and one made from the data would tell who occurs. Write "
                f"a csv of variable, code, label_en, label_ko, parent with every code that can occur, and build "
                f"with labels= (--labels). Or publish with method='controlled', which needs no list."
            )


class _Asked(NamedTuple):
    """The options for the choice of masks."""

    bound: int | None
    move: int
    sweeps: int | None = None
    noise: float | None = None
    """by default, as the population was published before"""


def _jointly_masked(
    finest: AnyFinestTable,
    planned: Sequence[Selection],
    wanted: Sequence[Selection],
    asked: _Asked,
    secret: Secret | Path_ | None,
    chapter: Chapter,
    progress: Progress | None,
) -> AnyFinestTable:
    """The table with jointly chosen masks: the published masks if there are any, and new ones for other cells."""
    if finest.chosen:
        return finest
    bound, move, sweeps, noise = asked
    fixed = chapter.fixed(finest, move)
    before = chapter.choice("controlled", finest.design.threshold, move)
    kept = noise if before is None else float(before.get("noise", 0))
    if noise not in (None, kept):
        raise InputError(f"noise={noise}: this population was published with {kept}, and keeps it. Leave it out.")
    if before is None or fixed is None or fixed.unknown:
        masked = finest.controlled(
            planned, bound, secret=secret, previous=fixed, sweeps=sweeps, move=move, noise=kept or 0, progress=progress
        )
        _tell_of_bound(masked)
    else:
        masked = finest.with_masks(fixed, Chosen.from_json(dict(before)))
    _tell_of_other_tables(masked, wanted)
    return masked


def chosen_again(finest: FinestTable, secret: Secret, chapter: Chapter) -> FinestTable:
    """The masks that a default release of all tables chooses with the present ledger: they depend on nothing else.

    So a ledger restored from a copy can catch up with what was published after the copy was made.
    """
    planned = wanted_tables(finest.design, "all")
    move = chapter.move(finest.design.threshold)
    with warnings.catch_warnings(action="ignore", category=Notice):  # they were given at the publication
        masked = _jointly_masked(finest, planned, (), _Asked(None, move, None), secret, chapter, None)
    return masked.collect()


def _refuse_sums(method: str, chapter: Chapter) -> None:
    """Refuse sums of a table whose published counts are no sums of masks, before any conflict is offered."""
    before = [one for one in chapter.publications if one.data == chapter.data and not one.sums]
    if before and not any(one.method == "controlled" for one in before):
        raise UnsafeRelease(
            f"from_ledger= (--from-ledger): the finer store was published with method={before[-1].method!r}, whose "
            f"tables are no sums of masks. Nothing was published. Publish a table of the finer store with all columns "
            f"that are needed, with that method, and take the rows from it."
        )
    if method != "controlled":
        raise InputError("sums of a finer table are published with method='controlled'.")


def _summed(finest: AnyFinestTable, finer: Finer, chapter: Chapter, move: int) -> AnyFinestTable:
    """The table with sums of the masked counts of a published finer one."""
    known = chapter.known(finer.table, "controlled", move)
    choice = chapter.choice("controlled", finer.table.design.threshold, move)
    if choice is None or known.unknown:
        raise UnsafeRelease(
            "the finer store was not published in this form, so its masks are not known. Publish it first; then its "
            "sums can be published."
        )
    masked = finer.table.with_masks(known, Chosen.from_json(dict(choice)))
    return sums_of(finest.collect(), finer, masked)


def _refuse_interrupted(finest: AnyFinestTable) -> None:
    """Refuse interrupted masks: Ctrl-C gives the best masks so far, but they must not be published."""
    if finest.control and finest.control.interrupted:
        raise UnsafeRelease(
            "the choice of masks was interrupted, so nothing was published. The full search would choose other masks."
        )


def _tell_of_bound(finest: AnyFinestTable) -> None:
    if finest.chosen and finest.chosen.bound is not None and finest.control and not finest.control.held:
        notice(f"the bound {finest.chosen.bound} was not held by {some(finest.control.over, 'count')} (confidential).")


def _tell_of_other_tables(finest: AnyFinestTable, wanted: Sequence[Selection]) -> None:
    """Give a notice of the largest loss in tables for which the masks were not chosen (confidential)."""
    chosen = {columns_named(name) for name in finest.chosen.tables} if finest.chosen else set()
    others = [table for table in wanted if columns_named(table.name) not in chosen]
    if others:
        largest = finest.largest_loss(others)
        notice(
            f"the masks were chosen for other tables. {some(len(others), 'table')} of this release were not in that "
            f"plan: there a count is up to {largest:,} off (confidential)."
        )


def _audited(
    finest: AnyFinestTable,
    wanted: Sequence[Selection],
    chapter: Chapter,
    accept_risk: bool,
    report_path: Path_ | None,
    progress: Progress | None,
) -> str:
    """The verdict on the safety of these tables, together with earlier tables of the same data.

    Sums of masked counts are safe by the theorem, and the folder is proven to depend on nothing else.
    """
    if finest.method == "controlled" and report_path is None:
        return "certified"
    if finest.by is not None and not finest.by.bounded:
        if report_path is not None:
            raise InputError(f"there is no audit report for {finest.by.name}: its numbers prove nothing.")
        if finest.by.spends is None and not accept_risk:
            raise UnsafeRelease(
                f"the numbers of {finest.by.name} have no limit, so no audit can find it safe. Nothing was published. "
                f"Publish with {_ACCEPTED}."
            )
        return "not audited" if finest.by.spends is None else "noise"
    from ilba.attack.audit import BUDGET, audit, cells_to_attack

    is_joint = finest.by is not None and finest.by.joint  # its tables are published once, together
    before = chapter.of_same_data()
    earlier = {name for one in before if one.method == finest.method and not is_joint for name in one.tables}
    together = (
        [*wanted, *(t for t in wanted_tables(finest.design, sorted(earlier)) if t not in wanted)] if earlier else wanted
    )
    size = cells_to_attack(finest.codes, together)
    over = f"they have {size:,} cells, and the audit takes up to {BUDGET:,}" if size > BUDGET else ""
    if over and finest.method == "controlled":
        raise InputError(f"no report of the audit can be written: {over}.")
    if over:
        if accept_risk:
            return "not audited"
        raise UnsafeRelease(
            f"these tables are not audited: {over}. Nothing was published. Publish with method='controlled', "
            f"fewer tables, or {_ACCEPTED}."
        )
    if report_path is None:  # only the verdict is asked for
        report = audit(finest, finest.by or finest.method, together, explanations=0, progress=progress, brief=True)
    else:
        report = audit(finest, finest.by or finest.method, together, progress=progress)
        report.to_html(report_path)
    if finest.method == "controlled":
        return "certified"
    if report.safe:
        return "safe"
    if accept_risk:
        return "not safe"
    if chapter.publications:  # another method would be a conflict
        beside = " together with those published before" if len(together) > len(wanted) else ""
        raise UnsafeRelease(
            f"the audit does not find these tables safe{beside}, so nothing was published. Publish fewer tables, or "
            f"with {_ACCEPTED}: the ledger records it. {_SHOWN}"
        )
    raise UnsafeRelease(
        "the audit does not find these tables safe, so nothing was published. Publish with "
        f"method='controlled', fewer tables (max_keys, levels), or {_ACCEPTED}. {_SHOWN}"
    )


def _check_bound(finest: AnyFinestTable, wanted: Sequence[Selection], bound: int, chapter: Chapter) -> None:
    """Refuse a stated bound that does not hold in every published table."""
    if finest.largest_loss(wanted) > bound:
        chapter.bar_bound(bound)
        raise UnsafeRelease(
            f"the bound {bound} does not hold in every table, so nothing was published. Publish without a stated "
            f"bound: a larger one, stated now, would tell that this one was not held."
        )


def _maps(geometry: Mapping[str, Any] | None, design: Design) -> dict[str, Any]:
    """The GeoJSON of each area column, from dictionaries or files."""
    maps = {}
    columns = [column for hierarchy in design.hierarchies for column in hierarchy.columns]
    for column, given in (geometry or {}).items():
        if column not in columns:
            raise InputError(f"geometry names {column!r}, which is not an area column.{nearest(column, columns)}")
        shape = given
        if isinstance(given, str | os.PathLike):
            try:
                shape = json.loads(Path(given).read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError):
                raise InputError(f"the geometry {os.fspath(given)!r} cannot be read as GeoJSON.") from None
        features = shape.get("features") if isinstance(shape, Mapping) else None
        if not isinstance(features, list) or not all(isinstance(one, Mapping) for one in features):
            raise InputError(f"the geometry of {column!r} is not a GeoJSON FeatureCollection.")
        if shape.get("type") != "FeatureCollection":
            raise InputError(f"the geometry of {column!r} is not a GeoJSON FeatureCollection.")
        named = (
            f" Or publish with publication.toml, where [maps] names it: {column} = "
            f'{{file = "areas.geojson", code = "NAME"}}'
        )
        maps[column] = {**shape, "features": [with_code(feature, column, named) for feature in features]}
    return maps
