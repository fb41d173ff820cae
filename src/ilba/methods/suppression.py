"""Cell suppression: small cells are left blank, and other cells too, so that no blank can be computed.

`suppress` finds the other blanks in two ways. The Gaussian way goes through the cells and publishes each one, unless a
primary cell would become a linear combination of published ones. It protects against exact computation. The optimal way
finds the fewest blanks that keep every primary cell unknown within a range, for small tables.
"""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, notice, suggesting
from ilba.methods.controlled.kernels import compiled
from ilba.methods.solver import integer_program, interval, scipy_part
from ilba.methods.tabulation import Tabulation, tabulate

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
# Equations are solved modulo the prime 2^31 - 1: exact except with a chance of about 10^-9.


@suggesting
def suppress(
    frame: Any,
    max_n: int = 3,
    tables: Any = None,
    *,
    zeros: bool = False,
    method: Literal["primary", "gauss", "optimal"] = "gauss",
    width: float = 1.0,
    intervals: bool = False,
    count: str | None = None,
    seconds: float | None = None,
) -> pl.DataFrame:
    """Choose the cells of linked tables that are left blank.

    Parameters
    ----------
    frame : frame
        The inner cells: labels and a column of counts. Rows with the label Total are margins.
    max_n : int, default 3
        Counts 1..max_n are primary: they must not be published.
    tables : str or list, optional
        What is published, as in `small_count_rounding`. By default, one table of all columns with its margins.
    zeros : bool, default False
        Zeros are primary too.
    method : {"gauss", "primary", "optimal"}, default "gauss"
        How the other blanks are found. "primary" adds none. "optimal" finds the fewest, and among these patterns the
        one with the smallest sum of counts; it always publishes the total of all cells.
    width : float, default 1.0
        With "optimal": the least distance between the smallest and the largest possible value of a primary cell.
    intervals : bool, default False
        Compute the smallest and the largest possible value of each blank, given the published cells. As in
        GaussSuppression, a blank may be 0; `audit` knows that the tables of `Suppression` show zeros.
    count : str, optional
        The column of counts. By default, the one called N, freq, n, count or ant.
    seconds : float, optional
        With "optimal": stop after this time with the best pattern so far.

    Returns
    -------
    polars.DataFrame
        The labels of all published cells, their counts, primary, suppressed; and attack_lo, attack_hi if requested.
        Confidential: it holds the true counts.

    Raises
    ------
    InputError
        No pattern keeps the rules, or none was found in time.
    MissingExtra
        SciPy is needed for "optimal" and `intervals`, and is not installed.

    Examples
    --------
    >>> counts = pl.DataFrame({"town": ["a", "a", "b", "b"], "sex": ["f", "m", "f", "m"], "freq": [2, 9, 8, 7]})
    >>> found = suppress(counts, max_n=3)
    >>> found.filter("suppressed").select("town", "sex", "primary").rows()
    [('a', 'f', True), ('a', 'm', False), ('b', 'f', False), ('b', 'm', False)]
    """
    cells = tabulate(frame, tables, count)
    shown = cells.published
    primary = (shown <= max_n) & ((shown > 0) | zeros)
    if method == "gauss":
        blank = gauss(cells, primary)
    elif method == "optimal":
        blank = best_pattern(cells, primary, width, seconds, strict=True)
    elif method == "primary":
        blank = primary
    else:
        raise InputError(f"method={method!r} is not known. It is 'gauss', 'optimal' or 'primary'.")
    found = cells.labels.with_columns(count=pl.Series(shown), primary=pl.Series(primary), suppressed=pl.Series(blank))
    if not intervals:
        return found
    low, high = attack_intervals(cells, blank)
    return found.with_columns(attack_lo=pl.Series(low, nan_to_null=True), attack_hi=pl.Series(high, nan_to_null=True))


def gauss(cells: Tabulation, primary: BoolArray, score: npt.NDArray[Any] | None = None) -> BoolArray:
    """Which published cells are blank: the primary cells, and the cells that would allow computing a primary one.

    Cells are published in this order: zeros first, then by falling count, then by falling `score`, then in the given
    order. The default `score` of a cell adds up, over its inner cells, all counts + 1 of the published cells that
    contain them.
    """
    shown = cells.published
    if score is None:
        score = cells.sums((shown + 1)[cells.member].sum(axis=1))
    order = np.lexsort((np.arange(len(shown)), -score, -shown, shown != 0))
    order = order[~primary[order]]
    # Inner cells in the same published cells cannot be distinguished, so one of them stands for all.
    kinds = np.unique(cells.member, axis=0)
    if len(kinds) > _UNKNOWNS:
        raise InputError(
            f"these tables distinguish {len(kinds):,} inner cells; the Gaussian way solves equations with at "
            f"most {_UNKNOWNS:,} unknowns. Take fewer tables, or kind='primary'."
        )
    starts, inside = _listed(kinds, len(shown))
    blank = _gauss(starts, inside, order, np.flatnonzero(primary), len(kinds))
    result = primary.copy()
    result[blank] = True
    return result


