"""The finest table: counted, masked once, kept in a store, and asked for any coarser table or single cell.

Randomness enters here and nowhere else. Tables and cells are one thing: sum the four additive parts, apply iLBA; or,
where masks were chosen jointly, take the sum as it is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CellIndex, CodeLists
from ilba.data.codelists import read_labels
from ilba.data.microdata import Counted, Microdata, Missing, check_missing, labelled
from ilba.data.rfiles import frame_of, read_r
from ilba.design.design import (
    COUNT,
    MASKED,
    Cells,
    Design,
    HKey,
    Level,
    Names,
    Origins,
    Selection,
    hierarchies_of,
    threshold_of,
)
from ilba.design.labels import Label, label_text
from ilba.design.tables import Tables, selections, wanted_tables
from ilba.errors import (
    InputError,
    SecretError,
    StoreError,
    listing,
    nearest,
    notice,
    some,
    suggesting,
)
from ilba.files import replacing, writable
from ilba.methods import masking
from ilba.methods.controlled.search import Chosen, Control, Progress, choose, mean_masks, usual_bound
from ilba.secret.draws import CellDraws
from ilba.secret.secret import Secret, given_secret
from ilba.tables import store
from ilba.tables.cube import Cube, walk
from ilba.tables.publishing import Publishes
from ilba.tables.rollup import Finest, Sums, released, roll_up
from ilba.tables.table import Table, detail

if TYPE_CHECKING:
    from ilba.spark import SparkFinestTable

IntArray: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = Label | float | Sequence[Any]
Path_: TypeAlias = str | os.PathLike[str]

_CHUNK = 2**20
_KEPT = 2**20  # a table of up to so many cells is kept in memory to sum others from


class FinestTable(Publishes):
    """Every observed cell with its true count N and its masked count N_masked. Confidential.

    Made by `ilba.build`, `FinestTable.from_counts`, `ilba.open_store` or `ilba.read_rds`.
    """

    def __init__(
        self,
        codes: CodeLists,
        words: Sequence[IntArray],
        count: IntArray,
        masked: IntArray,
        *,
        fingerprint: str | None = None,
        chosen: Chosen | None = None,
    ) -> None:
        self.codes = codes
        self.fingerprint = fingerprint
        """tells which secret drew the masks; None when they came with the counts"""
        # One copy of the cells, in the frame that is written to disk; the arrays are views of it.
        named = {f"cell{place}": word for place, word in enumerate(words)}
        self._cells = pl.DataFrame({**named, COUNT: count, MASKED: masked})
        self._words = [self._cells[name].to_numpy() for name in named]
        self._count = self._cells[COUNT].to_numpy()
        self._masked = self._cells[MASKED].to_numpy()
        self.chosen = chosen
        """for which tables the masks were chosen jointly by `controlled`; None when each was drawn by itself"""
        self.control: Control | None = None
        """what `controlled` reached (confidential); None when the table was not made by it or comes from a store"""
        self._secret: Secret | None = None  # the secret that drew the masks, where it is at hand
        self._unsaved_secret: Secret | None = None
        self.labels = read_labels(None, codes.design)
        """the agency's code list with its labels; empty when none was given"""
        self.origins = Origins()
        """which parts of the design a person declared, and which were proposed from the data"""

    @classmethod
    @suggesting
    def from_counts(
        cls,
        frame: Any,
        hkey: HKey,
        key: Names | None = None,
        mask_thr: int = 5,
        *,
        secret: Secret | Path_ | None = None,
        cells: Cells = "observed",
        missing: Missing = "drop",
    ) -> FinestTable:
        """Make a finest table from combinations that are counted already, in a column N.

        N is a number of people, never a sum of survey weights: masking has to know how many people stand behind a
        cell. A column N_masked is kept as the masked counts; without one they are drawn with the secret, and rows of
        the same cell are added up with a notice. Rows with N = 0 only add their labels to the code lists.

        Parameters
        ----------
        frame : frame or path
            Labels and N, and N_masked where the counts are masked already: any source that `build` reads.
        hkey : str, sequence of str or dict
            The columns of the hierarchy from coarse to fine, or a mapping from names to columns for several.
        key : str or sequence of str, optional
            The categorical variables. Left out, all other columns, whatever their number of values.
        mask_thr : int, default 5
            The threshold K, at least 3. With N_masked, the one with which it was masked.
        secret : Secret or path, optional
            A `Secret` or the path of a secret file. Left out, ILBA_SECRET, then a new one.
        cells : {"observed", "grid"}, default "observed"
            Which cells count as small cells of an aggregate: "observed" takes those that occur, as the R package does;
            "grid" every combination of the code lists, true zeros included, as the paper defines.
        missing : {"drop", "category"}, default "drop"
            "drop" leaves out rows with a missing label and says how many. "category" keeps them.

        Returns
        -------
        FinestTable
            The finest table, in memory. Confidential.

        Raises
        ------
        InputError
            There is no column N, a count is not a whole number, or N_masked does not fit N.

        Examples
        --------
        >>> import polars as pl
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1], "N_masked": [5, 8, 0]})
        >>> FinestTable.from_counts(counts, hkey=["town"]).cell(level=1, hkey_value=["a"])
        13
        """
        check_missing(missing)
        source = Microdata.open(frame)
        if COUNT not in source.columns:
            raise InputError(f"the data has no column {COUNT!r}. Single records are counted by ilba.build.")
        areas = [column for hierarchy in hierarchies_of(hkey) for column in hierarchy.columns]
        rest = [column for column in source.columns if column not in (*areas, COUNT, MASKED)]
        design = Design.of(hkey, rest if key is None else key, mask_thr, cells)
        source.require(areas, "hkey")
        source.require(design.keys, "key")
        masks = [MASKED] if MASKED in source.columns else []
        rows = labelled(source.read([*design.columns, COUNT, *masks]), design.columns)
        rows = rows.with_columns(_whole_column(rows[name]) for name in (COUNT, *masks))
        whole = rows.drop_nulls(design.columns) if missing == "drop" else rows
        if whole.height < rows.height:
            notice(f"{some(rows.height - whole.height, 'row')} with a missing label left out.")
        seen = int((whole[COUNT] > 0).sum())
        if not seen:
            raise InputError("the data has no row with a count above 0. There is nothing to mask.")
        counted = Microdata.open(whole).count(
            design, missing="category", weight=COUNT, carry=MASKED if masks else None, keep_codes=True
        )
        origins = Origins("proposed" if key is None else "declared")
        if counted.carried is None:
            if len(counted.count) < seen:
                notice(
                    f"{some(seen, 'row')} are added up into {some(len(counted.count), 'cell')}. {COUNT} has to be a "
                    f"number of people: with survey weights one person would count as many, and not be masked."
                )
            drawn = cls.drawn(counted, given_secret(secret))
            drawn.origins = origins
            return drawn
        if len(counted.count) < seen:
            raise InputError(
                f"a cell stands in two rows, each with its own {MASKED}. Name every column that tells cells apart "
                f"in hkey or key, or drop {MASKED} to have the rows added up and masked anew."
            )
        _check_masks(whole[COUNT].to_numpy(), whole[MASKED].to_numpy(), design.threshold)
        tell_recurring(counted.codes)
        finest = cls(counted.codes, counted.words, counted.count, counted.carried)
        finest.origins = origins
        return finest

    @classmethod
    def drawn(cls, counted: Counted, secret: Secret | None) -> FinestTable:
        """Mask counted cells with a secret.

        Parameters
        ----------
        counted : Counted
            Packed cells with their counts and code lists, as `Microdata.count` makes them.
        secret : Secret, optional
            What draws the masks. None makes a new one, which `save` writes beside the store.

        Returns
        -------
        FinestTable
            The finest table, in memory.
        """
        chosen = secret or Secret.new()
        K = counted.codes.design.threshold
        masked = counted.count.copy()
        draw = CellDraws(chosen, counted.codes)
        for first in range(0, len(masked), _CHUNK):
            last = first + _CHUNK
            words = [word[first:last] for word in counted.words]
            masked[first:last] = masked_counts(draw, words, counted.count[first:last], K)
        finest = cls(counted.codes, counted.words, counted.count, masked, fingerprint=chosen.fingerprint)
        finest._secret, finest._unsaved_secret = chosen, None if secret else chosen
        tell_recurring(counted.codes)
        return finest

    @property
    def design(self) -> Design:
        """The hierarchies, the keys, the threshold and the reading of S."""
        return self.codes.design

    @property
    def method(self) -> Literal["ilba", "controlled"]:
        """How its tables are masked: by iLBA, or as sums of masks that `controlled` chose jointly."""
        return "controlled" if self.chosen else "ilba"

    @property
    def frame(self) -> pl.DataFrame:
        """Labels, N, N_masked, sorted by the labels (confidential)."""
        labels = self.codes.labels(self.codes.finest, self._words)
        return pl.DataFrame([*labels, pl.Series(COUNT, self._count), pl.Series(MASKED, self._masked)])

    @cached_property
    def _source(self) -> Finest:
        K = self.design.threshold
        return Finest(
            self.codes.finest,
            self._words,
            lambda first, last: masking.parts(self._count[first:last], self._masked[first:last], K),
        )

    def sums(self, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Sums]]:
        """Sum the parts of several tables, each from a small finer one (confidential).

        Parameters
        ----------
        wanted : sequence of Selection
            The tables, their keys in the order of the design.

        Returns
        -------
        iterator
            Pairs of a selection and its sums, in the order in which they are cheapest to make.
        """
        return walk(self.codes, self._source, wanted)

    @suggesting
    def table(self, level: Level = 0, key: Names | None = ()) -> Table:
        """Make the masked table at a level by some keys.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order in which its columns are to stand.

        Returns
        -------
        Table
            The table with its flags and losses. Confidential.

        Raises
        ------
        InputError
            The store has no such level or key.

        Examples
        --------
        >>> import polars as pl
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1], "N_masked": [5, 8, 0]})
        >>> FinestTable.from_counts(counts, hkey=["town"]).table(level="town").frame["N_masked"].to_list()
        [13, 0]
        """
        selection = self.design.select(level, key)
        return self._table(selection, roll_up(self.codes, self._nearest(selection), self.codes.cell_index(selection)))

    def _nearest(self, selection: Selection) -> Sums | Finest:
        """What to sum a table from: the table of its level with all keys, kept where it is small, else every cell."""
        if selection.levels not in self._bases:
            base = self.design.at(selection.levels, self.design.keys)
            if set(base.columns) == set(self.design.columns):
                return self._source
            sums = roll_up(self.codes, self._source, self.codes.cell_index(base))
            self._bases[selection.levels] = sums if len(sums) < _KEPT and 2 * len(sums) < len(self) else None
            if self._bases[selection.levels] is None and selection.keys == base.keys:
                return sums
        return self._bases[selection.levels] or self._source

    @cached_property
    def _bases(self) -> dict[tuple[int, ...], Sums | None]:
        return {}

    def _table(self, selection: Selection, sums: Sums) -> Table:
        joint = bool(self.chosen)
        return Table(self.design, selection, detail(self.codes, sums, joint), joint)

    @suggesting
    def cube(
        self, levels: Iterable[Level] | None = None, keys: Names | None = None, max_keys: int | None = None
    ) -> Cube:
        """Choose all tables of some levels by all subsets of some keys.

        Iterating makes the tables one after the other, each from a small finer one; `write` streams them to a folder.

        Parameters
        ----------
        levels : iterable of int, str or dict, optional
            Only tables at these levels, each given as in `table`. Left out, all levels, 0 included.
        keys : str or sequence of str, optional
            Only tables by subsets of these keys. Left out, of all keys.
        max_keys : int, optional
            At most so many keys in a table. Left out, any number.

        Returns
        -------
        Cube
            The tables, not made yet. Confidential.

        Examples
        --------
        >>> import polars as pl
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1], "N_masked": [5, 8, 0]})
        >>> cube = FinestTable.from_counts(counts, hkey=["town"]).cube()
        >>> {table.selection.name: table.frame["N_masked"].to_list() for table in cube}
        {'town.sex': [5, 8, 0], 'all.sex': [5, 8], 'all': [13], 'town': [13, 0]}
        """
        return Cube(
            selections(self.design, levels, keys, max_keys),
            self.tables,
            about=lambda: {"store": self._meta()["crc32"]},
        )

    def with_threshold(self, mask_thr: int, secret: Secret | Path_ | None = None) -> FinestTable:
        """Mask the same counts anew for another K, to compare.

        Never publish the same data under two thresholds.

        Parameters
        ----------
        mask_thr : int
            The other threshold K, at least 3.
        secret : Secret or path, optional
            What draws the masks. Left out, ILBA_SECRET, then a new one.

        Returns
        -------
        FinestTable
            The same cells with other masks.
        """
        codes = CodeLists(replace(self.design, threshold=threshold_of(mask_thr)), self.codes.lists)
        return self.drawn(Counted(codes, self._words, self._count), given_secret(secret))

    def with_cells(self, cells: Cells) -> FinestTable:
        """Take the same counts and masks with the other reading of S, to compare.

        Parameters
        ----------
        cells : {"observed", "grid"}
            The reading: see `ilba.build`.

        Returns
        -------
        FinestTable
            The same cells and masks, whose tables are masked by that reading.
        """
        codes = CodeLists(replace(self.design, cells=cells), self.codes.lists)
        return FinestTable(codes, self._words, self._count, self._masked, fingerprint=self.fingerprint)

    def tables(self, wanted: Sequence[Selection]) -> Iterator[Table]:
        """Make several tables, each from a small finer one.

        Parameters
        ----------
        wanted : sequence of Selection
            The tables, their keys in the order of the design.

        Yields
        ------
        Table
            One table after the other, in the order in which they are cheapest to make.
        """
        for selection, sums in self.sums(wanted):
            yield self._table(selection, sums)

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
        previous: FinestTable | None = None,
        progress: Progress | None = None,
    ) -> FinestTable:
        """Choose the masks of the same counts jointly, so that plain sums of them stay near the truth in many tables.

        The tables of the result are sums of N_masked: they add up, are 0 or at least K, and prove no small count.
        `control` tells what was reached. Interrupted with Ctrl-C, it gives the best masks so far.

        Parameters
        ----------
        tables : str or iterable of str, default "all"
            The tables to be released: "all", cut down by `levels`, `keys` and `max_keys`; or names such as "town.sex",
            or selections.
        bound : int, optional
            How far a count of these tables may lie from the truth. Left out, floor(K/2) + K. It is raised step by
            step where it cannot be reached; `control` says so.
        levels : iterable of int, str or dict, optional
            Only tables at these levels, each given as in `table`. Left out, all levels, 0 included.
        keys : str or sequence of str, optional
            Only tables by subsets of these keys. Left out, of all keys.
        max_keys : int, optional
            At most so many keys in a table. Left out, any number.
        secret : Secret or path, optional
            The secret that drew the masks: a `Secret` or the path of its file. Left out, the one this table was built
            with, then ILBA_SECRET, then the secret file beside the store.
        previous : FinestTable, optional
            The table of an earlier wave: a cell whose count is the same keeps its mask, unless the bound cannot be
            held with it.
        progress : callable, optional
            Called with each step of the work, a `ControlStep` (confidential).

        Returns
        -------
        FinestTable
            The same counts with the chosen masks; `chosen` and `control` say for which tables, and what was reached.

        Raises
        ------
        InputError
            The masks of this table were chosen jointly already, or `previous` has other columns or another K.
        SecretError
            The secret that drew the masks is not at hand, or it is another one.
        """
        if self.chosen:
            raise InputError(
                "the masks of this table were chosen jointly already. Start from the table that was built, and for a "
                "new wave give this one as previous=."
            )
        wanted = wanted_tables(self.design, tables, levels, keys, max_keys)
        given = self._secret_of(secret)
        if self.fingerprint and given.fingerprint != self.fingerprint:
            raise SecretError(
                f"this table was masked with another secret (fingerprint {self.fingerprint}). Give that one."
            )
        own = given.derived("controlled")
        masked, control = choose(
            self.codes,
            self._words,
            self._count,
            self._masked,
            CellDraws(own, self.codes),
            wanted,
            bound,
            None if previous is None else self._masks_of(previous),
            progress,
        )
        if bound is None and control.reached > usual_bound(self.design.threshold):
            notice(
                "the usual bound could not be held everywhere in these tables. `control` says how far (confidential)."
            )
        chosen = Chosen(tuple(table.name for table in wanted), None if bound is None else int(bound), control.held)
        result = FinestTable(self.codes, self._words, self._count, masked, fingerprint=given.fingerprint, chosen=chosen)
        result.control = control
        return result._like(self)

    def _like(self, other: FinestTable) -> FinestTable:
        """This table with what is known of another one besides its counts and masks."""
        self.labels, self.origins, self.place = other.labels, other.origins, other.place
        self._secret, self._unsaved_secret = other._secret, other._unsaved_secret
        self._memory = None if other.place else other._remembered()
        return self

    def _secret_of(self, secret: Secret | Path_ | None) -> Secret:
        """The secret that drew the masks: as given, as it was built with, of the environment, or beside the store."""
        found = given_secret(secret) if secret is not None else self._secret or given_secret(None)
        if found is None and self.place is not None and secret_path(self.place).exists():
            found = Secret.from_file(secret_path(self.place))
        if found is None:
            raise SecretError(
                "choosing masks jointly needs the secret that drew them. Give secret=, the path of the secret file, "
                "or set ILBA_SECRET."
            )
        return found

    def with_masks_of(self, previous: FinestTable) -> FinestTable | None:
        """Take the same counts with the masks of another table.

        Parameters
        ----------
        previous : FinestTable
            A table with the same columns and K.

        Returns
        -------
        FinestTable or None
            The counts of this table with those masks. None where the counts are not the same.

        Raises
        ------
        InputError
            `previous` is no finest table, or has other columns or another K.
        """
        masked = self._masks_of(previous)
        if len(previous) != len(self) or bool((masked < 0).any()):
            return None
        result = FinestTable(
            self.codes, self._words, self._count, masked, fingerprint=previous.fingerprint, chosen=previous.chosen
        )
        return result._like(self)

    @property
    def unsaved(self) -> bool:
        """Whether the secret that drew the masks is kept nowhere yet."""
        return self._unsaved_secret is not None

    def occurring(self) -> list[IntArray]:
        """List for each dimension the labels that occur (confidential).

        Returns
        -------
        list of array
            For each dimension the numbers of its labels, in the order of its code list.
        """
        return [np.unique(digit) for digit in self.codes.finest.digits(self._words)]

    def as_truth(self, kind: Callable[[str, pl.Series], Any]) -> FinestTable:
        """Make the world in which the masked counts are the truth: a cell that is masked to 0 does not occur there.

        Parameters
        ----------
        kind : callable
            Gives the type of a label column from its name and its codes as text.

        Returns
        -------
        FinestTable
            A finest table whose N and N_masked are the masked counts of this one.
        """
        kept = np.flatnonzero(self._masked > 0)
        digits = self.codes.finest.digits([word[kept] for word in self._words])
        codes, moved = self.codes.shown([np.unique(digit) for digit in digits], kind)
        words = codes.finest.pack([move[digit] for move, digit in zip(moved, digits, strict=True)], len(kept))
        masked = self._masked[kept]
        if any(bool((np.diff(move[move >= 0]) < 0).any()) for move in moved):  # another type, another order
            order = np.lexsort(words[::-1])
            words, masked = [word[order] for word in words], masked[order]
        truth = FinestTable(codes, words, masked, masked, chosen=self.chosen)
        truth.labels, truth.origins = self.labels, self.origins
        return truth

    def marks(self) -> tuple[str, str]:
        """Compute two checksums that no order, type or code list moves (confidential).

        Returns
        -------
        tuple of str
            The checksum of the true counts, and the one of the masks above 0.
        """
        digits = self.codes.finest.digits(self._words)
        paths = [
            np.array([path_mark(listed.columns, path) for path in listed.labels.rows()], dtype=np.uint64)[digit]
            for listed, digit in zip(self.codes.lists, digits, strict=True)
        ]
        shown = self._masked > 0
        masks = store.marked([*(path[shown].view(np.int64) for path in paths), self._masked[shown]])
        return f"{store.marked([*(path.view(np.int64) for path in paths), self._count]):016x}", f"{masks:016x}"

    def _masks_of(self, previous: FinestTable) -> IntArray:
        """The masked counts of another table in the cells that have the same count there, else -1."""
        if not isinstance(previous, FinestTable):
            raise InputError(f"previous is a {type(previous).__name__}; give the FinestTable of the earlier wave.")
        ours, theirs = self.design, previous.design
        if set(ours.columns) != set(theirs.columns) or ours.threshold != theirs.threshold:
            raise InputError(
                "previous has other columns or another threshold than this table, so its masks belong to other cells."
            )
        as_text = [pl.col(column).cast(pl.String) for column in ours.columns]  # a label is its text, as in the draws
        here = self.frame.select(*as_text, COUNT)
        there = previous.frame.select(*as_text, COUNT, MASKED)
        joined = here.join(there, on=[*ours.columns, COUNT], how="left", nulls_equal=True, maintain_order="left")
        return joined[MASKED].fill_null(-1).to_numpy()

    @suggesting
    def cell(self, level: Level = 0, key: Names | None = (), hkey_value: Any = (), key_value: Values = ()) -> int:
        """Look up the masked count of one cell: the entry of the table for it.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order in which its columns are to stand.
        hkey_value : sequence or dict, default ()
            The labels of the area: the whole path from the coarsest level down to `level`. With several hierarchies a
            mapping from their names, or all paths one after the other.
        key_value : label or sequence of labels, default ()
            One label for each of `key`. None stands for a missing one.

        Returns
        -------
        int
            The masked count; 0 where the cell does not occur.

        Raises
        ------
        InputError
            The store has no such level or key, or the number of values does not fit.
        """
        masked, _ = self.lookup(level, key, hkey_value, key_value)
        return masked

    def lookup(
        self, level: Level = 0, key: Names | None = (), hkey_value: Any = (), key_value: Values = ()
    ) -> tuple[int, bool]:
        """Look up the masked count of one cell, and whether it occurs at all (confidential).

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order in which its columns are to stand.
        hkey_value : sequence or dict, default ()
            The labels of the area: the whole path from the coarsest level down to `level`. With several hierarchies a
            mapping from their names, or all paths one after the other.
        key_value : label or sequence of labels, default ()
            One label for each of `key`. None stands for a missing one.

        Returns
        -------
        tuple of int and bool
            What `cell` gives, and whether the cell occurs in the data.

        Raises
        ------
        InputError
            The store has no such level or key, or the number of values does not fit.
        """
        selection = self.design.select(level, key)
        nodes = nodes_of(self.codes, selection, hkey_value, key_value)
        if any(node is None for node in nodes):
            return 0, False
        target = self.codes.cell_index(selection)
        packed = target.pack([np.array([node]) for node in nodes], 1)
        rows = self._rows(target, [int(node) for node in nodes if node is not None])
        if not len(rows):
            return 0, False
        parts = masking.parts(self._count[rows], self._masked[rows], self.design.threshold)
        summed = masking.Parts(*(np.array([part.sum()]) for part in parts))
        masked, _ = released(self.codes, Sums(target, packed, summed, np.array([len(rows)])), bool(self.chosen))
        return int(masked[0]), True

    def _rows(self, target: CellIndex, nodes: Sequence[int]) -> IntArray:
        """The finest cells inside one cell of a table."""
        first, last = 0, len(self._count)
        wanted = list(zip(target.places, nodes, strict=True))
        if wanted and wanted[0][0].dimension == 0:
            # Cells are sorted, and an area is a run of finest areas: look only between its two ends.
            place, node = wanted.pop(0)
            listed = self.codes.lists[0]
            starts = listed.starts[place.level]
            end = int(starts[node + 1]) if node + 1 < len(starts) else len(listed)
            stride = self.codes.finest.stride(0)
            first = int(np.searchsorted(self._words[0], int(starts[node]) * stride))
            last = int(np.searchsorted(self._words[0], end * stride)) if end < len(listed) else last
        inside = np.ones(last - first, dtype=bool)
        for place, node in wanted:
            digit = self._source.digit(place.dimension)[first:last]
            listed = self.codes.lists[place.dimension]
            inside &= (digit == node) if place.level == listed.depth else (listed.nodes[place.level][digit] == node)
        return first + np.flatnonzero(inside)

    def save(self, path: Path_) -> Path:
        """Write the store: one Parquet file for you alone, in one step.

        A secret that was generated is written beside it.

        Parameters
        ----------
        path : path
            Where to write. A store that stands there is replaced; a Parquet file of another kind is not.

        Returns
        -------
        Path
            Where the store is now; `place` says it too.

        Raises
        ------
        InputError
            A file stands there that is not a store.
        SecretError
            Beside the path there is another secret than the new one that drew these masks.
        WriteError
            The file could not be written. What was there is still there.
        """
        target = writable(path)
        store.check_name(target)
        self._warn_of_another_secret(target)
        self._save_secret(target)
        self.write(target)
        self._remembered().follow(target)
        self.place = target
        return target

    def write(self, path: Path_) -> None:
        """Write a copy of the store, in one step.

        This table goes on belonging to the store that it came from.

        Parameters
        ----------
        path : path
            Where to write. A Parquet file that stands there is replaced.
        """
        meta = self._meta()
        with replacing(path, instead_of=b"PAR1") as temporary:
            store.write(temporary, meta, self._cells)

    def _meta(self) -> dict[str, Any]:
        """What a store says of itself, with a checksum over it and the cells."""
        about = store.About(self.codes, self.labels, self.fingerprint, self.chosen, self.origins)
        meta = about.to_json(len(self))
        return {**meta, "crc32": store.checksum(meta, self._cells)}

    def _save_secret(self, target: Path) -> None:
        if self._unsaved_secret is not None:
            save_beside(self._unsaved_secret, target)
            self._unsaved_secret = None

    def _warn_of_another_secret(self, target: Path) -> None:
        if not target.exists():
            return
        try:
            before, _ = store.read_about(target)
        except store.ForeignError:
            raise InputError(
                f"{str(target)!r} exists and is not a store, but a Parquet file of another kind, which this would "
                f"destroy. Choose another name."
            ) from None
        except StoreError:  # a damaged store may be replaced
            return
        warn_of_another_secret(target, before.fingerprint, self.fingerprint)

    def __len__(self) -> int:
        return len(self._count)

    def __repr__(self) -> str:
        design = self.design
        areas = "; ".join(" > ".join(hierarchy.columns) for hierarchy in design.hierarchies)
        return (
            f"FinestTable({len(self):,} cells; {areas}; keys {listing(design.keys) or '(none)'}; "
            f"K={design.threshold}; cells={design.cells!r}; {'controlled; ' if self.chosen else ''}confidential)"
        )


