"""Rounding to multiples of a base: to the nearest, at random without bias, or jointly so that sums hold."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, suggesting
from ilba.methods.masking import DRAW_RANGE, whole_numbers
from ilba.methods.solver import integer_program, scipy_part
from ilba.methods.tabulation import Tabulation, tabulate

IntArray: TypeAlias = npt.NDArray[np.int64]


def whole_base(base: object) -> int:
    """The base of a rounding, checked."""
    if isinstance(base, bool) or not isinstance(base, int | np.integer) or base < 2:
        raise InputError(f"base={base!r} is not a whole number of at least 2.")
    return int(base)


@suggesting
def conventional_rounding(count: npt.ArrayLike, base: int) -> IntArray:
    """Round counts to the nearest multiple of a base; a count in the middle goes up.

    Parameters
    ----------
    count : array_like of int
        True counts.
    base : int
        The base, at least 2.

    Returns
    -------
    array of int
        The rounded counts.

    Raises
    ------
    InputError
        The base or a count is not a whole number.

    Examples
    --------
    >>> conventional_rounding([1, 3, 12, 32], base=5)
    array([ 0,  5, 10, 30])
    """
    whole, base = whole_numbers("count", count), whole_base(base)
    return (whole + base // 2) // base * base


@suggesting
def random_rounding(count: npt.ArrayLike, base: int, draws: npt.ArrayLike) -> IntArray:
    """Round each count by itself to a multiple of a base; up with the chance remainder / base, so without bias.

    Parameters
    ----------
    count : array_like of int
        True counts.
    base : int
        The base, at least 2.
    draws : array_like of int
        A number for each count, uniform on 0 .. 2^53 - 1.

    Returns
    -------
    array of int
        The rounded counts. They do not add up.

    Raises
    ------
    InputError
        The base or a count is not a whole number.

    Examples
    --------
    >>> random_rounding([5, 7, 7], 5, [0, 0, 2**53 - 1])
    array([ 5, 10,  5])
    """
    whole, base = whole_numbers("count", count), whole_base(base)
    remainder = whole % base
    limit = np.array([-(-r * DRAW_RANGE // base) for r in range(base)], dtype=np.int64)
    up = np.asarray(draws, dtype=np.int64) < limit[remainder]
    return whole - remainder + base * up


@suggesting
def controlled_rounding(
    frame: Any, base: int, tables: Any = None, *, count: str | None = None, seconds: float | None = None
) -> pl.DataFrame:
    """Round all cells of tables jointly to adjacent multiples of a base, so that all sums hold, with the least change.

    The sum of absolute changes over all published cells is minimal. Multiples of the base stay unchanged.

    Parameters
    ----------
    frame : frame
        The inner cells: labels and a column of counts. Rows with the label Total are margins.
    base : int
        The base, at least 2.
    tables : str or list, optional
        What is published, as in `small_count_rounding`. By default, one table of all columns with its margins.
    count : str, optional
        The column of counts. By default, the one called N, freq, n, count or ant.
    seconds : float, optional
        Stop after this time with the best solution so far.

    Returns
    -------
    polars.DataFrame
        The labels of all published cells, original and rounded (confidential: it holds the true counts too).

    Raises
    ------
    InputError
        No rounding keeps all sums; this can happen for linked tables of three or more variables.
    MissingExtra
        SciPy is not installed.

    Examples
    --------
    >>> counts = pl.DataFrame({"town": ["a", "b"], "freq": [4, 3]})
    >>> controlled_rounding(counts, base=5)["rounded"].to_list()
    [5, 5, 0]
    """
    cells = tabulate(frame, tables, count)
    rounded = rounded_together(cells, whole_base(base), seconds)
    return cells.labels.with_columns(original=pl.Series(cells.published), rounded=pl.Series(rounded))


def rounded_together(cells: Tabulation, base: int, seconds: float | None = None) -> IntArray:
    """The rounded published cells of a controlled rounding.

    A 0-1 variable says whether a cell goes up, and its absolute change is linear in this variable. Unpublished inner
    cells also go to adjacent multiples.
    """
    sparse = scipy_part("sparse")
    inner, shown = cells.count, cells.published
    matrix = cells.matrix()
    rest, rest_shown = inner % base, shown % base
    n, m = len(inner), len(shown)
    # base * (matrix up - up_shown) = floors of the published cells minus the sums of floors of the inner cells
    lacking = ((shown - rest_shown) - matrix @ (inner - rest)) / base
    equations = sparse.hstack([matrix, -sparse.eye_array(m)]).tocsr()
    published = np.where(rest_shown > 0, base - 2 * rest_shown, 0)
    cost = np.concatenate([np.zeros(n), published])
    upper = np.concatenate([rest > 0, rest_shown > 0]).astype(float)
    found = integer_program(cost, equations, (lacking, lacking), np.ones(n + m), upper, seconds=seconds)
    if found.x is None:
        raise InputError("no controlled rounding was found in the time given. Give more seconds, or fewer tables.")
    up = np.rint(found.x[n:]).astype(np.int64)
    rounded: IntArray = shown - rest_shown + base * up
    return rounded
