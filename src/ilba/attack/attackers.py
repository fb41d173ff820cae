"""Named attackers: what each of them knows, as a sentence and as intervals, and what each learns from a release.

Everything here is confidential: it compares what an attacker learns with the true counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.bounds import Attack
from ilba.attack.intervals import AttackerView, Brought, ExactRows, Intervals, at, open_cells
from ilba.attack.kernels import CELL, END, HIGH, LOW, close_area
from ilba.attack.lattice import Node, node_of, table_of
from ilba.attack.masksums import MaskSums
from ilba.attack.published import PublishedTables, packed_cells
from ilba.data.microdata import Microdata, labelled
from ilba.design.design import COUNT
from ilba.design.tables import wanted_tables
from ilba.errors import InputError, listing, nearest
from ilba.methods import masking

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_ROUNDS = 2
"""how often counts that a register proves narrow the masks, and these the counts"""
_POOLED = 20  # counts pooled from all tables when the error size of one table is estimated

KNOWS = {
    "proof": "has every released table and the method, and says only what is certain",
    "outsider": "has every released table and the method, and bets on what is likely",
    "neighbour": "also knows that a certain person is in the cell",
    "insider": "knows the true count of every finest cell except one",
    "register": "has exact counts of {tables} from elsewhere",
    "attribute": "looks for groups in which everybody is shown with the same value",
}
"""what each attacker knows, as a sentence"""
RELIES = (
    "On controlled sums an insider relies on the given bound, or on the largest loss if that bound was not held. If "
    "none is given, the insider relies on the usual bound if it holds, else on 3K-2 if that holds, else on none. In a "
    "first publication the usual bound holds with 19 of 20 secrets, and the secret chooses no bound above 3K-2. A "
    "later publication keeps masks, so errors may be larger. Nobody outside knows which bound holds then, so the "
    "measured share is more than an insider can be sure of. The share depends much on the bound and on the secret. An "
    "insider who lacks one cell or one person also uses the numbers of masks, if they follow the public rule."
)
"""on what an insider relies, as sentences"""
NEEDS_TRUTH = "this attacker is measured against the truth. Give the store: risk(release, store=...)."


@dataclass(frozen=True)
class Register:
    """An attacker who has exact tables from elsewhere, such as a population register.

    Parameters
    ----------
    tables : dict of str to frame or path
        For each table name, such as "LA3.gender", its labels and the true count N. A cell without a row counts 0.

    Examples
    --------
    >>> import polars as pl
    >>> Register({"town.sex": pl.DataFrame({"town": ["a"], "sex": [1], "N": [3]})}).name
    'register town.sex'
    """

    tables: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The attacker's name in a report."""
        return f"register {' + '.join(self.tables)}"


@dataclass(frozen=True)
class Insider:
    """An attacker who knows nearly everybody.

    Parameters
    ----------
    unknown : int, optional
        The number of people that the insider does not know. Measured on the small cells whose people are all unknown.
        By default, the insider lacks the people of one small cell.
    cells : int, default 1
        Without `unknown`: the number of small cells of one area that the insider does not know.
    secrets : int, default 3
        With controlled masks of a first publication: the number of other secrets for which the share is shown. The
        share depends on a few national counts that happen to lie at the bound. After an earlier publication its masks
        are kept, and no other secret can be used.

    Examples
    --------
    >>> Insider().name, Insider(unknown=2).name, Insider(cells=5).name
    ('insider', 'insider, 2 people unknown', 'insider, 5 cells unknown')
    """

    unknown: int | None = None
    cells: int = 1
    secrets: int = 3

    @property
    def name(self) -> str:
        """The attacker's name in a report."""
        if self.unknown is not None:
            return f"insider, {'1 person' if self.unknown == 1 else f'{self.unknown} people'} unknown"
        return "insider" if self.cells == 1 else f"insider, {self.cells} cells unknown"

    @property
    def knows(self) -> str:
        """What the attacker knows, as a sentence."""
        if self.unknown is not None:
            return f"knows everybody except {'one person' if self.unknown == 1 else f'{self.unknown} people'}"
        more = "" if self.cells == 1 else f" except {self.cells} small ones of an area"
        return KNOWS["insider"] if not more else KNOWS["insider"].replace(" except one", more)


Attacker: TypeAlias = str | Register | Insider


def name_of(attacker: Attacker) -> str:
    """The name of an attacker in a report."""
    return attacker if isinstance(attacker, str) else attacker.name


