"""The joint audit: what anybody can prove who has several releases of the same people.

The audit is sound, not complete: if the releases count the same people, every disclosed cell is proven small. Cells
that are neither disclosed nor certified are undecided.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.explanations import LARGEST
from ilba.attack.joint import JointAttack, explain_jointly
from ilba.attack.joint_verdict import JointReport
from ilba.attack.lattice import table_of
from ilba.attack.published import POLICIES
from ilba.attack.refinement import Joined, Placed, Words, refine, truth_of
from ilba.design.population import Population
from ilba.errors import InputError, listing
from ilba.progress import Progress, within
from ilba.release import Release
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store

IntArray: TypeAlias = npt.NDArray[np.int64]
Path_: TypeAlias = str | os.PathLike[str]
Given: TypeAlias = Release | FinestTable | Path_

Pair: TypeAlias = tuple[FinestTable, Joined]
"""a store, as it is and as the audit sees it"""

_SAME = "the releases count the same people"

COMPLETE = 2**21
"""`ranges` lists every cell up to this number"""


def audit_together(
    given: Sequence[Given],
    stores: Sequence[FinestTable | Path_] = (),
    *,
    unchanged: bool = False,
    changed: int | None = None,
    rename: Mapping[str, str] | None = None,
    regroup: Mapping[str, Any] | None = None,
    explanations: int = 10,
    progress: Progress | None = None,
) -> JointReport:
    """Audit several releases; `ilba.audit` describes the arguments."""
    start = time.perf_counter()
    if not given:
        raise InputError("audit() was given no release. Give at least one.")
    if changed is not None and (unchanged or changed < 0):
        raise InputError("changed is the largest change of a count, 0 or more; it cannot be given with unchanged.")
    words = Words.of(rename, regroup)
    tables = [open_store(path) if isinstance(path, str | os.PathLike) else path for path in stores]
    for table in tables:
        if not isinstance(table, FinestTable):
            raise InputError(f"stores= holds a {type(table).__name__}; give stores in memory or their paths.")
    opened = [Release(one) if isinstance(one, str | os.PathLike) else one for one in given]
    named = list(zip(opened, _names(opened), strict=True))
    for one, name in named:
        if not isinstance(one, Release | FinestTable):
            raise InputError(f"audit() takes a list of releases or finest tables, not a {type(one).__name__}.")
        _require_policy(one, name)
    extra = [(table, Joined.of_store(table, f"store {number}")) for number, table in enumerate(tables, 1)]
    own = {name: (one, Joined.of_store(one, name)) for one, name in named if isinstance(one, FinestTable)}
    pairs = [*extra, *own.values()]
    wave_of = {
        name: (one.population if isinstance(one, FinestTable) else Joined.population_of(one)).wave
        for one, name in named
    }
    waves = list(dict.fromkeys(wave_of.values()))

    def fitting(*wanted: str) -> list[Pair]:
        """The stores of some of these waves, and those of no declared wave."""
        every = unchanged or len(waves) == 1
        return [pair for pair in pairs if every or pair[1].population.wave in ("", *wanted)]

    releases = [
        Joined.of_store(one, name, published=True)
        if isinstance(one, FinestTable)
        else Joined.of_release(one, name, [source for _, source in fitting(wave_of[name])])
        for one, name in named
    ]
    _one_population(releases)
    if changed is not None and len(releases) > 1:
        told = [one.name for one in releases if one.name not in own]
        in_order = len(extra) in (0, len(told))
        own |= dict(zip(told, extra, strict=False)) if in_order else {}
        reports, assumed = _audit_waves(
            releases, fitting, own if in_order else None, words, explanations, progress, changed
        )
        return JointReport.of(reports, (assumed,), time.perf_counter() - start)
    groups = [releases] if unchanged else [[one for one in releases if one.population.wave == w] for w in waves]
    reports = []
    for group in groups:
        wave = group[0].population.wave
        part = within(progress, f"wave {wave}") if len(groups) > 1 else progress
        reports.append(_audit(group, fitting(wave), words, explanations, part))
    assumed = _SAME
    if len(waves) > 1:
        assumed = (
            f"no count changed between the waves {listing(waves)}"
            if unchanged
            else f"nothing: any count may have changed between the waves {listing(waves)}, so each wave is audited by "
            f"itself"
        )
    return JointReport.of(reports, (assumed,), time.perf_counter() - start)


def _require_policy(one: Release | FinestTable, name: str) -> None:
    """Refuse tables by a method that the attack on several releases does not know."""
    own = one.by.name if isinstance(one, FinestTable) and one.by is not None else None
    method = one.manifest["method"] if isinstance(one, Release) else own or one.method
    if method not in POLICIES:
        raise InputError(
            f"{name} was made by {method!r}. Several releases are audited together only if their methods are iLBA, "
            f"controlled or variants of them ({listing(POLICIES)}). Audit each by itself: ilba audit RELEASE --store "
            f"STORE, and --method for a ptable of your own."
        )


def _names(opened: Sequence[Any]) -> list[str]:
    """A short name for each release: its folder, and also the folder above if two names are equal."""
    paths = [one.path if isinstance(one, Release) else Path(f"table {n}") for n, one in enumerate(opened, 1)]
    for depth in (1, 2, 3):
        names = ["/".join(path.absolute().parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{number}. {path.name}" for number, path in enumerate(paths, 1)]


def _one_population(releases: Sequence[Joined]) -> None:
    named = {one.population.name: one.name for one in releases if one.population.name}
    if len(named) > 1:
        (first, a), (second, b), *_ = named.items()
        raise InputError(
            f"{a} is of the population {first!r} and {b} of {second!r}: neither says anything about the other. Audit "
            f"each by itself."
        )


@dataclass(frozen=True)
class _Wave:
    """Releases of the same counts, the attack on them, and the truth if a store tells it."""

    attack: JointAttack
    truth: Any

    @classmethod
    def of(cls, placed: Sequence[Placed], stores: Sequence[Pair], words: Words, explanations: int) -> _Wave:
        attack = JointAttack(placed, record=explanations > 0)
        truth = _truth(attack, stores, words)
        if truth is not None:
            attack.check(truth)
        return cls(attack, truth)


def _audit(
    releases: Sequence[Joined], stores: Sequence[Pair], words: Words, explanations: int, progress: Progress | None
) -> JointReport:
    """Audit releases of the same counts."""
    wave = _Wave.of(_placed(releases, stores, words), stores, words, explanations)
    wave.attack.run(progress)
    certificate = wave.attack.is_one_of_sums or wave.attack.world is not None
    return _told(wave, explanations, certificate, wave.attack.exact)


def _placed(releases: Sequence[Joined], stores: Sequence[Pair], words: Words) -> list[Placed]:
    """The releases on their common refinement."""
    dimensions = refine(releases, [source for _, source in stores], words)
    return [Placed(one, dimensions, words) for one in releases]


def _apart(placed: Sequence[Placed], own: Mapping[str, Pair]) -> list[list[Placed]]:
    """Releases whose counts may differ: of two waves, or of one wave, such as a wave and its correction.

    Within a wave, two releases stay together if their stores have the same counts, or if one only repeats the masks of
    the other: then it adds nothing, even if its counts have changed.
    """
    waves: dict[str, list[Placed]] = {}
    for one in placed:
        waves.setdefault(one.source.population.wave, []).append(one)
    groups = []
    for wave in waves.values():
        repeats = JointAttack(wave, record=False).repeats if len(wave) > 1 else {}
        here: list[list[Placed]] = []
        for number, one in enumerate(wave):
            if number in repeats:
                continue
            group = next((group for group in here if _same_counts(own, group[0].source.name, one.source.name)), None)
            if group is None:
                here.append(group := [])
            group += [one, *(wave[other] for other, of in repeats.items() if of == number)]
        groups += here
    return groups


def _same_counts(own: Mapping[str, Pair], one: str, other: str) -> bool:
    """Whether the stores of two releases are known and have the same counts."""
    if one not in own or other not in own:
        return False
    counts = [store.frame.select(*store.design.columns, "N") for store in (own[one][0], own[other][0])]
    return counts[0].equals(counts[1])


def _audit_waves(
    releases: Sequence[Joined],
    stores: Callable[..., list[Pair]],
    own: Mapping[str, Pair] | None,
    words: Words,
    explanations: int,
    progress: Progress | None,
    changed: int,
) -> tuple[list[JointReport], str]:
    """Audit waves that changed by at most `changed`, and say what is assumed.

    `stores` gives the stores of some waves, and `own` has the store of each release that has one; it is None if the
    number of stores does not tell.
    """
    declared = {one.population.wave for one in releases}
    groups = _apart(_placed(releases, stores(*declared), words), own or {})
    split = len(groups) > len(declared)
    noun = "releases" if split else "waves"
    if split and own is None:
        raise InputError(
            "some of these releases are of one wave, and changed= (--changed) says that their counts may differ: give "
            "one store for each release, in the same order, or none. Releases of the same counts have the same store."
        )
    waves = []
    for group in groups:
        population = group[0].source.population
        known = stores(population.wave)
        if own is not None and len(releases) > len(declared):  # the counts of a repeat may have changed
            known = [own[one.source.name] for one in group if one.source.name in own][:1]
        if split:
            population = Population(population.name or "p", " + ".join(one.source.name for one in group))
            for one in group:
                one.source = replace(one.source, population=population)
        waves.append(_Wave.of(group, known, words, explanations))
    pairs = list(itertools.combinations(waves, 2))
    for here, there in pairs:
        if here.truth is not None and there.truth is not None:
            largest = here.attack.apart(there.attack, here.truth, there.truth)
            if largest > changed:
                raise InputError(
                    f"by the stores a count changed by {largest:,} between the {noun}, so changed={changed} does not "
                    f"hold. Say changed={largest} (--changed {largest}), or leave it out."
                )
    moved: list[set[Any] | None] = [None] * len(waves)
    while any(nodes is None or nodes for nodes in moved):
        for wave, nodes in zip(waves, moved, strict=True):
            if nodes is None or nodes:
                wave.attack.run(progress, nodes)
        moved = [
            {node for other in waves if other is not wave for node in wave.attack.hear(other.attack, changed)}
            for wave in waves
        ]
    worlds = [(wave.attack, world) for wave in waves if (world := wave.attack.world) is not None]
    possible = len(worlds) == len(waves) and all(
        attack.apart(other, mine, theirs) <= changed
        for (attack, mine), (other, theirs) in itertools.combinations(worlds, 2)
    )
    reports = [_told(wave, explanations, possible, len(waves) == 1 and wave.attack.exact) for wave in waves]
    if len(waves) == 1:
        return reports, _SAME
    named = listing(group[0].source.population.wave for group in groups)
    return reports, f"no count changed by more than {changed} in a table that two of the {noun} {named} share"


def _told(wave: _Wave, explanations: int, certificate: bool, is_exact: bool) -> JointReport:
    """The report on one wave."""
    attack, truth = wave.attack, wave.truth
    lattice, bounds = attack.lattice, attack.block.kinds[0]
    K = max(one.published.K for one in attack.placed)
    proven = {}
    for node in lattice.nodes:
        low, high = bounds.low[node], bounds.high[node]
        proven[node] = (low >= 1) & (high < K)
        if truth is not None:
            true = attack.summed(truth, node)
            if (true < low).any() or (true > high).any():
                if attack.heard:
                    raise InputError(
                        f"the counts of the store changed by more than {max(attack.heard)} since another wave. Say a "
                        f"larger changed (--changed), or leave it out."
                    )
                raise AssertionError("the attack excluded the truth. This is a mistake in ilba: please report it.")
    low, high = (side[lattice.base].reshape(-1) for side in (bounds.low, bounds.high))
    flat = None if truth is None else truth.reshape(-1)
    places = np.flatnonzero(proven[lattice.base])
    # The worst first: the narrowest ranges, and among equal ones the smallest counts.
    order = places[np.lexsort((places, high[places], high[places] - low[places]))]
    small = None if flat is None else int(((flat > 0) & (flat < K)).sum())
    certified = undecided = None
    if small is not None:
        certified = small if certificate else small - len(places) if is_exact else 0
        undecided = small - len(places) - certified
    listed = np.arange(len(low))
    if len(low) > COMPLETE:
        listed = np.flatnonzero((low > 0) if flat is None else (flat > 0))
    labels = lattice.labels(lattice.base, listed)
    return JointReport(
        releases=_by_release(attack, low, high, flat),
        tables=_by_table(attack, proven, truth, K),
        threshold=K,
        cells_small=small,
        cells_disclosed=len(places),
        cells_exact=int((low[places] == high[places]).sum()),
        cells_certified=certified,
        cells_undecided=undecided,
        aggregates=int(sum(p.sum() for node, p in proven.items() if node != lattice.base)),
        certificate=certificate,
        exhausted=is_exact or certificate,
        ranges=pl.DataFrame([*labels, pl.Series("low", low[listed]), pl.Series("high", high[listed])]),
        worst=explain_jointly(attack, order, low[order], high[order], explanations),
        folder=tuple(f"{one.source.name}: {text}" for one in attack.placed for text in one.source.folder),
        notes=_notes(attack, bool(explanations)),
    )


def _truth(attack: JointAttack, stores: Sequence[Pair], words: Words) -> Any:
    """The true counts of the base, from the first store that is fine enough; all such stores must agree."""
    found, first = None, ""
    for store, source in stores:
        counts = truth_of(store, source, attack.lattice, words)
        if counts is None:
            continue
        if found is None:
            found, first = counts, source.name
        elif not (found == counts).all():
            raise InputError(
                f"{first} and {source.name} do not hold the same counts ({int((found != counts).sum()):,} cells "
                f"differ). Give the store that the releases were made from. If counts changed between waves, "
                f"say changed=N (--changed N) instead of unchanged, or leave out both."
            )
    return found


def _by_release(attack: JointAttack, low: IntArray, high: IntArray, truth: IntArray | None) -> pl.DataFrame:
    """For each release and its own threshold: how many base cells are small, and how many of them are proven."""
    rows = []
    for one in attack.placed:
        K = one.published.K
        proven = (low >= 1) & (high < K)
        rows.append(
            {
                "release": one.source.name,
                "method": one.source.method,
                "K": K,
                "cells": one.published.cells,
                "wave": one.source.population.wave,
                "tables": len(one.nodes),
                "finest": one.published.split,
                "small": None if truth is None else int(((truth > 0) & (truth < K)).sum()),
                "disclosed": int(proven.sum()),
                "exact": int((proven & (low == high)).sum()),
            }
        )
    return pl.DataFrame(rows, schema_overrides={"small": pl.Int64})


def _by_table(attack: JointAttack, proven: Mapping[Any, Any], truth: Any, K: int) -> pl.DataFrame:
    rows = []
    low, high = attack.block.kinds[0].low, attack.block.kinds[0].high
    for one in attack.placed:
        for node, common in one.nodes.items():
            table = table_of(one.source.design, node)
            true = None if truth is None else attack.summed(truth, common)
            rows.append(
                {
                    "release": one.source.name,
                    "table": table.name,
                    "level": "+".join(table.finest) or "all",
                    "small": None if true is None else int(((true > 0) & (true < K)).sum()),
                    "disclosed": int(proven[common].sum()),
                    "exact": int((proven[common] & (low[common] == high[common])).sum()),
                }
            )
    return pl.DataFrame(rows, schema_overrides={"small": pl.Int64})


def _notes(attack: JointAttack, explained: bool) -> tuple[str, ...]:
    """The notes for the reader: columns taken as unrelated, releases that repeat others, missing derivations."""
    notes = []
    for number in sorted(attack.repeats):
        notes.append(
            f"{attack.placed[number].source.name} holds sums of the published counts of another release, and tells "
            f"nothing more."
        )
    names = [one.source.name for one in attack.placed]
    own = [
        {number for number, used in enumerate(zip(*one.nodes.values(), strict=True)) if any(used)}
        for one in attack.placed
    ]
    for here, mine in enumerate(own):
        for there in range(here + 1, len(own)):
            only, other = mine - own[there], own[there] - mine
            if only and other:
                columns = [listing(attack.lattice.dimensions[d].columns[-1] for d in sorted(s)) for s in (only, other)]
                notes.append(
                    f"{columns[0]} of {names[here]} and {columns[1]} of {names[there]} were taken as different "
                    f"variables. If one is the other renamed, say rename= (--rename); if it is regrouped, regroup= "
                    f"(--regroup) too."
                )
    if explained and attack.block.events is None:
        notes.append(f"Derivations are given for up to {LARGEST:,} cells of all tables together; these have more.")
    return tuple(notes)
