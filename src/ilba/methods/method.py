"""What a method of protection is: what it publishes, and what its public description lets everybody conclude.

A new method is one class: `publish` gives the numbers, `preimage` the smallest and the largest truth that a published
number stands for. `compare`, the attackers, `release`, the ledger and the service ask for nothing else: what is special
about a method it says itself, by the properties below.
"""

from __future__ import annotations

import inspect
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.methods.masking import DRAW_RANGE
from ilba.methods.tabulation import Tabulation

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
FAR = 2**40
"""Stands for 'without a limit' where a published number leaves one side open."""


class Shown(NamedTuple):
    """What a method publishes for the cells of one table that hold somebody, and for those that hold nobody.

    Parameters
    ----------
    value : array of int
        The published number of each cell; any number where the cell is blank.
    blank : array of bool, optional
        Which cells are left blank. Left out, none.
    invented : array of int
        The published numbers, other than 0, of cells that hold nobody.
    places : array of int
        Where in the grid of the table the invented numbers stand, as `TableCells.place` counts.
    """

    value: IntArray
    blank: BoolArray | None = None
    invented: IntArray = np.zeros(0, dtype=np.int64)
    places: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class TableCells:
    """The cells of one table that hold somebody (confidential)."""

    name: str
    count: IntArray
    grid: int
    """how many cells it could have"""
    find_cells: Callable[[], IntArray]
    place: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """where in the grid each cell stands"""

    @property
    def empty(self) -> int:
        """How many cells of its grid hold nobody."""
        return self.grid - len(self.count)

    @cached_property
    def cell_of(self) -> IntArray:
        """The cell that each finest cell lies in."""
        return self.find_cells()


class Chance(ABC):
    """Where a method's randomness comes from."""

    @abstractmethod
    def rng(self, purpose: str) -> np.random.Generator:
        """The draws for a purpose, the same ones each time."""

    @abstractmethod
    def draws(self, table: TableCells, purpose: str) -> IntArray:
        """A draw for each cell of a table, uniform on 0 .. 2^53 - 1."""

    @abstractmethod
    def noise(self, spread: Any, purpose: str, size: int) -> IntArray:
        """Draws from a distribution of `ilba.methods.noise`."""


@dataclass(frozen=True)
class SeededChance(Chance):
    """Draws that are only compared, never published: the same on every run is best."""

    seed: int

    def rng(self, purpose: str) -> np.random.Generator:
        """The draws for a purpose."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def draws(self, table: TableCells, purpose: str) -> IntArray:
        """A draw for each cell of a table."""
        return self.rng(f"{purpose} {table.name}").integers(0, DRAW_RANGE, len(table.count))

    def noise(self, spread: Any, purpose: str, size: int) -> IntArray:
        """Draws from a distribution, as fast as floating point allows."""
        drawn: IntArray = spread.draw(self.rng(purpose), size)
        return drawn


@dataclass(frozen=True)
class CountedTables:
    """The counts that a method works on: all tables that are published together (confidential)."""

    K: int
    """the threshold of the design"""
    inner: IntArray
    """the counts of the finest cells that occur"""
    tables: Sequence[TableCells]
    """the cells of each table that is published"""
    chance: Chance
    """where randomness comes from: a fixed seed where methods are compared, the secret where tables are published"""
    grid: Callable[[], Any] | None = None
    """the finest grid, for methods that fill empty cells: an `ilba.methods.noise.CountedGrid`"""

    def rng(self, purpose: str) -> np.random.Generator:
        """Make the draws for a purpose.

        Parameters
        ----------
        purpose : str
            What is drawn; another purpose has other draws.

        Returns
        -------
        numpy.random.Generator
            Where the draws come from.
        """
        return self.chance.rng(purpose)

    def draws(self, table: TableCells, purpose: str) -> IntArray:
        """Draw for each cell of a table. Where tables are published, the secret, labels and count decide.

        Parameters
        ----------
        table : TableCells
            The table.
        purpose : str
            What is drawn.

        Returns
        -------
        array of int
            Numbers, uniform on 0 .. 2^53 - 1.
        """
        return self.chance.draws(table, purpose)

    def noise(self, spread: Any, purpose: str, size: int) -> IntArray:
        """Draw noise. Where tables are published, the draws are exact to the last bit.

        Parameters
        ----------
        spread : ilba.methods.noise.NoiseDistribution
            The distribution.
        purpose : str
            What is drawn.
        size : int
            How many.

        Returns
        -------
        array of int
            The noise.
        """
        return self.chance.noise(spread, purpose, size)

    def keys(self, parts: int) -> list[IntArray]:
        """Sum one draw for each finest cell into the cell keys of all tables.

        Parameters
        ----------
        parts : int
            How many keys there are.

        Returns
        -------
        list of array
            The cell key of each cell of each table.
        """
        inner = self.rng("cell keys").integers(0, parts, len(self.inner))
        found = []
        for table in self.tables:
            # Each key is below 2^27, so sums over fewer than 2^26 cells are exact in floating point.
            sums = np.bincount(table.cell_of, weights=inner, minlength=len(table.count))
            found.append(sums.astype(np.int64) % parts)
        return found

    @cached_property
    def joint(self) -> Tabulation:
        """All tables as one structure, for methods that look at them together."""
        columns, size = [], 0
        for table in self.tables:
            columns.append(table.cell_of + size)
            size += len(table.count)
        nothing = pl.DataFrame({"cell": np.arange(size)})
        return Tabulation(self.inner, np.column_stack(columns), nothing, pl.DataFrame({"cell": self.inner}))

    def split(self, published: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Split values of all cells of `joint` table by table.

        Parameters
        ----------
        published : array
            A value for each cell of each table.

        Returns
        -------
        list of array
            The values of each table.
        """
        return np.split(published, np.cumsum([len(table.count) for table in self.tables])[:-1])


