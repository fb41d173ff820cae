"""The finest table: counted and masked once, kept in a store, and the source of every coarser table and single cell.

All randomness enters here. Tables and cells are made in the same way: sum the four additive parts, then apply iLBA; or
take the sum itself if masks were chosen jointly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ilba.cells.codes import CellIndex, CodeList, CodeLists
from ilba.cells.lookup import nodes_of
from ilba.data.codelists import no_code_list
from ilba.design.design import COUNT, MASKED, Cells, HKey, Level, Names, Origins, Selection, threshold_of
from ilba.design.population import Population
from ilba.design.recordkeys import KEY_RANGE, RECORD_KEY, RecordKeys
from ilba.errors import Advice, InputError, SecretError, StoreError, listing, notice, some, suggesting
from ilba.files import replacing, writable
from ilba.methods import masking
from ilba.methods.controlled.search import Chosen, How, behind, extra_bound, mean_masks
from ilba.progress import Progress, ProgressStep, silent
from ilba.secret.draws import CellDraws
from ilba.secret.secret import Secret, given_secret
from ilba.tables import store
from ilba.tables.beside import save_beside, warn_of_another_secret
from ilba.tables.engine import AnyFinestTable, IntArray, KnownMasks, Path_, Values
from ilba.tables.keys import drawn_keys
from ilba.tables.losses import TableLoss, losses
from ilba.tables.rollup import Finest, Sums, released, roll_up, sums_of_tables
from ilba.tables.table import PackedRows, Table
from ilba.tables.words import MaskCode, Words, read_words, write_words

if TYPE_CHECKING:
    from ilba.data.microdata import Counted, Missing
    from ilba.methods.method import Chance, Method
    from ilba.tables.made import MadeTables

_CHUNK = 2**20
_DRAWN = 2**16  # cells that draw together: what they need stays in the cache of a processor
_PIECE = 2**18  # rows of a table that get their labels together
_KEPT = 2**20  # a table of up to this many cells is kept in memory as a source of others


class FinestTable(AnyFinestTable):
    """Every observed cell with its true count N and its masked count N_masked, in memory. Confidential.

    Made by `ilba.build`, `FinestTable.from_counts`, `ilba.open_store` or `ilba.read_rds`.
    """

    cells: pl.DataFrame
    """a frame of packed cells, N and N_masked, as a store holds them (confidential)"""
    _drawn: tuple[str, IntArray | None] = ("", None)  # drawn record keys, and the secret that drew them
    _secret: Secret | None = None  # the secret that drew the masks, if available

    def __init__(
        self,
        about: store.About,
        words: Sequence[IntArray],
        count: IntArray,
        masked: IntArray,
        keys: IntArray | None = None,
    ) -> None:
        beside = {COUNT: count, MASKED: masked} | ({} if keys is None else {RECORD_KEY: keys})
        cells = pl.DataFrame({**dict(zip(about.words, words, strict=True)), **beside})
        self._hold(about if keys is not None else replace(about, record_keys=None), cells)

    def _hold(self, about: store.About, cells: pl.DataFrame) -> None:
        """Keep one copy of the cells, in the frame for the disk; the arrays are views of it."""
        super().__init__(about)
        self.cells = cells
        self._words = [cells[name].to_numpy() for name in about.words]
        self._count = cells[COUNT].to_numpy()
        self._masked = cells[MASKED].to_numpy()
        self._keys = cells[RECORD_KEY].to_numpy() if about.record_keys else None

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
        population: str = "",
        wave: str = "",
        period: str = "",
        unit: str = "",
    ) -> FinestTable:
        """Make a finest table from counted combinations, with the counts in a column N.

        N is a number of people, never a sum of survey weights: masking has to know how many people are in a cell. A
        column N_masked is kept as the masked counts. Without it, the secret draws the masks, and rows of the same cell
        are added up with a notice. Rows with N = 0 only add their labels to the code lists.

        Parameters
        ----------
        frame : frame or path
            Labels and N, and N_masked if the counts are already masked: any source that `build` reads.
        hkey : str, sequence of str or dict
            The columns of the hierarchy from coarse to fine, or a mapping from names to columns for several.
        key : str or sequence of str, optional
            The categorical variables. By default, all other columns, with any number of values.
        mask_thr : int, default 5
            The threshold K, at least 3. With N_masked, the threshold of that masking.
        secret : Secret or path, optional
            A `Secret` or the path of a secret file. By default, ILBA_SECRET, then a new one.
        cells : {"observed", "grid"}, default "observed"
            Which cells count as small cells of an aggregate: "observed" takes the cells that occur, as the R package
            does;
            "grid" takes every combination of the code lists, including true zeros, as in the paper.
        missing : {"drop", "category"}, default "drop"
            "drop" leaves out rows with a missing label and says how many. "category" keeps them.
        population, wave, period, unit : str, default ""
            As in `build`: the people, the name of this count of them, its reference time, and what is counted.

        Returns
        -------
        FinestTable
            The finest table, in memory. Confidential.

        Raises
        ------
        InputError
            There is no column N, a count is not a whole number, or N_masked does not match N.

        Examples
        --------
        >>> import polars as pl
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1], "N_masked": [5, 8, 0]})
        >>> FinestTable.from_counts(counts, hkey=["town"]).cell(level=1, hkey_value=["a"])
        13
        """
        from ilba.tables.counts import read_counts  # all that reads data: a store is opened without it

        of_whom = Population(population, wave, period, unit)
        counted, origins = read_counts(frame, hkey, key, mask_thr, cells, missing)
        if counted.carried is None:
            return cls.drawn(counted, given_secret(secret), origins=origins).declared_as(of_whom)
        tell_recurring(counted.codes, lambda: _records(counted), are_all=True)
        about = store.About(counted.codes, origins=origins, population=of_whom)
        return cls(about, counted.words, counted.count, counted.carried)

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
        for first in range(0, len(masked), _DRAWN):
            last = min(first + _DRAWN, len(masked))
            words = [word[first:last] for word in counted.words]
            masked[first:last] = masked_counts(draw, words, counted.count[first:last], K)
            tell(ProgressStep("masking", last, len(masked)))
        given = no_code_list() if labels is None else labels
        keys = None if counted.record_keys is None else counted.carried
        about = store.About(counted.codes, given, chosen.fingerprint, origins=origins, record_keys=counted.record_keys)
        finest = cls(about, counted.words, counted.count, masked, None if keys is None else keys % KEY_RANGE)
        finest.remember_secret(chosen, unsaved=secret is None)
        tell_recurring(counted.codes, lambda: _records(counted), are_all=not given.height)
        return finest

    @classmethod
    def of_cells(cls, about: store.About, cells: pl.DataFrame) -> FinestTable:
        """A table from its packed, sorted cells, as a store holds them."""
        finest = cls.__new__(cls)
        finest._hold(about, cells.rechunk())
        return finest

    @property
    def frame(self) -> pl.DataFrame:
        """Labels, N, N_masked, sorted by the labels (confidential)."""
        labels = self.codes.labels(self.codes.finest, self._words)
        return pl.DataFrame([*labels, pl.Series(COUNT, self._count), pl.Series(MASKED, self._masked)])

    @cached_property
    def _source(self) -> Finest:
        K = self.design.threshold
        if self.moves is not None:
            count, whole = self._count, masking.Parts.whole
            return Finest(self.codes.finest, self._words, lambda first, last: whole(count[first:last]), self._keys)

        def parts(first: int, last: int) -> masking.Parts:
            if len(self) <= _KEPT:
                return masking.Parts(*(part[first:last] for part in self._parts))
            return masking.parts(self._count[first:last], self._masked[first:last], K)

        return Finest(self.codes.finest, self._words, parts)

    @cached_property
    def _parts(self) -> masking.Parts:
        return masking.parts(self._count, self._masked, self.design.threshold)

    def sums(self, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Sums]]:
        """The summed parts of several tables, each from a small finer one (confidential)."""
        return sums_of_tables(self.codes, self._source, wanted)

    def losses(
        self, wanted: Sequence[Selection], tell: Callable[[int, int], object] = lambda done, total: None
    ) -> dict[Selection, TableLoss]:
        """Measure the losses of tables without making them (confidential).

        Parameters
        ----------
        wanted : sequence of Selection
            The tables, their keys in the order of the design.
        tell : callable, optional
            Called with the number of finished steps and of all steps.

        Returns
        -------
        dict of Selection to TableLoss
            The number of cells with each loss, for each table.
        """
        if self.by is not None and not self.by.keyed:
            return {table.selection: TableLoss.of(table) for table in self.tables(wanted)}
        return losses(self.codes, self._source, wanted, self.method == "controlled", self.moves, tell)

    def largest_loss(self, wanted: Sequence[Selection]) -> int:
        """The largest loss of a count in these tables (confidential)."""
        return max((one.largest for one in self.losses(wanted).values()), default=0)

    @suggesting
    def table(self, level: Level = 0, key: Names | None = (), *, method: Method | str | None = None) -> Table:
        """Make the masked table at a level by some keys.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order of its columns.
        method : Method or str, optional
            A method with its parameters, as `with_method` takes it. By default, the method of this table.

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
        if method is not None:
            return self.with_method(method).table(level, key)
        selection = self.design.select(level, key)
        if self.by is not None and not self.by.keyed:
            self._refuse_joint()
        sums = roll_up(self.codes, self._nearest(selection), self.codes.cell_index(selection))
        return self._table(selection, sums)

    _draws_by: Secret | Path_ | None = None  # the given secret that draws for a method
    _kept: tuple[list[str], MadeTables] | None = None  # the tables that were last made together

    def _nearest(self, selection: Selection) -> Sums | Finest:
        """The source of a table: the table of its level with all keys if small enough to keep, otherwise every cell."""
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

    def _refuse_joint(self) -> None:
        """Refuse a single table of a joint method, because it would differ from the published one."""
        if self.by is not None and self.by.joint:
            raise InputError(
                f"what {self.by.name} publishes of a table depends on the other tables. Publish them together with "
                f"release, or make them together: cube, tables."
            )

    def made(
        self, method: Method, sums: Mapping[Selection, Sums] | Sequence[Selection], chance: Chance | None = None
    ) -> MadeTables:
        """Let a method make tables; by default, the secret decides its draws (confidential)."""
        from ilba.tables.made import KeyedChance, made_by  # imports all methods, so only when needed

        cells = self._words, self._count
        if chance is not None:
            sums = sums if isinstance(sums, Mapping) else dict(self.sums(sums))
            return made_by(method, self.codes, cells, sums, lambda _: chance)
        names = sorted(selection.name for selection in sums)
        if method is self.by and method.joint and self._kept is not None and self._kept[0] == names:
            return self._kept[1]
        sums = sums if isinstance(sums, Mapping) else dict(self.sums(sums))

        def keyed(index: Mapping[str, CellIndex]) -> Chance:
            own = self._secret_for_draws()
            named = f"method {method.name} {json.dumps(method.parameters, sort_keys=True)}"
            data = json.dumps([self.marks()[0], self.population.wave, names])
            return KeyedChance(None if own is None else own.derived(named), self.codes, data, index)

        # In a fixed order, because the choice of a joint method may depend on it.
        ordered = {selection: sums[selection] for selection in sorted(sums, key=lambda one: one.name)}
        made = made_by(method, self.codes, cells, ordered, keyed)
        self._kept = names, made
        return made

    def numbers_mark(self, wanted: Sequence[Selection]) -> str | None:
        """A keyed checksum of the numbers, for a method that chooses tables jointly; otherwise None (confidential)."""
        if self.by is None or not self.by.joint:
            return None
        own = self._secret_for_draws()
        return self.made(self.by, wanted).mark(own or Secret(bytes(32)))

    def _secret_for_draws(self) -> Secret | None:
        found = self.own_secret(self._draws_by)
        if found is not None:
            self._check_secret(found.fingerprint)
        return found

    def _table(self, selection: Selection, sums: Sums) -> Table:
        if self.by is not None and not self.by.keyed:
            made = self.made(self.by, {selection: sums}).table(selection)
            made.codes, made.finest = self.labels, self
            return made
        joint = self.method == "controlled"
        table = Table(self.design, selection, PackedRows.of(self.codes, sums, joint, self.moves), joint)
        table.codes, table.finest = self.labels, self
        return table

    def with_threshold(self, mask_thr: int, secret: Secret | Path_ | None = None) -> FinestTable:
        """Mask the same counts anew for another K, for comparison.

        Never publish the same data under two thresholds.

        Parameters
        ----------
        mask_thr : int
            The other threshold K, at least 3.
        secret : Secret or path, optional
            The secret that draws the masks. By default, ILBA_SECRET, then a new one.

        Returns
        -------
        FinestTable
            The same cells with other masks.
        """
        codes = CodeLists(replace(self.design, threshold=threshold_of(mask_thr)), self.codes.lists)
        from ilba.data.microdata import Counted

        return self.drawn(Counted(codes, self._words, self._count), given_secret(secret))

    def with_cells(self, cells: Cells) -> FinestTable:
        """Take the same counts and masks with the other reading of S, for comparison.

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
        about = store.About(codes, fingerprint=self.fingerprint, record_keys=self.record_keys)
        return FinestTable(about, self._words, self._count, self._masked, self._keys)

    def tables(self, wanted: Sequence[Selection]) -> Iterator[Table]:
        """Make several tables, each from a small finer one.

        Parameters
        ----------
        wanted : sequence of Selection
            The tables, their keys in the order of the design.

        Yields
        ------
        Table
            One table at a time, in the cheapest order.
        """
        if self.by is not None and self.by.joint:
            yield from self.made(self.by, wanted).tables()
            return
        for selection, sums in self.sums(wanted):
            yield self._table(selection, sums)

    def public_rows(self, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Iterator[pl.DataFrame]]]:
        """The public rows of several tables, with labels for one piece at a time."""
        if self.by is not None and not self.by.keyed:
            yield from super().public_rows(wanted)
            return
        for selection, sums in self.sums(wanted):
            yield selection, self._public_pieces(sums)

    def _public_pieces(self, sums: Sums) -> Iterator[pl.DataFrame]:
        for first in range(0, max(len(sums), 1), _PIECE):
            piece = sums.part(first, first + _PIECE)
            masked, _ = released(self.codes, piece, self.method == "controlled", moves=self.moves)
            shown = np.flatnonzero(masked > 0)
            labels = self.codes.labels(piece.cell_index, [word[shown] for word in piece.packed])
            yield pl.DataFrame([*labels, pl.Series(MASKED, masked[shown])])

    def _controlled(
        self,
        wanted: Sequence[Selection],
        bound: int | None,
        secret: Secret | Path_ | None,
        previous: AnyFinestTable | KnownMasks | None,
        progress: Progress | None,
        how: How,
    ) -> FinestTable:
        from ilba.methods.controlled.choosing import choose  # compiled loops, loaded only when needed

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
            self._fixed(previous),
            progress,
            extra_bound(drew.derived("controlled bound").number, self.design.threshold),
            how,
        )
        if bound is None and not how.noise and not control.held:
            notice(
                "the usual bound could not be held everywhere in these tables. After the release the largest "
                "loss says how far: in the confidential report.html of a publication, on the page of "
                "`ilba report STORE`, or in `control` in Python.",
                Advice,
            )
        names, asked = tuple(table.name for table in wanted), None if bound is None else int(bound)
        chosen = how.chosen(names, asked, control.held)
        result = self._masked_by(masked, drew.fingerprint, chosen)
        result.control = control
        return result

    def _fixed(self, previous: AnyFinestTable | KnownMasks | None) -> IntArray | None:
        """The masked counts that stay, and -1 for masks to choose."""
        if isinstance(previous, KnownMasks):
            masked: IntArray = previous.masked
            return masked
        return None if previous is None else self._masks_of(previous)

    def _masked_by(self, masked: IntArray, fingerprint: str | None, chosen: Chosen | None) -> FinestTable:
        """The same counts with other masks, and with everything else that is known about this table."""
        about = replace(self._about, fingerprint=fingerprint, chosen=chosen)
        result = FinestTable(about, self._words, self._count, masked, self._keys)
        result.place, result._secret, result._unsaved_secret = self.place, self._secret, self._unsaved_secret
        return result

    def _with_keys(self, secret: Secret | Path_ | None) -> FinestTable:
        """This table with record keys: its own, or drawn by its secret."""
        found = None if self.record_keys else self._key_secret(secret)
        if found is not None and self._drawn[0] != found.fingerprint:
            self._drawn = found.fingerprint, drawn_keys(found, self.codes, self._words, self._count)
        keys = self._keys if found is None else self._drawn[1]
        about = replace(self._about, record_keys=self.record_keys or RecordKeys())
        result = FinestTable(about, self._words, self._count, self._masked, keys)
        result.place, result._secret, result._unsaved_secret = self.place, self._secret, self._unsaved_secret
        return result

    def _drawing(self, secret: Secret | Path_ | None) -> FinestTable:
        """This table, whose draws come from a secret."""
        result = self._masks_as_they_are()
        result._draws_by = secret
        return result

    def _masks_as_they_are(self) -> FinestTable:
        return self._masked_by(self._masked, self.fingerprint, self.chosen)

    def _secret_of(self, secret: Secret | Path_ | None) -> Secret:
        """The secret that drew the masks: the given one, that of the build, of the environment or beside the store."""
        found = self.own_secret(secret)
        if found is None:
            raise SecretError(
                "choosing masks jointly needs the secret that drew them. Give secret= (--secret), the path of "
                "the secret file, or set ILBA_SECRET."
            )
        return found

    def with_masks_of(self, previous: AnyFinestTable) -> FinestTable | None:
        """The same counts with the masks of another table; None if the counts differ."""
        masked = self._masks_of(previous)
        if len(previous) != len(self) or bool((masked < 0).any()):
            return None
        return self._masked_by(masked, previous.fingerprint, previous.chosen)

    def remember_secret(self, secret: Secret | None, *, unsaved: bool) -> None:
        """Remember the secret that drew the masks, and whether it is not saved yet."""
        self._secret, self._unsaved_secret = secret, secret if unsaved else None

    def secret_at_hand(self) -> Secret | None:
        """The secret that drew the masks, if this table was built with it."""
        return self._secret

    def within(self, label: object) -> FinestTable:
        """Cut out the part that lies in one top-level area of the first hierarchy.

        Parameters
        ----------
        label : object
            The label of the area.

        Returns
        -------
        FinestTable
            The cells of the area, with unchanged code lists of the keys. Confidential.
        """
        area = store.TopArea.of(self.codes, label)
        return FinestTable.of_cells(*store.cut(self._about, self.cells, area))

    def collect(self) -> FinestTable:
        """This table, which is already in the memory of this process."""
        return self

    def at_hand(self) -> FinestTable:
        """This table, which is already in the memory of this process."""
        return self

    def class_means(self) -> dict[int, float]:
        """The mean masked count of the cells with each true count in 1..K-1 (confidential): see `ilba.class_means`."""
        return mean_masks(self._count, self._masked, self.design.threshold)

    def content_mark(self) -> object:
        """A checksum of everything in the store, as plain values (confidential)."""
        return self._meta()["crc32"]

    def occurring(self) -> list[IntArray]:
        """List the labels that occur in each dimension (confidential).

        Returns
        -------
        list of array
            The numbers of the labels of each dimension, in the order of its code list.
        """
        return _used(self.codes, (([word[here] for word in self._words]) for here in self._pieces()))

    def as_truth(self, kind: Callable[[str, pl.Series], Any]) -> FinestTable:
        """Make the world in which the masked counts are the truth: a cell masked to 0 does not occur there.

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
        pieces = [kept[first : first + _CHUNK] for first in range(0, len(kept), _CHUNK)]
        used = _used(self.codes, ([word[piece] for word in self._words] for piece in pieces))
        codes, moved = self.codes.shown(used, kind)
        words = [np.empty(len(kept), dtype=np.int64) for _ in codes.finest.words]
        for number, piece in enumerate(pieces):
            digits = self.codes.finest.digits([word[piece] for word in self._words])
            packed = codes.finest.pack([move[digit] for move, digit in zip(moved, digits, strict=True)], len(piece))
            for word, made in zip(words, packed, strict=True):
                word[number * _CHUNK : number * _CHUNK + len(piece)] = made
        masked = self._masked[kept]
        if any(bool((np.diff(move[move >= 0]) < 0).any()) for move in moved):  # another type, another order
            order = np.lexsort(words[::-1])
            words, masked = [word[order] for word in words], masked[order]
        return FinestTable(replace(self._about, codes=codes, fingerprint=None), words, masked, masked)

    def marks(self, columns: Sequence[str] = ()) -> tuple[str, str]:
        """Compute two checksums that are independent of the order of rows, types and code lists (confidential).

        Parameters
        ----------
        columns : sequence of str, default ()
            The columns as a table with its keys in another order has them, to compute the checksums of that table.

        Returns
        -------
        tuple of str
            The checksum of the true counts, and that of the masks above 0 or of the record keys.
        """
        return self._marks if tuple(columns) in ((), self.design.columns) else self._marks_of(columns)

    @cached_property
    def _marks(self) -> tuple[str, str]:
        return self._marks_of(self.design.columns)

    def _marks_of(self, columns: Sequence[str]) -> tuple[str, str]:
        of_paths, order = store.path_marks(self.codes), self.codes.order(columns)
        counts = masks = 0
        for here in self._pieces():
            digits = self.codes.finest.digits([word[here] for word in self._words])
            paths = [of_paths[place][digits[place]] for place in order]
            counts ^= store.marked([*paths, self._count[here]])
            if self.by is not None and not self.by.keyed:
                continue  # published numbers follow from secret, labels and counts
            if self.by is not None and self._keys is not None:
                masks ^= store.marked([*paths, self._keys[here]])
            else:
                shown = self._masked[here] > 0
                masks ^= store.marked([*(path[shown] for path in paths), self._masked[here][shown]])
        return f"{counts:016x}", f"{masks:016x}"

    def _pieces(self) -> Iterator[slice]:
        """The cells in pieces, so that intermediate results never have the size of the table."""
        return (slice(first, first + _CHUNK) for first in range(0, len(self), _CHUNK))

    def _tags(self, secret: Secret, purpose: str, below: int | None) -> Iterator[tuple[IntArray, Words]]:
        """The cells with a count below a threshold (all, if it is None), and their tags, piece by piece."""
        draws = CellDraws(secret.derived(purpose), self.codes, below)
        for here in self._pieces():
            count = self._count[here]
            cells = here.start + (np.arange(len(count)) if below is None else np.flatnonzero(count < below))
            words, counts = [word[cells] for word in self._words], self._count[cells]
            yield cells, draws.any_tags(words, counts) if below is None else draws.tags(words, counts)

    def smallest_tags(self, secret: Secret, purpose: str, most: int) -> tuple[Words, int]:
        """The smallest keyed tags of small cells, and the number of small cells (confidential)."""
        least, number = np.empty(0, dtype=np.uint64), 0
        for _, tags in self._tags(secret, purpose, self.design.threshold):
            least, number = np.concatenate([least, tags]), number + len(tags)
            if len(least) > most:
                least = np.partition(least, most - 1)[:most]
        return least, number

    def known_masks(self, secret: Secret, purpose: str, parts: Sequence[Path], code: MaskCode) -> KnownMasks:
        """The masks of this table's cells that are known from files of `write_masks`."""
        words, bits = read_words(parts), np.uint64(code.bits)
        masked = self._count.copy()
        if not len(words):
            masked[slice(None) if code.below is None else masked < code.below] = -1
        heads = words >> bits
        for cells, tags in self._tags(secret, purpose, code.below) if len(words) else ():
            order = np.argsort(tags)  # sorted, so that the search stays in the cache
            cells, tags = cells[order], tags[order]
            found = words[np.minimum(np.searchsorted(heads, tags >> bits), len(words) - 1)] ^ tags
            there = found >> bits == 0
            masked[cells] = -1
            masked[cells[there]] = code.masked(self._count[cells[there]], found[there])
        return self._as_known(masked)

    def _as_known(self, masked: IntArray) -> KnownMasks:
        known = masked >= 0
        return KnownMasks(masked, int((~known).sum()), int((known & (masked != self._masked)).sum()))

    def own_masks(self) -> KnownMasks:
        """The masks of this table as known ones."""
        return self._as_known(self._masked)

    def either(self, first: KnownMasks, second: KnownMasks) -> KnownMasks:
        """The first known masks, and of small cells without one the second."""
        lacking = (first.masked < 0) & (self._count < self.design.threshold)
        return self._as_known(np.where(lacking, second.masked, first.masked))

    def write_masks(self, folder: Path, secret: Secret, purpose: str, known: KnownMasks, code: MaskCode) -> int:
        """Write the masks that are not known yet as Parquet files to a folder, and return their number."""
        if not known.unknown:
            return 0
        words = np.empty(known.unknown, dtype=np.uint64)
        filled = 0
        for cells, tags in self._tags(secret, purpose, code.below):
            new = known.masked[cells] < 0
            made = tags[new] ^ code.of(self._count[cells[new]], self._masked[cells[new]])
            words[filled : filled + len(made)] = made
            filled += len(made)
        write_words(words[:filled], folder / "masks.parquet")
        return filled

    def proven_beside(self, code: MaskCode, known: KnownMasks) -> int:
        """The number of small cells that this finest table proves together with one of other masks or another K."""
        K, threshold = self.design.threshold, code.K
        (low, high), (other_low, other_high) = (
            behind(self._masked, K, self.move),
            behind(known.masked, threshold, code.move),
        )
        low, high = np.maximum(low, other_low), np.minimum(high, other_high)
        return int(((known.masked >= 0) & (low >= 1) & (high < max(K, threshold))).sum())

    def with_masks(self, known: KnownMasks, chosen: Chosen | None) -> FinestTable:
        """The same counts with the known masks; the others stay."""
        masked = np.where(known.masked < 0, self._masked, known.masked)
        return self._masked_by(masked, self.fingerprint, chosen)

    def with_counts(self, masked: IntArray, chosen: Chosen | None) -> FinestTable:
        """A table of the same cells whose counts are masked counts, the sums of published ones."""
        kept = masked > 0
        about = replace(self._about, chosen=chosen)
        return FinestTable(about, [word[kept] for word in self._words], masked[kept], masked[kept])

    def with_masks_shown(self, shown: pl.DataFrame, chosen: Chosen | None) -> FinestTable | None:
        """The same counts with the masks of a published finest table; None if these do not match the counts.

        `shown` has labels and masked counts; a cell that it does not list is 0.
        """
        columns = list(self.design.columns)
        texts = [pl.col(column).cast(pl.String) for column in columns]
        here, there = self.frame.select(*texts, COUNT), shown.select(*texts, MASKED)
        joined = here.join(there, on=columns, how="left", nulls_equal=True, maintain_order="left")
        masked = joined[MASKED].fill_null(0).cast(pl.Int64).to_numpy()
        K, count = self.design.threshold, self._count
        fits = np.where(count >= K, masked == count, (masked == 0) | (masked == K))
        extra = int((there[MASKED] > 0).sum()) - int((masked > 0).sum())
        if extra or not fits.all():
            return None
        return self.with_masks(KnownMasks(masked, 0, 0), chosen)

    def _masks_of(self, previous: AnyFinestTable) -> IntArray:
        """The masked counts of another table for cells with the same count there, otherwise -1."""
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
            The keys of the table, in the order of its columns.
        hkey_value : sequence or dict, default ()
            The labels of the area: the whole path from the coarsest level down to `level`. With several hierarchies a
            mapping from their names, or all paths one after the other.
        key_value : label or sequence of labels, default ()
            One label for each of `key`. None stands for a missing label.

        Returns
        -------
        tuple of int and bool
            The result of `cell`, and whether the cell occurs in the data.

        Raises
        ------
        InputError
            The store has no such level or key, or the number of values is wrong.
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
        keys = None if self._keys is None else np.array([self._keys[rows].sum() % KEY_RANGE])
        sums = Sums(target, packed, summed, np.array([len(rows)]), keys)
        if self.by is None or self.by.keyed:
            return self._released_cell(sums), True
        self._refuse_joint()
        shown = self.made(self.by, {selection: sums}).shown[selection]
        if shown.blank is not None and bool(shown.blank[0]):
            raise InputError(f"the count of this cell is left blank by {self.by.name}.")
        return int(shown.value[0]), True

    @cached_property
    def _looked_up(self) -> set[int]:
        """The dimensions of earlier look-ups: from the second time on their digits are kept."""
        return set()

    def _rows(self, target: CellIndex, nodes: Sequence[int]) -> IntArray:
        """The finest cells inside one cell of a table."""
        first, last = 0, len(self._count)
        wanted = list(zip(target.places, nodes, strict=True))
        if wanted and wanted[0][0].dimension == 0:
            # Cells are sorted, and an area is a run of finest areas, so look only between its two ends.
            place, node = wanted.pop(0)
            listed = self.codes.lists[0]
            starts = listed.starts[place.level]
            end = int(starts[node + 1]) if node + 1 < len(starts) else len(listed)
            stride = self.codes.finest.stride(0)
            first = int(np.searchsorted(self._words[0], int(starts[node]) * stride))
            last = int(np.searchsorted(self._words[0], end * stride)) if end < len(listed) else last
        inside = np.ones(last - first, dtype=bool)
        for place, node in wanted:
            if place.dimension in self._looked_up:
                digit = self._source.digit(place.dimension)[first:last]
            else:  # the first look-up does not need the digits of all cells
                digit = self._source.part(first, last).digit(place.dimension)
                self._looked_up.add(place.dimension)
            listed = self.codes.lists[place.dimension]
            inside &= (digit == node) if place.level == listed.depth else (listed.nodes[place.level][digit] == node)
        return first + np.flatnonzero(inside)

    def save(self, path: Path_, progress: Progress | None = None) -> Path:
        """Write the store: one Parquet file that only you can read, in one step.

        A generated secret is written beside it.

        Parameters
        ----------
        path : path
            Where to write. An existing store is replaced; a Parquet file of another kind is not.
        progress : callable, optional
            Called with each `ProgressStep`.

        Returns
        -------
        Path
            The path of the store; `place` holds it too.

        Raises
        ------
        InputError
            The file exists and is not a store.
        SecretError
            The secret beside the path is not the new one that drew these masks.
        WriteError
            The file could not be written. An existing file is unchanged.
        """
        (progress or silent)(ProgressStep("writing"))
        target = writable(path, store.ABOUT)
        store.check_name(target)
        self._warn_of_another_secret(target)
        self._save_secret(target)
        self.write(target)
        self.place = target
        return target

    def write(self, path: Path_) -> None:
        """Write a copy of the store, in one step.

        This table still belongs to the store that it came from.

        Parameters
        ----------
        path : path
            Where to write. An existing Parquet file is replaced.
        """
        meta = self._meta()
        with replacing(path, instead_of=b"PAR1", mark=store.ABOUT) as temporary:
            store.write(temporary, meta, self.cells)

    def _meta(self) -> dict[str, Any]:
        """The metadata of a store, with a checksum over it and the cells."""
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


