"""Risk: what named attackers learn from a release, by proof, by probability and with outside knowledge.

`audit` proves. `risk` also measures what an attacker can guess without proof, and what one with outside knowledge can
derive. Everything is confidential: it is compared with the truth.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack import attackers as named
from ilba.attack import posterior
from ilba.attack.attackers import KNOWS, Attacker, Insider, Known, Register
from ilba.attack.attributes import groups
from ilba.attack.audit import audit, not_opened, released, tables_by, tell_if_unpublished
from ilba.attack.guessing import Guessing
from ilba.attack.insiderrisk import InsiderRisk
from ilba.attack.intervals import Brought, at
from ilba.attack.lattice import table_of
from ilba.attack.measuring import BIN_ROWS, DETAIL, ROWS, Measuring
from ilba.attack.published import PublishedTables
from ilba.attack.riskreport import RiskReport
from ilba.attack.scoring import Believed
from ilba.attack.verdict import UNSEEN
from ilba.design.design import Level, Names
from ilba.design.tables import Tables, planned_tables, wanted_tables
from ilba.errors import InputError, listing, suggesting
from ilba.methods.method import Method
from ilba.progress import Progress, within
from ilba.release import Release
from ilba.release.recognising import kept_masks
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

ALL = ("proof", "outsider", "neighbour", "insider", "attribute")
CELLS = 2_000_000
"""the most finest cells for which probabilities are computed; for a larger design a sample of areas is used"""


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
    work = _Attackers(published, bound if bound is not None else stated, given_store, cells, progress, noise)
    for one in chosen:
        work.measure(one, examples, solver_seconds)
    return RiskReport(
        published=published,
        rows=pl.DataFrame(work.rows, schema=ROWS),
        calibration=pl.DataFrame(work.bins, schema=BIN_ROWS),
        detail=pl.DataFrame(work.detail, schema=DETAIL),
        groups=work.groups,
        worst=work.worst,
        cells=work.cells,
        undecided=work.ranked(),
        notes=work.notes,
        sample=work.sample,
        seconds=time.perf_counter() - start,
    )


class _Attackers(Measuring):
    """Measures each attacker by its name."""

    by_outsider: Believed | None = None
    """what the outsider believes, if that was measured before"""

    @cached_property
    def insiders(self) -> InsiderRisk:
        """Who measures insiders."""
        return InsiderRisk(self)

    def measure(self, one: Attacker, examples: int, seconds: float) -> None:
        """Add the rows of one attacker."""
        if isinstance(one, Register):
            self._register(one)
        elif isinstance(one, Insider) or one == "insider":
            self.insiders.measure(one if isinstance(one, Insider) else Insider())
        elif one == "proof":
            self._proof(examples, seconds)
        elif one == "attribute":
            self._attribute()
        elif one == "outsider":
            self._outsider()
        else:
            self._neighbour()

    def ranked(self) -> pl.DataFrame:
        """The cells that the proof left undecided, ranked by the outsider's belief that they are small."""
        about_others = not set(self.undecided.columns) <= set(self.cells.columns)  # or there are no beliefs
        if self.undecided.is_empty() or about_others:
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

    def _outsider_of_field(self, guessing: Guessing) -> None:
        self.row("outsider", KNOWS["outsider"], **self.bets(self.outside, "outsider", lambda: self.known))
        if self.outside is None:
            return
        own = posterior.coarse_only(guessing.published, guessing.fitted, guessing.packed)
        coarse = self.held(self.outside._replace(chance=own))
        name = "outsider, coarse tables"
        self.row(name, "has only coarse tables: the baseline of the outsider", **coarse.figures())
        self.bins += coarse.calibration(name)

    def _outsider(self) -> None:
        if self.guessing is not None:
            self._outsider_of_field(self.guessing)
            return
        if not self.published.split:
            self.row("outsider", KNOWS["outsider"])
            self.unmeasured("outsider")
            return
        believed = self.beliefs(self.known, "outsider")
        self.by_outsider = believed
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
        fitted = self.fitted()
        own = posterior.coarse_only(self.published, fitted, believed.packed)
        coarse = Believed(self.true, believed.packed, own, believed.counts, believed.areas)
        self.row("outsider, coarse tables", "has only coarse tables: the baseline of the outsider", **coarse.figures())
        self.bins += coarse.calibration("outsider, coarse tables")

    def _neighbour(self) -> None:
        K = self.published.K
        if self.published.lattice.baseless and self.guessing is None:
            self.row("neighbour", KNOWS["neighbour"])
            self.unmeasured("neighbour")
            return
        figures = self.proven_by(self._with_somebody)
        if self.published.split:
            believed = self.by_outsider or self.beliefs(self.known, "neighbour")
            figures |= self._beside_somebody(believed, np.arange(K + 1))
        elif self.outside is not None:
            many = np.broadcast_to(np.arange(K + 1), self.outside.chance.shape).astype(np.float64)
            many[:, K] = self.outside.heavy
            figures |= self._beside_somebody(self.held(self.outside), many)
        else:
            self.without_chances()
        self.row("neighbour", KNOWS["neighbour"], **figures)
        self.tell_least("neighbour")

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
        brought = Brought(named.exact_rows(self.published, one), self.stated())
        self._check_register(one, brought)
        if self.published.lattice.baseless:
            self.row(one.name, knows)
            self.notes.append(f"{one.name}: Not measured. {UNSEEN}")
            return
        known = Known.of(self.published, brought, within(self.progress, one.name))
        figures: dict[str, Any] = {}
        if self.published.split:
            believed = self.beliefs(known, one.name)
            figures = believed.figures()
            self.bins += believed.calibration(one.name)
        self.row(one.name, knows, proven=int(known.proven.sum()), exactly=int(known.exactly.sum()), **figures)
        self.tell_least(one.name)

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