def checked(attackers: Any) -> list[Attacker]:
    """Check the requested attackers and return them as a list."""
    given = [attackers] if isinstance(attackers, (str, Register, Insider)) else list(attackers)
    found: list[Attacker] = []
    for one in given:
        if isinstance(one, str) and one not in ("proof", "outsider", "neighbour", "insider", "attribute"):
            hint = nearest(one, KNOWS)
            if one == "register":
                raise InputError(
                    'a register needs its tables: ilba.Register({"LA3.gender": frame}), or --register '
                    "LA3.gender=register.csv instead of --attacker."
                )
            raise InputError(f"attacker {one!r} is not known.{hint} It is {listing(sorted(KNOWS))}.")
        if isinstance(one, Insider) and (one.cells < 1 or (one.unknown is not None and one.unknown < 1)):
            raise InputError("an insider lacks at least one person or one cell: Insider(unknown=1), Insider(cells=1).")
        if isinstance(one, Insider) and one.unknown is not None and one.cells != 1:
            raise InputError("an insider lacks people or cells: give Insider(unknown=...) or Insider(cells=...).")
        if not isinstance(one, (str, Register, Insider)):
            raise InputError(
                f"an attacker is a name, ilba.Register or ilba.Insider, not a {type(one).__name__}. "
                f"The names are {listing(sorted(set(KNOWS) - {'register'}))}."
            )
        found.append(one)
    if not found:
        raise InputError(f"no attacker was named. They are {listing(sorted(KNOWS))}.")
    return found


def exact_rows(view: PublishedTables, register: Register) -> dict[Node, ExactRows]:
    """The tables of a register as cells and counts."""
    found = {}
    for name, given in register.tables.items():
        (selection,) = wanted_tables(view.design, [name])
        source = Microdata.open(given)
        absent = [column for column in [*selection.columns, COUNT] if column not in source.columns]
        if absent:
            raise InputError(
                f"the register's table {name!r} has no column {listing(absent)}. It needs {listing(selection.columns)} "
                f"and the true count {COUNT}."
            )
        frame = labelled(source.read([*selection.columns, COUNT]), selection.columns)
        packed = packed_cells(view.codes, view.codes.cell_index(selection), selection, frame)
        order = np.argsort(packed, kind="stable")
        if (np.diff(packed[order]) == 0).any():
            raise InputError(f"the register's table {name!r} has two rows for the same cell.")
        counted = frame[COUNT]
        if counted.dtype == pl.String:  # as text files give it
            counted = counted.str.to_integer(strict=False)
        if counted.null_count() or (counted < 0).any():
            raise InputError(f"the register's table {name!r} has a count that is not a whole number of 0 or more.")
        counts = masking.whole_numbers(COUNT, counted.to_numpy())[order]
        found[node_of(view.design, selection)] = ExactRows(packed[order], counts)
    return found


def read_register(spec: str) -> tuple[str, Path]:
    """Read a register's table from the form NAME=FILE."""
    name, _, path = spec.partition("=")
    if not path:
        raise InputError(f"--register {spec} names no file. Write it as LA3.gender=register.csv.")
    return name, Path(path).expanduser()


def proven_small(low: IntArray, high: IntArray, K: int) -> BoolArray:
    """Which ranges lie in 1..K-1. An empty range proves nothing: it contradicts what the attacker relied on.

    >>> proven_small(np.array([1, 0, 3]), np.array([4, 4, 2]), 5).tolist()
    [True, False, False]
    """
    found: BoolArray = (low >= 1) & (low <= high) & (high < K)
    return found


class Known(NamedTuple):
    """What an attacker has proven: low and high of the cells that the tables tell apart and that may be occupied."""

    view: PublishedTables
    attack: Attack
    packed: IntArray
    low: IntArray
    high: IntArray

    @classmethod
    def of(cls, published: PublishedTables, brought: Brought | None = None, progress: Any = None) -> Known:
        """Run the attack with the attacker's own knowledge."""
        view = AttackerView(published, brought or Brought())
        attack = Attack(view).run(progress)
        is_bounding = view.by_masks and view.brought.exact and view.method is None
        for _ in range(_ROUNDS if is_bounding else 0):
            view.masks = MaskSums(view, attack)
            attack = Attack(view).run(progress)
        return cls(view, attack, *open_cells(attack, table=published.lattice.base))

    @property
    def proven(self) -> BoolArray:
        """Which cells are proven to lie in 1..K-1."""
        return proven_small(self.low, self.high, self.view.K)

    @property
    def exactly(self) -> BoolArray:
        """Which cells are proven to have exactly one possible count."""
        found: BoolArray = self.proven & (self.low == self.high)
        return found


class Insight(NamedTuple):
    """For each truly small cell: what an insider who lacks only this cell knows about it."""

    packed: IntArray
    counts: IntArray
    low: IntArray
    high: IntArray

    def proven(self, K: int) -> BoolArray:
        """Which cells the insider proves to lie in 1..K-1."""
        return proven_small(self.low, self.high, K)