def secret_path(store: Path) -> Path:
    """Where the secret of a store is kept when none was given."""
    return store.with_suffix(".secret")


def save_beside(secret: Secret, target: Path) -> None:
    """Keep the new secret that drew the masks of a store beside it."""
    place = secret_path(target)
    if place.exists():
        if Secret.from_file(place) != secret:
            raise SecretError(
                f"{str(place)!r} holds another secret than the new one that drew these masks. Two releases of "
                f"the same cells under two secrets give counts away. Build again with secret={str(place)!r}, "
                f"or save elsewhere."
            )
        return
    secret.to_file(place)
    notice(
        f"no secret was given, so a new one was made and saved as {str(place)!r} (only you can read it). "
        f"Keep it: the same secret gives the same masks tomorrow, and another secret would give counts away."
    )


def warn_of_another_secret(target: Path, before: str | None, now: str | None) -> None:
    """Say aloud when a store takes the place of one whose masks another secret drew."""
    if before and now and before != now:
        notice(
            f"the store at {str(target)!r} was masked with another secret (fingerprint {before}). "
            f"Publishing from both gives counts away."
        )


@overload
def open_store(path: Path_, *, within: object = None, spark: None = None) -> FinestTable: ...
@overload
def open_store(path: Path_, *, within: object = None, spark: Any) -> SparkFinestTable: ...
def open_store(path: Path_, *, within: object = None, spark: Any = None) -> FinestTable | SparkFinestTable:
    """Open a store that `build` or `save` wrote: a file, or a folder that was made on Spark.

    Parameters
    ----------
    path : path
        The store. With `spark` also a URL such as s3a://bucket/store.
    within : label, optional
        Only this area of the top level: for an audit, or masks chosen jointly, of a store too large for memory.
    spark : SparkSession, optional
        A Spark session, to leave the cells where they are.

    Returns
    -------
    FinestTable or SparkFinestTable
        The finest table; on Spark where `spark` is given. Confidential.

    Raises
    ------
    StoreError
        There is no such store, it is damaged, or a newer version wrote it.
    InputError
        `within` names no area, or is given together with `spark`.
    """
    if spark is not None:
        from ilba.spark import SparkFinestTable

        if within is not None:
            raise InputError("within opens one area in memory: leave out spark.")
        return SparkFinestTable.open(path, spark)
    about, cells = store.read(path, within)
    finest = FinestTable(
        about.codes,
        [cells[name].to_numpy() for name in about.words],
        cells[COUNT].to_numpy(),
        cells[MASKED].to_numpy(),
        fingerprint=about.fingerprint,
        chosen=about.chosen,
    )
    finest.labels, finest.origins = about.labels, about.origins
    finest.place = Path(os.path.realpath(path)) if within is None else None
    return finest


