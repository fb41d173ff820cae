"""The methods that can be compared, one class each: this package's own, and others of the field."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError, listing, nearest
from ilba.methods import noise, suppression
from ilba.methods.method import FAR, CountedTables, Method, Shown, TableCells
from ilba.methods.moves import KeyedTable, perturbation
from ilba.methods.ptables import ptable, read_ptable, read_ptable_file
from ilba.methods.rounding import conventional_rounding, random_rounding, rounded_together, whole_base
from ilba.methods.small_counts import round_small

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]


class _Own(Method):
    """A method of this package; the audit knows what its numbers say together with all others."""

    def publish(self, cells: CountedTables) -> list[Shown]:
        """See `Method.publish`; these methods publish from the masks of a finest table."""
        raise InputError(f"{self.name} is published from the masks of a finest table: see FinestTable.table.")

    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Say what one number tells by itself; `audit` says what all numbers tell together."""
        raise InputError(f"what {self.name} tells depends on K and on the finest table: see ilba.audit.")

    def smallest(self, K: int) -> int:
        """Publish nothing from 1 to K - 1."""
        return K


@dataclass(frozen=True)
class SCA(_Own):
    """Small cell adjustment of the finest cells; tables are sums of the results."""

    name = "sca"
    about = "small finest counts become 0 or K by chance; tables are sums of them"
    strong = "proves no small count; adds up"
    weak = "sums of many cells lie far from the truth"
    additive = True
    publishes = False
    policy = "sca-sums"


@dataclass(frozen=True)
class ILBA(_Own):
    """Information-loss-bounded aggregation.

    Parameters
    ----------
    cells : {"observed", "grid"}, default "observed"
        Which cells count as small cells of an aggregate.
    """

    name = "ilba"
    about = "the small cells of each count are released as the middle of a block of K numbers"
    strong = "every count within K + K/2 of the truth"
    weak = "many tables together prove small counts; does not add up"
    remembers = True
    policy = "ilba"
    cells: Literal["observed", "grid"] = "observed"

    def masks(self, finest: Any, wanted: Sequence[Any], secret: Any, bound: int | None, progress: Any) -> Any:
        """Take the same masks, with this reading of S."""
        return finest.with_cells(self.cells)


@dataclass(frozen=True)
class Controlled(_Own):
    """Jointly chosen masks of small cells; tables are plain sums.

    Parameters
    ----------
    bound : int, optional
        How far a count may lie from the truth.
    """

    name = "controlled"
    about = "small finest counts become 0 or K, chosen together so that all sums stay near the truth"
    strong = "proves no small count, from any number of tables; adds up; within a bound when first published"
    weak = "promises nothing about probabilities, or against an attacker who knows true counts from elsewhere"
    additive = True
    remembers = True
    policy = "controlled"
    bound: int | None = None

    def masks(self, finest: Any, wanted: Sequence[Any], secret: Any, bound: int | None, progress: Any) -> Any:
        """Choose masks for these tables."""
        return finest.controlled(wanted, bound if self.bound is None else self.bound, secret=secret, progress=progress)


