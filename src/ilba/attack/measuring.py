"""What all attackers of a risk report share: the tables, what is proven and believed of them, and the rows so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack import attackers as named
from ilba.attack import posterior
from ilba.attack.attackers import Insight, Known
from ilba.attack.field import MethodTables
from ilba.attack.guessing import Guesses, Guessing, measured
from ilba.attack.intervals import Brought, Intervals, at
from ilba.attack.lattice import table_of
from ilba.attack.published import PublishedTables
from ilba.attack.scoring import Believed, TrueCells
from ilba.errors import some
from ilba.progress import Progress, within
from ilba.tables.finest import FinestTable

IntArray: TypeAlias = npt.NDArray[np.int64]

ROWS = {
    "attacker": pl.String, "knows": pl.String, "small": pl.Int64, "proven": pl.Int64, "exactly": pl.Int64,
    "certified": pl.Int64, "undecided": pl.Int64, "likely": pl.Int64, "likely_right": pl.Float64,
    "likely_share": pl.Float64, "likely_error": pl.Float64, "alone": pl.Int64, "alone_right": pl.Float64,
    "groups": pl.Int64, "people": pl.Int64, "bound": pl.Int64,
}  # fmt: skip
BIN_ROWS = {
    "attacker": pl.String, "event": pl.String, "cells": pl.Int64, "said": pl.Float64, "true": pl.Float64,
}  # fmt: skip
DETAIL = {"attacker": pl.String, "what": pl.String, "small": pl.Int64, "proven": pl.Int64, "exactly": pl.Int64}

_MOST = 8  # a single area may have this many times the measured cells
_TOO_LARGE = (
    "Probabilities are not measured: one area has too many cells with too many possible counts. Take fewer keys."
)
_NEEDS_FINEST = "Not measured: the finest table is not among these tables, or its large counts were allowed to move."
_AT_LEAST = "At least this is proven: the finest table is not among these tables."


@dataclass
class Measuring:
    """The state that attackers share, and the rows so far."""

    published: PublishedTables
    bound: int | None
    store: FinestTable | None
    most_cells: int
    progress: Progress | None
    noise: float
    """the share of small cells whose target was shifted by one"""
    rows: list[dict[str, Any]] = field(default_factory=list)
    bins: list[dict[str, Any]] = field(default_factory=list)
    detail: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    worst: list[Any] = field(default_factory=list)
    groups: pl.DataFrame = field(default_factory=pl.DataFrame)
    cells: pl.DataFrame = field(default_factory=pl.DataFrame)
    undecided: pl.DataFrame = field(default_factory=pl.DataFrame)
    sample: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._known: Known | None = None
        self._prior: posterior.Prior | None = None
        self.true = TrueCells.of(self.published)
        self.small = self.true.small
        self.given = self.bound
        stated = self.stated()
        if stated is not None and (reached := named.largest_error(self.published)) > stated:
            self.notes.append(
                f"the bound {stated} was not held: errors reach {reached}. Attackers who rely on a bound are measured "
                f"with {reached}."
            )
            self.bound = reached

    @property
    def areas(self) -> IntArray:
        """The areas for which probabilities are computed."""
        found = posterior.sampled_areas(self.published, self.most_cells)
        if len(found) < self.true.areas:
            self.sample = len(found), self.true.areas
        return found

    @property
    def known(self) -> Known:
        """What everybody can prove."""
        if self._known is None:
            self._known = Known.of(self.published, Brought(bound=self.stated()), within(self.progress, "proof"))
        return self._known

    def stated(self) -> int | None:
        """The bound of errors that everybody knows, if the tables are sums of masks."""
        return self.bound if self.published.policy.scheme == "sums" else None

    def row(self, name: str, knows: str, **values: Any) -> None:
        """Add a row of the table."""
        self.rows.append({"attacker": name, "knows": knows, "small": self.small, **values})

    def add_detail(self, name: str, what: str, found: Insight) -> None:
        """Add a row of the details."""
        proven = found.proven(self.published.K)
        self.detail.append(
            {"attacker": name, "what": what, "small": len(proven), "proven": int(proven.sum()),
             "exactly": int((proven & (found.low == found.high)).sum())}
        )  # fmt: skip

    @cached_property
    def guessing(self) -> Guessing | None:
        """The bets on the tables of another method; None for the audit's own methods."""
        if not isinstance(self.published, MethodTables):
            return None
        view = measured(self.published)
        most = Guessing.cells_to_follow(view)
        areas = posterior.sampled_areas(view, min(self.most_cells, most))
        if len(areas) * view.lattice.width(view.lattice.base) > _MOST * most:  # one area alone is too large
            self.notes.append(_TOO_LARGE)
            return None
        known = None
        if view.bounded:
            known = self.known if view is self.published else Known.of(view, Brought(), within(self.progress, "proof"))
        if view is not self.published:
            table, small = table_of(view.design, view.lattice.base).name, TrueCells.of(view).small
            cells = "cells" if small is None else some(small, "small cell")
            unseen = self.published.lattice.baseless
            self.notes.append(
                f"Probabilities are about the {cells} of the table {table!r}, and use only this table and its margins: "
                f"the refinement of all tables is not published. Somebody who uses all tables may believe more. "
                f"{'What is proven is not measured.' if unseen else 'What is proven is from all tables.'}"
            )
        found = Guessing(view, known, areas)
        everywhere = view.codes.lists[0].size(view.lattice.base[0])
        if len(areas) < everywhere:
            self.sample = len(areas), everywhere
        return found

    def bets(self, guesses: Guesses | None, name: str, proves: Callable[[], Known | Insight]) -> dict[str, Any]:
        """The figures of an attacker on the tables of another method: what is proven, and beliefs against the truth."""
        if guesses is None:
            self.without_chances()
            return {}
        believed = self.held(guesses)
        self.bins += believed.calibration(name)
        if name == "outsider":
            self.cells = believed.frame()
        return self.proven_by(proves) | believed.figures()

    def held(self, guesses: Guesses) -> Believed:
        """Hold guesses against the truth."""
        assert self.guessing is not None  # noqa: S101 - told to the type checker
        true = TrueCells.of(self.guessing.published)
        return Believed(true, guesses.packed, guesses.chance, guesses.counts, self.guessing.areas)

    def proven_by(self, proves: Callable[[], Known | Insight]) -> dict[str, Any]:
        """The number of finest cells that are proven small from all tables; empty if no finest cell is looked at."""
        if self.published.lattice.baseless:
            return {}
        if not self.published.bounded:  # numbers without a limit prove nothing
            return {"proven": 0, "exactly": 0}
        found = proves()
        proven = named.proven_small(found.low, found.high, self.published.K)
        return {"proven": int(proven.sum()), "exactly": int((proven & (found.low == found.high)).sum())}

    @cached_property
    def outside(self) -> Guesses | None:
        """What an outsider guesses from the tables of another method."""
        return None if self.guessing is None else self.guessing.outsider(within(self.progress, "outsider"))

    def without_chances(self) -> None:
        """Note why no probability is measured."""
        if self.guessing is not None and self.guessing.why_not not in self.notes:
            self.notes.append(self.guessing.why_not)

    def tell_least(self, name: str) -> None:
        """Note that what this attacker proves is a lower bound, if it is one."""
        if self.published.may_miss:
            self.notes.append(f"{name}: {_AT_LEAST}")

    def unmeasured(self, name: str) -> None:
        """Note that this attacker is not measured."""
        if _TOO_LARGE not in self.notes:
            self.notes.append(f"{name}: {_NEEDS_FINEST}")

    def fitted(self) -> posterior.Prior:
        """The probabilities of counts before the masks are seen."""
        if self._prior is None:
            self._prior = posterior.prior(self.published, self.areas)
        return self._prior

    def beliefs(self, known: Known, name: str) -> Believed:
        """The probabilities of each count, for an attacker who has proven `known`."""
        K, fitted, areas = self.published.K, self.fitted(), self.areas
        inside = np.isin(known.packed // self.true.width, areas)
        tables = None
        if len(areas) < self.true.areas:  # coarser areas enter only by what they proved
            tables = [node for node in known.view.lattice.nodes if node[0] == known.view.lattice.base[0]]
        cells = known.packed[inside], known.low[inside], known.high[inside]
        left = Intervals.of(known.view, cells, tables)
        log = posterior.with_masks(fitted.log(left.packed, K), left.at_k, K)
        chance = posterior.beliefs(left, log, within(self.progress, name))
        is_open = cells[1] < cells[2]
        everything = np.zeros((len(cells[0]), K + 1))
        everything[is_open] = chance
        everything[np.flatnonzero(~is_open), np.minimum(cells[1][~is_open], K)] = 1
        return Believed(self.true, cells[0], everything, at(self.true.packed, self.true.counts, cells[0]), areas)