def everything_but_one(view: PublishedTables, tables: list[Node] | None = None) -> Insight:
    """What an insider who lacks a single small cell proves about it, for each such cell: in closed form, and complete.

    All other counts are known, so the unknown count can move as far as the intervals of its own aggregates allow.
    """
    packed, counts, masked = small_cells(view)
    K = view.K
    low, high = np.where(masked == K, 1, 0), np.where(masked == K, K, K - 1)
    inside = (counts > 0) & (counts < K)
    known = Intervals.of(view, (packed, np.where(inside, low, counts), np.where(inside, high, counts)), tables)
    own = at(packed, counts, known.packed)
    total = known.sums(own)
    least, most = known.least, known.most
    may_empty: BoolArray = np.ones(len(own), dtype=bool)
    if known.occupancy is not None:
        rule = known.occupancy
        n = known.sums((own > 0).astype(np.int64)) + rule.n_settled
        ends = [
            np.where(rule.exact, e, w - rule.sum_settled)
            for e, w in zip((least, most), masking.preimage(rule.released, n, rule.at_k, K), strict=True)
        ]
        fewer = [
            np.where(rule.exact, e, w - rule.sum_settled)
            for e, w in zip((least, most), masking.preimage(rule.released, n - 1, rule.at_k, K), strict=True)
        ]
        least, most = ends
        left = total[known.member] - own[:, None]
        may_empty = np.all((fewer[0][known.member] <= left) & (left <= fewer[1][known.member]), axis=1)
    far = np.full(len(own), 2**40)
    down = np.minimum.reduce((total - least)[known.member], axis=1, initial=2**40) if known.tables else far
    up = np.minimum.reduce((most - total)[known.member], axis=1, initial=2**40) if known.tables else far
    new_low, new_high = np.maximum(known.low, own - down), np.minimum(known.high, own + up)
    if known.occupancy is not None:
        new_low = np.where(may_empty & (known.low == 0), 0, np.maximum(new_low, 1))
    if view.policy.listed:
        new_low = np.maximum(new_low, 1)
    return Insight(known.packed, own, new_low, new_high)