@dataclass(frozen=True)
class CellKey(Method):
    """Cell keys: the keys of the people in a cell decide how its count is moved.

    Parameters
    ----------
    ptable : frame or path, optional
        The p-table, in the layout of the ONS or of European offices. By default, one is made from D, V, js and pstay,
        which cannot be given beside it.
    D : int, default 3
        The largest change of a count.
    V : float, default 2.0
        The largest variance of the change. The rows of small counts may have less.
    js : int, default 0
        The results 1..js never occur.
    pstay : float, optional
        The least chance that a count stays unchanged.
    threshold : int, default 0
        Counts below it are left blank.
    """

    name = "cell-key"
    about = "the random keys of the people in a cell, added up, pick a small change from a fixed table"
    strong = "the same people give the same number in every table; small changes with a known limit"
    weak = "many tables together narrow counts down; does not add up"
    keyed = True
    told = ("D", "V")
    ptable: Any = None
    D: int = 3
    V: float = 2.0
    js: int = 0
    pstay: float | None = None
    threshold: int = 0
    _file = ""

    def __post_init__(self) -> None:
        if isinstance(self.ptable, str | os.PathLike):
            file = os.fspath(self.ptable)
            object.__setattr__(self, "ptable", read_ptable_file(file))
            object.__setattr__(self, "_file", f"={Path(file).name}")
        if self.ptable is not None:
            defaults = {field.name: field.default for field in fields(self)}
            _refuse_beside({name: getattr(self, name) for name in _MADE if getattr(self, name) != defaults[name]})
            found = read_ptable(self.ptable)  # refuses a wrong one here, not at its first use
            under = np.argwhere(np.arange(found.last + 1)[:, None] + found.change < 0)
            if len(under) and not self.threshold:
                raise InputError(
                    f"the p-table moves counts below 0, first at pcv={under[0][0]}, ckey={under[0][1]}. Correct it, or "
                    f"leave small counts blank: threshold=1 or more."
                )

    @property
    def blanks(self) -> bool:  # type: ignore[override]
        """Whether counts may be left blank: yes, with a threshold."""
        return bool(self.threshold)

    @property
    def absent_blank(self) -> bool:  # type: ignore[override]
        """Whether empty cells are left blank too: yes, if 0 is below the threshold."""
        return bool(self.threshold)

    @property
    def label(self) -> str:
        """The method with its parameters, as tables show it."""
        if self.ptable is None:
            return super().label
        return f"{self.name} ptable{self._file}" + (f" threshold={self.threshold}" if self.threshold else "")

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values, as a release states them; the checksum of a given p-table."""
        if self.ptable is not None:
            found: dict[str, Any] = {"ptable": self.moves.mark, "D": int(np.abs(self.moves.change).max())}
        else:
            found = {"D": int(self.D), "V": float(self.V), "js": int(self.js)}
            found |= {} if self.pstay is None else {"pstay": float(self.pstay)}
        return {**found, **({"threshold": self.threshold} if self.threshold else {})}

    @cached_property
    def moves(self) -> KeyedTable:
        """The p-table, ready for look-ups."""
        made = ptable(self.D, self.V, self.js, self.pstay) if self.ptable is None else self.ptable
        return read_ptable(made)

    def publish(self, cells: CountedTables) -> list[Shown]:
        """Move each count by its cell key."""
        shown = []
        for table, key in zip(cells.tables, cells.keys(self.moves.parts), strict=True):
            value = table.count + perturbation(table.count, key, self.moves)
            shown.append(Shown(value, value < self.threshold if self.threshold else None))
        return shown

    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Find the counts that the p-table can move to each value."""
        return self.moves.reach(value)

    def smallest(self, K: int) -> int:
        """Find the first number that the p-table can move a count to, and that is not left blank."""
        first = max(self.threshold, 1)
        numbers = np.arange(first, first + self.moves.last + int(np.abs(self.moves.change).max()) + 2)
        _, most = self.moves.reach(numbers)
        return int(numbers[most >= 0][0])

    def blank_range(self, K: int) -> tuple[int, int]:
        """Say that a blank is a count that was below the threshold after its move."""
        return 0, self.threshold - 1 + int(np.abs(self.moves.change).max())

    def chance(self, value: IntArray, count: IntArray, size: IntArray, tables: int) -> FloatArray | None:
        """Look up the chance in the p-table."""
        return self.moves.chance(value, count)

    def blank_chance(self, count: IntArray, K: int) -> FloatArray:
        """Add up the chances of all numbers below the threshold."""
        below = np.zeros(np.shape(count))
        for value in range(-int(np.abs(self.moves.change).max()), self.threshold):
            below += self.moves.chance(np.full(np.shape(count), value), count)
        return below


