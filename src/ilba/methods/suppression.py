"""Cell suppression: small cells are left blank, and others with them, so that no blank can be computed.

`suppress` finds the further blanks in two ways. The Gaussian way walks through the cells and publishes each unless a
primary cell would become a combination of published ones; it protects against exact computation. The optimal way finds
the fewest blanks with which every primary cell stays unknown within a range, for small tables.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, suggesting
from ilba.methods.controlled.kernels import compiled
from ilba.methods.solver import integer_program, interval, scipy_part
from ilba.methods.tabulation import Tabulation, tabulate

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
# Equations are solved in whole numbers modulo the prime 2^31 - 1: exact but for a chance of about one in 10^9.


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
    """Choose which cells of linked tables are left blank.

    Parameters
    ----------
    frame : frame
        The inner cells: labels and a column of counts. Rows with the label Total are taken for margins.
    max_n : int, default 3
        Counts 1..max_n are primary: they must not be published.
    tables : str or list, optional
        What is published, as in `small_count_rounding`. Left out, one table of all columns with its margins.
    zeros : bool, default False
        Zeros are primary, too.
    method : {"gauss", "primary", "optimal"}, default "gauss"
        How the further blanks are found. "primary" adds none. "optimal" finds the fewest, and of these patterns the one
        with the smallest sum of counts.
    width : float, default 1.0
        With "optimal": between the smallest and the largest possible value of a primary cell lies at least this much.
    intervals : bool, default False
        Compute for each blank the smallest and the largest value that the published cells leave possible.
    count : str, optional
        The column of counts. Left out, the one called N, freq, n, count or ant.
    seconds : float, optional
        With "optimal": stop after this time with the best pattern so far.

    Returns
    -------
    polars.DataFrame
        The labels of all published cells, their counts, primary, suppressed; and attack_lo, attack_hi where asked for.
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
        blank = optimal(cells, primary, width, seconds)
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
    """Which published cells are blank: the primary ones, and those without which no primary one can be computed.

    Cells are published in order: zeros first, then by falling count, ties by falling `score` (left out: the sum over
    the inner cells of a cell of all counts + 1 that contain them), then as they stand.
    """
    shown = cells.published
    if score is None:
        score = cells.sums((shown + 1)[cells.member].sum(axis=1))
    order = np.lexsort((np.arange(len(shown)), -score, -shown, shown != 0))
    order = order[~primary[order]]
    # Inner cells that lie in the same published cells cannot be told apart: one of them stands for all.
    kinds = np.unique(cells.member, axis=0)
    starts, inside = _listed(kinds, len(shown))
    blank = _gauss(starts, inside, order, np.flatnonzero(primary), len(kinds))
    result = primary.copy()
    result[blank] = True
    return result


def _listed(member: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """The inner cells of each published cell, one list after the other, and where each list starts."""
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
    """Write into `row` what a cell tells besides what is published, scaled to begin with 1; and where it begins."""
    p = 2147483647
    row[:] = 0
    for c in inside:
        row[c] = 1
    for c in inside:
        if pivot_row[c] >= 0:  # reduced equations hold no other pivot, so the factor is the 1 that stands here
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
    """Whether some primary cell is a multiple of what a cell tells."""
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
    """Take the pivot out of an equation; whether it stood there."""
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

    `basis` is what is published, as reduced equations with a pivot each; `left` is what the primary cells hold besides.
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
            continue  # it follows from what is published already
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


def optimal(cells: Tabulation, primary: BoolArray, width: float, seconds: float | None = None) -> BoolArray:
    """The fewest further blanks, and of these the smallest sum, with which each primary cell is unknown within `width`.

    For each primary cell two other tables are asked for that agree with the truth outside the blanks and are `width`
    apart in that cell. Zeros and the grand total are published; a line of a table holds no blank or at least two.
    """
    sparse = scipy_part("sparse")
    shown, matrix = cells.published, cells.matrix().tocsr()
    n, m = len(cells.count), len(cells)
    free: BoolArray = (shown > 0) & (np.diff(matrix.indptr) < n)
    wanted = np.flatnonzero(primary & free)
    if not len(wanted):
        return free & primary
    most = float(shown.max()) + width
    # Variables: a blank or not for each published cell; then for each primary cell two tables of inner cells.
    blocks: list[Any] = []
    lows: list[npt.NDArray[Any]] = []
    highs: list[npt.NDArray[Any]] = []
    tables = 2 * len(wanted)

    def rules(of_blanks: Any, of_table: Any, number: int, low: Any, high: Any) -> None:
        parts = [of_blanks, *(of_table if k == number else sparse.csr_array(of_table.shape) for k in range(tables))]
        blocks.append(sparse.hstack(parts))
        lows.append(low)
        highs.append(high)

    for number in range(tables):
        # outside blanks the tables agree with the truth: -shown z <= matrix y - shown <= most z
        rules(sparse.diags_array(shown.astype(float)), matrix, number, shown, np.full(m, np.inf))
        rules(-most * sparse.eye_array(m), matrix, number, np.full(m, -np.inf), shown)
    for k, cell in enumerate(wanted):
        parts = [sparse.csr_array((1, m))]
        parts += [
            matrix[[cell]] if t == 2 * k else -matrix[[cell]] if t == 2 * k + 1 else sparse.csr_array((1, n))
            for t in range(tables)
        ]
        blocks.append(sparse.hstack(parts))
        lows.append(np.array([width]))
        highs.append(np.array([np.inf]))
    heavy = float(shown.sum()) + 1  # one cell fewer is worth more than any sum
    cost = np.concatenate([heavy + shown, np.zeros(tables * n)])
    whole = np.concatenate([np.ones(m), np.zeros(tables * n)])
    lower = np.concatenate([(primary & free).astype(float), np.zeros(tables * n)])
    upper = np.concatenate([free.astype(float), np.full(tables * n, np.inf)])
    equations = sparse.vstack(blocks).tocsr()
    right = np.concatenate(lows), np.concatenate(highs)
    found = integer_program(cost, equations, right, whole, upper, lower=lower, seconds=seconds)
    if found.x is None:
        raise InputError("no pattern was found in the time given. Give more seconds, or a smaller table.")
    blank: BoolArray = found.x[:m] > 0.5
    return blank
