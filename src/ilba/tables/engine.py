"""What a finest table can do on either engine, in memory or on Spark."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba import notebook
from ilba.cells.codes import CodeLists
from ilba.design.design import Design, Level, Names, Origins, Selection
from ilba.design.labels import Label
from ilba.design.population import Population
from ilba.design.recordkeys import RecordKeys
from ilba.design.tables import Tables, selections, wanted_tables
from ilba.errors import Advice, IlbaError, InputError, SecretError, listing, notice, suggesting
from ilba.methods.controlled.search import Chosen, Control, How, move_of, noise_of, sweeps_of
from ilba.methods.moves import BLANK, KeyedMoves
from ilba.progress import Progress
from ilba.secret.secret import Secret, given_secret
from ilba.tables.beside import bookmark_path, published_path, secret_beside, secret_path
from ilba.tables.cube import Cube
from ilba.tables.rollup import Sums, released
from ilba.tables.store import About
from ilba.tables.table import AnyTable
from ilba.tables.words import MaskCode, Words

if TYPE_CHECKING:
    from ilba.methods.lab import CellKey
    from ilba.methods.method import Method
    from ilba.release import Release
    from ilba.release.ledger import Ledger
    from ilba.tables.finest import FinestTable

IntArray: TypeAlias = npt.NDArray[np.int64]
Path_: TypeAlias = str | os.PathLike[str]
Values: TypeAlias = Label | float | Sequence[Any]
DRAWN_KEYS = (
    "this store has no record keys, so the secret draws one for each finest cell and its count. In a store with other "
    "columns the same people get other numbers. If your records have keys, build with record_key= (--record-key, or "
    "record_key under [source])."
)
"""said when cell keys move the counts of a store without record keys"""


class KnownMasks(NamedTuple):
    """What is known about the masks of a table's cells."""

    masked: Any
    """the masked count of each cell, or -1 for an unknown mask: an array, or a Spark frame"""
    unknown: int
    """the number of small cells without a known mask"""
    differing: int
    """the number of cells whose mask in the table differs from the known one"""


def _secret_beside(store: Path | None, fingerprint: str | None) -> Secret | None:
    """The secret in the folder of a store: of this fingerprint; without one, of the store's name or the only one."""
    if store is None:
        return None
    if fingerprint is None:
        with contextlib.suppress(SecretError):  # several, or one that cannot be read
            only = secret_beside(store)
            return None if only is None else Secret.from_file(only)
        return None
    for file in [secret_path(store), *sorted(store.parent.glob("*.secret"))]:
        with contextlib.suppress(SecretError):
            secret = Secret.from_file(file)
            if secret.fingerprint == fingerprint:
                return secret
    return None


