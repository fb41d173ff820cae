"""The finest table: counted, masked once, kept in a store, and asked for any coarser table or single cell.

Randomness enters here and nowhere else. Tables and cells are one thing: sum the four additive parts, apply iLBA; or,
where masks were chosen jointly, take the sum as it is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import polars as pl

from ilba.cells.codes import CellIndex, CodeLists
from ilba.data.codelists import no_code_list
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
from ilba.methods.controlled.search import Chosen, choose, mean_masks, usual_bound
from ilba.progress import Progress, ProgressStep, silent
from ilba.secret.draws import CellDraws
from ilba.secret.secret import Secret, given_secret
from ilba.tables import store
from ilba.tables.engine import AnyFinestTable, IntArray, Path_, Values
from ilba.tables.rollup import Finest, Sums, released, roll_up, sums_of_tables
from ilba.tables.table import Table, detail

if TYPE_CHECKING:
    from ilba.spark import SparkFinestTable

_CHUNK = 2**20
_KEPT = 2**20  # a table of up to so many cells is kept in memory to sum others from


class FinestTable(AnyFinestTable):
    """Every observed cell with its true count N and its masked count N_masked, in memory. Confidential.

    Made by `ilba.build`, `FinestTable.from_counts`, `ilba.open_store` or `ilba.read_rds`.
    """

    cells: pl.DataFrame
    """a frame of packed cells, N and N_masked, as a store holds them (confidential)"""
    _secret: Secret | None = None  # the secret that drew the masks, where it is at hand

    def __init__(self, about: store.About, words: Sequence[IntArray], count: IntArray, masked: IntArray) -> None:
        super().__init__(about)
        # One copy of the cells, in the frame that is written to disk; the arrays are views of it.
        self.cells = pl.DataFrame({**dict(zip(about.words, words, strict=True)), COUNT: count, MASKED: masked})
        self._words = [self.cells[name].to_numpy() for name in about.words]
        self._count = self.cells[COUNT].to_numpy()
        self._masked = self.cells[MASKED].to_numpy()

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
            return cls.drawn(counted, given_secret(secret), origins=origins)
        if len(counted.count) < seen:
            raise InputError(
                f"a cell stands in two rows, each with its own {MASKED}. Name every column that tells cells apart "
                f"in hkey or key, or drop {MASKED} to have the rows added up and masked anew."
            )
        _check_masks(whole[COUNT].to_numpy(), whole[MASKED].to_numpy(), design.threshold)
        tell_recurring(counted.codes)
        return cls(store.About(counted.codes, origins=origins), counted.words, counted.count, counted.carried)

    @classmethod
    def drawn(
        cls,
        counted: Counted,
        secret: Secret | None,
        labels: pl.DataFrame | None = None,
        origins: Origins = Origins(),  # noqa: B008 - it never changes
        progress: Progress | None = None,
    ) -> FinestTable:
        """Mask counted cells with the secret, or with a new one."""
        chosen, tell = secret or Secret.new(), progress or silent
        K = counted.codes.design.threshold
        masked = counted.count.copy()
        draw = CellDraws(chosen, counted.codes)
        tell(ProgressStep("masking", 0, len(masked)))
        for first in range(0, len(masked), _CHUNK):
            last = min(first + _CHUNK, len(masked))
            words = [word[first:last] for word in counted.words]
            masked[first:last] = masked_counts(draw, words, counted.count[first:last], K)
            tell(ProgressStep("masking", last, len(masked)))
        given = no_code_list() if labels is None else labels
        about = store.About(counted.codes, given, chosen.fingerprint, origins=origins)
        finest = cls(about, counted.words, counted.count, masked)
        finest.remember_secret(chosen, unsaved=secret is None)
        tell_recurring(counted.codes)
        return finest

    @classmethod
    def of_cells(cls, about: store.About, cells: pl.DataFrame) -> FinestTable:
        """A table from its packed cells, sorted, as a store holds them."""
        *words, count, masked = (cells[name].to_numpy() for name in about.columns)
        return cls(about, words, count, masked)

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
        """The summed parts of several tables, each from a small finer one (confidential)."""
        return sums_of_tables(self.codes, self._source, wanted)

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
        return FinestTable(store.About(codes, fingerprint=self.fingerprint), self._words, self._count, self._masked)

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

    def _controlled(
        self,
        wanted: Sequence[Selection],
        bound: int | None,
        secret: Secret | Path_ | None,
        previous: AnyFinestTable | None,
        progress: Progress | None,
    ) -> FinestTable:
        drew = self._secret_of(secret)
        self._check_secret(drew.fingerprint)
        masked, control = choose(
            self.codes,
            self._words,
            self._count,
            self._masked,
            CellDraws(drew.derived("controlled"), self.codes),
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
        result = self._masked_by(masked, drew.fingerprint, chosen)
        result.control = control
        return result

    def _masked_by(self, masked: IntArray, fingerprint: str | None, chosen: Chosen | None) -> FinestTable:
        """The same counts with other masks, and with all that is known of this table besides its masks."""
        about = replace(self._about, fingerprint=fingerprint, chosen=chosen)
        result = FinestTable(about, self._words, self._count, masked)
        result.place, result._secret, result._unsaved_secret = self.place, self._secret, self._unsaved_secret
        result._memory = None if self.place else self._remembered()
        return result

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

    def with_masks_of(self, previous: AnyFinestTable) -> FinestTable | None:
        """The same counts with the masks of another table; None where the counts are not the same."""
        masked = self._masks_of(previous)
        if len(previous) != len(self) or bool((masked < 0).any()):
            return None
        return self._masked_by(masked, previous.fingerprint, previous.chosen)

    def remember_secret(self, secret: Secret | None, *, unsaved: bool) -> None:
        """Know the secret that drew the masks, and whether it is kept nowhere yet."""
        self._secret, self._unsaved_secret = secret, secret if unsaved else None

    def secret_at_hand(self) -> Secret | None:
        """The secret that drew the masks, where this table was built with it."""
        return self._secret

    def collect(self) -> FinestTable:
        """This table: it is in the memory of this process already."""
        return self

    def at_hand(self) -> FinestTable:
        """This table: it is in the memory of this process already."""
        return self

    def class_means(self) -> dict[int, float]:
        """The mean masked count of the cells with each true count of 1..K-1 (confidential): see `ilba.class_means`."""
        return mean_masks(self._count, self._masked, self.design.threshold)

    def content_mark(self) -> object:
        """A checksum of everything in the store, as plain values (confidential)."""
        return self._meta()["crc32"]

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
        return FinestTable(replace(self._about, codes=codes, fingerprint=None), words, masked, masked)

    def marks(self) -> tuple[str, str]:
        """Compute two checksums that no order, type or code list moves (confidential).

        Returns
        -------
        tuple of str
            The checksum of the true counts, and the one of the masks above 0.
        """
        digits = self.codes.finest.digits(self._words)
        paths = [mark[digit] for mark, digit in zip(path_marks(self.codes), digits, strict=True)]
        shown = self._masked > 0
        masks = store.marked([*(path[shown] for path in paths), self._masked[shown]])
        return f"{store.marked([*paths, self._count]):016x}", f"{masks:016x}"

    def _masks_of(self, previous: AnyFinestTable) -> IntArray:
        """The masked counts of another table in the cells that have the same count there, else -1."""
        self._check_wave(previous)
        other, columns = previous.collect(), self._about.words
        words, found = self.codes.cells_of(other.codes, other._words)
        named = dict(zip(columns, words, strict=True))
        there = pl.DataFrame({**named, COUNT: other._count[found], MASKED: other._masked[found]})
        here = self.cells.select(*columns, COUNT)
        joined = here.join(there, on=[*columns, COUNT], how="left", maintain_order="left")
        return joined[MASKED].fill_null(-1).to_numpy()

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

    def save(self, path: Path_, progress: Progress | None = None) -> Path:
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
        (progress or silent)(ProgressStep("writing"))
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
            store.write(temporary, meta, self.cells)

    def _meta(self) -> dict[str, Any]:
        """What a store says of itself, with a checksum over it and the cells."""
        meta = self._about.to_json(len(self))
        return {**meta, "crc32": store.checksum(meta, self.cells)}

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
    finest = FinestTable.of_cells(about, cells)
    finest.place = Path(os.path.realpath(path)) if within is None else None
    return finest


def path_marks(codes: CodeLists) -> list[IntArray]:
    """For each dimension a number for each path of labels, whatever else is listed and however it is typed."""
    return [
        np.array([path_mark(listed.columns, path) for path in listed.labels.rows()], dtype=np.uint64).view(np.int64)
        for listed in codes.lists
    ]


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


def class_means(finest: AnyFinestTable) -> dict[int, float]:
    """The mean masked count of the cells with each true count of 1..K-1 (confidential).

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
    return finest.class_means()


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