def documented_as(cls: type, base: type, names: Sequence[str]) -> None:
    """Complete the docstrings of functions that a class overrides by the sections of those of its base."""
    for name in names:
        own = cls.__dict__.get(name)
        if own is not None and "Parameters" not in (own.__doc__ or ""):
            first, _, sections = inspect.cleandoc(getattr(base, name).__doc__).partition("\n\n")
            own.__doc__ = f"{inspect.cleandoc(own.__doc__ or first)}\n\n{sections}\n"


class Method(ABC):
    """A way to protect tables of counts."""

    name: ClassVar[str]
    """one word, as it is typed"""
    about: ClassVar[str]
    """what it does, in a sentence that is public"""
    strong: ClassVar[str]
    """what it is good at"""
    weak: ClassVar[str]
    """what it does not do"""
    additive: ClassVar[bool] = False
    """whether published sums hold"""
    bounded: ClassVar[bool] = True
    """whether a published number says anything for sure: noise without a limit does not"""
    publishes: ClassVar[bool] = True
    """whether `release` publishes by it; the others are for comparing"""
    joint: ClassVar[bool] = False
    """whether a number depends on which other tables are published with it"""
    blanks: ClassVar[bool] = False
    """whether counts may be left blank"""
    absent_blank: ClassVar[bool] = False
    """whether cells that hold nobody are left blank too, so that nobody tells the two apart"""
    fills: ClassVar[bool] = False
    """whether cells that hold nobody get numbers: then every code has to be declared"""
    remembers: ClassVar[bool] = False
    """whether its masks have to be remembered; a method that draws from secret, labels and count has none"""
    keyed: ClassVar[bool] = False
    """whether counts are moved by the record keys of their people, which the store holds"""
    spends: ClassVar[float | None] = None
    """the epsilon of what is published together, where it adds up over all that is published of the same people"""
    policy: ClassVar[str | None] = None
    """for the methods of this package: how `audit` calls them"""

    told: ClassVar[tuple[str, ...]] = ()
    """the parameters that the label always shows; others only where they are not the usual ones"""

    def __init_subclass__(cls) -> None:
        """Complete the docstrings of a method: what a function takes and gives is said once, here."""
        documented_as(cls, Method, ("masks", "publish", "preimage", "blank_range", "chance", "blank_chance"))

    @property
    def label(self) -> str:
        """The method with its parameters, as a table shows it."""
        shown = []
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if one.name in self.told or (value is not one.default and value != one.default):
                shown.append(f"{one.name}={value:g}" if isinstance(value, float) else f"{one.name}={value}")
        return " ".join([self.name, *shown])

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values, as a release tells them."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Describe the parameters as a JSON Schema.

        Returns
        -------
        dict
            The schema of an object with a property for each parameter.
        """
        import msgspec

        found = msgspec.json.schema_components([cls])[1][cls.__name__]
        found["additionalProperties"] = False
        return dict(found)

    def masks(self, finest: Any, wanted: Sequence[Any], secret: Any, bound: int | None, progress: Any) -> Any:
        """Take the finest table that is published from.

        Parameters
        ----------
        finest : FinestTable
            The counts with masks that were drawn by SCA.
        wanted : sequence of Selection
            The tables that are published.
        secret : Secret or path or None
            The secret, for a method that chooses masks.
        bound : int or None
            The bound that masks are chosen for.
        progress : callable or None
            Told how far the work is.

        Returns
        -------
        FinestTable
            The same table, unless the method chooses masks of its own.
        """
        return finest

    @abstractmethod
    def publish(self, cells: CountedTables) -> list[Shown]:
        """Publish tables.

        Parameters
        ----------
        cells : CountedTables
            The true counts of all tables, and where randomness comes from.

        Returns
        -------
        list of Shown
            What is published for each table.
        """

    @abstractmethod
    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Say what everybody who knows the method concludes from published numbers.

        Parameters
        ----------
        value : array of int
            Published numbers, 0 for a cell that is not listed.
        size : array of int
            How many finest cells lie in each.

        Returns
        -------
        tuple of two arrays
            The smallest and the largest count that each may stand for.
        """

    def blank_range(self, K: int) -> tuple[int, int]:
        """Say what everybody concludes from a blank.

        Parameters
        ----------
        K : int
            The threshold of the design.

        Returns
        -------
        tuple of two int
            The smallest and the largest count that a blank may stand for.
        """
        return 0, FAR

    def chance(self, value: IntArray, count: IntArray, size: IntArray, tables: int) -> FloatArray | None:
        """Say how likely counts are published as numbers, for attackers who bet. By default all of the preimage alike.

        Parameters
        ----------
        value : array of int
            Published numbers, 0 for a cell that is not listed.
        count : array of int
            For each of them a count that may be the truth.
        size : array of int
            How many finest cells lie in each.
        tables : int
            How many tables are published together.

        Returns
        -------
        array of float or None
            The chance of each number given its count, up to a factor that the count does not change. None where the
            numbers are fitted to each other, so that one by itself says nothing of this kind.
        """
        low, high = self.preimage(value, size)
        return ((low <= count) & (count <= high)).astype(np.float64)

    def blank_chance(self, count: IntArray, K: int) -> FloatArray:
        """Say how likely counts are left blank.

        Parameters
        ----------
        count : array of int
            Counts that may be the truth.
        K : int
            The threshold of the design.

        Returns
        -------
        array of float
            The chance of a blank; not a number where it may happen, but nobody is told how often. Attackers then
            estimate it from how many blanks there are.
        """
        low, high = self.blank_range(K)
        return ((low <= count) & (count <= high)).astype(np.float64)
