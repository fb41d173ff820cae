"""Perturbation tables (p-tables) of the cell key method: made by maximum entropy, or read in the layouts of offices.

For each true count, a p-table gives the chance of each published number. Its rows are intervals of [0, 1). The cell key
falls into one of them and so decides the published number.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, listing, suggesting
from ilba.methods.moves import KeyedTable
from ilba.methods.solver import scipy_part
from ilba.methods.tabulation import polars_frame

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
_LEAST = 1e-8  # no chance is smaller
_DIGITS = 8
_SOLVES = 20
_STEP = 0.05
_SLACK = 0.005  # chances of a given p-table may be rounded
_EXACT = 1e-6  # bounds alone end at 1: nothing else would show that one is wrong


@suggesting
def ptable(
    D: int, V: float, js: int = 0, pstay: float | None = None, monotone: bool | Iterable[int] = False
) -> pl.DataFrame:
    """Make the p-table of maximum entropy: unbiased, with a largest variance and a largest change.

    Parameters
    ----------
    D : int
        The largest change of a count.
    V : float
        The largest variance of the change. The rows of small counts may have less.
    js : int, default 0
        The results 1..js never occur.
    pstay : float, optional
        The least chance that a count stays unchanged. It is lowered if the variance cannot be reached with it.
    monotone : bool or iterable of int, default False
        Whether the chances of decreases never fall towards no change, as by default in R (`mono=TRUE`); or the rows
        for which this holds.

    Returns
    -------
    polars.DataFrame
        Columns i (true count; the last row is for all larger ones), j (result), p (chance), lower and upper (keys).

    Raises
    ------
    InputError
        There is no such table; the message says why.
    MissingExtra
        SciPy is not installed.

    Examples
    --------
    >>> ptable(D=1, V=0.5).filter(pl.col("i") == 1)["p"].round(4).to_list()
    [0.25, 0.5, 0.25]
    """
    D, js = _whole("D", D, 1), _whole("js", js, 0)
    if not V > 0:
        raise InputError(f"V={V!r}: a variance above 0 is needed.")
    if pstay is not None and not 0 <= pstay < 1:
        raise InputError(f"pstay={pstay!r} is not a probability below 1.")
    last = D if js == 0 else D + js + 1
    rows: range | set[int] = range(last + 1) if monotone is True else set(monotone or ())
    frames = [_row(0, np.zeros(1, dtype=np.int64), np.ones(1))]
    for i in range(1, last + 1):
        results = np.array([j for j in range(max(0, i - D), i + D + 1) if not 1 <= j <= js])
        _check_possible(i, results - i, D, V, js)
        frames.append(_row(i, results, _entropic(results - i, V, pstay or 0.0, i in rows)))
    return pl.concat(frames)


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}={value!r} is not a whole number of at least {least}.")
    return int(value)


def _check_possible(i: int, v: IntArray, D: int, V: float, js: int) -> None:
    """Refuse an impossible row: without bias, the variance is at least that of the two nearest results."""
    if v.min() >= 0 or v.max() <= 0:
        raise InputError(
            f"D={D} is too small for js={js}: every change of the count {i} would be in one direction. Give a larger D "
            f"or a smaller js."
        )
    if (v == 0).any():
        return
    below, above = int(-v[v < 0].max()), int(v[v > 0].min())
    if below * above >= V:
        raise InputError(
            f"V={V} is not possible with js={js}: the count {i} becomes {i - below} or {i + above} at best, so "
            f"its variance is at least {below * above}, and that only with these two. Give a larger V or a smaller js."
        )


def _entropic(v: IntArray, V: float, pstay: float, monotone: bool) -> FloatArray:
    """The chances of maximum entropy; the least chance to stay is lowered until the variance is reached."""
    stays = np.flatnonzero(v == 0)
    bound = pstay
    for _ in range(_SOLVES):
        p = _solved(v, V, max(bound, _LEAST), monotone)
        if not len(stays) or round(float(v**2 @ p), 3) == V:
            break
        bound = max(bound - _STEP, _LEAST)
    return p


def _solved(v: IntArray, V: float, stay: float, monotone: bool) -> FloatArray:
    optimize = scipy_part("optimize")
    least = np.where(v == 0, stay, _LEAST)
    rules: list[dict[str, Any]] = [
        {
            "type": "eq",
            "fun": lambda p: np.array([p.sum() - 1, v @ p]),
            "jac": lambda p: np.vstack([np.ones(len(v)), v]),
        },
        {"type": "ineq", "fun": lambda p: np.array([V - v**2 @ p]), "jac": lambda p: -(v**2)[None, :].astype(float)},
    ]
    if monotone and (v == 0).any():
        rise = np.array([np.eye(len(v))[k + 1] - np.eye(len(v))[k] for k in range(int(np.argmax(v == 0)))])
        if len(rise):
            rules.append({"type": "ineq", "fun": lambda p: rise @ p, "jac": lambda p: rise})
    start = np.exp(-(v**2) / (2 * V))
    found = optimize.minimize(
        lambda p: float((p * np.log2(p)).sum()),
        start / start.sum(),
        jac=lambda p: np.log2(p) + 1 / np.log(2),
        bounds=[(low, 1.0) for low in least],
        constraints=rules,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    p: FloatArray = np.clip(found.x, least, 1)
    if abs(p.sum() - 1) > 1e-6 or abs(v @ p) > 1e-6:
        raise InputError(
            f"no unbiased probabilities were found for the changes {listing(v)} with V={V} and pstay={stay:.2f}. "
            f"Give a larger V, a larger D or a smaller pstay."
        )
    return p


def _row(i: int, results: IntArray, p: FloatArray) -> pl.DataFrame:
    """A row as intervals with rounded bounds; the chances are the differences of the bounds."""
    bounds = np.round(np.append(0.0, np.cumsum(p)), _DIGITS)
    bounds[-1] = 1.0
    chances = np.round(np.diff(bounds), _DIGITS)
    return pl.DataFrame(
        {"i": np.full(len(p), i), "j": results, "p": chances, "lower": bounds[:-1], "upper": bounds[1:]}
    )


def read_ptable(given: Any, *, closed: str = "left") -> KeyedTable:
    """Read a p-table of the ONS (pcv, ckey, pvalue) or of European offices (i, j and upper bounds of intervals).

    `closed` says where a key on a bound belongs: "left" to the interval above, as in the R packages; "right" to the one
    below, as in the Handbook.
    """
    if closed not in ("left", "right"):
        raise InputError(f"closed={closed!r} is not known. It is 'left' or 'right'.")
    frame = read_ptable_file(os.fspath(given)) if isinstance(given, str | os.PathLike) else polars_frame(given)
    if {"pcv", "ckey", "pvalue"} <= set(frame.columns):
        return _ons_layout(frame)
    upper = next((name for name in ("upper", "p_int_ub", "ub") if name in frame.columns), None)
    if not {"i", "j"} <= set(frame.columns) or (upper is None and "p" not in frame.columns):
        raise InputError(
            f"this is not a p-table: it has {listing(frame.columns)}. The layout of the ONS has pcv, ckey, pvalue; the "
            f"European one i, j and p, upper or p_int_ub."
        )
    bounds = [] if upper is None else [upper]
    lower = next((name for name in ("lower", "p_int_lb", "lb") if bounds and name in frame.columns), None)
    has_chances, wrong_width = "p" in frame.columns, f"p is not the width of the interval up to {upper}"
    more = [name for name in ("p", "v", lower) if name and name in frame.columns]
    _check_numbers(frame, ["i", "j"], [*bounds, *more], ["i", "j", *bounds])
    if "v" in more:
        _refuse_unlike(frame.filter(pl.col("v") + pl.col("i") != pl.col("j")), "v is not the change j - i", "v")
    if lower and has_chances:
        other = (pl.col(*bounds) - pl.col(lower) - pl.col("p")).abs() > _SLACK
        _refuse_unlike(frame.filter(other), f"p is not the width of the interval from {lower} to {upper}", lower)
    elif lower:
        frame = frame.with_columns(p=pl.col(*bounds) - pl.col(lower))
        wrong_width = f"{lower} is not the upper bound of the interval before"
    frame = frame.sort("i", "j")
    if upper is not None:
        is_sliced = frame.select("i", "j").is_duplicated().any()
        if is_sliced or frame.select((pl.col(upper).diff().over("i") < -_SLACK).any()).item():
            # Rearranged, as by modify_cnt_ptable of R: bounds give the order; of equal ones, an empty interval is last.
            frame = frame.sort("i", upper, *([-pl.col("p")] if "p" in frame.columns else []), maintain_order=True)
    if upper is None:
        frame, upper = frame.with_columns(upper=pl.col("p").cum_sum().over("i")), "upper"
    elif "p" in frame.columns:
        width = pl.col(upper).diff().over("i").fill_null(pl.col(upper))
        _refuse_unlike(frame.filter((width - pl.col("p")).abs() > _SLACK), wrong_width, "one column")
    return _eu_layout(frame, upper, closed, _SLACK if has_chances else _EXACT)


def _refuse_unlike(unlike: pl.DataFrame, wrong: str, needless: str) -> None:
    """Refuse a p-table with such rows, in which two columns contradict each other."""
    if unlike.height:
        raise InputError(
            f"the p-table contradicts itself at i={unlike['i'][0]}, j={unlike['j'][0]}: {wrong}. Correct one of them, "
            f"or leave {needless} out."
        )


def read_ptable_file(path: str) -> pl.DataFrame:
    """The p-table in a file: parquet, or csv with commas, tabs, or semicolons and perhaps decimal commas."""
    try:
        if path.lower().endswith(".parquet"):
            return pl.read_parquet(path)
        text = Path(path).read_text("utf-8-sig")
        head = text.partition("\n")[0]
        separator = max(",;\t", key=head.count)
        if separator not in head and " " in head.strip():
            raise InputError(
                f"the columns of the p-table {path!r} are separated by blanks. Commas, semicolons and tabs are read. "
                f"In R: write.csv(ptab@pTable, 'ptable.csv')."
            )
        text = re.sub(f" *([{separator}\n]) *", r"\1", text)  # pt_export of R pads numbers
        if separator != "," and "." not in text:
            text = text.replace(",", ".")
        return pl.read_csv(io.StringIO(text), separator=separator)
    except (OSError, UnicodeError, pl.exceptions.PolarsError) as problem:
        other = "it is neither csv nor parquet. R writes csv: write.csv(ptab@pTable, 'ptable.csv')"
        reason = problem.strerror if isinstance(problem, OSError) else other
        raise InputError(f"the p-table {path!r} cannot be read: {reason}.") from None


def _check_numbers(frame: pl.DataFrame, whole: Sequence[str], chances: Sequence[str], line: Sequence[str]) -> None:
    """Refuse a p-table without rows, with gaps, texts, NaN, counts below 0 or a line twice."""
    if not frame.height:
        raise InputError("the p-table has no rows.")
    for name in [*whole, *chances]:
        column = frame[name]
        # Every comparison with NaN is false, so no later check would find one.
        if not column.dtype.is_numeric() or column.null_count() or not column.cast(pl.Float64).is_finite().all():
            raise InputError(
                f"the column {name!r} of the p-table has a gap, a text, NaN or infinity. Give a number in each row."
            )
        if name in whole and (column % 1 != 0).any():
            raise InputError(f"the column {name!r} of the p-table has decimals. Give whole numbers.")
    if (frame[whole[0]] < 0).any() or (frame[whole[1]] < 0).any():
        raise InputError(f"the p-table has {whole[0]} or {whole[1]} below 0.")
    twice = frame.filter(frame.select(line).is_duplicated())
    if twice.height:
        raise InputError(f"the p-table has {whole[0]}={twice[whole[0]][0]}, {whole[1]}={twice[whole[1]][0]} twice.")


def _ons_layout(frame: pl.DataFrame) -> KeyedTable:
    _check_numbers(frame, ["pcv", "ckey", "pvalue"], [], ["pcv", "ckey"])
    frame = frame.select(pl.col("pcv", "ckey", "pvalue").cast(pl.Int64))
    parts, last = int(frame["ckey"].max()) + 1, int(frame["pcv"].max())  # type: ignore[arg-type]
    grid = np.zeros((last + 1, parts), dtype=np.int64)
    if frame.height != last * parts:
        raise InputError(
            f"the p-table has {frame.height:,} rows; {last} counts and {parts} keys need {last * parts:,}."
        )
    grid[frame["pcv"].to_numpy(), frame["ckey"].to_numpy()] = frame["pvalue"].to_numpy()
    upper = np.broadcast_to(np.arange(1, parts + 1), grid.shape)
    return KeyedTable(parts, grid, upper, last, min(_ONS_AGAIN, last))


_ONS_AGAIN = 250  # the last 250 rows are used for larger counts


def _eu_layout(frame: pl.DataFrame, upper: str, closed: str, slack: float) -> KeyedTable:
    parts = 10**_DIGITS
    rows = frame.partition_by("i", maintain_order=True)
    width, last = max(row.height for row in rows), len(rows) - 1
    if [int(row["i"][0]) for row in rows] != list(range(last + 1)):
        raise InputError("the rows i of a p-table are 0, 1, 2 and so on without a gap.")
    change = np.zeros((last + 1, width), dtype=np.int64)
    ends = np.full((last + 1, width), parts, dtype=np.int64)
    for i, row in enumerate(rows):
        exact = row[upper].to_numpy()
        if abs(exact[-1] - 1) > slack or (np.diff(exact, prepend=0.0) < -_SLACK).any():
            raise InputError(
                f"the probabilities of i={i} in the p-table are below 0, or do not add up to 1. In the order of j, "
                f"upper bounds rise to 1."
            )
        bounds = np.rint(exact * parts).astype(np.int64) + (closed == "right")
        change[i, : row.height] = row["j"].to_numpy() - i
        change[i, row.height :] = change[i, row.height - 1]
        ends[i, : row.height - 1] = bounds[:-1]
    moved = change[0, np.diff(ends[0], prepend=0) > 0]
    if moved.any():
        raise InputError(
            f"the p-table changes empty cells: it has i=0, j={moved.max()}. Empty cells stay 0, since nobody in them "
            f"has a key. Give i=0 the only row j=0 with p=1."
        )
    return KeyedTable(parts, change, ends, last, 1)
