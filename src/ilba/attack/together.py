"""The joint audit: what anybody can prove who has several releases of the same people.

The audit is sound, not complete: if the releases count the same people, every disclosed cell is proven small. Cells
that are neither disclosed nor certified are undecided.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
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
    lists = [Joined.of_store(table, f"store {number}") for number, table in enumerate(tables, 1)]
    opened = [Release(one) if isinstance(one, str | os.PathLike) else one for one in given]
    releases = []
    for one, name in zip(opened, _names(opened), strict=True):
        if isinstance(one, Release | FinestTable):
            _require_policy(one, name)
        if isinstance(one, Release):
            releases.append(Joined.of_release(one, name, lists))
        elif isinstance(one, FinestTable):
            releases.append(Joined.of_store(one, name, published=True))
            tables.append(one)
            lists.append(Joined.of_store(one, name))
        else:
            raise InputError(f"audit() takes a list of releases or finest tables, not a {type(one).__name__}.")
    _one_population(releases)
    noun = "waves"
    if changed is not None and len(releases) > 1 and len({one.population.wave for one in releases}) == 1:
        releases, lists = _apart(releases, lists)
        noun = "releases"
    waves = list(dict.fromkeys(one.population.wave for one in releases))
    groups = [releases] if unchanged else [[one for one in releases if one.population.wave == w] for w in waves]
    fitting = [
        [
            pair
            for pair in zip(tables, lists, strict=True)
            if len(groups) == 1 or pair[1].population.wave in ("", group[0].population.wave)
        ]
        for group in groups
    ]
    if changed is not None and len(groups) > 1:
        reports = _audit_waves(groups, fitting, words, explanations, progress, changed)
    else:
        reports = []
        for group, pairs in zip(groups, fitting, strict=True):
            part = within(progress, f"wave {group[0].population.wave}") if len(groups) > 1 else progress
            reports.append(_audit(group, pairs, words, explanations, part))
    assumed = ["the releases count the same people"]
    if len(waves) > 1:
        named = listing(waves)
        assumed = (
            [f"no count changed between the waves {named}"]
            if unchanged
            else [f"no count of any table changed by more than {changed} between any two of the {noun} {named}"]
            if changed is not None
            else [f"nothing: any count may have changed between the waves {named}, so each wave is audited by itself"]
        )
    return JointReport.of(reports, tuple(assumed), time.perf_counter() - start)


def _apart(releases: Sequence[Joined], stores: Sequence[Joined]) -> tuple[list[Joined], list[Joined]]:
    """Releases of one wave as waves of their own, such as a wave and its correction; each store is of one of them."""
    if len(stores) not in (0, len(releases)):
        raise InputError(
            "these releases are of one wave, and changed= (--changed) says that their counts differ: give one store "
            "for each of them, in the same order, or none."
        )
    of = [Population(one.population.name or "p", one.name) for one in releases]
    renamed = [
        [replace(one, population=own) for one, own in zip(group, of, strict=False)] for group in (releases, stores)
    ]
    return renamed[0], renamed[1]


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

    releases: Sequence[Joined]
    attack: JointAttack
    truth: Any

    @classmethod
    def of(
        cls,
        releases: Sequence[Joined],
        stores: Sequence[tuple[FinestTable, Joined]],
        dimensions: Any,
        words: Words,
        explanations: int,
    ) -> _Wave:
        attack = JointAttack([Placed(one, dimensions, words) for one in releases], record=explanations > 0)
        truth = _truth(attack, stores, words)
        if truth is not None:
            attack.check(truth)
        return cls(releases, attack, truth)


def _audit(
    releases: Sequence[Joined],
    stores: Sequence[tuple[FinestTable, Joined]],
    words: Words,
    explanations: int,
    progress: Progress | None,
) -> JointReport:
    """Audit releases of the same counts."""
    wave = _Wave.of(releases, stores, refine(releases, [source for _, source in stores], words), words, explanations)
    wave.attack.run(progress)
    certificate = wave.attack.is_one_of_sums or wave.attack.world is not None
    return _told(wave, explanations, certificate, wave.attack.exact)


def _audit_waves(
    groups: Sequence[Sequence[Joined]],
    stores: Sequence[Sequence[tuple[FinestTable, Joined]]],
    words: Words,
    explanations: int,
    progress: Progress | None,
    changed: int,
) -> list[JointReport]:
    """Audit several waves between which no count of any table changed by more than `changed`."""
    sources = list({source.name: source for pairs in stores for _, source in pairs}.values())
    dimensions = refine([one for group in groups for one in group], sources, words)
    waves = [
        _Wave.of(group, pairs, dimensions, words, explanations) for group, pairs in zip(groups, stores, strict=True)
    ]
    pairs = list(itertools.combinations(waves, 2))
    for one, other in pairs:
        if one.truth is not None and other.truth is not None:
            largest = one.attack.apart(other.attack, one.truth, other.truth)
            if largest > changed:
                raise InputError(
                    f"by the stores a count changed by {largest:,} between the waves, so changed={changed} does not "
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
        one.apart(other, mine, theirs) <= changed for (one, mine), (other, theirs) in itertools.combinations(worlds, 2)
    )
    return [_told(wave, explanations, possible, False) for wave in waves]


def _told(wave: _Wave, explanations: int, certificate: bool, is_exact: bool) -> JointReport:
    """The report on one wave."""
    releases, attack, truth = wave.releases, wave.attack, wave.truth
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
        folder=tuple(f"{one.name}: {text}" for one in releases for text in one.folder),
        notes=_notes(attack, bool(explanations)),
    )


def _truth(attack: JointAttack, stores: Sequence[tuple[FinestTable, Joined]], words: Words) -> Any:
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