def _changed(file: Path) -> int:
    """When a file was last changed; 0 if there is none."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


class AnyFinestTable(ABC):
    """Every observed cell with its true count N and its masked count N_masked. Confidential.

    `FinestTable` has the cells in memory, `SparkFinestTable` on Spark. Code that works with a finest table uses only
    this class, and so works with both. The page of Python names lists what is for users; the rest is internal.
    """

    cells: Any
    """packed cells, N and N_masked, as a store holds them: a polars or Spark frame (confidential)"""
    control: Control | None = None
    """what `controlled` reached (confidential); None if the table was not made by it or comes from a store"""
    place: Path | None = None
    """the store that this table was read from or saved to; None if it is in no file"""
    by: Method | None = None
    """the method that makes its tables: see `with_method`; None if they come from its masks"""
    _unsaved_secret: Secret | None = None
    _bookmark: Path | None = None  # the file beside the secret with the state of its ledgers, once it was looked for
    _told: tuple[tuple[int, ...], str] = (), ""  # when was last published, and how these numbers differ from those

    def __init__(self, about: About) -> None:
        self._about = about

    @property
    def codes(self) -> CodeLists:
        """The code lists."""
        return self._about.codes

    @property
    def design(self) -> Design:
        """The hierarchies, the keys, the threshold and the reading of S."""
        return self.codes.design

    @property
    def labels(self) -> pl.DataFrame:
        """The agency's code list with its labels; empty if none was given."""
        return self._about.labels

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the secret that drew the masks; None if they came with the counts."""
        return self._about.fingerprint

    @property
    def chosen(self) -> Chosen | None:
        """The tables for which `controlled` chose the masks jointly; None if each mask was drawn by itself."""
        return self._about.chosen

    @property
    def origins(self) -> Origins:
        """The parts of the design that a person declared, and those proposed from the data."""
        return self._about.origins

    @property
    def population(self) -> Population:
        """The population and the time of the counts, as declared."""
        return self._about.population

    def declared_as(self, population: Population) -> Self:
        """The same table, declared as a population."""
        self._about = replace(self._about, population=population)
        return self

    def declared_by(self, origins: Origins) -> Self:
        """The same table, with other origins: what a person declared and what was proposed."""
        self._about = replace(self._about, origins=origins)
        return self

    @property
    def move(self) -> int:
        """How far large counts may have moved when masks were chosen jointly; 0 if they are unchanged."""
        return self.chosen.move if self.chosen else 0

    @property
    def noise(self) -> float:
        """The share of small cells whose target was shifted by one when masks were chosen jointly."""
        return self.chosen.noise if self.chosen else 0.0

    @property
    def method(self) -> str:
        """How its tables are masked: "ilba", "controlled" for sums of jointly chosen masks, or another method."""
        if self.by is not None:
            return self.by.name
        return "controlled" if self.chosen else "ilba"

    @property
    def remembers(self) -> bool:
        """Whether it publishes its masks, so that the ledger must remember them."""
        return self.by is None

    @property
    def record_keys(self) -> RecordKeys | None:
        """The origin of the record keys of its cells; None if it has none."""
        return self._about.record_keys

    @property
    def moves(self) -> KeyedMoves | None:
        """How cell keys move its counts; None if they do not."""
        if self.by is None or not self.by.keyed or self.record_keys is None:
            return None
        method = cast("CellKey", self.by)
        return KeyedMoves(method.moves, self.record_keys.parts, method.threshold)

    @suggesting
    def with_method(self, method: Method | str, secret: Secret | Path_ | None = None) -> Self:
        """Take the same counts with another method, which then makes tables, cells and cubes.

        Parameters
        ----------
        method : Method or str
            "ilba", or a method of `ilba.methods` with its parameters: "cell-key:D=5,V=3,js=2", "rounding:base=5", or
            an object such as `ilba.methods.CellKey(ptable)`. Jointly chosen masks come from `controlled`.
        secret : Secret or path, optional
            The secret that draws for the method, and draws record keys if the store holds none. By default, the one
            that drew the masks, if available.

        Returns
        -------
        FinestTable or SparkFinestTable
            The same cells. Confidential.

        Raises
        ------
        InputError
            The method is for comparison only, or there are no record keys and no secret to draw them.

        Examples
        --------
        >>> import polars as pl
        >>> from ilba import FinestTable, Secret
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1]})
        >>> finest = FinestTable.from_counts(counts, hkey=["town"], secret=Secret(bytes(32)))
        >>> finest.with_method("cell-key:D=2,V=1").table("town").frame["N_masked"].to_list()
        [11, 0]
        """
        from ilba.methods.lab import method_of  # imports all methods, so only when needed

        asked = method_of(method)
        if asked.policy is None:
            result = self._with_keys(secret) if asked.keyed else self._drawing(secret)
            result.by = asked
            if asked.keyed and self.record_keys is None:
                notice(DRAWN_KEYS, Advice)
            return result
        if asked.name != "ilba" or self.chosen:
            other = "its masks were chosen jointly" if self.chosen else f"{asked.name!r} does not make single tables"
            raise InputError(
                f"{other}. `controlled` chooses masks; the methods here are 'ilba', 'cell-key' and others of "
                f"ilba.methods, and `ilba.compare` tries them all."
            )
        result = self._masks_as_they_are()
        result.by = None
        return result

    @abstractmethod
    def _with_keys(self, secret: Secret | Path_ | None) -> Self:
        """A copy of this table with record keys: its own, or drawn by its secret."""

    @abstractmethod
    def _drawing(self, secret: Secret | Path_ | None) -> Self:
        """A copy of this table whose draws come from a secret."""

    @abstractmethod
    def _masks_as_they_are(self) -> Self:
        """A copy of this table."""

    def _key_secret(self, secret: Secret | Path_ | None) -> Secret:
        """The secret that draws record keys."""
        found = self.own_secret(secret)
        if found is None:
            raise InputError(
                "this store holds no record keys, and the secret that draws them is not at hand. Give secret= "
                "(--secret), set ILBA_SECRET, or build again with record_key= (--record-key) and the column "
                "that holds the key of each record."
            )
        self._check_secret(found.fingerprint)
        return found

    def _released_cell(self, sums: Sums) -> int:
        """The masked count of a single cell."""
        masked, _ = released(self.codes, sums, self.method == "controlled", moves=self.moves)
        if self.moves is not None and int(masked[0]) == BLANK:
            raise InputError(f"the count of this cell is left blank: it is below threshold={self.moves.threshold}.")
        return int(masked[0])

    @property
    def unsaved(self) -> bool:
        """Whether the secret that drew the masks is not saved yet."""
        return self._unsaved_secret is not None

    @property
    @abstractmethod
    def frame(self) -> Any:
        """Labels, N, N_masked (confidential)."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def table(self, level: Level = 0, key: Names | None = (), *, method: Method | str | None = None) -> AnyTable:
        """The masked table at a level (a number, a column name, 0 for none) by the given keys."""

    @abstractmethod
    def tables(self, wanted: Sequence[Selection]) -> Iterator[AnyTable]:
        """The wanted tables (keys in the order of the design), each made from a small finer one."""

    @abstractmethod
    def sums(self, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Sums]]:
        """The summed parts of several tables, in memory, each from a small finer one (confidential)."""

    @suggesting
    def cell(
        self,
        level: Level = 0,
        key: Names | None = (),
        hkey_value: Any = (),
        key_value: Values = (),
        *,
        method: Method | str | None = None,
    ) -> int:
        """Look up the masked count of one cell: its entry in the table, or 0 if it does not occur.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order of its columns.
        hkey_value : sequence or dict, default ()
            The labels of the area: the whole path from the coarsest level down to `level`. With several hierarchies a
            mapping from their names, or all paths one after the other.
        key_value : label or sequence of labels, default ()
            One label for each of `key`. None stands for a missing label.
        method : Method or str, optional
            A method with its parameters, as `with_method` takes it. By default, the method of this table.

        Returns
        -------
        int
            The masked count by the masks of this table. A notice says if these people were published with others.

        Raises
        ------
        InputError
            The store has no such level or key, or the number of values is wrong.
        """
        asked = self if method is None else self.with_method(method)
        masked, _ = asked.lookup(level, key, hkey_value, key_value)
        asked.tell_other_numbers()
        return masked

    def tell_other_numbers(self) -> None:
        """Give a notice if the people of this table were published with other numbers, in this or another wave.

        The ledger is read once for each publication, and never before the first one of this store or secret.
        """
        seen = tuple(_changed(file) for file in self._noted())
        if not any(seen):
            return
        if seen != self._told[0]:
            from ilba.release import other_numbers

            self._told = seen, ""
            with contextlib.suppress(IlbaError):  # no secret or ledger that can be read: nothing to tell
                self._told = seen, other_numbers(self)
        if self._told[1]:
            notice(self._told[1])

    def _noted(self) -> Iterator[Path]:
        """The files that each publication of this store, or under its secret, writes anew."""
        if self.place is not None:
            yield published_path(self.place)
        if self._bookmark is None:
            with contextlib.suppress(IlbaError):
                secret = self.own_secret()
                self._bookmark = None if secret is None or secret.place is None else bookmark_path(secret.place)
        if self._bookmark is not None:
            yield self._bookmark

    @abstractmethod
    def lookup(
        self, level: Level = 0, key: Names | None = (), hkey_value: Any = (), key_value: Values = ()
    ) -> tuple[int, bool]:
        """The result of `cell`, and whether the cell occurs at all (confidential)."""

    @suggesting
    def cube(
        self,
        levels: Iterable[Level] | None = None,
        keys: Names | None = None,
        max_keys: int | None = None,
        *,
        method: Method | str | None = None,
    ) -> Cube:
        """Make all tables of some levels by all subsets of some keys. Nothing is computed yet.

        Iteration makes the tables one by one, each from a small finer one; `write` streams them to a folder.

        Parameters
        ----------
        levels : iterable of int, str or dict, optional
            Only tables at these levels, each given as in `table`. By default, all levels, including 0.
        keys : str or sequence of str, optional
            Only tables by subsets of these keys. By default, all keys.
        max_keys : int, optional
            The largest number of keys in a table. By default, any number.
        method : Method or str, optional
            A method with its parameters, as `with_method` takes it. By default, the method of this table.

        Returns
        -------
        Cube
            The tables, to be iterated or written. Confidential.

        Raises
        ------
        InputError
            The store has no such level or key.

        Examples
        --------
        >>> import polars as pl
        >>> from ilba import FinestTable
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1], "N_masked": [5, 8, 0]})
        >>> cube = FinestTable.from_counts(counts, hkey=["town"]).cube()
        >>> {table.selection.name: table.frame["N_masked"].to_list() for table in cube}
        {'town.sex': [5, 8, 0], 'all.sex': [5, 8], 'all': [13], 'town': [13, 0]}
        """
        if method is not None:
            return self.with_method(method).cube(levels, keys, max_keys)
        wanted = selections(self.design, levels, keys, max_keys)
        by = {} if self.by is None else {"method": {"name": self.by.name, **self.by.parameters}}
        if self.by is not None and self.by.keyed:
            by = {"method": self.by.parameters}
        return Cube(wanted, self.tables, about=lambda: {"store": self.content_mark(), **by})

    @abstractmethod
    def content_mark(self) -> object:
        """A checksum of everything in the store, as plain values (confidential)."""

    @abstractmethod
    def marks(self, columns: Sequence[str] = ()) -> tuple[str, str]:
        """Checksums of the true counts and of the masks, independent of order, types and lists (confidential).

        `columns` are those of the design as another table has them in order; by default its own.
        """

    def public_rows(self, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Iterator[pl.DataFrame]]]:
        """The public rows of several tables, each table piece by piece: see `Table.public_parts`.

        Read each table before you ask for the next one.
        """
        for table in self.tables(wanted):
            yield table.selection, table.public_parts()

    def largest_loss(self, wanted: Sequence[Selection]) -> int:
        """The largest loss of a count in these tables (confidential)."""
        largest = 0
        for table in self.tables(wanted):
            loss = table.loss.filter(pl.col("Loss") != "Total")["Loss"].cast(pl.Int64)
            largest = max(largest, int(loss.abs().max() or 0))  # type: ignore[arg-type]
        return largest

    def numbers_mark(self, wanted: Sequence[Selection]) -> str | None:
        """A keyed checksum of the numbers, for a method that chooses tables jointly; otherwise None (confidential)."""
        return None

    @abstractmethod
    def class_means(self) -> dict[int, float]:
        """The mean masked count of the cells with each true count in 1..K-1 (confidential): see `ilba.class_means`."""

    @abstractmethod
    def occurring(self) -> list[IntArray]:
        """The numbers of the labels that occur in each dimension, in the order of its list (confidential)."""

    @abstractmethod
    def as_truth(self, kind: Callable[[str, pl.Series], Any]) -> Self:
        """The world in which the masked counts are the truth: a cell masked to 0 does not occur there.

        `kind` gives the type of a label column from its name and its codes, as text.
        """

    @abstractmethod
    def within(self, label: object) -> FinestTable:
        """The part that lies in one top-level area of the first hierarchy, in memory (confidential)."""

    @abstractmethod
    def collect(self) -> FinestTable:
        """The same table in the memory of this process (confidential)."""

    @abstractmethod
    def at_hand(self) -> AnyFinestTable:
        """The same table in the memory of this process if it is small enough, otherwise this one (confidential)."""

    @abstractmethod
    def secret_at_hand(self) -> Secret | None:
        """The secret that drew the masks, if this table was built with it."""

    def own_secret(self, secret: Secret | Path_ | None = None) -> Secret | None:
        """The secret of the masks: given, of the build, of the environment or beside the store; otherwise None."""
        if secret is not None:
            return given_secret(secret)
        found = self.secret_at_hand() or given_secret(None)
        if found is not None and found.place is not None:
            return found
        beside = _secret_beside(self.place, self.fingerprint if found is None else found.fingerprint)
        return beside or found

    def column_counts(
        self, columns: Sequence[Selection], parts: Sequence[tuple[Selection, int, int]] = ()
    ) -> tuple[list[tuple[list[str], IntArray]], list[list[IntArray]]]:
        """Labels, as text, and true counts of tables; and true counts of parts of the people (confidential).

        `parts` are tables with the dimension and level that divides them: the people with one label there are a part.
        A part has its counts of each table that is divided so.
        """
        found: dict[Selection, tuple[list[str], IntArray]] = {}
        divided: dict[tuple[int, int], list[IntArray]] = {}
        for selection, sums in self.sums(list(dict.fromkeys([*columns, *(table for table, *_ in parts)]))):
            index, counts = self.codes.cell_index(selection), sums.parts.sum_small + sums.parts.sum_large
            if selection in columns:
                labels = self.codes.labels(index, sums.packed)
                texts = pl.DataFrame([column.cast(pl.String).fill_null("") for column in labels])
                joined = texts.select(pl.concat_str(pl.all(), separator="\0")).to_series().to_list()
                found[selection] = joined, counts
            for dimension, level in ((where, level) for table, where, level in parts if table == selection):
                number = next(n for n, place in enumerate(index.places) if place.dimension == dimension)
                above = self.codes.lists[dimension].parents(index.places[number].level, level)
                by = above[index.digits(sums.packed)[number]]
                order = np.argsort(by, kind="stable")
                names, starts = np.unique(by[order], return_index=True)
                for name, some in zip(names.tolist(), np.split(counts[order], starts[1:]), strict=True):
                    divided.setdefault((dimension, name), []).append(some)
        return [found[column] for column in columns], list(divided.values())

    @abstractmethod
    def smallest_tags(self, secret: Secret, purpose: str, most: int) -> tuple[Words, int]:
        """The smallest keyed tags of small cells, and the number of small cells (confidential)."""

    @abstractmethod
    def known_masks(self, secret: Secret, purpose: str, parts: Sequence[Path], code: MaskCode) -> KnownMasks:
        """The masks of this table's cells that are known from files of `write_masks`.

        The tags use the secret that is derived for `purpose`.
        """

    @abstractmethod
    def either(self, first: KnownMasks, second: KnownMasks) -> KnownMasks:
        """The first known masks, and of small cells without one the second."""

    @abstractmethod
    def write_masks(self, folder: Path, secret: Secret, purpose: str, known: KnownMasks, code: MaskCode) -> int:
        """Write the masks that are not known yet as Parquet files to a folder, and return their number.

        A mask is one word: a keyed tag of cell and count, with the mask in its last bits.
        """

    @abstractmethod
    def with_masks(self, known: KnownMasks, chosen: Chosen | None) -> Self:
        """The same counts with the known masks; the others stay."""

    def own_masks(self) -> KnownMasks | None:
        """The masks of this table as known ones; None if they would first have to be collected."""
        return None

    def proven_beside(self, code: MaskCode, known: KnownMasks) -> int | None:
        """How many small cells are proven together with a table of other masks or another K; None if unknown."""
        return None

    def keep(self) -> None:
        """Cache the counted cells, so that they are not counted again for each query."""
        return  # in memory it is kept anyway

    @abstractmethod
    def save(self, path: Path_, progress: Progress | None = None) -> Path_:
        """Write the store. A generated secret is written beside it."""

    @suggesting
    def controlled(
        self,
        tables: Tables = "all",
        bound: int | None = None,
        *,
        levels: Iterable[Level] | None = None,
        keys: Names | None = None,
        max_keys: int | None = None,
        secret: Secret | Path_ | None = None,
        previous: AnyFinestTable | KnownMasks | None = None,
        sweeps: int | None = None,
        move: int = 0,
        noise: float = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Choose masks jointly, so that plain sums of them stay near the truth in many tables.

        The tables of the result are sums of N_masked: they add up, are 0 or at least K, and prove no small count.
        `control` says what was reached. Needs the extra `controlled`.

        The search goes block by block along the largest hierarchy and carries the errors of coarser tables. It gives
        the same masks on any number of cores and on Spark. With more than eight blocks, counts of the whole may lie
        twice as far from the truth as the bound.

        After Ctrl-C, a table in memory gives the best masks so far.

        Parameters
        ----------
        tables : str or iterable of str, default "all"
            The tables to be released: "all", restricted by `levels`, `keys` and `max_keys`; or a list of names such as
            "town.sex", or of selections.
        bound : int, optional
            How far a count of these tables may lie from the truth. By default, floor(K/2) + K, and 2K-1 for large
            designs; with one secret of twenty up to K-1 more. If it cannot be reached, it is raised step by step;
            `control` says so.
        levels : iterable of int, str or dict, optional
            Only tables at these levels, each given as in `table`. By default, all levels, including 0.
        keys : str or sequence of str, optional
            Only tables by subsets of these keys. By default, all keys.
        max_keys : int, optional
            The largest number of keys in a table. By default, any number.
        secret : Secret or path, optional
            The secret with which this table was built: a `Secret` or the path of its file. By default, the new secret
            that is not saved yet, then ILBA_SECRET.
        previous : FinestTable or SparkFinestTable, optional
            The table of an earlier wave, in memory or on Spark: a cell with the same count keeps its mask. If the bound
            cannot be held with it, the bound gives way.
        sweeps : int, optional
            The number of sweeps over the cells; each weighs all sums of a cell. More sweeps bring sums nearer to the
            truth. By default, 10, and 200 with `move`. Another number gives other masks: fix it before you publish.
        move : int, default 0
            How far large counts may move to bring sums nearer to the truth: a count of K or more by up to `move`, and a
            small one to 0 or to K .. K + `move`. The promise is the same. Counts of the finest table lie further from
            the truth, so use it for plans without that table. Declare it before you see the data; a population keeps
            it.
        noise : float, default 0
            Against insiders: for this share of the small cells, from 0 to 1, the target of sums is shifted by one, as
            the secret decides. Sums lie a little further from the truth, and tell less about a single cell. Declare it
            before you see the data; a population keeps it.
        progress : callable, optional
            Called with each `ProgressStep`.

        Returns
        -------
        FinestTable or SparkFinestTable
            The same counts with other masks. Confidential.

        Raises
        ------
        InputError
            The masks are already chosen jointly, or `previous` has other cells.
        SecretError
            The secret is not available, or did not draw these masks.
        """
        if self.chosen:
            raise InputError(
                "the masks of this table were chosen jointly already. Start from the table that was built, and for a "
                "new wave give this one as previous=."
            )
        if previous is not None and not isinstance(previous, AnyFinestTable | KnownMasks):
            raise InputError(f"previous is a {type(previous).__name__}; give the finest table of the earlier wave.")
        wanted = wanted_tables(self.design, tables, levels, keys, max_keys)
        how = How(sweeps_of(sweeps, move := move_of(move, self.design.threshold)), move, noise_of(noise))
        return self._controlled(wanted, bound, secret, previous, progress, how)

    @abstractmethod
    def _controlled(
        self,
        wanted: Sequence[Selection],
        bound: int | None,
        secret: Secret | Path_ | None,
        previous: AnyFinestTable | KnownMasks | None,
        progress: Progress | None,
        how: How,
    ) -> Self:
        """See `controlled`."""

    @abstractmethod
    def with_masks_of(self, previous: AnyFinestTable) -> Self | None:
        """The same counts with the masks of another table; None if the counts differ."""

    def _check_wave(self, previous: AnyFinestTable) -> None:
        """Refuse masks that belong to other cells."""
        ours, theirs = self.design, previous.design
        if set(ours.columns) != set(theirs.columns) or ours.threshold != theirs.threshold:
            raise InputError(
                "previous has other columns or another threshold than this table, so its masks belong to other cells."
            )

    def _check_secret(self, fingerprint: str) -> None:
        """Refuse a secret that did not draw these masks."""
        if self.fingerprint and fingerprint != self.fingerprint:
            raise SecretError(
                f"this table was masked with another secret (fingerprint {self.fingerprint}). Give that one."
            )

    @suggesting
    def release(
        self,
        path: Path_,
        method: Method | str | None = None,
        tables: Tables = "all",
        *,
        plan: Tables = "all",
        levels: Iterable[Level] | None = None,
        keys: Names | None = None,
        max_keys: int | None = None,
        rows: Literal["nonzero", "grid"] = "nonzero",
        title: str = "Frequency tables",
        description: str = "",
        source: str = "",
        licence: str = "",
        texts: Any = None,
        labels: Any = None,
        geometry: Mapping[str, Any] | None = None,
        bound: int | None = None,
        sweeps: int | None = None,
        move: int | None = None,
        noise: float | None = None,
        stated_bound: int | None = None,
        secret: Secret | Path_ | None = None,
        ledger: Ledger | Path_ | bool | None = None,
        accept_conflict: str | None = None,
        from_ledger: Any = None,
        regroup: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        rename: Mapping[str, str] | None = None,
        require_safe: bool = False,
        accept_risk: bool = False,
        budget: float | None = None,
        audit: Path_ | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Publish tables as a release: a folder of labels and masked counts, code lists and a manifest.

        Everything in the folder depends only on the masked counts and on the declarations. This is proven before the
        folder takes its place: the world in which the masked counts are the truth is published too, and both folders
        must be equal byte by byte.

        Parameters
        ----------
        path : path
            The folder. An existing release is replaced in one step; anything else is left alone.
        method : Method or str, optional
            "controlled", the default: masks are chosen jointly, and tables are plain sums of them. "ilba", any method
            of `ilba.methods` with its parameters such as "cell-key:D=5,V=3,js=2", or a method of your own: the tables
            are audited first, and published if the audit finds them safe, otherwise only with `accept_risk`. Noise
            needs a `budget` instead.
        tables : str or iterable of str, default "all"
            "all", restricted by `levels`, `keys` and `max_keys`; or a list of names such as "LA3.gender.age".
        plan : str or iterable of str, default "all"
            The tables for which masks are chosen when a population is first published; all, unless it names fewer.
            Other tables can also be published, but lie further from the truth.
        levels : iterable of int, str or dict, optional
            Only tables at these levels, each given as in `table`. By default, all levels, including 0.
        keys : str or sequence of str, optional
            Only tables by subsets of these keys. By default, all keys.
        max_keys : int, optional
            The largest number of keys in a table. By default, any number.
        rows : {"nonzero", "grid"}, default "nonzero"
            "nonzero" leaves out rows that are 0; "grid" writes the complete grid. Both tell the same.
        title, description, source, licence : str
            Texts for the readers of the release.
        texts : dict or path, optional
            The same texts in further languages, such as {"fr": {"title": "...", "unit": "personnes"}}, or a json or
            toml file of that form. A language may have title, description, source, unit and note.
        labels : path or frame, optional
            The declared code list: a csv or json file or a frame of variable, code, label_en, label_ko, parent, and
            label_fr and so on for further languages.
        geometry : dict, optional
            GeoJSON for area columns, such as {"LA3": "towns.geojson"}. Features have their code as `id`, or as
            property `code` or `LA3`.
        bound : int, optional
            How far a count may lie from the truth when masks are chosen. By default, floor(K/2) + K, or 2K-1 for large
            designs. It is confidential and is never in the release.
        sweeps : int, optional
            The number of sweeps, as in `controlled`.
        move : int, optional
            How far large counts may move to bring sums nearer to the truth, as in `controlled`. The release states it,
            and every later release of the population keeps it. By default, as published before, otherwise 0.
        noise : float, optional
            The share of small cells whose target is shifted by one, as in `controlled`. The release states it, and the
            population keeps it. By default, as published before, otherwise 0.
        stated_bound : int, optional
            A bound to state in the release, fixed before the data was seen. It is checked for every published table. If
            it does not hold, nothing is published, and no bound can be stated later.
        secret : Secret or path, optional
            The secret of the store, if it is not in memory, in ILBA_SECRET or beside the store.
        ledger : Ledger, path or False, optional
            The ledger that keeps masks and publications, or its path. By default, ILBA_LEDGER, then the one beside the
            secret. False publishes a trial that no ledger remembers.
        accept_conflict : str, optional
            The word from a refusal, to publish anyway. It is valid once and is recorded.
        from_ledger : FinestTable or path, optional
            A published finer store: this table is published as sums of its masked counts.
        regroup : dict, optional
            With `from_ledger`: for a column, the coarser label of each finer one; a mapping, or a csv file with two
            columns.
        where : dict, optional
            With `from_ledger`: for a column of the finer store, the labels to count.
        rename : dict, optional
            With `from_ledger`: for a column, its name in the finer store.
        require_safe : bool, default False
            Publish only what is certified or what the audit finds safe. This is the rule unless `accept_risk` is given.
        accept_risk : bool, default False
            Publish tables that the audit does not find safe, or that are too many for an audit.
        budget : float, optional
            With noise: the largest total epsilon of all publications about this population, declared once. The ledger
            keeps it and adds up what is spent.
        audit : path, optional
            Write the report of the audit here (confidential).
        progress : callable, optional
            Called with each `ProgressStep`: choosing masks, attacking, writing tables (each table is written twice).

        Returns
        -------
        Release
            The release, opened.

        Raises
        ------
        UnsafeRelease
            The release would disclose counts. Nothing was published.
        """
        asked = {name: given for name, given in locals().items() if name != "self"}  # every argument, by its name
        from ilba.release import release

        return release(self, **asked)

    def published(
        self, *, secret: Secret | Path_ | None = None, ledger: Ledger | Path_ | None = None
    ) -> AnyFinestTable:
        """Look up the published masks, for a report or an audit.

        Parameters
        ----------
        secret : Secret or path, optional
            The secret of the store, if it is not in memory, in ILBA_SECRET or beside the store.
        ledger : Ledger or path, optional
            The ledger. By default, ILBA_LEDGER, then the one beside the secret.

        Returns
        -------
        AnyFinestTable
            The same counts with their published masks. Confidential.

        Raises
        ------
        InputError
            Masks of these counts were never published.
        """
        from ilba.release import published

        return published(self, secret=secret, ledger=ledger)

    def publishable(
        self,
        level: Level = 0,
        key: Names | None = (),
        *,
        accept_risk: bool = False,
        remember: bool = True,
        secret: Secret | Path_ | None = None,
        ledger: Ledger | Path_ | bool | None = None,
        accept_conflict: str | None = None,
        progress: Progress | None = None,
    ) -> AnyFinestTable:
        """Make the finest table from which one table may be published by itself, by the rules of `release`.

        If masks of this population were published, the result has those masks.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order of its columns.
        accept_risk : bool, default False
            Publish an iLBA table that the audit does not find safe, or that is too large for an audit.
        remember : bool, default True
            Enter the table into the ledger, because it will be published. False only looks.
        secret : Secret or path, optional
            The secret of the store, if it is not in memory, in ILBA_SECRET or beside the store.
        ledger : Ledger, path or False, optional
            The ledger. By default, ILBA_LEDGER, then the one beside the secret. False is for a trial.
        accept_conflict : str, optional
            The word from a refusal, to publish anyway.
        progress : callable, optional
            Called with each `ProgressStep`.

        Returns
        -------
        FinestTable or SparkFinestTable
            The finest table whose `table` may be published. Confidential.

        Raises
        ------
        UnsafeRelease
            The table would disclose counts.
        """
        from ilba.release import publishable

        return publishable(
            self,
            level,
            key,
            accept_risk=accept_risk,
            remember=remember,
            secret=secret,
            ledger=ledger,
            accept_conflict=accept_conflict,
            progress=progress,
        )

    def audit(self, method: str | None = None, tables: Tables = "all", **options: Any) -> Any:
        """Find out what anybody can prove from all tables together: see `ilba.audit` (confidential).

        After a release, `finest.published().audit()` looks at the published masks.

        Parameters
        ----------
        method : str, optional
            How the tables are masked. By default, the method of this table.
        tables : str or iterable of str, default "all"
            "all", or names of tables.
        **options
            Other arguments of `ilba.audit`.

        Returns
        -------
        AuditReport
            What was found. Confidential.
        """
        from ilba.attack.audit import audit

        return audit(self, method, tables, **options)

    def risk(self, attackers: Any = None, tables: Tables = "all", **options: Any) -> Any:
        """Measure what named attackers learn from all tables together: see `ilba.risk` (confidential).

        After a release, `finest.published().risk()` looks at the published masks.

        Parameters
        ----------
        attackers : str, Register, Insider or iterable of them, optional
            The attackers. By default, all attackers that need no outside data.
        tables : str or iterable of str, default "all"
            "all", or names of tables.
        **options
            Other arguments of `ilba.risk`.

        Returns
        -------
        RiskReport
            A row for each attacker. Confidential.
        """
        from ilba.attack.risk import ALL, risk

        return risk(self, ALL if attackers is None else attackers, tables, **options)

    def report(self, path: Path_, **options: Any) -> Path:
        """Write the report on the loss in every table: see `ilba.report.report` (confidential).

        Parameters
        ----------
        path : path
            Where to write.
        **options
            Other arguments: `levels`, `keys`, `max_keys`, `progress`.

        Returns
        -------
        Path
            The written file.
        """
        from ilba.output.report import report

        return report(self, path, **options)

    def _repr_html_(self) -> str:
        """The table in a notebook: its description, not its content."""
        design = self.design
        rows = [
            *((hierarchy.name, " > ".join(hierarchy.columns)) for hierarchy in design.hierarchies),
            ("keys", ", ".join(design.keys) or "(none)"),
            ("method", self.method),
            ("population", str(self.population) if self.population.declared else "(not declared)"),
        ]
        size = self._size()
        about = f"{'' if size is None else f'{size:,} cells · '}K={design.threshold}"
        return notebook.page("Finest table", about, notebook.table(["", ""], rows))

    def __repr__(self) -> str:
        design, size = self.design, self._size()
        areas = "; ".join(" > ".join(hierarchy.columns) for hierarchy in design.hierarchies)
        return (
            f"{type(self).__name__}({'' if size is None else f'{size:,} cells; '}{areas}; "
            f"keys {listing(design.keys) or '(none)'}; K={design.threshold}; cells={design.cells!r}; "
            f"{'controlled; ' if self.chosen else ''}confidential)"
        )

    def _size(self) -> int | None:
        """The number of cells, if it is known without work."""
        return len(self)


def class_means(finest: AnyFinestTable) -> dict[int, float]:
    """Compute the mean masked count of the cells with each true count in 1..K-1 (confidential).

    Parameters
    ----------
    finest : FinestTable or SparkFinestTable
        The finest table.

    Returns
    -------
    dict of int to float
        The mean for each count that occurs. Unbiased masks give a mean of x for the count x.
    """
    return finest.class_means()
