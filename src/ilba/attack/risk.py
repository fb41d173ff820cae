"""Risk: what named attackers learn from a release, by proof, by probability and with outside knowledge.

`audit` proves. `risk` also measures what an attacker can guess without proof, and what one with outside knowledge can
derive. Everything is confidential: it is compared with the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack import attackers as named
from ilba.attack import posterior
from ilba.attack.attackers import KNOWS, Attacker, Insider, Insight, Known, Register
from ilba.attack.attributes import groups
from ilba.attack.audit import audit, not_opened, released, tables_by, tell_if_unpublished
from ilba.attack.field import MethodTables
from ilba.attack.guessing import Guesses, Guessing, measured, proven_by_insider
from ilba.attack.insiders import Missing, everybody_but
from ilba.attack.intervals import AttackerView, Brought, Intervals, at
from ilba.attack.lattice import table_of
from ilba.attack.masknumbers import MaskNumbers
from ilba.attack.published import PublishedTables
from ilba.attack.riskreport import RiskReport
from ilba.attack.scoring import Believed, TrueCells
from ilba.attack.verdict import UNSEEN
from ilba.design.design import Level, Names, Selection
from ilba.design.tables import Tables, planned_tables, wanted_tables
from ilba.errors import IlbaError, InputError, listing, some, suggesting
from ilba.methods.controlled.search import declared_bound, working_bound
from ilba.methods.method import Method
from ilba.progress import Progress, within
from ilba.release import Release
from ilba.release.chapter import is_later, kept_masks
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

ALL = ("proof", "outsider", "neighbour", "insider", "attribute")
CELLS = 2_000_000
"""the most finest cells for which probabilities are computed; for a larger design a sample of areas is used"""
_MOST = 8  # a single area may have this many times the measured cells
_TOO_LARGE = (
    "Probabilities are not measured: one area has too many cells with too many possible counts. Take fewer keys."
)
_NEEDS_FINEST = "Not measured: the finest table is not among these tables, or its large counts were allowed to move."


@suggesting
def risk(
    finest: AnyFinestTable | Release | PublishedTables,
    attackers: Attacker | Iterable[Attacker] = ALL,
    tables: Tables = "all",
    *,
    method: Method | str | None = None,
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    plan: Tables = "all",
    bound: int | None = None,
    store: AnyFinestTable | None = None,
    cells: int = CELLS,
    examples: int = 5,
    solver_seconds: float = 0.0,
    progress: Progress | None = None,
) -> RiskReport:
    """Measure what named attackers would learn if these tables were released together.

    Parameters
    ----------
    finest : FinestTable, Release or PublishedTables
        The counts and masks, or what was released.
    attackers : str, Register, Insider or iterable of them
        "proof", "outsider", "neighbour", "insider" or `Insider(unknown=...)`, `Register({...})`, "attribute". By
        default, all attackers that need no outside data.
    tables : str or iterable of str, default "all"
        "all", restricted by `levels`, `keys` and `max_keys`; or names of tables such as "LA3.gender", or selections.
    method : Method or str, optional
        How the tables are made, as in `audit`. By default, as this finest table makes them: `finest.published()` makes
        them as they were published. A release takes only its own method, and needs it if it was made with a p-table.
    levels : iterable of int, str or dict, optional
        Only tables at these levels, each given as in `table`. By default, all levels, including 0.
    keys : str or sequence of str, optional
        Only tables by subsets of these keys. By default, all keys.
    max_keys : int, optional
        The largest number of keys in a table. By default, any number.
    plan : str or iterable of str, default "all"
        With "controlled": the tables for which masks are chosen, as in `release`. By default all tables, also those
        that are not among `tables`.
    bound : int, optional
        The largest error of controlled sums that attackers know. By default, the bound that the release states. If it
        does not hold in these tables, the largest error replaces it, and a note says so. Without a bound, an insider
        relies on the usual one, or where that does not hold on 3K-2, or where neither holds on none.
    store : FinestTable, optional
        With a release: the store it was made from. Without it, nothing can be compared with the truth.
    cells : int, default 2,000,000
        Probabilities are computed for all finest cells up to this number, otherwise for a sample of areas.
    examples : int, default 5
        The number of proven cells to explain.
    solver_seconds : float, default 0
        How long to ask an exact solver about the cells that the proof leaves open, in seconds of processor time. It
        needs the extra `solver`.
    progress : callable, optional
        Called with each `ProgressStep`.

    Returns
    -------
    RiskReport
        A row for each attacker, with details. Confidential.

    Raises
    ------
    InputError
        An attacker is unknown or lacks tables, or needs the truth but no store was given.

    Examples
    --------
    >>> import polars as pl
    >>> counts = pl.DataFrame({"town": ["a", "a"], "sex": [1, 2], "N": [2, 3], "N_masked": [0, 0]})
    >>> report = risk(FinestTable.from_counts(counts, hkey=["town"]), attackers=["proof", "insider"])
    >>> report.rows.select("attacker", "small", "proven").rows()
    [('proof', 2, 2), ('insider', 2, 2)]
    """
    start = time.perf_counter()
    chosen = named.checked(attackers)
    tell_if_unpublished(finest, method)
    given_store = finest if isinstance(finest, FinestTable) else store if isinstance(store, FinestTable) else None
    if isinstance(finest, Release):
        stated, noise = finest.manifest.get("bound"), finest.noise
        published = released(finest, store, method)
    elif isinstance(finest, PublishedTables):
        stated, noise, published = None, 0.0, finest
    elif isinstance(finest, AnyFinestTable):
        wanted = wanted_tables(finest.design, tables, levels, keys, max_keys)
        if method == "controlled" and not finest.chosen:
            from ilba.attack.choosing import masked_jointly  # it imports this module

            if isinstance(finest, FinestTable):
                finest = masked_jointly(finest, planned_tables(finest.design, plan, wanted), progress)
            else:
                finest = finest.controlled(planned_tables(finest.design, plan, wanted), **kept_masks(finest, None))
        stated, noise = None, finest.noise
        published = tables_by(method or finest.by or finest.method, finest, wanted)
    else:
        raise not_opened("risk", finest)
    work = _Work(published, bound if bound is not None else stated, given_store, cells, progress, noise)
    for one in chosen:
        work.measure(one, examples, solver_seconds)
    return RiskReport(
        published=published,
        rows=pl.DataFrame(work.rows, schema=_ROWS),
        calibration=pl.DataFrame(work.bins, schema=_BIN_ROWS),
        detail=pl.DataFrame(work.detail, schema=_DETAIL),
        groups=work.groups,
        worst=work.worst,
        cells=work.cells,
        undecided=work.ranked(),
        notes=work.notes,
        sample=work.sample,
        seconds=time.perf_counter() - start,
    )


_ROWS = {
    "attacker": pl.String, "knows": pl.String, "small": pl.Int64, "proven": pl.Int64, "exactly": pl.Int64,
    "certified": pl.Int64, "undecided": pl.Int64, "likely": pl.Int64, "likely_right": pl.Float64,
    "likely_share": pl.Float64, "likely_error": pl.Float64, "alone": pl.Int64, "alone_right": pl.Float64,
    "groups": pl.Int64, "people": pl.Int64, "bound": pl.Int64,
}  # fmt: skip
_BIN_ROWS = {
    "attacker": pl.String, "event": pl.String, "cells": pl.Int64, "said": pl.Float64, "true": pl.Float64,
}  # fmt: skip
_DETAIL = {"attacker": pl.String, "what": pl.String, "small": pl.Int64, "proven": pl.Int64, "exactly": pl.Int64}


@dataclass
class _Work:
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
        self._believed: Believed | None = None
        self.true = TrueCells.of(self.published)
        self.small = self.true.small
        self.given = self.bound
        stated = self._stated()
        if stated is not None and (reached := named.largest_error(self.published)) > stated:
            self.notes.append(
                f"bound {stated} not held, {reached} reached: who relies on a bound is measured with {reached}."
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
            self._known = Known.of(self.published, Brought(bound=self._stated()), within(self.progress, "proof"))
        return self._known

    def _stated(self) -> int | None:
        return self.bound if self.published.policy.scheme == "sums" else None

    def measure(self, one: Attacker, examples: int, seconds: float) -> None:
        """Add the rows of one attacker."""
        if isinstance(one, Register):
            self._register(one)
        elif isinstance(one, Insider) or one == "insider":
            self._insider(one if isinstance(one, Insider) else Insider())
        elif one == "proof":
            self._proof(examples, seconds)
        elif one == "attribute":
            self._attribute()
        elif one == "outsider":
            self._outsider()
        else:
            self._neighbour()

    def row(self, name: str, knows: str, **values: Any) -> None:
        """Add a row of the table."""
        self.rows.append({**dict.fromkeys(_ROWS), "attacker": name, "knows": knows, "small": self.small, **values})

    def ranked(self) -> pl.DataFrame:
        """The cells that the proof left undecided, ranked by the outsider's belief that they are small."""
        about_others = not set(self.undecided.columns) <= set(self.cells.columns)  # the beliefs are about one table
        if self.undecided.is_empty() or self.cells.is_empty() or about_others:
            return self.undecided
        return self.undecided.join(self.cells, on=self.undecided.columns, how="left").sort(
            "small", descending=True, nulls_last=True, maintain_order=True
        )

    def _proof(self, examples: int, seconds: float) -> None:
        report = audit(
            self.published,
            explanations=examples,
            progress=within(self.progress, "proof"),
            solver_seconds=seconds,
        )
        self.worst, self.undecided = report.worst, report.undecided
        if report.why_undecided:
            self.notes.append(f"proof: {report.why_undecided}")
        if report.aggregates and not report.cells_disclosed:
            self.notes.append(f"proof: {report.aggregates:,} counts of coarser tables are proven small: see `audit`.")
        self.row(
            "proof",
            KNOWS["proof"],
            proven=None if report.unseen else report.cells_disclosed,
            exactly=None if report.unseen else report.cells_exact,
            certified=report.cells_certified,
            undecided=report.cells_undecided,
        )
        for line in report.tables.iter_rows(named=True):
            if line["disclosed"]:
                self.detail.append(
                    {"attacker": "proof", "what": line["table"], "small": line["small"],
                     "proven": line["disclosed"], "exactly": line["exact"]}
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
                f"the refinement of all tables is not published. Who uses all tables may believe more. "
                f"{'What is proven is not measured.' if unseen else 'What is proven is from all tables.'}"
            )
        found = Guessing(view, known, areas)
        everywhere = view.codes.lists[0].size(view.lattice.base[0])
        if len(areas) < everywhere:
            self.sample = len(areas), everywhere
        return found

    def _bets(self, guesses: Guesses | None, name: str, proves: Callable[[], Known | Insight]) -> dict[str, Any]:
        """The figures of an attacker on the tables of another method: what is proven, and beliefs against the truth."""
        if guesses is None or self.guessing is None:
            self._without_chances()
            return {}
        believed = self._held(guesses)
        self.bins += believed.calibration(name)
        if name == "outsider":
            self.cells = believed.frame()
        return self._proven_by(proves) | believed.figures()

    def _held(self, guesses: Guesses) -> Believed:
        assert self.guessing is not None  # noqa: S101 - told to the type checker
        true = TrueCells.of(self.guessing.published)
        return Believed(true, guesses.packed, guesses.chance, guesses.counts, self.guessing.areas)

    def _proven_by(self, proves: Callable[[], Known | Insight]) -> dict[str, Any]:
        """The number of finest cells that are proven small from all tables; empty if no finest cell is looked at."""
        if self.published.lattice.baseless:
            return {}
        if not self.published.bounded:  # numbers without a limit prove nothing
            return {"proven": 0, "exactly": 0}
        found = proves()
        proven = named.proven_small(found.low, found.high, self.published.K)
        return {"proven": int(proven.sum()), "exactly": int((proven & (found.low == found.high)).sum())}

    @cached_property
    def _outside(self) -> Guesses | None:
        return None if self.guessing is None else self.guessing.outsider(within(self.progress, "outsider"))

    def _without_chances(self) -> None:
        if self.guessing is not None and self.guessing.why_not not in self.notes:
            self.notes.append(self.guessing.why_not)

    def _unmeasured(self, name: str) -> None:
        if _TOO_LARGE not in self.notes:
            self.notes.append(f"{name}: {_NEEDS_FINEST}")

    def _outsider_of_field(self, guessing: Guessing) -> None:
        self.row("outsider", KNOWS["outsider"], **self._bets(self._outside, "outsider", lambda: self.known))
        if self._outside is None:
            return
        own = posterior.coarse_only(guessing.published, guessing.fitted, guessing.packed)
        coarse = self._held(self._outside._replace(chance=own))
        name = "outsider, coarse tables"
        self.row(name, "has only coarse tables: the baseline of the outsider", **coarse.figures())
        self.bins += coarse.calibration(name)

    def _outsider(self) -> None:
        if self.guessing is not None:
            self._outsider_of_field(self.guessing)
            return
        if not self.published.split:
            self.row("outsider", KNOWS["outsider"])
            self._unmeasured("outsider")
            return
        believed = self._beliefs(self.known, "outsider")
        self._believed = believed
        known = self.known
        self.row(
            "outsider",
            KNOWS["outsider"],
            proven=int(known.proven.sum()),
            exactly=int(known.exactly.sum()),
            **believed.figures(),
        )
        self.bins += believed.calibration("outsider")
        self.cells = believed.frame()
        fitted = self._fitted()
        own = posterior.coarse_only(self.published, fitted, believed.packed)
        coarse = Believed(self.true, believed.packed, own, believed.counts, believed.areas)
        self.row("outsider, coarse tables", "has only coarse tables: the baseline of the outsider", **coarse.figures())
        self.bins += coarse.calibration("outsider, coarse tables")

    def _fitted(self) -> posterior.Prior:
        if self._prior is None:
            self._prior = posterior.prior(self.published, self.areas)
        return self._prior

    def _beliefs(self, known: Known, name: str) -> Believed:
        """The probabilities of each count, for an attacker who has proven `known`."""
        K, fitted, areas = self.published.K, self._fitted(), self.areas
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

    def _neighbour(self) -> None:
        K = self.published.K
        if self.published.lattice.baseless and self.guessing is None:
            self.row("neighbour", KNOWS["neighbour"])
            self._unmeasured("neighbour")
            return
        figures = self._proven_by(self._with_somebody)
        if self.published.split:
            believed = self._believed or self._beliefs(self.known, "neighbour")
            figures |= self._beside_somebody(believed, np.arange(K + 1))
        elif self._outside is not None:
            many = np.broadcast_to(np.arange(K + 1), self._outside.chance.shape).astype(np.float64)
            many[:, K] = self._outside.heavy
            figures |= self._beside_somebody(self._held(self._outside), many)
        else:
            self._without_chances()
        self.row("neighbour", KNOWS["neighbour"], **figures)

    def _with_somebody(self) -> Known:
        """What everybody can prove about occupied finest cells, and that somebody is there."""
        known, true = self.known, self.true
        there = np.ones(len(known.packed), dtype=bool)
        if true.known:
            there = at(true.packed, true.counts, known.packed) > 0
        low = np.maximum(known.low, 1)
        return known._replace(packed=known.packed[there], low=low[there], high=known.high[there])

    def _beside_somebody(self, believed: Believed, many: npt.NDArray[Any]) -> dict[str, Any]:
        """The beliefs of a neighbour, who knows a person in the cell: a cell of v people has v neighbours."""
        weight = believed.chance * many
        chance = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        there = believed.counts > 0
        own = Believed(believed.true, believed.packed[there], chance[there], believed.counts[there], believed.areas)
        self.bins += own.calibration("neighbour", people=True)
        return own.figures()

    def _register(self, one: Register) -> None:
        knows = KNOWS["register"].format(tables=listing(list(one.tables)))
        brought = Brought(named.exact_rows(self.published, one), self._stated())
        self._check_register(one, brought)
        if self.published.lattice.baseless:
            self.row(one.name, knows)
            self.notes.append(f"{one.name}: Not measured. {UNSEEN}")
            return
        known = Known.of(self.published, brought, within(self.progress, one.name))
        figures: dict[str, Any] = {}
        if self.published.split:
            believed = self._beliefs(known, one.name)
            figures = believed.figures()
            self.bins += believed.calibration(one.name)
        self.row(one.name, knows, proven=int(known.proven.sum()), exactly=int(known.exactly.sum()), **figures)

    def _check_register(self, one: Register, brought: Brought) -> None:
        """Refuse a register that is not exact, because it would lead to false results."""
        base, codes = self.published.lattice.base, self.published.codes
        if self.small is None:
            return
        index = codes.cell_index(table_of(codes.design, base))
        for (node, rows), name in zip(brought.exact.items(), one.tables, strict=True):
            if any(level > finest for level, finest in zip(node, base, strict=True)):
                continue
            target = codes.cell_index(table_of(codes.design, node))
            place = index.project([self.true.packed], target, codes.lists)[0]
            cells, inverse = np.unique(np.concatenate([rows.packed, place]), return_inverse=True)
            true = np.bincount(inverse[len(rows.packed) :], self.true.counts, minlength=len(cells))
            said = np.bincount(inverse[: len(rows.packed)], rows.counts, minlength=len(cells))
            if (true != said).any():
                raise InputError(
                    f"the register's table {name!r} does not agree with the store in {int((true != said).sum()):,} "
                    f"cells. An exact register is assumed: give counts of the same people."
                )

    def _insider(self, one: Insider) -> None:
        view, K = self.published, self.published.K
        if self.guessing is not None and one.unknown is None and one.cells == 1:
            if self.guessing.published.base is None or self.guessing.published.base.truth is None:
                raise InputError(named.NEEDS_TRUTH)
            assert isinstance(view, MethodTables)  # noqa: S101 - told to the type checker
            proves = partial(proven_by_insider, view)
            self.row(one.name, one.knows, **self._bets(self.guessing.insider(), one.name, proves))
            return
        if not view.split:
            self.row(one.name, one.knows)
            self._unmeasured(one.name)
            return
        bound = self._insider_bound(one)
        if one.unknown is not None:
            self._missing(one, bound)
            return
        if one.cells > 1:
            found = self._found_by(one, view, bound)
            tried, proven = len(found.packed), found.proven(K)
            share = float(proven.mean()) if tried else 0.0
            exactly = proven & (found.low == found.high)
            counted = {"small": tried, "proven": int(proven.sum()), "exactly": int(exactly.sum())}
            self.row(one.name, one.knows, bound=bound, **counted)
            self.notes.append(f"{one.name}: {tried:,} small cells were tried, {share:.1%} proven by propagation.")
            return
        found = self._insight(view, bound)
        proven = found.proven(K)
        exactly = proven & (found.low == found.high)
        self.row(
            one.name, one.knows, proven=int(proven.sum()), exactly=int(exactly.sum()),
            certified=int((~proven).sum()), undecided=0, bound=bound, **self._guesses(one.name),
        )  # fmt: skip
        seen = AttackerView(view, Brought(bound=bound))
        for level in sorted({node[0] for node in view.tables}):
            own = [node for node in view.tables if node[0] == level and node != view.lattice.base]
            if own:
                where = f"tables of {view.codes.lists[0].columns[level - 1]}" if level else "tables of the whole"
                self._detail(one.name, f"{where} alone", named.everything_but_one(seen, own))
        self._tell_numbers(one.name)
        self._lottery(one, bound)

    def _found_by(self, one: Insider, view: PublishedTables, bound: int | None) -> Insight:
        """What an insider proves by a bound."""
        if one.unknown is not None:
            return self._lacking(view, bound, one.unknown).insight
        if one.cells > 1:
            return named.everything_but_some(AttackerView(view, Brought(bound=bound)), one.cells)
        return self._insight(view, bound)

    def _insight(self, view: PublishedTables, bound: int | None) -> Insight:
        """What an insider who lacks one cell proves by a bound, and by the numbers of masks where they are usual."""
        found = named.everything_but_one(AttackerView(view, Brought(bound=bound)))
        numbers = MaskNumbers.of(view)
        if numbers is None:
            return found
        packed, _, masked = named.small_cells(view)
        return numbers.narrowed(found, at(packed, masked, found.packed) == view.K)

    def _tell_numbers(self, name: str) -> None:
        """Say what the numbers of masks alone prove, or that they are not the usual ones."""
        if self.numbers is not None:
            alone = self._insight(self.published, None)
            proven = alone.proven(self.published.K)
            exactly = int((proven & (alone.low == alone.high)).sum())
            self._detail(name, "numbers of masks alone", alone)
            self.notes.append(
                f"{name}: of K cells with the count x, controlled SCA gives x the mask K, as nearly as possible. "
                f"Everybody knows this rule. Counting the masks of all other cells proves {int(proven.sum()):,} "
                f"cells, {exactly:,} of them exactly."
            )
        elif self.published.policy.name == "controlled" and not self.published.move:
            self.notes.append(
                f"{name}: the numbers of masks are not those of the public rule of controlled SCA here, so nothing is "
                f"concluded from them."
            )

    @cached_property
    def numbers(self) -> MaskNumbers | None:
        """The numbers of masks of the published tables, where the rule of controlled SCA fixes them."""
        return MaskNumbers.of(self.published)

    def _missing(self, one: Insider, bound: int | None) -> None:
        """Measure an insider who lacks n people, on the small cells whose people are all missing."""
        assert one.unknown is not None  # noqa: S101 - asked before
        found = self._lacking(self.published, bound, one.unknown)
        proven = found.insight.proven(self.published.K)
        exactly = proven & (found.insight.low == found.insight.high)
        tried, certified = len(proven), int((found.certified & ~proven).sum())
        self.row(
            one.name, one.knows, small=tried, proven=int(proven.sum()), exactly=int(exactly.sum()),
            certified=certified, undecided=tried - int(proven.sum()) - certified, bound=bound,
        )  # fmt: skip
        how = "in closed form, and complete" if one.unknown == 1 else "by intervals and by other worlds"
        who = "person is" if one.unknown == 1 else "people are all"
        self.notes.append(
            f"{one.name}: asked about {tried:,} small cells whose {who} missing, {how}. Cells with a known person are "
            f"left out: the insider knows them without any release."
        )
        self._lottery(one, bound)

    def _lacking(self, view: PublishedTables, bound: int | None, unknown: int) -> Missing:
        known = Known.of(view, Brought(bound=bound))
        counts = at(self.true.packed, self.true.counts, known.packed)
        return everybody_but(known, counts, unknown, numbers=MaskNumbers.of(view))

    def _guesses(self, name: str) -> dict[str, Any]:
        """The insider's beliefs about the one unknown cell, from the errors of the sums around it."""
        if self.published.policy.scheme != "sums":
            self.notes.append(f"{name}: what is likely is measured for sums of masks alone, here only what is proven.")
            return {}
        known, areas = self.known, self.areas
        inside = np.isin(known.packed // self.true.width, areas)
        tables = None
        if len(areas) < self.true.areas:
            tables = [node for node in self.published.lattice.nodes if node[0] == self.published.lattice.base[0]]
        packed = known.packed[inside]
        counts = at(self.true.packed, self.true.counts, packed)
        cells = packed, known.low[inside], known.high[inside]
        log = self._fitted().log(packed, self.published.K)
        numbers, base = self.numbers, self.published.base
        fits = None
        if numbers is not None and base is not None:
            fits = numbers.fitting(counts, at(base.packed, base.value, packed) == self.published.K)
        chance = named.insider_beliefs(self.published, cells, counts, log, tables, fits)
        believed = Believed(self.true, packed, chance, counts, areas)
        self.bins += believed.calibration(name)
        return believed.figures()

    def _insider_bound(self, one: Insider) -> int | None:
        """The bound on errors of controlled sums that an insider knows."""
        name = one.name
        if self.published.policy.scheme != "sums":
            return None
        if self.bound is not None:
            return self.bound
        if self.noise:
            self.notes.append(
                f"{name}: no bound of errors is assumed. With noise in the target ({self.noise:.0%} of the small "
                f"cells) a sum of n small cells may lie up to n beyond the usual bound."
            )
            return None
        if self.published.policy.name != "controlled":
            return None
        usual, largest = self._public_bounds(self.published)
        relied = self._bound_held(self.published)
        if relied is None:
            self.notes.append(
                f"{name}: no bound is stated, and neither the usual one of {usual} nor {largest} holds here: none is "
                f"used."
            )
        elif self._keeps_masks:
            self.notes.append(
                f"{name}: masks of earlier publications are kept here, so errors may be of any size, and nobody "
                f"outside knows whether {relied} holds. It holds, and is used: the share is more than an insider can "
                f"be sure of. With a larger bound it would be smaller."
            )
        elif relied == usual:
            certain = int(self._found_by(one, self.published, largest).proven(self.published.K).sum())
            self.notes.append(
                f"{name}: no bound is stated, but the usual one of {usual} is known to everybody and holds here. It "
                f"holds with 19 of 20 secrets; with {largest}, the largest one that masks are chosen for, {certain:,} "
                f"cells are proven."
            )
            if one == Insider(secrets=one.secrets):
                self.notes.append(
                    f"{name}: what is likely uses no bound, so it may be less than what is proven with one."
                )
        else:
            self.notes.append(
                f"{name}: no bound is stated, and the usual one of {usual} does not hold here. The largest one that "
                f"masks are chosen for, {largest}, is known to everybody and holds: it is used."
            )
        return relied

    def _public_bounds(self, published: PublishedTables) -> tuple[int, int]:
        """The bounds of a first publication that everybody knows: the usual one, and the largest for any secret."""
        K, work = published.K, (self.small or 0) * len(published.tables)
        return working_bound(K, work), declared_bound(K)

    def _bound_held(self, published: PublishedTables) -> int | None:
        """The bound on which an insider relies: the first that holds; a given one leaves no other."""
        bounds = self._public_bounds(published) if self.given is None else (self.given,)
        return next((bound for bound in bounds if named.errors_within(published, bound)), None)

    @cached_property
    def _keeps_masks(self) -> bool:
        """Whether masks of earlier publications are kept: then no bound is public, and no other secret can be used."""
        with suppress(IlbaError):  # no secret or ledger that can be read
            return self.store is not None and is_later(self.store)
        return False

    def _detail(self, name: str, what: str, found: Insight) -> None:
        proven = found.proven(self.published.K)
        self.detail.append(
            {"attacker": name, "what": what, "small": len(proven), "proven": int(proven.sum()),
             "exactly": int((proven & (found.low == found.high)).sum())}
        )  # fmt: skip

    def _lottery(self, one: Insider, bound: int | None) -> None:
        """Repeat with other secrets, because a few national counts decide how much an insider can prove."""
        if bound is None or self.store is None or self.published.policy.name != "controlled" or not self.small:
            return
        if not one.secrets or self._keeps_masks:
            return
        shares, coarse, relied = [], [], set[int]()
        tables = _selections(self.published)
        planned = self.store.chosen.tables if self.store.chosen else "all"
        chosen_for = planned_tables(self.published.design, planned, tables)
        top = min(node[0] for node in self.published.tables)
        for number in range(one.secrets):
            secret = Secret.from_text("ilba-secret-1:" + f"{17 * (number + 1):02x}" * 32)
            masked = self.store.with_threshold(self.published.K, secret).controlled(chosen_for, secret=secret)
            other = PublishedTables.of(masked, "controlled", tables)
            bound = self._bound_held(other)
            if bound is None:
                continue
            relied.add(bound)
            if one.unknown is not None:
                proven = self._found_by(one, other, bound).proven(self.published.K)
                shares.append(float(proven.mean()) if len(proven) else 0.0)
                continue
            shares.append(float(self._insight(other, bound).proven(self.published.K).sum()) / self.small)
            seen = AttackerView(other, Brought(bound=bound))
            own = [node for node in other.tables if node[0] == top and node != other.lattice.base]
            found = named.everything_but_one(seen, own).proven(self.published.K) if own else np.zeros(1, dtype=bool)
            coarse.append(float(found.sum()) / self.small)
            self.detail.append(
                {"attacker": one.name, "what": f"with another secret, {number + 1} of {one.secrets}",
                 "small": self.small, "proven": round(shares[-1] * self.small), "exactly": None}
            )  # fmt: skip
        if shares:
            bounds = " or ".join(map(str, sorted(relied)))
            alone = f"; from the coarsest tables alone {min(coarse):.1%} to {max(coarse):.1%}" if coarse else ""
            self.notes.append(
                f"{one.name}: with {len(shares)} other secrets between {min(shares):.1%} and {max(shares):.1%} of the "
                f"small cells would be proven, relying on errors of at most {bounds}{alone}. It depends on which "
                f"coarse counts happen to lie at the bound."
            )

    def _attribute(self) -> None:
        if all(rows.truth is None for rows in self.published.tables.values()):
            self.row("attribute", KNOWS["attribute"])
            self.notes.append("attribute: groups are counted against the truth, which needs the store.")
            return
        self.groups, left_out = groups(self.published)
        total = self.groups.select(pl.col("groups", "people").sum()).row(0)
        self.row("attribute", KNOWS["attribute"], groups=total[0], people=total[1])
        if left_out:
            self.notes.append(f"attribute: {len(left_out)} tables are too large and were left out.")


def _selections(published: PublishedTables) -> list[Selection]:
    return [table_of(published.design, node) for node in published.tables]