def tell_recurring(codes: CodeLists, records: Callable[[], list[IntArray]], *, are_all: bool) -> None:
    """Give a notice of codes under different parents. Those with fewer than K records are not named.

    `records` gives the number of records of each label, for each dimension; `are_all` means that all labels occur.
    """
    every = [listed.recurring() for listed in codes.lists]
    if not any(every):
        return
    for listed, found, number in zip(codes.lists, every, records(), strict=True):
        here = np.arange(len(listed)) if are_all else np.flatnonzero(number)
        in_data = CodeList(listed.labels[here]).recurring()
        for column, recurring in found.items():
            own = in_data.get(column, [])
            declared = [code for code in recurring if code not in own]
            taken = "Each is taken as an area of its own, known by its whole path. If each should have one parent,"
            if own:
                sums = pl.DataFrame([listed.labels[column].cast(pl.String), pl.Series(COUNT, number)])
                sums = sums.group_by(column).sum().filter(pl.col(COUNT) >= codes.design.threshold)
                which = _named(code for code in own if code in sums[column])
                notice(
                    f"{column!r} has {some(len(own), 'code')} under different parents{which}. {taken} "
                    f"correct the data, or make the parents from a code list (recode)."
                )
            if declared:
                notice(
                    f"the code list has {some(len(declared), 'code')} of {column!r} under other parents than the data, "
                    f"or under several{_named(declared)}. {taken} correct the code list."
                )


