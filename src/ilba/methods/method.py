"""What a protection method is: what it publishes, and what everybody can conclude from its public description.

A new method is one class. `publish` gives the numbers; `preimage` gives the smallest and the largest true count behind
a published number. `compare`, the attackers, `release`, the ledger and the service need nothing else. A method states
its special features by the properties below.
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
"""Stands for 'no limit' if a published number leaves one side open."""


class Shown(NamedTuple):
    """What a method publishes for the occupied and for the empty cells of one table.

    Parameters
    ----------
    value : array of int
        The published number of each cell; any number where the cell is blank.
    blank : array of bool, optional
        Which cells are left blank. By default, none.
    invented : array of int
        The published numbers of empty cells that are not 0.
    places : array of int
        The places of the invented numbers in the grid of the table, numbered as in `TableCells.place`.
    """

    value: IntArray
    blank: BoolArray | None = None
    invented: IntArray = np.zeros(0, dtype=np.int64)
    places: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class TableCells:
    """The occupied cells of one table (confidential)."""

    name: str
    count: IntArray
    grid: int
    """the number of possible cells"""
    find_cells: Callable[[], IntArray]
    place: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """the place of each cell in the grid"""

    @property
    def empty(self) -> int:
        """The number of empty cells of the grid."""
        return self.grid - len(self.count)

    @cached_property
    def cell_of(self) -> IntArray:
        """The cell that contains each finest cell."""
        return self.find_cells()


class Chance(ABC):
    """The source of a method's randomness."""

    @abstractmethod
    def rng(self, purpose: str) -> np.random.Generator:
        """The generator for a purpose, with the same draws each time."""

    @abstractmethod
    def draws(self, table: TableCells, purpose: str) -> IntArray:
        """A draw for each cell of a table, uniform on 0 .. 2^53 - 1."""

    @abstractmethod
    def noise(self, spread: Any, purpose: str, size: int) -> IntArray:
        """Draws from a distribution of `ilba.methods.noise`."""