def everything_but_some(view: PublishedTables, unknown: int, cells: int = 200, seed: int = 2010) -> Insight:
    """What an insider who lacks several small cells of one area proves: by propagation, for a sample of cells."""
    packed, counts, masked = small_cells(view)
    K, width = view.K, view.lattice.width(view.lattice.base)
    small = np.flatnonzero((counts > 0) & (counts < K))
    area = packed[small] // width
    areas, number = np.unique(area, return_counts=True)
    areas = areas[number >= unknown]
    rng, parts = np.random.default_rng(seed), []
    low, high = np.where(masked == K, 1, 0), np.where(masked == K, K, K - 1)
    for _ in range(-(-cells // unknown) if len(areas) else 0):
        chosen = rng.choice(small[area == rng.choice(areas)], unknown, replace=False)
        inside = np.zeros(len(packed), dtype=bool)
        inside[chosen] = True
        known = Intervals.of(view, (packed, np.where(inside, low, counts), np.where(inside, high, counts)))
        own = at(packed, counts, known.packed)
        if known.occupancy is not None:  # only these cells may still be empty or occupied
            known = replace(known, occupancy=None)
        parts.append((known.packed, own, *propagated(known)))
    if not parts:
        empty = np.zeros(0, np.int64)
        return Insight(empty, empty, empty, empty)
    return Insight(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def insider_beliefs(
    view: PublishedTables,
    cells: tuple[IntArray, IntArray, IntArray],
    counts: IntArray,
    log: FloatArray,
    tables: list[Node] | None = None,
    fits: BoolArray | None = None,
) -> FloatArray:
    """How likely each count of a cell is to an insider who knows all others, where sums of masks are released.

    Masks are chosen so that the errors of sums are small. A count is therefore less likely if it makes the errors of
    the cell's own sums larger. The insider estimates how much less likely from the known cells: each table is weighted
    by the size of its errors, and one common scale is fitted to the known counts by maximum likelihood.

    Parameters
    ----------
    view : PublishedTables
        Released sums of masks, with the truth.
    cells : tuple of three arrays
        Finest cells as integers, sorted, with low and high.
    counts : array of int
        Their true counts.
    log : array of float
        The prior log-probability of each count 0..K.
    tables : list of tuple of int, optional
        Only the sums of these tables. By default, all tables.
    fits : array of bool, optional
        Which counts 0..K of each cell are possible. By default, all.

    Returns
    -------
    array of float
        A row for each cell, a column for each count.
    """
    K = view.K
    found: FloatArray = np.zeros((len(cells[0]), K + 1))
    is_open = cells[1] < cells[2]
    found[np.flatnonzero(~is_open), np.minimum(cells[1][~is_open], K)] = 1
    known = Intervals.of(AttackerView(view, Brought(bound=2**20)), cells, tables)
    own = counts[is_open]
    error = ((known.least + known.most) // 2 - known.sums(own)).astype(np.float64)  # of the released sums
    size = np.bincount(known.member.reshape(-1), minlength=len(error))
    whole = float((error[size > 1] ** 2).mean()) if (size > 1).any() else 0.0
    s, q, m = np.zeros(len(own)), np.zeros(len(own)), 0.0
    for table in range(len(known.tables)):
        inside = slice(int(known.first[table]), int(known.first[table + 1]))
        several = error[inside][size[inside] > 1]
        # A table of few counts tells little about the size of its errors, and the unknown count is one of them.
        spread = (float((several**2).sum()) + _POOLED * whole) / (len(several) + _POOLED)
        weight = 1 / max(spread, 0.25)
        off = error[known.member[:, table]]
        s, q, m = s + weight * off, q + weight * off**2, m + weight
    moved = own[:, None] - np.arange(K + 1)
    cost = q[:, None] + 2 * moved * s[:, None] + m * moved**2
    share = np.arange(K + 1) / K
    with np.errstate(divide="ignore"):
        before = log[is_open] + np.where(known.at_k[:, None], np.log(share), np.log(1 - share))
    if fits is not None:
        before[~fits[is_open]] = -np.inf

    def beliefs(scale: float) -> FloatArray:
        total = before - (cost - cost.min(axis=1, keepdims=True)) / (2 * scale)
        chance = np.exp(total - total.max(axis=1, keepdims=True))
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def score(scale: float) -> float:
        true = beliefs(scale)[np.arange(len(own)), np.minimum(own, K)]
        return float(np.log(np.maximum(true, 1e-12)).sum())

    if len(own):
        found[is_open] = beliefs(max(np.geomspace(0.5, 3000, 24).tolist(), key=score))
    return found


def small_cells(view: PublishedTables) -> tuple[IntArray, IntArray, IntArray]:
    """The occupied finest cells with a count of at most K: as integers, with true and masked counts."""
    rows = view.base
    if rows is None or rows.truth is None:
        raise InputError(NEEDS_TRUTH)
    small = rows.truth.sum_small + rows.truth.sum_large <= view.K if view.move else rows.truth.sum_large == 0
    counts = rows.truth.sum_small[small].astype(np.int64) + rows.truth.sum_large[small]
    return rows.packed[small], counts, rows.value[small].astype(np.int64)


def propagated(known: Intervals) -> tuple[IntArray, IntArray]:
    """Propagate bounds between cells and aggregates, without tables between them; return low and high."""
    n, sets = len(known.packed), len(known.least)
    flat = known.member.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(sets + 1))
    members = (order // max(known.member.shape[1], 1)).astype(np.uint32)
    families = np.arange(n, n + sets, dtype=np.uint32), starts, members
    listed = np.zeros((n + sets, 8), np.int64)
    listed[:, CELL], listed[:, END] = np.arange(n + sets), -1
    for column, end in ((LOW, (known.low, known.least)), (HIGH, (known.high, known.most))):
        listed[:, column] = np.clip(np.concatenate(end), -(2**30), 2**30)
    mark = np.iinfo(np.int64).max
    row = np.full(n + sets, mark, np.int64)  # every cell is listed
    runs = np.array([0, sets]), np.array([1]), np.array([0])
    work = np.empty_like(listed), np.empty(n + sets, np.int32)
    close_area(row, listed, *work, families, runs, np.ones(2, np.uint8), known.K, False, mark)
    return listed[:n, LOW].copy(), listed[:n, HIGH].copy()


def largest_error(view: PublishedTables) -> int:
    """How far a released sum lies from the truth at most; 0 if the truth is not known."""
    return max(
        (
            int(np.abs(rows.value.astype(np.int64) - rows.truth.sum_small - rows.truth.sum_large).max(initial=0))
            for node, rows in view.tables.items()
            if rows.truth is not None and node != view.lattice.base
        ),
        default=0,
    )


def errors_within(view: PublishedTables, bound: int) -> bool:
    """Whether every released sum is within a bound of the truth."""
    return largest_error(view) <= bound


def frame_of(view: PublishedTables, packed: IntArray, **columns: Any) -> pl.DataFrame:
    """A frame of the labels of finest cells, with the given values."""
    index = view.codes.cell_index(table_of(view.design, view.lattice.base))
    labels = view.codes.labels(index, [packed])
    return pl.DataFrame([*labels, *(pl.Series(name, values) for name, values in columns.items())])
