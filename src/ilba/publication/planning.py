"""A dry run: the content, loss and risk of a publication, and reasons against it. Confidential."""

from __future__ import annotations

import importlib
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ilba import notebook
from ilba.attack.kernels import close_area
from ilba.data.columns import few, few_text
from ilba.data.microdata import Filtered, Microdata
from ilba.data.reading import kind_of, scan
from ilba.data.recipe import Change
from ilba.data.shorter import refuse_shorter
from ilba.design.design import shown_name
from ilba.errors import (
    Conflict,
    IlbaError,
    InputError,
    MissingExtra,
    Notice,
    StoreError,
    UnsafeRelease,
    listing,
    notice,
    some,
)
from ilba.methods.controlled.kernels import compiling, is_compiled, sweep
from ilba.progress import Progress, ProgressStep, silent
from ilba.publication.choices import (
    LIMIT,
    Choice,
    Measured,
    can_compare,
    choices,
    masked_by,
    measured,
    rows_of,
    too_slow,
)
from ilba.publication.days import days_kept, waves_together
from ilba.publication.doubts import advice, doubts, misspelt, unused_keys
from ilba.publication.file import words
from ilba.publication.matching import Matched
from ilba.publication.prepared import Prepared
from ilba.release import Release
from ilba.release.chapter import Chapter
from ilba.release.folder import shown_codes
from ilba.release.ledger import Ledger
from ilba.release.proving import lists_from_the_data
from ilba.release.recognising import looked_up, place_of
from ilba.release.replacing import way
from ilba.release.writing import by_method
from ilba.secret.secret import Secret
from ilba.tables.beside import refuse_lost
from ilba.tables.building import build
from ilba.tables.engine import DRAWN_KEYS, AnyFinestTable

Path_: TypeAlias = str | os.PathLike[str]
_CORRECTION = " --correction"
_ANEW = (
    "{0} chooses all {1} together: another wave, or a correction, gets other {1} for unchanged counts, which can prove "
    "small counts. It is refused unless you accept the conflict"
)
"""said of a method that is unsuitable for a series"""
_COMPILES = ", the first time on this machine up to a minute more, because loops are compiled"
_BYTES = 3.0
"""bytes of a row of a table, on the disk"""