@dataclass(frozen=True)
class SeededChance(Chance):
    """Draws for comparisons, never for publication: the same on every run."""

    seed: int

    def rng(self, purpose: str) -> np.random.Generator:
        """The generator for a purpose."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def draws(self, table: TableCells, purpose: str) -> IntArray:
        """A draw for each cell of a table."""
        return self.rng(f"{purpose} {table.name}").integers(0, DRAW_RANGE, len(table.count))

    def noise(self, spread: Any, purpose: str, size: int) -> IntArray:
        """Draws from a distribution, in fast floating point."""
        drawn: IntArray = spread.draw(self.rng(purpose), size)
        return drawn


@dataclass(frozen=True)
class CountedTables:
    """The input of a method: the counts of all tables that are published together (confidential)."""

    K: int
    """the threshold of the design"""
    inner: IntArray
    """the counts of the finest cells that occur"""
    tables: Sequence[TableCells]
    """the cells of each table that is published"""
    chance: Chance
    """the source of randomness: a fixed seed for comparisons, the secret for publication"""
    grid: Callable[[], Any] | None = None
    """the finest grid, for methods that fill empty cells: an `ilba.methods.noise.CountedGrid`"""

    def rng(self, purpose: str) -> np.random.Generator:
        """Make the generator for a purpose.

        Parameters
        ----------
        purpose : str
            The purpose; another purpose has other draws.

        Returns
        -------
        numpy.random.Generator
            The generator.
        """
        return self.chance.rng(purpose)

    def draws(self, table: TableCells, purpose: str) -> IntArray:
        """Draw a number for each cell of a table. For publication, secret, labels and count decide it.

        Parameters
        ----------
        table : TableCells
            The table.
        purpose : str
            The purpose of the draws.

        Returns
        -------
        array of int
            Numbers, uniform on 0 .. 2^53 - 1.
        """
        return self.chance.draws(table, purpose)

    def noise(self, spread: Any, purpose: str, size: int) -> IntArray:
        """Draw noise. For publication, the draws are exact to the last bit.

        Parameters
        ----------
        spread : ilba.methods.noise.NoiseDistribution
            The distribution.
        purpose : str
            The purpose of the draws.
        size : int
            The number of draws.

        Returns
        -------
        array of int
            The noise.
        """
        return self.chance.noise(spread, purpose, size)

    def keys(self, parts: int) -> list[IntArray]:
        """Draw a key for each finest cell, and sum the keys into the cell keys of all tables.

        Parameters
        ----------
        parts : int
            The number of keys.

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
        """All tables as one structure, for methods that treat them jointly."""
        columns, size = [], 0
        for table in self.tables:
            columns.append(table.cell_of + size)
            size += len(table.count)
        nothing = pl.DataFrame({"cell": np.arange(size)})
        return Tabulation(self.inner, np.column_stack(columns), nothing, pl.DataFrame({"cell": self.inner}))

    def split(self, published: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Split the values of all cells of `joint` by table.

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
    """Complete the docstrings of overriding functions with the sections of the base class."""
    for name in names:
        own = cls.__dict__.get(name)
        if own is not None and "Parameters" not in (own.__doc__ or ""):
            first, _, sections = inspect.cleandoc(getattr(base, name).__doc__).partition("\n\n")
            own.__doc__ = f"{inspect.cleandoc(own.__doc__ or first)}\n\n{sections}\n"


class Method(ABC):
    """A way to protect tables of counts."""

    name: ClassVar[str]
    """the name of the method, one word"""
    about: ClassVar[str]
    """what the method does, in a public sentence"""
    strong: ClassVar[str]
    """what it is good at"""
    weak: ClassVar[str]
    """what it does not do"""
    additive: ClassVar[bool] = False
    """whether published sums hold"""
    bounded: ClassVar[bool] = True
    """whether published numbers bound the counts; unbounded noise does not"""
    publishes: ClassVar[bool] = True
    """whether `release` publishes by this method; the others are for comparison"""
    joint: ClassVar[bool] = False
    """whether a number depends on the other tables and counts, so that unchanged ones get others in a new wave"""
    timed: ClassVar[bool] = False
    """whether a time limit may cut its search off; then it need not give the same numbers again"""
    blanks: ClassVar[bool] = False
    """whether counts may be left blank"""
    absent_blank: ClassVar[bool] = False
    """whether empty cells are left blank too, so that blanks do not show which cells are empty"""
    fills: ClassVar[bool] = False
    """whether empty cells get numbers; then every code has to be declared"""
    remembers: ClassVar[bool] = False
    """whether the ledger must remember its masks; not needed if secret, labels and count decide the draws"""
    keyed: ClassVar[bool] = False
    """whether the record keys of the people, which the store holds, move the counts"""
    spends: ClassVar[float | None] = None
    """the epsilon of one publication, which adds up over all publications about the same people"""
    policy: ClassVar[str | None] = None
    """for the methods of this package: their name in `audit`"""

    told: ClassVar[tuple[str, ...]] = ()
    """the parameters that the label always shows; it shows others only if they differ from the default"""

    def __init_subclass__(cls) -> None:
        """Complete the docstrings of a method; the sections are written once, here."""
        documented_as(
            cls, Method, ("masks", "publish", "preimage", "behind", "smallest", "blank_range", "chance", "blank_chance")
        )

    @property
    def renumbers(self) -> bool:
        """Whether unchanged counts get other numbers in another wave, and so disclose small ones; noise has epsilon."""
        return self.joint and self.spends is None

    @property
    def label(self) -> str:
        """The method with its parameters, as tables show it."""
        shown = []
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if one.name in self.told or (value is not one.default and value != one.default):
                shown.append(f"{one.name}={value:g}" if isinstance(value, float) else f"{one.name}={value}")
        return " ".join([self.name, *shown])

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values, as a release states them."""
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
        """Return the finest table from which tables are published.

        Parameters
        ----------
        finest : FinestTable
            The counts with masks that were drawn by SCA.
        wanted : sequence of Selection
            The tables for which masks are chosen.
        secret : Secret or path or None
            The secret, for a method that chooses masks.
        bound : int or None
            The bound for which masks are chosen.
        progress : callable or None
            Called with each `ProgressStep`.

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
            The true counts of all tables, and the source of randomness.

        Returns
        -------
        list of Shown
            What is published for each table.
        """

    @abstractmethod
    def preimage(self, value: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
        """Say what anybody who knows the method can conclude from published numbers.

        Parameters
        ----------
        value : array of int
            Published numbers; 0 for a cell that is not listed.
        size : array of int
            The number of finest cells in each. If readers do not know it, it is asked for the least and for 2^40, and
            the wider range counts.

        Returns
        -------
        tuple of two arrays
            The smallest and the largest count that each may stand for.
        """

    def behind(self, low: IntArray, high: IntArray, size: IntArray) -> tuple[IntArray, IntArray] | None:
        """Say what sums of numbers of finest cells may stand for, if all tables are such sums. By default, none are.

        Parameters
        ----------
        low : array of int
            The smallest possible sum of each cell. It need not be published.
        high : array of int
            The largest possible sum of each.
        size : array of int
            The number of finest cells in each.

        Returns
        -------
        tuple of two arrays or None
            The smallest and the largest count behind the sums.
        """
        return None

    def smallest(self, K: int) -> int:
        """Say what the smallest published number above 0 can be. By default, 1.

        Parameters
        ----------
        K : int
            The threshold of the design.

        Returns
        -------
        int
            Every published number is 0 or at least this one.
        """
        return 1

    def blank_range(self, K: int) -> tuple[int, int]:
        """Say what anybody can conclude from a blank.

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
        """Give the chance that counts are published as numbers. By default, equal over the preimage.

        Parameters
        ----------
        value : array of int
            Published numbers; 0 for a cell that is not listed.
        count : array of int
            A possible true count for each number.
        size : array of int
            The number of finest cells in each.
        tables : int
            The number of tables that are published together.

        Returns
        -------
        array of float or None
            The chance of each number given its count, up to a factor that does not depend on the count. None if the
            numbers are fitted to each other, so that a single number has no such chance.
        """
        low, high = self.preimage(value, size)
        return ((low <= count) & (count <= high)).astype(np.float64)

    def blank_chance(self, count: IntArray, K: int) -> FloatArray:
        """Give the chance that counts are left blank.

        Parameters
        ----------
        count : array of int
            Possible true counts.
        K : int
            The threshold of the design.

        Returns
        -------
        array of float
            The chance of a blank; not a number (NaN) if a blank is possible with an unknown chance. Attackers then
            estimate it from the number of blanks.
        """
        low, high = self.blank_range(K)
        return ((low <= count) & (count <= high)).astype(np.float64)