def path_mark(columns: Sequence[str], path: Sequence[Label]) -> int:
    """A number for a path of labels and the names of its columns."""
    parts = [
        text.encode() for name, label in zip(columns, path, strict=True) for text in (name, label_text(label) or "")
    ]
    missing = bytes(label is None for label in path)
    return int.from_bytes(hashlib.blake2b(b"\0".join([*parts, missing]), digest_size=8).digest())


def tell_recurring(codes: CodeLists) -> None:
    """Say aloud which codes stand under different parents."""
    for listed in codes.lists:
        for column, recurring in listed.recurring().items():
            notice(
                f"{column!r} has {some(recurring, 'code')} under different parents. "
                f"Each is taken as an area of its own, known by its whole path."
            )


def masked_counts(draw: CellDraws, words: Sequence[IntArray], count: IntArray, K: int) -> IntArray:
    """The counts of cells masked by SCA with the draws of a secret."""
    masked = count.copy()
    small = np.flatnonzero(count < K)
    masked[small] = masking.sca(count[small], draw([word[small] for word in words], count[small]), K)
    return masked


def nodes_of(codes: CodeLists, selection: Selection, hkey_value: Any, key_value: Values) -> list[int | None]:
    """The nodes that the user's values name, in the order of the table's dimensions."""
    hierarchies = codes.design.hierarchies
    if isinstance(hkey_value, Mapping):
        known = [hierarchy.name for hierarchy in hierarchies]
        for name in hkey_value:
            if name not in known:
                raise InputError(f"hkey_value names {name!r}.{nearest(name, known)} It has {listing(known)}.")
        areas = [_listed(hkey_value.get(hierarchy.name, ())) for hierarchy in hierarchies]
    else:
        flat, areas = _listed(hkey_value), []
        wanted = sum(selection.levels)
        if len(flat) != wanted:
            raise InputError(_wrong_number("hkey_value", flat, selection.columns[:wanted]))
        for level in selection.levels:
            areas.append(flat[:level])
            flat = flat[level:]
    for hierarchy, level, path in zip(hierarchies, selection.levels, areas, strict=True):
        if len(path) != level:
            raise InputError(_wrong_number("hkey_value", path, hierarchy.columns[:level]))
    values = _listed(key_value)
    if len(values) != len(selection.keys):
        raise InputError(_wrong_number("key_value", values, selection.keys))
    paths = [path for path in areas if path] + [[value] for value in values]
    places = codes.cell_index(selection).places
    return [codes.lists[place.dimension].node(path) for place, path in zip(places, paths, strict=True)]