@dataclass(frozen=True)
class Rounding(Method):
    """Rounding of each count to a multiple of a base.

    Parameters
    ----------
    base : int, default 5
        The base, at least 2.
    kind : {"random", "conventional", "controlled"}, default "random"
        At random without bias, to the nearest multiple, or all together so that sums hold (by HiGHS, for small tables).
    seconds : float, default 60.0
        With "controlled": how long to search.
    """

    name = "rounding"
    about = "each count becomes a multiple of the base next to it"
    strong = "simple; nothing from 1 to base - 1 is published; each count within the base"
    weak = "tables that overlap narrow counts down; sums hold only if all are rounded together"
    told = ("base",)
    base: int = 5
    kind: Literal["random", "conventional", "controlled"] = "random"
    seconds: float = 60.0

    def __post_init__(self) -> None:
        whole_base(self.base)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values, as a release states them; the time only if there is a search."""
        return {name: value for name, value in super().parameters.items() if name != "seconds" or self.joint}

    @property
    def joint(self) -> bool:  # type: ignore[override]
        """Whether a number depends on the other tables: yes, if all are rounded together."""
        return self.kind == "controlled"

    @property
    def timed(self) -> bool:  # type: ignore[override]
        """Whether time limits a search: yes, if all are rounded together."""
        return self.kind == "controlled"

    @property
    def additive(self) -> bool:  # type: ignore[override]
        """Whether published sums hold: yes, if all are rounded together."""
        return self.kind == "controlled"

    def publish(self, cells: CountedTables) -> list[Shown]:
        """Round each count."""
        if self.kind == "controlled":
            return [Shown(v) for v in cells.split(rounded_together(cells.joint, self.base, self.seconds))]
        if self.kind == "conventional":
            return [Shown(conventional_rounding(table.count, self.base)) for table in cells.tables]
        return [
            Shown(random_rounding(table.count, self.base, cells.draws(table, "rounding"))) for table in cells.tables
        ]

    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Allow a distance of less than the base, or of at most half the base."""
        below = self.base // 2 if self.kind == "conventional" else self.base - 1
        above = (self.base - 1) // 2 if self.kind == "conventional" else self.base - 1
        return np.maximum(value - below, 0), value + above

    def smallest(self, K: int) -> int:
        """Publish multiples of the base."""
        return self.base

    def chance(self, value: IntArray, count: IntArray, size: IntArray, tables: int) -> FloatArray | None:
        """Give the chance of rounding there, which falls with the distance; conventional rounding has no chance."""
        if self.kind == "conventional":
            return super().chance(value, count, size, tables)
        return np.where(value % self.base == 0, np.maximum(1 - np.abs(value - count) / self.base, 0.0), 0.0)