def _named(codes: Iterable[str]) -> str:
    """The codes in brackets; nothing if there are none."""
    named = listing(map(repr, codes), 4)
    return f" ({named})" if named else ""


def _records(counted: Counted) -> list[IntArray]:
    """The number of records of each label, for each dimension."""
    found = [np.zeros(len(listed), dtype=np.int64) for listed in counted.codes.lists]
    for first in range(0, len(counted.count), _DRAWN):
        piece = slice(first, first + _DRAWN)
        for number, digit in zip(found, counted.codes.finest.digits([w[piece] for w in counted.words]), strict=True):
            np.add.at(number, digit, counted.count[piece])
    return found


def _used(codes: CodeLists, pieces: Iterable[Sequence[IntArray]]) -> list[IntArray]:
    """The numbers of the labels that occur in packed cells, for each dimension."""
    seen = [np.zeros(len(listed), dtype=bool) for listed in codes.lists]
    for words in pieces:
        for there, digit in zip(seen, codes.finest.digits(words), strict=True):
            there[digit] = True
    return [np.flatnonzero(there) for there in seen]


def masked_counts(draw: CellDraws, words: Sequence[IntArray], count: IntArray, K: int) -> IntArray:
    """The counts of cells masked by SCA with the draws of a secret."""
    masked = count.copy()
    small = np.flatnonzero(count < K)
    masked[small] = masking.sca(count[small], draw([word[small] for word in words], count[small]), K)
    return masked