def read_rds(path: Path_) -> FinestTable:
    """Open the R package's own `full_tb.rds`, masked counts included.

    Parameters
    ----------
    path : path
        The file that `save_full_tb` of the R package wrote.

    Returns
    -------
    FinestTable
        Its cells with the masks that R drew. Confidential.

    Raises
    ------
    StoreError
        There is no such file, or it is not a finest table of the R package.
    """
    file = Path(path)
    if not file.exists():
        raise StoreError(f"there is no file {str(file)!r}.")
    try:
        saved: Any = read_r(file)
        frame, K = frame_of(saved["full_tb"]), int(saved["mask_thr"].values[0])
        hkey, key = saved["hkey"].texts(), saved["key"].texts()
    except Exception as problem:
        reason = f" {problem}" if isinstance(problem, InputError) else ""
        raise StoreError(f"{str(file)!r} is not a finest table saved by the R package iLBA.{reason}") from problem
    return FinestTable.from_counts(frame, hkey, key, K)


def class_means(finest: FinestTable) -> dict[int, float]:
    """Compute the mean masked count of the cells with each true count of 1..K-1 (confidential).

    Unbiased masks give a mean of x for the count x.

    Parameters
    ----------
    finest : FinestTable
        The table to be looked at.

    Returns
    -------
    dict of int to float
        The mean by true count; counts that do not occur are left out.
    """
    return mean_masks(finest._count, finest._masked, finest.design.threshold)