_UNKNOWNS = 25_000  # their equations fill 2.5 GB


def _listed(member: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """The inner cells of each published cell as consecutive lists, and where each list starts."""
    flat = member.ravel()
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(size + 1))
    return starts.astype(np.int64), (order // member.shape[1]).astype(np.int64)


@compiled
def _first(row: Any) -> int:
    """The first place of a row that is not 0, or -1."""
    for c in range(len(row)):
        if row[c]:
            return c
    return -1


@compiled
def _reduced(row: Any, inside: Any, basis: Any, pivot_row: Any) -> int:
    """Write into `row` what a cell adds to the published equations, scaled to begin with 1; return where it begins."""
    p = 2147483647
    row[:] = 0
    for c in inside:
        row[c] = 1
    for c in inside:
        if pivot_row[c] >= 0:  # reduced equations hold no other pivot, so the factor is 1
            known = basis[pivot_row[c]]
            for d in range(len(row)):
                if known[d]:
                    row[d] = (row[d] - known[d]) % p
    pivot = _first(row)
    if pivot >= 0:
        scale, power, base = 1, p - 2, row[pivot]  # 1 / row[pivot] modulo p
        while power:
            if power & 1:
                scale = scale * base % p
            base = base * base % p
            power >>= 1
        for d in range(len(row)):
            if row[d]:
                row[d] = row[d] * scale % p
    return pivot


@compiled
def _tells(row: Any, pivot: int, left: Any, lead: Any) -> bool:
    """Whether some primary cell is a multiple of what a cell adds."""
    p = 2147483647
    for k in range(len(left)):
        if lead[k] == pivot:
            factor, same = np.int64(left[k, pivot]), True
            for c in range(len(row)):
                if (row[c] * factor) % p != left[k, c]:
                    same = False
                    break
            if same:
                return True
    return False


@compiled
def _subtract(target: Any, row: Any, spots: Any, pivot: int) -> bool:
    """Eliminate the pivot from an equation; return whether it was there."""
    p = 2147483647
    factor = np.int64(target[pivot])
    if factor == 0:
        return False
    for c in spots:
        target[c] = (np.int64(target[c]) - factor * row[c]) % p
    return True


@compiled
def _gauss(starts: Any, inside: Any, order: Any, primary: Any, n: int) -> Any:
    """The cells that are not published.

    `basis` holds the published cells as reduced equations with one pivot each; `left` holds what remains of the primary
    cells.
    """
    basis = np.zeros((n, n), dtype=np.int32)
    pivot_row = np.full(n, -1, dtype=np.int64)
    left = np.zeros((len(primary), n), dtype=np.int32)
    lead = np.zeros(len(primary), dtype=np.int64)
    for k in range(len(primary)):
        for at in range(starts[primary[k]], starts[primary[k] + 1]):
            left[k, inside[at]] = 1
        lead[k] = _first(left[k])
    used = 0
    blank = np.zeros(len(order), dtype=np.bool_)
    row = np.zeros(n, dtype=np.int64)
    for at in range(len(order)):
        pivot = _reduced(row, inside[starts[order[at]] : starts[order[at] + 1]], basis, pivot_row)
        if pivot < 0:
            continue  # it follows from published cells
        if _tells(row, pivot, left, lead):
            blank[at] = True
            continue
        spots = np.flatnonzero(row)
        for j in range(used):
            _subtract(basis[j], row, spots, pivot)
        basis[used, :] = row
        pivot_row[pivot] = used
        used += 1
        for k in range(len(primary)):
            if _subtract(left[k], row, spots, pivot):
                lead[k] = _first(left[k])
    return order[blank]


def attack_intervals(cells: Tabulation, blank: BoolArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The smallest and largest value of each blank, given all published cells and that no inner cell is negative."""
    matrix = cells.matrix()
    low, high = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    known, values = matrix[~blank], cells.published[~blank]
    for cell in np.flatnonzero(blank):
        low[cell], high[cell] = interval(known, values, matrix[[cell]].toarray()[0])
    return low, high


def best_pattern(
    cells: Tabulation, primary: BoolArray, width: float, seconds: float | None, least: int = 0, *, strict: bool = False
) -> BoolArray:
    """The blanks of `optimal`; a notice says what is missing if time ran out. `strict` protects all cells or fails."""
    found = optimal(cells, primary, width, seconds, least)
    if found.impossible and strict:
        if (primary & _totals(cells)).any():
            raise InputError(
                f"{found.told} The total of all cells is primary, and method='optimal' publishes it. Give "
                f"method='gauss', which leaves it blank."
            )
        zeros = ", or leave zeros blank too: zeros=True" if ((cells.published == 0) & ~primary).any() else ""
        raise InputError(f"{found.told} Give a smaller width{zeros}.")
    if found.told is not None:
        notice(found.told)
    return found.blank


class Pattern(NamedTuple):
    """Which cells are blank, and how far the search for them got."""

    blank: BoolArray
    guarded: int
    """the number of primary cells that are proven unknown within the width"""
    primary: int
    """the number of primary cells"""
    least: int
    """a lower bound on the number of blanks; equal to it if the search finished"""
    impossible: int = 0
    """the number of primary cells that no pattern can hide, because published totals tell them"""

    @property
    def told(self) -> str | None:
        """What is missing, as a sentence; None if the pattern is optimal."""
        number = int(self.blank.sum())
        if self.impossible:
            return (
                f"no pattern hides {self.impossible:,} of {self.primary:,} small cells within the width: what is "
                f"always published discloses them."
            )
        if self.guarded < self.primary:
            return (
                f"optimal suppression ran out of time: {self.guarded:,} of {self.primary:,} small cells are protected "
                f"by width, the others only against equations, as by kind='gauss'; {number:,} blanks. Give more "
                f"seconds, or fewer tables."
            )
        if number > self.least:
            return (
                f"optimal suppression ran out of time: all small cells are protected, by {number:,} blanks; the fewest "
                f"are at least {self.least:,}. Give more seconds."
            )
        return None


def optimal(
    cells: Tabulation, primary: BoolArray, width: float, seconds: float | None = None, least: int = 0
) -> Pattern:
    """Find the fewest other blanks, then the smallest sum, that keep each primary cell unknown within `width`.

    For each primary cell, two other tables must exist that agree with the truth outside the blanks and differ by
    `width` in that cell. The grand total is published, and so are zeros that are not primary. Everybody knows that a
    blank is at least `least`: 1 if zeros are published. A first pattern guards one cell after the other. While there is
    time, all cells are then treated together.
    """
    end = time.monotonic() + (seconds if seconds is not None else 1e9)
    problem = _Problem(cells, primary, width, least)
    blank: BoolArray = primary & problem.free
    wanted = np.flatnonzero(blank)
    whole = int((primary & ~problem.free).sum())  # the grand total is always published
    if not len(wanted):
        return Pattern(blank, 0, whole, int(blank.sum()), whole)
    small = len(wanted) * len(cells) <= _TOGETHER
    # Guard one cell after the other, the hardest to hide first. A large problem begins with the blanks of the Gaussian
    # way, so that cells that are not reached in time are at least guarded against equations.
    start = blank if small else blank | (gauss(cells, primary) & problem.free)
    guarded, pattern, impossible = 0, start, []
    for cell in wanted[np.argsort(-cells.published[wanted], kind="stable")]:
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            found = problem.solved(pattern, [cell], left, whole=False)
        except InputError:  # even with every allowed cell blank
            impossible.append(cell)
            continue
        if found is not None:
            pattern, guarded = pattern | found[0], guarded + 1
    hidden = wanted[~np.isin(wanted, impossible)]
    bound = int(blank.sum())
    if guarded == len(hidden):
        now = time.monotonic()
        pattern = problem.without_idle(pattern, hidden, blank, now + _TIDYING * (end - now))
    left = end - time.monotonic()
    if small and left > 0 and len(hidden):
        found = problem.solved(blank, hidden, left)
        if found is not None:
            together, fewest = found
            bound = max(bound, fewest)
            if guarded < len(hidden) or problem.cost(together) <= problem.cost(pattern):
                pattern, guarded = together, len(hidden)
    return Pattern(pattern, guarded, len(wanted) + whole, bound, len(impossible) + whole)


def _totals(cells: Tabulation) -> BoolArray:
    """Which published cells contain all inner cells: the grand total, and cells that are the same."""
    every: BoolArray = np.bincount(cells.member.ravel(), minlength=len(cells)) == len(cells.count)
    return every


_TOGETHER = 20_000  # small cells times cells: up to this, all are treated together
_STEPS = 4  # a cell may move by this many widths to let another move by one
_TIDYING = 0.3  # the share of the remaining time for removing blanks that no cell needs


class _Problem:
    """The integer program behind optimal suppression."""

    def __init__(self, cells: Tabulation, primary: BoolArray, width: float, least: int) -> None:
        self.shown, self.matrix = cells.published, cells.matrix().tocsr()
        self.width, self.least = width, least
        self.n, self.m = len(cells.count), len(cells)
        self.free: BoolArray = ((self.shown > 0) | primary) & ~_totals(cells)
        self.heavy = float(self.shown.sum()) + 1  # one cell fewer is worth more than any sum

    def cost(self, blank: BoolArray) -> float:
        """The cost of a pattern."""
        return float(((self.heavy + self.shown) * blank).sum())

    def solved(
        self, blank: BoolArray, wanted: Any, seconds: float, *, whole: bool = True
    ) -> tuple[BoolArray, int] | None:
        """The cheapest pattern with these blanks that guards these cells, and a lower bound on the blanks.

        None if no pattern was found in time. Without `whole`, the cost of a blank is how far its cell moves. That is a
        linear program, and every cell that moves is blank.
        """
        sparse = scipy_part("sparse")
        shown, matrix, n, m = self.shown.astype(float), self.matrix, self.n, self.m
        # The difference between a table and the truth splits into moves along which all cells change by the same few
        # steps (by one each for two variables). So no cell needs to move further than a few widths.
        most = _STEPS * self.width
        tables = 2 * len(wanted)
        down = sparse.diags_array(np.minimum(shown - np.minimum(self.least, shown), most))
        up = most * sparse.eye_array(m)
        one = sparse.eye_array(tables)
        # Outside blanks the tables agree with the truth: -down z <= matrix y - shown <= most z.
        several = sparse.kron(one, matrix)
        blocks = [
            sparse.hstack([sparse.vstack([down] * tables), several]),
            sparse.hstack([sparse.vstack([-up] * tables), several]),
        ]
        apart = sparse.vstack(
            [
                sparse.hstack([sparse.csr_array((1, 2 * k * n)), matrix[[cell]], -matrix[[cell]],
                               sparse.csr_array((1, (tables - 2 * k - 2) * n))])
                for k, cell in enumerate(wanted)
            ]
        )  # fmt: skip
        blocks.append(sparse.hstack([sparse.csr_array((len(wanted), m)), apart]))
        far = np.full(tables * m, np.inf)
        low = np.concatenate([np.tile(shown, tables), -far, np.full(len(wanted), self.width)])
        high = np.concatenate([far, np.tile(shown, tables), np.full(len(wanted), np.inf)])
        cost = np.concatenate([np.where(blank, 0.0, self.heavy + shown), np.zeros(tables * n)])
        integral = np.concatenate([np.full(m, float(whole)), np.zeros(tables * n)])
        lower = np.concatenate([blank.astype(float), np.zeros(tables * n)])
        upper = np.concatenate([self.free.astype(float), np.full(tables * n, np.inf)])
        found = integer_program(
            cost, sparse.vstack(blocks).tocsr(), (low, high), integral, upper, lower=lower, seconds=seconds
        )
        if found.x is None:
            return None
        bound = getattr(found, "mip_dual_bound", None)
        fewest = int(blank.sum()) + (0 if bound is None else int(np.floor(bound / self.heavy + 1e-9)))
        return found.x[:m] > (0.5 if whole else 1e-6), fewest

    def without_idle(self, pattern: BoolArray, wanted: IntArray, primary: BoolArray, end: float) -> BoolArray:
        """Publish blanks that no cell needs, the largest counts first, while there is time."""
        further = np.flatnonzero(pattern & ~primary)
        for cell in further[np.argsort(-self.shown[further], kind="stable")]:
            if time.monotonic() > end:
                break
            fewer = pattern.copy()
            fewer[cell] = False
            if all(self._guarded(fewer, one) for one in wanted):
                pattern = fewer
        return pattern

    def _guarded(self, blank: BoolArray, cell: int) -> bool:
        """Whether a cell is unknown within the width under a pattern."""
        low, high = interval(
            self.matrix[~blank], self.shown[~blank], self.matrix[[cell]].toarray()[0], self.matrix[blank], self.least
        )
        return high - low >= self.width - 1e-6