@dataclass(frozen=True)
class Plan:
    """The dry run of a publication. Confidential."""

    title: str
    """the title of the release"""
    mask_thr: int
    """the threshold K"""
    method: str
    """how tables are masked"""
    records: int
    """records that the recipe keeps"""
    left_out: int
    """records that are not counted, because a value is missing"""
    cells: int
    """cells of the finest table"""
    tables: tuple[str, ...]
    """the names of the tables"""
    rows: int
    """the most rows of all tables together"""
    seconds: float
    """the approximate time of publishing, with reports and decision page"""
    changes: tuple[Change, ...]
    """how many records each step of the recipe leaves out or changes"""
    matches: tuple[Matched, ...]
    """how code lists and maps match the data"""
    ledger: str
    """what the ledger says"""
    choices: tuple[Choice, ...]
    """the methods, with their loss and what they disclose"""
    attackers: tuple[Measured, ...]
    """what attackers learn by guessing or with further knowledge"""
    refused: tuple[str, ...]
    """reasons why it would be refused"""
    proposed: tuple[str, ...]
    """proposed entries that no person has confirmed"""
    against_last: tuple[str, ...]
    """the differences from the release in the output folder"""
    notes: tuple[str, ...] = ()
    """further notes"""
    stops: tuple[str, ...] = ()
    """the notes at which `ilba --strict publish` stops"""
    how: Mapping[str, Any] = field(default_factory=dict)
    """how masks are chosen jointly: `bound`, `sweeps`, `move` and `noise`, where the file names them"""
    typed: str = ""
    """the arguments of `ilba publish`: the file if it is not publication.toml, and --correction"""
    compiles: bool = False
    """whether publishing compiles loops first, once on each machine"""

    @property
    def is_possible(self) -> bool:
        """Whether it can be published."""
        return not self.refused

    def to_json(self) -> dict[str, Any]:
        """Give the plan as plain values, for a program.

        Returns
        -------
        dict
            Everything in the plan; numbers of records below K are hidden.
        """
        K = self.mask_thr
        return {
            "confidential": True, "possible": self.is_possible, "title": self.title, "mask_thr": K,
            "method": self.method, "how": dict(self.how), "records": self.records,
            "left_out": few(self.left_out, K), "cells": self.cells,
            "tables": list(self.tables), "rows": self.rows, "bytes": self.size, "seconds": round(self.seconds, 1),
            "compiles": self.compiles,
            "changes": [one._asdict() | {"records": few(one.records, K)} for one in self.changes],
            "matches": [str(one) for one in self.matches], "ledger": self.ledger,
            "choices": [one.to_json() for one in self.choices],
            "attackers": [one.to_json(K) for one in self.attackers], "refused": list(self.refused),
            "proposed": list(self.proposed), "against_last": list(self.against_last), "notes": list(self.notes),
            "stops": list(self.stops),
        }  # fmt: skip

    @property
    def size(self) -> int:
        """Bytes of the release, roughly."""
        return int(self.rows * _BYTES)

    def _lines(self) -> list[tuple[str, str]]:
        K = self.mask_thr
        left = f", {few_text(self.left_out, K)} left out because a value is missing" if self.left_out else ""
        compiles = _COMPILES if self.compiles else ""
        lines = [
            ("records", f"{self.records:,}{left}"),
            ("cells", f"{self.cells:,} of the finest table"),
            ("tables", f"{len(self.tables)}: {listing(map(shown_name, self.tables), 4)}"),
            ("size", f"at most {some(self.rows, 'row')}, about {max(self.size / 1e6, 0.1):.1f} MB"),
            ("time", f"publishing takes about {max(self.seconds, 1):.0f} s in this process{compiles}"),
            ("method", ", ".join([self.method, f"K={K}", *(f"{name}={value}" for name, value in self.how.items())])),
            ("ledger", self.ledger),
        ]
        lines += [
            ("recipe", f"{one.column}: {one.step} {one.does} {few_text(one.records, K)} records")
            for one in self.changes
        ]
        lines += [("match", str(one)) for one in self.matches]
        lines += [("attacker", str(one)) for one in self.attackers]
        lines += [("since last", one) for one in self.against_last]
        lines += [("note", one) for one in self.notes]
        if self.proposed:
            lines.append(("proposed", f"not confirmed by a person yet: {listing(self.proposed, 20)}"))
        return lines + [("REFUSED", one) for one in self.refused]

    def __str__(self) -> str:
        lines = [f"{self.title} (plan, confidential)"]
        lines += [f"  {name:<10} {text}" for name, text in self._lines()]
        if self.choices:
            wide = max(len(one.spec) for one in self.choices)
            heads = f"{'mean loss':>9} {'99% within':>10} {'largest':>8} {'provable small counts':>26} {'blank':>6}"
            lines.append(f"  {'method':<{wide}} {heads}  adds up")
            for one in self.choices:
                loss = f"{one.mean_loss:>9.2f} {one.p99_loss:>10} {one.max_loss:>8}"
                shares = f"{one.found:>26} {one.blank:>6.1%}"
                lines.append(f"  {one.spec:<{wide}} {loss} {shares}  {'yes' if one.adds_up else 'no'}")
            lines.append(
                f"  Provable small counts are a share of the counts of 1 to {self.mask_thr - 1} in all tables."
            )
        is_other = self.typed.endswith(_CORRECTION)  # one reason against it, and a correction answers that one
        wave = "a new wave under [population], or for a correction: " if is_other else ""
        is_next = len(self.refused) == is_other
        following = f"Next: {wave}ilba publish{self.typed}" if is_next else "It cannot be published."
        lines.append(f"Nothing was written. {following}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The plan in a notebook."""
        rows = [
            (one.spec, round(one.mean_loss, 2), one.p99_loss, one.max_loss, one.found, f"{one.blank:.1%}")
            for one in self.choices
        ]
        compared = notebook.table(
            ["method", "mean loss", "99% within", "largest", "provable small counts", "blank"], rows, "Methods"
        )
        return notebook.page(self.title, "plan", notebook.table(["", ""], self._lines()), compared if rows else "")


def plan(path: Path_ | None = None, *, wave: str = "", full: bool = False, progress: Progress | None = None) -> Plan:
    """Show the content, loss and risk of a publication. Nothing is written.

    Parameters
    ----------
    path : path, optional
        The publication file, or its folder. Left out, publication.toml here.
    wave : str, default ""
        The wave, instead of that of the file.
    full : bool, default False
        Compare methods even with many cells, which is slow.
    progress : callable, optional
        Called with each `ProgressStep` of the work.

    Returns
    -------
    Plan
        The plan. Confidential.

    Raises
    ------
    InputError
        The publication file or the data is not what was expected.
    """
    tell = progress or silent
    prepared = Prepared(path, wave)
    begun = time.perf_counter()
    finest, is_own = counted(prepared, progress=progress)
    counting = time.perf_counter() - begun
    matches = prepared.matched(finest)
    wanted = prepared.wanted
    refused, said, is_other, kept, unlike = _ledger(prepared, finest, is_own)
    how = prepared.how
    refused += [_other_data(prepared)] if is_other else []
    refused += [*_other_release(prepared), *_unwritable(prepared)]
    compared: list[Choice] = []
    learnt: list[Measured] = []
    named = named_values(prepared)
    notes = [*days_kept(prepared), *waves_together(prepared), *misspelt(named), *old_ages(prepared), *unlike]
    notes += doubts(finest)
    better = advice(finest)
    stops = [one for one in notes if one not in better]
    notes += unused_keys(prepared.design, prepared.wanted)
    if prepared.by is not None and prepared.by.keyed and finest.record_keys is None:
        notes.append(DRAWN_KEYS)
    if prepared.by is not None and prepared.by.renumbers:
        notes.append(_ANEW.format(prepared.by.name, "blanks" if prepared.by.blanks else "numbers"))
    begun = time.perf_counter()
    with compiling() as compiled:
        if can_compare(finest, wanted, LIMIT if not full else 100 * LIMIT):
            tell(ProgressStep("comparing"))
            by, method = prepared.by, prepared.said.method
            planned = prepared.planned if method == "controlled" else wanted
            masked = None if by else masked_by(method, finest, planned, how | kept, progress=progress)
            compared = choices(finest, wanted, masked, by=by, full=full, progress=progress)
            seen = {one.method for one in compared}
            slow = () if full or not compared else too_slow(finest, wanted)
            if names := [name for name in (one.partition(":")[0] for one in slow) if name not in seen]:
                left_out = listing(names)
                notes.append(f"not compared, because it takes long with these tables: {left_out}. --full compares all")
            if masked is not None:
                found = lists_from_the_data(masked, finest.labels, prepared.maps, shown_codes(masked, wanted))
                may = " This was found with the temporary secret of this plan: `ilba --strict publish` may stop."
                unsure = "" if is_own else may
                stops += [one + unsure for one in found]
                notes += [one + unsure for one in found]
            learnt = measured(masked, wanted, progress=progress) if masked is not None else []
        else:
            notes.append("the tables have too many cells to compare methods quickly; --full compares them anyway")
    comparing = time.perf_counter() - begun - sum(compiled)
    if learnt:
        notes.append("attackers guess or have further knowledge; docs/understand/attackers.md describes each of them")
    if compared and not is_own:
        insider = ", those of the insider possibly much" if learnt else ""
        notes.append(
            f"there is no secret yet: this plan uses a temporary one. Its figures will differ a little{insider}"
        )
    name = prepared.by.name if prepared.by else prepared.said.method
    is_budgeted = prepared.by is not None and prepared.by.spends is not None
    if name != "controlled" and not prepared.said.accept_risk and not is_budgeted:
        refused += [
            f"the audit does not find the tables safe by {name}. Write method = 'controlled', fewer tables, or "
            f"accept_risk = true."
            for one in compared
            if one.method == name and not one.is_safe
        ]
    total = total_of(finest)
    records = _records(prepared)
    return Plan(
        prepared.title, prepared.design.threshold, prepared.said.method, records or total,
        max(records - total, 0) if records else 0, len(finest), tuple(table.name for table in wanted),
        rows_of(finest, wanted), counting + _seconds(prepared, finest, comparing),
        (*(one.change for one in named), *prepared.recipe.changes), tuple(matches), said, tuple(compared),
        tuple(learnt), tuple(refused),
        tuple(prepared.said.proposed), tuple(_against_last(prepared)), tuple(notes),
        tuple(stops + ([proposed_entries(prepared)] if prepared.said.proposed else [])), how,
        prepared.typed + (_CORRECTION if is_other else ""),
        not compared and not is_compiled(sweep if name == "controlled" else close_area),
    )  # fmt: skip


def old_ages(prepared: Prepared) -> list[str]:
    """What a person should check: dates of birth of people who would be older than anybody."""
    return [
        f"{name} has dates of birth that make people older than 120: {dates}. If they stand for a missing value, name "
        f"them: missing = [..] in recipe.{name}."
        for name, dates in prepared.recipe.old.items()
    ]


def proposed_entries(prepared: Prepared) -> str:
    """Which entries of a publication file nobody confirmed."""
    return (
        f"these entries were proposed from the data and not confirmed: {listing(prepared.said.proposed, 20)}. "
        f"Check them in {prepared.file.name} and remove them from the list."
    )


def _seconds(prepared: Prepared, finest: AnyFinestTable, comparing: float) -> float:
    """The approximate time of everything after the count: tables, exports, reports, and the decision page.

    The decision page compares the same methods and attackers as the plan, so that takes as long again.
    """
    wanted, outputs = prepared.wanted, prepared.said.outputs
    tables = 4e-7 * len(finest) * len(wanted) + 0.05 * len(wanted)
    exports = 4e-6 * rows_of(finest, wanted) * len(outputs.formats) * len(outputs.languages)
    pages = 1.5 + 3 * outputs.pdf * len(outputs.languages)
    return tables + exports + pages + (comparing if can_compare(finest, wanted) else 0.0)


def counted(
    prepared: Prepared, output: Path_ | None = None, spark: Any = None, progress: Progress | None = None
) -> tuple[AnyFinestTable, bool]:
    """The finest table of a publication, and whether its masks are drawn with the secret of the publication.

    Without `output` nothing is written. If there is no secret yet, a temporary one draws the masks of the plan.
    """
    secret = prepared.secret()
    if secret is None:
        refuse_lost(prepared.store)
    prepared.tell_of_secret()
    is_own = secret is not None or output is not None
    said = prepared.said
    data: Any = prepared.source
    reading: Any = prepared.reading
    if spark is not None:
        data, reading = _on_spark(prepared, spark), None
    finest = build(
        data,
        {hierarchy.name: list(hierarchy.columns) for hierarchy in prepared.design.hierarchies},
        list(prepared.design.keys),
        said.mask_thr,
        secret=secret if is_own else Secret.new(),
        cells=said.cells,
        missing=said.source.missing,
        record_key=said.source.record_key or None,
        read=reading,
        recipe=prepared.recipe,
        labels=prepared.lists.labels,
        population=said.population.name,
        wave=said.population.wave,
        period=said.population.period,
        unit=words(said.population.unit),
        output_path=output,
        progress=progress,
    )
    return finest, is_own


def _on_spark(prepared: Prepared, spark: Any) -> Any:
    """The records on Spark. This process reads files that Spark cannot read."""
    source, reading = prepared.source, prepared.reading
    if kind_of(source) == "csv":
        refuse_shorter(source, reading)  # Spark fills them up
    is_utf8 = reading.encoding in ("", "utf-8", "utf-8-sig")
    is_plain = kind_of(source) == "csv" and is_utf8 and reading.separator and not reading.notes and reading.header < 2
    if source.is_dir() or kind_of(source) in ("parquet", "orc") or is_plain:
        return importlib.import_module("ilba.spark").read(spark, str(source), read=reading if is_plain else None)
    return spark.createDataFrame(scan(source, None, reading).collect().to_arrow())


def total_of(finest: AnyFinestTable) -> int:
    """The number of counted records (confidential)."""
    ((_, sums),) = finest.sums([finest.design.select(0)])
    return int((sums.parts.sum_small + sums.parts.sum_large).sum())


def _records(prepared: Prepared) -> int:
    """How many records the recipe keeps, if polars reads the source."""
    return _followed(prepared).number()


def named_values(prepared: Prepared) -> list[Filtered]:
    """What `where` and `without` leave out (confidential)."""
    return _followed(prepared).named() if prepared.recipe.asks else []


def _followed(prepared: Prepared) -> Microdata:
    data = Microdata.open(prepared.source, reading=prepared.reading)
    data.follow(prepared.recipe)
    return data


def _ledger(
    prepared: Prepared, finest: AnyFinestTable, is_own: bool
) -> tuple[list[str], str, bool, dict[str, Any], list[str]]:
    """What the ledger says.

    Its reasons against it, its state in words, whether this wave has other published data, the masks that stay, and
    what is unlike earlier waves.
    """
    unlike: list[str] = []
    kept: dict[str, Any] = {}
    is_other = False
    secret = finest.secret_at_hand()
    place = prepared.ledger or place_of(secret)
    if not place or not is_own or secret is None:
        return [], "nothing was published under this secret before; the first publication makes a ledger", False, {}, []
    try:
        book = Ledger(place)
    except StoreError:
        return [], f"there is no ledger {place} yet; the first publication makes it", False, {}, []
    try:
        chapter = looked_up(finest, secret, book)
        before = chapter.publications
        text = f"{book.path.name}: {some(len(before), 'publication')} of {chapter.name!r} before"
        name = prepared.by.name if prepared.by else prepared.said.method
        move = prepared.how.get("move", chapter.move(finest.design.threshold))
        now = way(name, finest.design, prepared.by, move)
        unlike = [*chapter.doubts(finest.design, now), *now_dropped(prepared, chapter)]
        is_other = chapter.has_other_data(finest.design)
        kept = chapter.kept(finest, move) if name == "controlled" else {}
        shown, numbers = finest, None
        if prepared.by is not None:
            with warnings.catch_warnings(action="ignore", category=Notice):  # the plan has its own notes
                shown, _ = by_method(finest, prepared.by, None, secret)
            numbers = shown.numbers_mark(prepared.wanted) if chapter.of_same_data() else None
        chapter.check(shown, now, None, prepared.wanted, numbers)
        if prepared.by is not None and prepared.by.spends is not None:
            chapter.spend(prepared.by.spends, prepared.said.budget, prepared.wanted, numbers)
    except Conflict as problem:
        return [str(problem)], f"{book.path.name}: it conflicts with an earlier publication", is_other, kept, unlike
    except (UnsafeRelease, IlbaError) as problem:
        return [str(problem)], f"{book.path.name}: it refuses this publication", is_other, {}, unlike
    return [], text, is_other, kept, unlike


def now_dropped(prepared: Prepared, chapter: Chapter) -> list[str]:
    """What a person should check: missing values that were a category before, and are left out now."""
    return chapter.no_longer_missing(prepared.design) if prepared.said.source.missing == "drop" else []


def hold_against_others(
    prepared: Prepared, book: Ledger | None, finest: AnyFinestTable, secret: Secret | None, correction: bool
) -> None:
    """Refuse other data for a published wave unless it is a correction, and tell of missing values that go."""
    if book is None or secret is None:
        return
    chapter = looked_up(finest, secret, book)
    if not correction and chapter.has_other_data(finest.design):
        raise Conflict(_other_data(prepared), "")
    for doubt in now_dropped(prepared, chapter):
        notice(doubt)


def _other_data(prepared: Prepared) -> str:
    wave = prepared.said.population.wave
    return (
        f"these are not the records that were published as wave {wave!r}. A new count of the people needs a new wave: "
        f"--wave, or under [population]. To correct that wave: ilba publish{prepared.typed} --correction"
    )


def refuse_replacing(prepared: Prepared) -> None:
    """Refuse to replace the release of another wave or population."""
    for problem in _other_release(prepared):
        raise UnsafeRelease(problem)


def _unwritable(prepared: Prepared) -> list[str]:
    """Which output cannot be written."""
    try:
        prepared.check_outputs()
    except (InputError, MissingExtra) as problem:
        return [str(problem)]
    return []


def _other_release(prepared: Prepared) -> list[str]:
    """Why the release in the output folder must not be replaced."""
    try:
        last = Release(prepared.release).manifest.get("population", {})
    except StoreError:
        return []
    now, folder = prepared.said.population, prepared.said.outputs.release
    if last.get("name") and now.name and last["name"] != now.name:
        return [
            f"{folder!r} holds the release of {last['name']!r}, and this is {now.name!r}. "
            f"Name another folder: release = '..' under [outputs]."
        ]
    if last.get("wave") and last["wave"] != now.wave:
        return [
            f"{folder!r} holds the release of wave {last['wave']!r}, and this is wave {now.wave!r}. A published wave "
            f"is kept. Name a folder for each wave: release = 'release-{{wave}}' and exports = 'exports-{{wave}}' "
            f"under [outputs]."
        ]
    return []


def _against_last(prepared: Prepared) -> list[str]:
    """The differences between the plan and the release in the output folder."""
    try:
        last = Release(prepared.release)
    except StoreError:
        return [f"there is no {prepared.release.name} yet"]
    now, before = {table.name for table in prepared.wanted}, set(last.tables)
    told = []
    if now - before:
        told.append(f"{some(len(now - before), 'table')} more: {listing(map(shown_name, sorted(now - before)), 5)}")
    if before - now:
        told.append(f"{some(len(before - now), 'table')} less: {listing(map(shown_name, sorted(before - now)), 5)}")
    said, manifest = prepared.said, last.manifest
    population, parameters = manifest.get("population", {}), manifest.get("parameters", {})
    public = [(name, parameters.get(name, 0), prepared.how[name]) for name in ("move", "noise") if name in prepared.how]
    for what, old, new in (
        ("the title", manifest["title"], prepared.title),
        ("K", last.design.threshold, prepared.design.threshold),
        ("the method", manifest["method"], prepared.by.name if prepared.by else said.method),
        ("the wave", population.get("wave", ""), said.population.wave),
        ("the columns", " ".join(last.design.columns), " ".join(prepared.design.columns)),
        *public,
    ):
        if old != new:
            told.append(f"{what} was {old!r} and is {new!r}")
    return told or [f"the same tables as in the release of {str(manifest['created'])[:10]}"]
