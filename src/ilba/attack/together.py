"""The joint audit: what everybody can prove who has several releases of the same people.

Sound, not complete: what is called disclosed is proven, if the releases count the same people. What is neither
disclosed nor certified is undecided.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.explanations import LARGEST
from ilba.attack.joint import JointAttack, explain_jointly
from ilba.attack.joint_verdict import JointReport
from ilba.attack.lattice import table_of
from ilba.attack.refinement import Joined, Placed, Words, refine, truth_of
from ilba.errors import InputError, listing
from ilba.progress import Progress, within
from ilba.release import Release
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store

IntArray: TypeAlias = npt.NDArray[np.int64]
Path_: TypeAlias = str | os.PathLike[str]
Given: TypeAlias = Release | FinestTable | Path_

COMPLETE = 2**21
"""up to so many cells `ranges` lists all of them"""


def audit_together(
    given: Sequence[Given],
    stores: Sequence[FinestTable | Path_] = (),
    *,
    unchanged: bool = False,
    rename: Mapping[str, str] | None = None,
    regroup: Mapping[str, Any] | None = None,
    explanations: int = 10,
    progress: Progress | None = None,
) -> JointReport:
    """Audit several releases; `ilba.audit` says what the arguments are."""
    start = time.perf_counter()
    if not given:
        raise InputError("audit() was given no release. Give at least one.")
    words = Words.of(rename, regroup)
    tables = [open_store(path) if isinstance(path, str | os.PathLike) else path for path in stores]
    for table in tables:
        if not isinstance(table, FinestTable):
            raise InputError(f"stores= holds a {type(table).__name__}; give stores in memory or their paths.")
    lists = [Joined.of_store(table, f"store {number}") for number, table in enumerate(tables, 1)]
    opened = [Release(one) if isinstance(one, str | os.PathLike) else one for one in given]
    releases = []
    for one, name in zip(opened, _names(opened), strict=True):
        if isinstance(one, Release):
            releases.append(Joined.of_release(one, name, lists))
        elif isinstance(one, FinestTable):
            releases.append(Joined.of_store(one, name, published=True))
            tables.append(one)
            lists.append(Joined.of_store(one, name))
        else:
            raise InputError(f"audit() takes releases together, or finest tables, not a {type(one).__name__}.")
    _one_population(releases)
    waves = list(dict.fromkeys(one.population.wave for one in releases))
    groups = (
        [releases] if unchanged or len(waves) == 1 else [[r for r in releases if r.population.wave == w] for w in waves]
    )
    reports = []
    for group in groups:
        wave = group[0].population.wave
        fitting = [
            pair
            for pair in zip(tables, lists, strict=True)
            if len(groups) == 1 or pair[1].population.wave in ("", wave)
        ]
        part = within(progress, f"wave {wave}") if len(groups) > 1 else progress
        reports.append(_audit(group, fitting, words, explanations, part))
    assumed = ["the releases count the same people"]
    if len(waves) > 1:
        named = listing(waves)
        assumed = (
            [f"no count changed between the waves {named}"]
            if unchanged
            else [f"nothing: any count may have changed between the waves {named}, so each wave is audited by itself"]
        )
    return JointReport.of(reports, tuple(assumed), time.perf_counter() - start)


def _names(opened: Sequence[Any]) -> list[str]:
    """A short name for each release: its folder, and the folder above it where two have the same."""
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
            f"{a} is of the population {first!r} and {b} of {second!r}: nothing follows from one for the other. Audit "
            f"each by itself."
        )


def _audit(
    releases: Sequence[Joined],
    stores: Sequence[tuple[FinestTable, Joined]],
    words: Words,
    explanations: int,
    progress: Progress | None,
) -> JointReport:
    """The audit of releases whose cells have the same counts."""
    dimensions = refine(releases, [source for _, source in stores], words)
    placed = [Placed(one, dimensions, words) for one in releases]
    attack = JointAttack(placed, record=explanations > 0)
    truth = _truth(attack, stores, words)
    if truth is not None:
        attack.check(truth)
    attack.run(progress)
    lattice, bounds = attack.lattice, attack.block.kinds[0]
    K = max(one.published.K for one in placed)
    proven = {}
    for node in lattice.nodes:
        low, high = bounds.low[node], bounds.high[node]
        proven[node] = (low >= 1) & (high < K)
        if truth is not None:
            true = attack.summed(truth, node)
            if (true < low).any() or (true > high).any():
                raise AssertionError("the attack excluded the truth. This is a mistake in ilba: please report it.")
    low, high = (side[lattice.base].reshape(-1) for side in (bounds.low, bounds.high))
    flat = None if truth is None else truth.reshape(-1)
    places = np.flatnonzero(proven[lattice.base])
    # The worst first: what is known most exactly, and of that the smallest counts.
    order = places[np.lexsort((places, high[places], high[places] - low[places]))]
    small = None if flat is None else int(((flat > 0) & (flat < K)).sum())
    certificate = attack.certificate
    certified = undecided = None
    if small is not None:
        certified = small if certificate else small - len(places) if attack.exact else 0
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
        exhausted=attack.exact or certificate,
        ranges=pl.DataFrame([*labels, pl.Series("low", low[listed]), pl.Series("high", high[listed])]),
        worst=explain_jointly(attack, order, low[order], high[order], explanations),
        folder=tuple(f"{one.name}: {text}" for one in releases for text in one.folder),
        notes=_notes(attack, bool(explanations)),
    )


def _truth(attack: JointAttack, stores: Sequence[tuple[FinestTable, Joined]], words: Words) -> Any:
    """The true counts of the base from the first store that tells its cells apart; all such stores must agree."""
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
                f"differ). Give the store that the releases were made from."
            )
    return found


def _by_release(attack: JointAttack, low: IntArray, high: IntArray, truth: IntArray | None) -> pl.DataFrame:
    """Each release with its own threshold: how many cells of the base are small by it, and how many of them proven."""
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
    """What the reader has to know: columns taken for unrelated, releases that repeat others, no derivations."""
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
                    f"{columns[0]} of {names[here]} and {columns[1]} of {names[there]} were taken for different "
                    f"variables. If one is the other renamed, say rename= (--rename); if it is regrouped, regroup= "
                    f"(--regroup) too."
                )
    if explained and attack.block.events is None:
        notes.append(f"Derivations are given for up to {LARGEST:,} cells of all tables together; here are more.")
    return tuple(notes)
