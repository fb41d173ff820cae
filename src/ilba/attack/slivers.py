"""Two geographies that do not nest: what the differences between their areas disclose.

An example is municipalities and grid squares. A set of municipalities and the squares that lie wholly in it, or touch
it, may differ by few people: a sliver. Anybody who has both tables can subtract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from ilba.attack.field import MethodTables
from ilba.attack.lattice import node_of
from ilba.attack.published import PublishedTables
from ilba.design.design import COUNT
from ilba.errors import InputError, suggesting
from ilba.methods.lab import method_of
from ilba.methods.method import FAR, Method
from ilba.methods.tabulation import count_column, polars_frame
from ilba.tables.finest import FinestTable

_Sides: TypeAlias = tuple[list[str], list[str], bool]
"""the areas of a set, the areas of the other geography, and whether these lie in it"""

_MOST = 2_000_000
"""the most sets of areas that are examined"""


@suggesting
def slivers(
    source: Any,
    one: str,
    other: str,
    *,
    threshold: int | None = None,
    most: int = 4,
    methods: Sequence[Method | str] = (),
    secret: Any = None,
) -> pl.DataFrame:
    """Find sets of areas of one geography that differ by few people from areas of another one.

    Each set is connected: neighbours share an area of the other geography with people in both. On the inner side, the
    areas of the other geography that lie wholly in the set are subtracted from the set. On the outer side, the set is
    subtracted from the areas that touch it.

    Parameters
    ----------
    source : FinestTable or frame
        A finest table with both columns in separate hierarchies or keys; or a frame of both columns and counts.
    one : str
        The column of the geography whose areas are combined into sets.
    other : str
        The column of the other geography.
    threshold : int, optional
        A difference from 1 to threshold - 1 is a sliver. By default, the K of the finest table, or 5.
    most : int, default 4
        The largest number of areas in a set.
    methods : sequence of Method or str, optional
        With a finest table: publish both geographies by each of these methods, and say whether anybody can prove that
        the difference is small.
    secret : Secret or path, optional
        The secret of the finest table, for a method that chooses masks or draws.

    Returns
    -------
    polars.DataFrame
        The set, side, the areas of the other geography, n_one, n_other, difference, and minimal: whether no smaller set
        within it is a sliver of the same side. For each method, a column with its label holds the range of the
        difference that anybody can prove, and `LABEL proven` says whether it is small. Confidential.

    Raises
    ------
    InputError
        A column is missing, `most` is not a whole number from 1, or there are too many sets.

    Examples
    --------
    >>> people = pl.DataFrame({"town": ["a", "a", "b"], "square": ["x", "y", "y"], "N": [40, 3, 60]})
    >>> slivers(people, "town", "square", most=1).select("set", "side", "areas", "difference").rows()
    [('a', 'inner', 'x', 3), ('b', 'outer', 'y', 3)]
    """
    finest = source if isinstance(source, FinestTable) else None
    if methods and finest is None:
        raise InputError("methods= needs a finest table: build one with both geographies as hierarchies.")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InputError(f"most={most!r} is not a whole number from 1: it is the largest number of areas in a set.")
    K = threshold or (finest.design.threshold if finest is not None else 5)
    cross = _cross(source, one, other)
    found, sides = _Zones(cross, one, other).slivers(K, most)
    for method in methods:
        made = method_of(method)
        low, high = _told(sides, finest, made, one, other, secret)
        proven = (low >= 1) & (high < K)
        ends = zip(low.tolist(), high.tolist(), strict=True)
        words = [f"{a} to {b}" if b < FAR // 2 else f"{a} or more" for a, b in ends]
        found = found.with_columns(
            pl.Series(made.label, words, dtype=pl.String), pl.Series(f"{made.label} proven", proven)
        )
    return found


def _cross(source: Any, one: str, other: str) -> pl.DataFrame:
    """The number of people in each intersection of the two geographies."""
    frame = source.frame if isinstance(source, FinestTable) else polars_frame(source)
    for column in (one, other):
        if column not in frame.columns:
            raise InputError(f"there is no column {column!r}.")
    count = COUNT if isinstance(source, FinestTable) else count_column(frame, None)
    texts = frame.select(pl.col(one, other).cast(pl.String), pl.col(count).cast(pl.Int64).alias("n"))
    return texts.group_by(one, other).agg(pl.col("n").sum()).filter(pl.col("n") > 0).sort(one, other)


class _Zones:
    """Sets of areas as bits of whole numbers."""

    def __init__(self, cross: pl.DataFrame, one: str, other: str) -> None:
        self.names = cross[one].unique().sort().to_list()
        self.others = cross[other].unique().sort().to_list()
        place = {name: bit for bit, name in enumerate(self.names)}
        far = {name: bit for bit, name in enumerate(self.others)}
        self.people = [0] * len(self.names)
        self.other_people = [0] * len(self.others)
        self.touching = [0] * len(self.names)  # the areas of the other geography that each area touches
        self.members = [0] * len(self.others)  # the areas whose people each area of the other geography holds
        for name, area, n in cross.iter_rows():
            a, b = place[name], far[area]
            self.people[a] += n
            self.other_people[b] += n
            self.touching[a] |= 1 << b
            self.members[b] |= 1 << a
        self.beside = [0] * len(self.names)
        for a, touched in enumerate(self.touching):
            for b in _bits(touched):
                self.beside[a] |= self.members[b]

    def sets(self, most: int) -> list[int]:
        """All connected sets of up to `most` areas, small ones first."""
        found = layer = [1 << a for a in range(len(self.names))]
        for _ in range(most - 1):
            grown: set[int] = set()
            for chosen in layer:
                near = 0
                for a in _bits(chosen):
                    near |= self.beside[a]
                grown.update(chosen | 1 << a for a in _bits(near & ~chosen))
                if len(found) + len(grown) > _MOST:
                    raise InputError(f"there are more than {_MOST:,} sets of up to {most} areas. Give a smaller most=.")
            layer = sorted(grown)
            found = found + layer
        return found

    def slivers(self, K: int, most: int) -> tuple[pl.DataFrame, list[_Sides]]:
        """The sets whose difference is small, and the names on both sides of each."""
        sides: list[_Sides] = []
        rows: list[tuple[str, str, str, int, int, int, bool]] = []
        smaller: dict[str, list[int]] = {"inner": [], "outer": []}
        for chosen in self.sets(most):
            n = sum(self.people[a] for a in _bits(chosen))
            touched = 0
            for a in _bits(chosen):
                touched |= self.touching[a]
            inside = sum(1 << b for b in _bits(touched) if self.members[b] & ~chosen == 0)
            for side, areas, sign in (("inner", inside, 1), ("outer", touched, -1)):
                beside = sum(self.other_people[b] for b in _bits(areas))
                difference = sign * (n - beside)
                if 0 < difference < K:
                    minimal = not any(known & ~chosen == 0 for known in smaller[side])
                    smaller[side].append(chosen)
                    ours, theirs = [self.names[a] for a in _bits(chosen)], [self.others[b] for b in _bits(areas)]
                    sides.append((ours, theirs, side == "inner"))
                    rows.append((" ".join(ours), side, " ".join(theirs), n, beside, difference, minimal))
        columns: dict[str, Any] = dict.fromkeys(("set", "side", "areas"), pl.String)
        columns |= {"n_one": pl.Int64, "n_other": pl.Int64, "difference": pl.Int64, "minimal": pl.Boolean}
        return pl.DataFrame(rows, schema=columns, orient="row"), sides


def _bits(number: int) -> list[int]:
    """The positions of the set bits of a number."""
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found


def _told(
    sides: Sequence[_Sides], finest: FinestTable | None, method: Method, one: str, other: str, secret: Any
) -> tuple[Any, Any]:
    """The range of each difference that anybody can prove, if a method publishes both geographies."""
    if finest is None:
        raise InputError("methods= needs a finest table.")
    design = finest.design
    wanted = [design.select(0, [c]) if c in design.keys else design.select(c) for c in (one, other)]
    masked = method.masks(finest, wanted, secret, None, None)
    if method.policy is not None:
        published = PublishedTables.of(masked, method.policy, wanted)
    else:
        published = MethodTables.as_released(method, masked, wanted, secret)
    ends = []
    for selection in wanted:
        node = node_of(design, selection)
        areas = published.codes.lists[0].size(node[0])
        known = published.knowledge(node[0], 0, areas)[node]
        index = published.codes.cell_index(selection)
        names = published.codes.labels(index, [np.arange(index.grid)])[-1].cast(pl.String).to_list()
        least, largest = (np.moveaxis(side, -1, 0).reshape(-1).tolist() for side in (known.low, known.high))
        ends.append({name: (a, b) for name, a, b in zip(names, least, largest, strict=True)})
    low, high = np.zeros(len(sides), np.int64), np.zeros(len(sides), np.int64)
    for row, (chosen, around, is_inner) in enumerate(sides):
        ours, theirs = [ends[0][name] for name in chosen], [ends[1][name] for name in around]
        plus, minus = (ours, theirs) if is_inner else (theirs, ours)
        low[row] = max(sum(a for a, _ in plus) - sum(b for _, b in minus), 0)
        high[row] = sum(b for _, b in plus) - sum(a for a, _ in minus)
    return low, high
