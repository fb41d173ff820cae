"""Random designs of a few cells, and every truth that fits what was released of them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import polars as pl

from ilba import FinestTable
from ilba.attack.lattice import table_of
from ilba.design.tables import selections
from ilba.methods import masking

AREAS = [
    (["town"], [("t0",), ("t1",)]),
    (["town"], [("t0",), ("t1",), ("t2",)]),
    (["region", "town"], [("r0", "t0"), ("r0", "t1")]),
    (["region", "town"], [("r0", "t0"), ("r0", "t1"), ("r1", "t2")]),
]
MOST = 400_000
"""worlds of a design that are tried"""


class Toy:
    """A random design: counts, masks, released tables, and all truths that fit."""

    def __init__(self, seed: int, with_finest: bool) -> None:
        rng = random.Random(seed)
        self.K = rng.choice([3, 3, 5])
        while True:
            hkey, areas = rng.choice(AREAS)
            keys = [rng.choice([2, 2, 3]) for _ in range(rng.choice([1, 1, 2]))]
            codes = itertools.product(*[[f"c{j}" for j in range(size)] for size in keys])
            cells = [(*area, *code) for area, code in itertools.product(areas, codes)]
            if (with_finest and self.K ** len(cells) <= MOST) or (not with_finest and len(cells) <= 4):
                break
        K, n = self.K, len(cells)
        self.reading = rng.choice(["observed", "grid"])
        top, empty = rng.choice([K - 1, K, K + 2]), 0.7 * rng.random()
        self.x = np.array([0 if rng.random() < empty else rng.randint(1, top) for _ in cells])
        if not self.x.any():
            self.x[0] = 1
        self.t = np.array([v if v >= K or v == 0 else (K if rng.random() < v / K else 0) for v in self.x])
        names = [f"k{i}" for i in range(len(keys))]
        frame = pl.DataFrame(cells, schema=[*hkey, *names], orient="row")
        frame = frame.with_columns(N=pl.Series(self.x), N_masked=pl.Series(self.t))
        self.finest = FinestTable.from_counts(frame, hkey, names, K, cells=self.reading)
        found = {s.name: s for s in selections(self.finest.design)}
        whole = max(found.values(), key=lambda s: len(s.columns)).name
        others = [name for name in found if name != whole]
        self.tables = rng.sample(others, rng.randint(1, len(others))) + ([whole] if with_finest else [])
        self.columns, self.cells = [*hkey, *names], cells
        self.groups, self.values, self.owner = [], [], []
        for name in self.tables:
            for group in self.members(found[name]):
                self.groups.append(group)
                self.owner.append(name)
                self.values.append(int(self._released(self.x[None], self.t[None], group)[0]))
        self.masks = self.t if with_finest else None
        self.largest = np.full(n, max(self.values) + 2 * K)
        for group, value in zip(self.groups, self.values, strict=True):
            self.largest[group] = np.minimum(self.largest[group], value + 2 * K)

    def _released(self, x, t, group):
        K = self.K
        x, t = x[:, group], t[:, group]
        small = x <= K
        counted = small if self.reading == "grid" else small & (x > 0)
        parts = counted.sum(1), (counted & (t == K) & (x > 0)).sum(1), np.where(small, x, 0).sum(1)
        return np.where(small, 0, x).sum(1) + masking.ilba(*parts, K).sum_masked

    def every(self):
        """All counts and masks that the masks, where they are known, and the largest counts allow."""
        K, options = self.K, []
        for i, most in enumerate(self.largest):
            if self.masks is None:
                every = [(0, 0)] + [(v, w) for v in range(1, most + 1) for w in ((v,) if v >= K else (0, K))]
            else:
                t = self.masks[i]
                own = range(K) if t == 0 else range(1, K + 1) if t == K else [t]
                every = [(v, t) for v in own]
            options.append(np.array(every))
        if np.prod([float(len(o)) for o in options]) > 3 * MOST:
            return None
        index = np.stack(np.meshgrid(*[np.arange(len(o)) for o in options], indexing="ij"), -1)
        index = index.reshape(-1, len(options))
        x = np.stack([o[index[:, i], 0] for i, o in enumerate(options)], 1)
        t = np.stack([o[index[:, i], 1] for i, o in enumerate(options)], 1)
        return x, t

    def worlds(self):
        """All truths that fit; None where they are too many to try."""
        every = self.every()
        if every is None:
            return None
        x, t = every
        for group, value in zip(self.groups, self.values, strict=True):
            fits = self._released(x, t, group) == value
            x, t = x[fits], t[fits]
        return x

    @property
    def sets(self):
        """Each cell by itself, then each aggregate."""
        return [[i] for i in range(len(self.x))] + self.groups

    def provable(self, worlds):
        """Which of the sets lie in 1..K-1 in every world."""
        sums = [worlds[:, group].sum(1) for group in self.sets]
        return np.array([bool(((total >= 1) & (total < self.K)).all()) for total in sums])

    def verdicts(self, report, worlds):
        """Of the finest cells that are told apart, and of each table: small, provable, and what a report says."""
        base = table_of(report.published.design, report.published.lattice.base)
        said = report.cells_small, report.cells_disclosed, report.cells_certified
        yield "cells", *self._counted(self.members(base), worlds), *said
        for row in report.tables.iter_rows(named=True):
            groups = [group for group, owner in zip(self.groups, self.owner, strict=True) if owner == row["table"]]
            yield row["table"], *self._counted(groups, worlds), row["small"], row["disclosed"], row["certified"]

    def members(self, selection):
        places = [self.columns.index(column) for column in selection.columns]
        members: dict[tuple[str, ...], list[int]] = {}
        for i, cell in enumerate(self.cells):
            members.setdefault(tuple(cell[j] for j in places), []).append(i)
        return list(members.values())

    def _counted(self, groups, worlds):
        small = [group for group in groups if 0 < self.x[group].sum() < self.K]
        sums = [worlds[:, group].sum(1) for group in small]
        return len(small), sum(bool(((total >= 1) & (total < self.K)).all()) for total in sums)

    def wrong(self, report, worlds):
        """What a report says that trying every truth does not bear out."""
        return [
            line
            for line in self.verdicts(report, worlds)
            if line[3] != line[1] or line[4] > line[2] or line[5] > line[1] - line[2]
        ]

    def missed(self, report, worlds):
        """How many provable counts a report does not call proven, and how many others it does not certify."""
        lines = list(self.verdicts(report, worlds))
        return sum(line[2] - line[4] for line in lines), sum(line[1] - line[2] - line[5] for line in lines)
