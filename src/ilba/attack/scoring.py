"""Beliefs compared with the truth: how many bets an attacker takes, how many are right, and how well calibrated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.attackers import frame_of
from ilba.attack.published import PublishedTables

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

SURE = 0.95
"""an attacker bets on a belief above this"""
_BINS = (0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0001)


class TrueCells(NamedTuple):
    """The true counts of the finest cells, if known, and what is needed to find their areas."""

    published: PublishedTables
    packed: IntArray
    counts: IntArray
    known: bool

    @classmethod
    def of(cls, published: PublishedTables) -> TrueCells:
        """Take them from the rows of the finest table."""
        rows = published.base
        if rows is None or rows.truth is None:
            return cls(published, np.zeros(0, np.int64), np.zeros(0, np.int64), False)
        return cls(published, rows.packed, rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large, True)

    @property
    def small(self) -> int | None:
        """The number of cells in 1..K-1."""
        return int(((self.counts > 0) & (self.counts < self.published.K)).sum()) if self.known else None

    @property
    def areas(self) -> int:
        """The number of finest areas."""
        return self.published.codes.lists[0].size(self.published.lattice.base[0])

    @property
    def width(self) -> int:
        """The number of cells of one area."""
        return self.published.lattice.width(self.published.lattice.base)


@dataclass
class Believed:
    """Probabilities of cells, to be compared with the truth."""

    true: TrueCells
    packed: IntArray
    chance: FloatArray
    counts: IntArray
    areas: IntArray

    @property
    def small(self) -> FloatArray:
        """How likely each cell is to lie in 1..K-1."""
        return np.asarray(self.chance[:, 1:-1].sum(axis=1))

    @property
    def alone(self) -> FloatArray:
        """How likely each cell is to hold exactly one person."""
        return np.asarray(self.chance[:, 1])

    def figures(self) -> dict[str, Any]:
        """The number of bets and how many are right; a sample is scaled up."""
        K, known = self.true.published.K, self.true.known
        truly, one = (self.counts > 0) & (self.counts < K), self.counts == 1
        sure, sure_one = self.small > SURE, self.alone > SURE
        width = self.true.width
        area = np.searchsorted(self.areas, self.packed // width)
        base = self.true.packed
        inside = np.isin(base // width, self.areas)
        is_small = (self.true.counts > 0) & (self.true.counts < K) & inside
        by_area = np.bincount(np.searchsorted(self.areas, base[is_small] // width), minlength=len(self.areas))
        hits = np.bincount(area[sure & truly], minlength=len(self.areas))
        scale = self.true.areas / max(len(self.areas), 1)
        total = int(by_area.sum())
        share = float(hits.sum() / total) if known and total else None
        error = None
        if share is not None and scale > 1 and len(self.areas) > 1:  # standard error of a ratio between areas
            off = hits - share * by_area
            error = float(np.sqrt((1 - 1 / scale) * (off**2).sum() / (len(self.areas) - 1) * len(self.areas)) / total)
        return {
            "likely": round(int(sure.sum()) * scale),
            "likely_right": float(truly[sure].mean()) if known and sure.any() else None,
            "likely_share": share,
            "likely_error": error,
            "alone": round(int(sure_one.sum()) * scale),
            "alone_right": float(one[sure_one].mean()) if known and sure_one.any() else None,
        }

    def calibration(self, name: str, people: bool = False) -> list[dict[str, Any]]:
        """Stated probabilities against true shares, by bins; for cells, or for the people in them."""
        if not self.true.known:
            return []
        K, rows = self.true.published.K, []
        weight = self.counts if people else np.ones(len(self.counts))
        truly, one = (self.counts > 0) & (self.counts < K), self.counts == 1
        for event, said, true in (("1..K-1", self.small, truly), ("exactly 1", self.alone, one)):
            for low, high in itertools.pairwise(_BINS):
                inside = (said >= low) & (said < high) & (weight > 0)
                if inside.any():
                    share = weight[inside] / weight[inside].sum()
                    rows.append(
                        {"attacker": name, "event": event, "cells": int(inside.sum()),
                         "said": float(said[inside] @ share), "true": float(true[inside] @ share)}
                    )  # fmt: skip
        return rows

    def frame(self) -> pl.DataFrame:
        """Labels with probabilities, the likeliest small cells first."""
        shown = np.flatnonzero(self.small > 0.01)
        shown = shown[np.argsort(-self.small[shown], kind="stable")]
        values = {"small": self.small[shown], "one": self.alone[shown]}
        return frame_of(self.true.published, self.packed[shown], **values)