@dataclass(frozen=True)
class SmallCountRounding(Method):
    """Joint rounding of small inner cells only; tables are sums of the results.

    Parameters
    ----------
    base : int, default 5
        Small counts become 0 or this number.
    """

    name = "small-count-rounding"
    about = "small counts become 0 or the base, chosen together so that published sums stay near the truth"
    strong = "adds up; nothing from 1 to base - 1 is published; proves little"
    weak = "no bound on how far a sum may lie from the truth; later tables need the same cells"
    additive = True
    joint = True
    told = ("base",)
    base: int = 5

    def __post_init__(self) -> None:
        whole_base(self.base)

    def publish(self, cells: CountedTables) -> list[Shown]:
        """Round the small inner cells and sum again."""
        rng = cells.rng("small counts")
        inner = round_small(cells.joint, self.base, self.base - 1, True, False, rng, at_once=_TOGETHER)
        return [Shown(value) for value in cells.split(cells.joint.sums(inner))]

    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Read every base in a number as 1 to base, and every finest cell of 0 as up to base - 1."""
        most = self.base - 1
        low = value - most * (value // self.base)
        high = value + most * (size - (value > 0))
        alone = size == 1
        low = np.where(alone & (value > self.base), value, low)
        high = np.where(alone, np.where(value >= self.base, value, most), high)
        return low, high

    def behind(self, low: IntArray, high: IntArray, size: IntArray) -> tuple[IntArray, IntArray] | None:
        """Read both ends, and the first multiple of the base between them, behind which the fewest people are."""
        multiple = -(-low // self.base) * self.base
        first, last = self.preimage(low, size), self.preimage(high, size)
        least = self.preimage(np.where(multiple <= high, multiple, low), size)[0]
        return np.minimum(first[0], least), np.maximum(first[1], last[1])

    def smallest(self, K: int) -> int:
        """Publish sums of numbers that are 0 or at least the base."""
        return self.base

    def chance(self, value: IntArray, count: IntArray, size: IntArray, tables: int) -> FloatArray | None:
        """Assume that a small finest count is raised without bias; for a sum, use its range alone."""
        up = np.where(count <= self.base, count / self.base, 0.0)
        same = (count == value) & (value > self.base)
        alone = np.where(value == self.base, up, np.where(value == 0, (1 - up) * (count < self.base), same))
        low, high = self.preimage(value, size)
        return np.where(size == 1, alone, (low <= count) & (count <= high)).astype(np.float64)


@dataclass(frozen=True)
class Suppression(Method):
    """Suppression: small cells are left blank, and other cells to protect them.

    Parameters
    ----------
    max_n : int, optional
        Counts 1..max_n must not be published. By default, K - 1.
    kind : {"gauss", "primary", "optimal"}, default "gauss"
        How the other blanks are found, as in `suppress`.
    width : float, optional
        With "optimal": the least width of each primary cell's range. By default, wide enough that nobody can prove it
        primary.
    seconds : float, default 60.0
        With "optimal": how long to search.
    """

    name = "suppression"
    about = "small counts are left blank, and further ones so that no blank can be computed"
    strong = "what is published is exact"
    weak = "many blanks; small cells remain visible; tables made separately undo each other"
    blanks = True
    max_n: int | None = None
    kind: Literal["gauss", "primary", "optimal"] = "gauss"
    width: float | None = None
    seconds: float = 60.0

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values, as a release states them; width and time only if there is a search."""
        idle = () if self.kind == "optimal" else ("width", "seconds")
        return {name: value for name, value in super().parameters.items() if name not in idle}

    @property
    def joint(self) -> bool:  # type: ignore[override]
        """Whether a number depends on the other tables: yes, unless only primary cells are blank."""
        return self.kind != "primary"

    @property
    def timed(self) -> bool:  # type: ignore[override]
        """Whether time limits a search: yes, for the optimal pattern."""
        return self.kind == "optimal"

    def publish(self, cells: CountedTables) -> list[Shown]:
        """Leave blanks."""
        most = cells.K - 1 if self.max_n is None else self.max_n
        joint = cells.joint
        blank = (joint.published > 0) & (joint.published <= most)
        if self.kind == "gauss":
            blank = suppression.gauss(joint, blank)
        elif self.kind == "optimal":
            # Zeros are published, so a blank is at least 1. With a range of width `most` it may exceed `most`.
            width = float(most) if self.width is None else self.width
            blank = suppression.best_pattern(joint, blank, width, self.seconds, least=1)
        return [Shown(table.count, hidden) for table, hidden in zip(cells.tables, cells.split(blank), strict=True)]

    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Read every published number as exact."""
        return value, value

    def smallest(self, K: int) -> int:
        """Leave counts up to max_n blank."""
        return K if self.max_n is None else self.max_n + 1

    def blank_range(self, K: int) -> tuple[int, int]:
        """Say that a blank is 1..max_n if only primary cells are blank, otherwise any count above 0."""
        return 1, (K - 1 if self.max_n is None else self.max_n) if self.kind == "primary" else FAR

    def blank_chance(self, count: IntArray, K: int) -> FloatArray:
        """Say that primary counts are always blank; the chance of other blanks depends on all tables."""
        most = K - 1 if self.max_n is None else self.max_n
        further = 0.0 if self.kind == "primary" else np.nan
        return np.where(count < 1, 0.0, np.where(count <= most, 1.0, further))


@dataclass(frozen=True)
class Noise(Method):
    """Noise of differential privacy on every count of the grid, including empty cells.

    Parameters
    ----------
    epsilon : float, default 1.0
        The privacy loss of all tables that are published together.
    kind : {"laplace", "gaussian"}, default "laplace"
        The distribution. For "gaussian", epsilon holds except with a chance of 10^-10.
    fit : bool, default False
        Measure only the levels of the first hierarchy by all keys. Fit them from the top down, below the true total, to
        counts that are not negative and add up. All other tables are sums.
    """

    name = "noise"
    about = "random whole numbers are added to counts; epsilon says how much one person can matter"
    strong = "bounds what anybody learns from one person's record, whatever they know; proves nothing"
    weak = "no limit to the error; empty cells fill up; epsilons add up over everything published"
    bounded: ClassVar[bool] = False
    joint = True
    fills = True
    told = ("epsilon",)
    epsilon: float = 1.0
    kind: Literal["laplace", "gaussian"] = "laplace"
    fit: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf"):
            raise InputError(f"epsilon={self.epsilon!r} is not a number above 0.")

    @property
    def additive(self) -> bool:  # type: ignore[override]
        """Whether published sums hold: only with the fit."""
        return self.fit

    @property
    def spends(self) -> float:  # type: ignore[override]
        """The epsilon of all tables that are published together."""
        return self.epsilon

    def distribution(self, tables: int) -> noise.NoiseDistribution:
        """Scale the noise to the number of tables.

        Parameters
        ----------
        tables : int
            The number of tables in which each person is counted.

        Returns
        -------
        ilba.methods.noise.NoiseDistribution
            The noise of one count.
        """
        if self.kind == "laplace":
            return noise.DiscreteLaplace(self.epsilon, tables)
        # epsilon = rho + 2 sqrt(rho ln(1/delta)), solved for rho
        log = np.log(1 / _DELTA)
        rho = float((np.sqrt(log + self.epsilon) - np.sqrt(log)) ** 2)
        return noise.DiscreteGaussian(float(np.sqrt(tables / (2 * rho))), float(np.sqrt(tables)))

    def publish(self, cells: CountedTables) -> list[Shown]:
        """Add noise to each count, or to a few counts from which the others are fitted."""
        if self.fit:
            if cells.grid is None:
                raise InputError("the grid of these tables is too large to be fitted. Compare fewer keys: keys=[...].")
            grid = cast("noise.CountedGrid", cells.grid())
            spread = self.distribution(grid.levels)
            return grid.tables(grid.fitted(lambda level, size: cells.noise(spread, f"fit {level}", size)))
        spread = self.distribution(len(cells.tables))
        return [self._noisy(table, cells.noise(spread, f"noise {table.name}", table.grid)) for table in cells.tables]

    @staticmethod
    def _noisy(table: TableCells, drawn: IntArray) -> Shown:
        """Publish negative counts as 0: a function of the noisy count, so it costs no privacy."""
        value = np.maximum(table.count + drawn[table.place], 0)
        drawn[table.place] = 0
        places = np.flatnonzero(drawn > 0)
        return Shown(value, None, drawn[places], places)

    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Leave any count possible."""
        return np.zeros_like(value), np.full_like(value, FAR)

    def chance(self, value: IntArray, count: IntArray, size: IntArray, tables: int) -> FloatArray | None:
        """Use the distribution of the noise; a 0 stands for all values up to 0. Fitted numbers have no chance."""
        if self.fit:
            return None
        spread = self.distribution(tables)
        drawn = value - count
        far = int(np.abs(drawn).max(initial=0))
        up_to = np.cumsum(spread.p(np.arange(-far - 1, far + 2)))
        below = spread.tail(far + 2) / 2 + up_to  # the chance of a value of at most each of these
        exact = np.diff(below, prepend=0.0)
        said: FloatArray = np.where(value > 0, exact[drawn + far + 1], below[drawn + far + 1])
        return said