def _whole_column(column: pl.Series) -> pl.Series:
    """A column of counts, checked; text, as a csv file holds it, is read."""
    if column.dtype == pl.String:
        column = column.cast(pl.Int64, strict=False)
    if column.null_count() or not column.dtype.is_numeric():
        raise InputError(f"the column {column.name} holds something that is not a whole number, or is missing.")
    numbers = (column.cast(pl.Float64) if column.dtype.is_decimal() else column).to_numpy()
    if numbers.dtype.kind == "f" and np.isfinite(numbers).all() and (numbers % 1).any():
        raise InputError(
            f"the column {column.name} holds something that is not a whole number. Counts are numbers of people; "
            f"survey weights are not. Count the records with ilba.build, without their weights."
        )
    return pl.Series(column.name, masking.whole_numbers(f"the column {column.name}", numbers))


def _check_masks(count: IntArray, masked: IntArray, K: int) -> None:
    right = np.where((count >= K) | (count == 0), masked == count, (masked == 0) | (masked == K))
    if not right.all():
        raise InputError(
            f"{MASKED} does not fit {COUNT} with K={K} in {some(int((~right).sum()), 'row')}: a count below K becomes "
            f"0 or K, and a larger one stays. Give the mask_thr with which it was masked."
        )


def _listed(values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        return [] if values is None else [values]
    return list(values)


def _wrong_number(argument: str, given: Sequence[object], columns: Sequence[str]) -> str:
    return f"{argument} has {len(given)} values where {len(columns)} are needed: {listing(columns) or '(none)'}."