_MADE = ("D", "V", "js", "pstay")
"""parameters from which a p-table is made"""
_DELTA = 1e-10
_TOGETHER = 5000
"""the number of small counts that are chosen together; work grows with its square (the R package takes 1000)"""
METHODS: dict[str, Callable[..., Method]] = {
    cls.name: cls for cls in (SCA, ILBA, Controlled, CellKey, Rounding, SmallCountRounding, Suppression, Noise)
}


def method_of(given: Method | str) -> Method:
    """A method, given as an object or as text: `rounding`, `rounding:base=3`, `cell-key:D=5,V=3,js=2`."""
    if isinstance(given, Method):
        return given
    if not isinstance(given, str):
        raise InputError(f"methods holds a {type(given).__name__}. Give a name such as 'rounding:base=3', or a Method.")
    name, _, rest = given.strip().partition(":")
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}.{nearest(name, METHODS)} It is {listing(METHODS)}.")
    made = cast("type[Method]", METHODS[name])
    known = {field.name: field for field in fields(made)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for number, part in enumerate(part for part in re.split(r"[,\s]+", rest) if part):
        key, equals, text = part.partition("=")
        if not equals:  # `rounding:3` gives the first parameter
            shown = [one for one in known if one != "ptable"]
            if not shown:
                raise InputError(f"{name} has no parameters: write {name} alone.")
            if number:
                raise InputError(f"{given!r}: write {name}:{'=..,'.join(shown)}=..")
            key, text = shown[0], part
        if key not in known:
            raise InputError(
                f"{name} has no parameter {key!r}.{nearest(key, known)} It has {listing(known) or 'none'}."
            )
        values[key] = _typed(text)
    return _checked(made, values)


def _checked(made: type[Method], values: dict[str, Any]) -> Method:
    """A method from values that were given as text, checked against its parameters."""
    import msgspec

    if "ptable" in values:
        table = str(values.pop("ptable"))
        _refuse_beside(values)
        return replace(_checked(made, values), ptable=table)  # type: ignore[type-var]
    try:
        return msgspec.convert(values, made)
    except msgspec.ValidationError as problem:
        said, _, place = str(problem).rstrip(".").partition(" - at `$.")
        parameter = place.rstrip("`")
        if parameter not in values:
            raise InputError(f"{made.name}: {said}.") from None
        wanted = _wanted(made.schema()["properties"][parameter])
        raise InputError(f"{made.name}: {parameter}={values[parameter]!r} is not {wanted}.") from None


def _refuse_beside(given: dict[str, Any]) -> None:
    """Refuse parameters of a p-table beside the p-table itself, which would ignore them."""
    idle = [f"{name}={value}" for name, value in given.items() if name in _MADE]
    if idle:
        raise InputError(
            f"cell-key: {listing(idle)} cannot be given beside ptable, because a given p-table has its own changes. "
            f"Leave out {listing(one.partition('=')[0] for one in idle)}, or leave out ptable: then a p-table is made "
            f"from {listing(_MADE)}."
        )


def _wanted(kind: dict[str, Any]) -> str:
    """What a parameter has to be, in words, by its JSON Schema."""
    if "enum" in kind:
        return f"one of {listing(kind['enum'])}"
    kinds = {one.get("type") for one in kind.get("anyOf", [kind])}
    return {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(
        next((one for one in ("integer", "number", "boolean") if one in kinds), ""), "a text"
    )


def _typed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "yes": True, "false": False, "no": False}.get(text.lower(), text)
