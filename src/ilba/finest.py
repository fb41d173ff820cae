"""The finest table: counted, masked once, kept in a store, and asked for any coarser table or single cell.

Randomness enters here and nowhere else. Tables and cells are one thing: sum the four additive parts, apply iLBA.
"""

from __future__ import annotations

import io
import json
import os
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba import masking
from ilba.codes import CodeLists
from ilba.design import COUNT, MASKED, Cells, Design, HKey, Level, Names, Selection, hierarchies_of, names_of
from ilba.errors import (
    InputError,
    MissingExtra,
    SecretError,
    StoreError,
    WriteError,
    listing,
    nearest,
    notice,
)
from ilba.files import replacing, writable
from ilba.microdata import Microdata, Missing, Schema, labelled
from ilba.secret import PRF, Label, Secret, draws, given_secret
from ilba.table import Table

IntArray: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = Label | float | Sequence[Any]
Path_: TypeAlias = str | os.PathLike[str]
Stage: TypeAlias = Callable[[str], object]

FORMAT = 1
_META = "ilba"
# Which error polars raises depends on which bytes are wrong; its panics are not even an Exception.
_UNREADABLE = (Exception, pl.exceptions.PanicException)


class FinestTable:
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
        unsaved_secret: Secret | None = None,
    ) -> None:
        self.codes = codes
        self.fingerprint = fingerprint
        """tells which key drew the masks; None when they came with the counts"""
        self._words = list(words)
        self._count = count
        self._masked = masked
        self._unsaved_secret = unsaved_secret

    @classmethod
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
        """A finest table from combinations that are counted already, in a column N.

        A column N_masked is kept as the masked counts; without one they are drawn with the key. Rows with N = 0
        only add their labels to the code lists.

        >>> import polars as pl
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1], "N_masked": [5, 8, 0]})
        >>> FinestTable.from_counts(counts, hkey=["town"]).cell(level=1, hkey_value=["a"])
        13
        """
        source = Microdata.open(frame)
        if COUNT not in source.columns:
            raise InputError(f"the data has no column {COUNT!r}. Single records are counted by ilba.build.")
        areas = [column for hierarchy in hierarchies_of(hkey) for column in hierarchy.columns]
        rest = [column for column in source.columns if column not in (*areas, COUNT, MASKED)]
        design = Design.of(hkey, rest if key is None else key, mask_thr, cells)
        source.require(areas, "hkey")
        source.require(design.keys, "key")
        has_masks = MASKED in source.columns
        read = source.read([*design.columns, COUNT, *([MASKED] if has_masks else [])])
        counts = labelled(read, design.columns)
        count = masking.whole_numbers(f"the column {COUNT}", _numbers(counts[COUNT]))
        counts = counts.with_columns(pl.Series(COUNT, count))
        if missing == "drop" and counts.select(design.columns).null_count().sum_horizontal()[0]:
            whole = counts.drop_nulls(design.columns)
            notice(f"{counts.height - whole.height:,} rows with a missing label were left out.")
            counts = whole
        seen = counts.filter(pl.col(COUNT) > 0)
        if seen.is_empty():
            raise InputError("the data has no row with a count above 0. There is nothing to mask.")
        codes = CodeLists.of(design, counts)
        if has_masks:
            if seen.select(design.columns).is_duplicated().any():
                raise InputError(
                    f"a cell stands in two rows, each with its own {MASKED}. Name every column that tells cells apart "
                    f"in hkey or key, or drop {MASKED} to have the rows added up and masked anew."
                )
            masked = masking.whole_numbers(f"the column {MASKED}", _numbers(seen[MASKED]))
            _check_masks(seen[COUNT].to_numpy(), masked, design.threshold)
            return cls._packed(codes, seen, masked)
        return cls._drawn(codes, seen.group_by(design.columns).agg(pl.col(COUNT).sum()), given_secret(secret))

    @classmethod
    def _drawn(cls, codes: CodeLists, seen: pl.DataFrame, secret: Secret | None) -> FinestTable:
        """Mask counted cells with the key, or with a new one."""
        chosen = secret or Secret.new()
        count = seen[COUNT].to_numpy()
        K = codes.design.threshold
        digits = codes.encode(seen)
        small = np.flatnonzero(count < K)
        columns: dict[str, tuple[list[Label], IntArray]] = {}
        for dimension, digit in zip(codes.dimensions, digits, strict=True):
            for level, column in enumerate(dimension.columns, 1):
                names = dimension.named(level, np.arange(dimension.size(level)))[-1].to_list()
                columns[column] = (names, dimension.nodes[level][digit[small]])
        masked = count.copy()
        masked[small] = masking.sca(count[small], draws(chosen, columns, count[small]), K)
        return cls._packed(codes, seen, masked, digits, chosen.fingerprint, None if secret else chosen)

    @classmethod
    def _packed(
        cls,
        codes: CodeLists,
        seen: pl.DataFrame,
        masked: IntArray,
        digits: Sequence[IntArray] | None = None,
        fingerprint: str | None = None,
        unsaved_secret: Secret | None = None,
    ) -> FinestTable:
        words = codes.pack(codes.encode(seen) if digits is None else digits)
        order = np.lexsort(words[::-1]) if len(words) > 1 else np.argsort(words[0], kind="stable")
        for column, codes_there in ((c, n) for d in codes.dimensions for c, n in d.recurring().items()):
            notice(
                f"{codes_there:,} codes of {column!r} stand under different parents. "
                f"Each is taken as an area of its own, known by its whole path."
            )
        return cls(
            codes,
            [word[order] for word in words],
            seen[COUNT].to_numpy()[order],
            masked[order],
            fingerprint=fingerprint,
            unsaved_secret=unsaved_secret,
        )

    @property
    def design(self) -> Design:
        """The hierarchies, the keys, the threshold and the reading of S."""
        return self.codes.design

    @property
    def frame(self) -> pl.DataFrame:
        """Labels, N, N_masked, sorted by the labels (confidential)."""
        digits = [self.codes.digit(self._words, place) for place in range(len(self.codes.dimensions))]
        columns: list[pl.Series] = []
        for dimension, digit in zip(self.codes.dimensions, digits, strict=True):
            columns += dimension.named(dimension.depth, digit)
        return pl.DataFrame([*columns, pl.Series(COUNT, self._count), pl.Series(MASKED, self._masked)])

    @cached_property
    def _parts(self) -> masking.Parts:
        return masking.parts(self._count, self._masked, self.design.threshold)

    def table(self, level: Level = 0, key: Names = ()) -> Table:
        """The masked table at a level (a number, a column name, 0 for none) by the keys named.

        >>> import polars as pl
        >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": [1, 2, 1], "N": [3, 8, 1], "N_masked": [5, 8, 0]})
        >>> FinestTable.from_counts(counts, hkey=["town"]).table(level="town").frame["N_masked"].to_list()
        [13, 0]
        """
        selection = self.design.select(level, key)
        packed = self.codes.project(self._words, selection)
        names = [f"cell{place}" for place in range(len(packed))]
        cells = pl.DataFrame({**dict(zip(names, packed, strict=True)), **self._parts._asdict()})
        groups = cells.group_by(names).agg(pl.col(*masking.Parts._fields).sum(), pl.len().cast(pl.Int64)).sort(names)
        digits = self.codes.unproject([groups[name].to_numpy() for name in names], selection)
        summed = masking.Parts(*(groups[name].to_numpy() for name in masking.Parts._fields))
        released, masked = self._release(summed, groups["len"].to_numpy(), digits, selection)
        true = summed.sum_large + summed.sum_small
        columns = {COUNT: true, MASKED: released, "type1": masked.type1, "type2": masked.type2, "loss": released - true}
        labels = self.codes.labels(digits, selection)
        detail = pl.DataFrame([*labels, *(pl.Series(name, values) for name, values in columns.items())])
        return Table(self.design, selection, detail)

    def cell(self, level: Level = 0, key: Names = (), hkey_value: Any = (), key_value: Values = ()) -> int:
        """The masked count of one cell: the entry of the table for it, or 0 where it does not occur.

        `hkey_value` holds the whole path down to the level. With several hierarchies it is a mapping from their
        names, or all paths one after the other.
        """
        released, _ = self.lookup(level, key, hkey_value, key_value)
        return released

    def lookup(
        self, level: Level = 0, key: Names = (), hkey_value: Any = (), key_value: Values = ()
    ) -> tuple[int, bool]:
        """As `cell`, and whether the cell occurs at all (confidential)."""
        selection = self.design.select(level, key)
        nodes = self._nodes(selection, hkey_value, key_value)
        if any(node is None for node in nodes):
            return 0, False
        digits = [np.array([node], dtype=np.int64) for node in nodes]
        rows = self._rows(selection, [int(digit[0]) for digit in digits])
        if not len(rows):
            return 0, False
        summed = masking.Parts(*(np.array([part[rows].sum()]) for part in self._parts))
        released, _ = self._release(summed, np.array([len(rows)]), digits, selection)
        return int(released[0]), True

    def _release(
        self, summed: masking.Parts, observed: IntArray, digits: Sequence[IntArray], selection: Selection
    ) -> tuple[IntArray, masking.Masked]:
        """The released counts of aggregates whose parts are summed."""
        K = self.design.threshold
        n_small = summed.n_small
        if self.design.cells == "grid":
            # Cells of the grid that nobody is in are small cells masked to 0. Their exact number only matters
            # while max(D) can be reached, far below the cap that keeps K * |S| inside 64 bits.
            size = self.codes.grid(digits, selection, rows=len(observed), most=2**61 // K)
            n_small = n_small + np.maximum(size - observed, 0)
        masked = masking.ilba(n_small, summed.n_at_threshold, summed.sum_small, K)
        return summed.sum_large + masked.sum_masked, masked

    def _nodes(self, selection: Selection, hkey_value: Any, key_value: Values) -> list[int | None]:
        """The nodes that the user's values name, in the order of the table's dimensions."""
        hierarchies = self.design.hierarchies
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
        return [
            self.codes.dimensions[dimension].node(path)
            for (dimension, _), path in zip(self.codes.levels(selection), paths, strict=True)
        ]

    def _rows(self, selection: Selection, nodes: Sequence[int]) -> IntArray:
        """The finest cells inside one cell of a table."""
        first, last = 0, len(self._count)
        wanted = list(zip(self.codes.levels(selection), nodes, strict=True))
        if wanted and wanted[0][0][0] == 0:
            # Cells are sorted, and an area is a run of finest areas: look only between its two ends.
            (dimension, level), node = wanted.pop(0)
            listed = self.codes.dimensions[dimension]
            start = int(listed.starts[level][node])
            stride = self.codes.stride(0)
            ends = [start * stride, (start + int(listed.below(level)[node])) * stride - 1]
            first = int(np.searchsorted(self._words[0], ends[0], side="left"))
            last = int(np.searchsorted(self._words[0], ends[1], side="right"))
        words = [word[first:last] for word in self._words]
        inside = np.ones(last - first, dtype=bool)
        for (dimension, level), node in wanted:
            inside &= self.codes.dimensions[dimension].nodes[level][self.codes.digit(words, dimension)] == node
        return first + np.flatnonzero(inside)

    def save(self, path: Path_) -> Path:
        """Write the store: one Parquet file for you alone, in one step.

        When the key was generated, it is written beside it.
        """
        target = writable(path)
        meta = {
            "format": FORMAT,
            "rows": len(self),
            "design": self.design.to_json(),
            "codes": self.codes.to_json(),
            "prf": PRF if self.fingerprint else None,
            "fingerprint": self.fingerprint,
        }
        self._warn_of_another_key(target)
        self._save_secret(target)
        cells = pl.DataFrame(
            {
                **{f"cell{place}": word for place, word in enumerate(self._words)},
                COUNT: self._count,
                MASKED: self._masked,
            }
        )
        meta["crc32"] = _checksum(meta, cells)
        with replacing(target) as temporary:
            try:
                cells.write_parquet(temporary, metadata={_META: _dump(meta)})
            except pl.exceptions.PolarsError as problem:
                raise WriteError(
                    f"could not write {os.fspath(path)!r}: {problem}. Nothing was changed there."
                ) from None
        return target

    def _save_secret(self, store: Path) -> None:
        if self._unsaved_secret is None:
            return
        place = secret_path(store)
        if place.exists():
            if Secret.from_file(place) != self._unsaved_secret:
                raise SecretError(
                    f"{str(place)!r} holds another key than the new one that drew these masks. Two releases of "
                    f"the same cells under two keys give counts away. Build again with secret={str(place)!r}, "
                    f"or save elsewhere."
                )
        else:
            self._unsaved_secret.to_file(place)
            notice(
                f"no secret was given, so a new one was made and saved as {str(place)!r} (only you can read it). "
                f"Keep it: the same key gives the same masks tomorrow, and another key would give counts away."
            )
        self._unsaved_secret = None

    def _warn_of_another_key(self, store: Path) -> None:
        if not store.exists():
            return
        try:
            before = open_store(store).fingerprint
        except StoreError:
            return
        if before and self.fingerprint and before != self.fingerprint:
            notice(
                f"the store at {str(store)!r} was masked with another key (fingerprint {before}). "
                f"Publishing from both gives counts away."
            )

    def __len__(self) -> int:
        return len(self._count)

    def __repr__(self) -> str:
        design = self.design
        areas = "; ".join(" > ".join(hierarchy.columns) for hierarchy in design.hierarchies)
        return (
            f"FinestTable({len(self):,} cells; {areas}; keys {listing(design.keys) or '(none)'}; "
            f"K={design.threshold}; cells={design.cells!r}; confidential)"
        )


def build(
    data: Any,
    hkey: HKey,
    key: Names | None = None,
    mask_thr: int = 5,
    *,
    secret: Secret | Path_ | None = None,
    cells: Cells = "observed",
    hkey_rank: Sequence[float] | None = None,
    key_thr: int | None = None,
    missing: Missing = "drop",
    missing_values: Sequence[object] = (),
    schema: Schema | None = None,
    output_path: Path_ | None = None,
    stage: Stage = lambda _: None,
) -> FinestTable:
    """Count microdata into the finest table and mask it with SCA.

    data
        A polars, pandas or pyarrow frame, a DuckDB relation, or a path: csv, csv.gz, parquet, a folder or glob of
        parquet parts, arrow, and the files of SPSS, Stata and SAS.
    hkey
        The columns of the hierarchy from coarse to fine, or a mapping of several hierarchies.
    key
        The categorical variables; left out, all other columns with at most 100 different values.
    mask_thr
        The threshold K, at least 3.
    secret
        A `Secret` or the path of a key file; else ILBA_SECRET; else the key beside `output_path`; else a new one.
    cells
        "observed" counts observed cells in S, as the R package does; "grid" all cells, as the paper defines.
    hkey_rank
        The rank of each column of `hkey`, where they are not given from coarse to fine.
    key_thr
        Leave out keys with more different values than this, also those that `key` names.
    missing
        "drop" leaves out rows with a missing value and says how many; "category" keeps them.
    missing_values
        Labels that stand for a missing value in this data, such as "NA".
    schema
        For csv: columns to be read as whole numbers, such as {"age": "int"}. Everything else is text.
    output_path
        Where to save the store.

    >>> import polars as pl
    >>> people = pl.DataFrame({"town": ["a"] * 9 + ["b"], "sex": ["f", "m", "f", "f", "f", "m", "f", "f", "f", "m"]})
    >>> finest = build(people, hkey=["town"], key=["sex"], secret=Secret.from_text("ilba-secret-1:" + "00" * 32))
    >>> finest.table(level=1, key="sex").public()["N_masked"].to_list()
    [7, 5]
    """
    target = None if output_path is None else writable(output_path)
    if target is not None and target.suffix.lower() == ".rds":
        raise InputError(f"{os.fspath(target)!r}: a store is a Parquet file. Give a name such as 'full_tb.parquet'.")
    chosen = given_secret(secret)
    if chosen is None and target is not None and secret_path(target).exists():
        chosen = Secret.from_file(secret_path(target))
        notice(f"using the key {str(secret_path(target))!r} that stands beside the store.")

    stage("reading")
    source = Microdata.open(data, schema=schema)
    areas = [column for hierarchy in hierarchies_of(hkey, hkey_rank) for column in hierarchy.columns]
    source.require(areas, "hkey")
    keys = names_of("key", key) if key is not None else tuple(c for c in source.columns if c not in areas)
    source.require(keys, "key")
    source.refuse_counted()
    design = Design.of(hkey, keys, mask_thr, cells, hkey_rank)
    if key is None or key_thr is not None:
        keys = _few_categories(source, keys, 100 if key_thr is None else key_thr)
        design = replace(design, keys=keys)

    stage("counting")
    seen = source.count(design.columns, missing=missing, missing_values=missing_values)
    stage("masking")
    finest = FinestTable._drawn(CodeLists.of(design, seen), seen, chosen)
    if target is not None:
        stage("writing")
        finest.save(target)
    return finest


def _few_categories(source: Microdata, keys: Sequence[str], most: int) -> tuple[str, ...]:
    """The keys with at most `most` different values; the others are quantities, and named aloud."""
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise InputError(f"key_thr={most!r} is not a whole number of at least 1.")
    sizes = source.categories(keys)
    many = [column for column in keys if sizes[column] > most]
    if many:
        notice(f"left out, because they have more than {most} different values (key_thr): {listing(many)}.")
    return tuple(column for column in keys if column not in many)


def secret_path(store: Path) -> Path:
    """Where the key of a store is kept when none was given."""
    return store.with_suffix(".secret")


def open_store(path: Path_) -> FinestTable:
    """Open a store that `build` or `save` wrote."""
    file = Path(path)
    if file.suffix.lower() == ".rds":
        raise StoreError(f"{str(file)!r} is a file of R. Open it with ilba.read_rds, or type: ilba convert {file} OUT")
    try:
        content = io.BytesIO(file.read_bytes())  # read once: a store that is replaced meanwhile cannot mix in
    except OSError as problem:
        near = nearest(file.name, (p.name for p in file.parent.iterdir())) if file.parent.is_dir() else ""
        raise StoreError(f"cannot open {str(file)!r}: {problem.strerror}.{near}") from None
    try:
        meta = pl.read_parquet_metadata(content)
    except _UNREADABLE:
        raise StoreError(
            f"{str(file)!r} is damaged, or not a store: it does not read as Parquet. Build it again."
        ) from None
    if _META not in meta:
        raise StoreError(
            f"{str(file)!r} is a Parquet file, but not a store of ilba. "
            f"Counted cells come in through FinestTable.from_counts, single records through ilba.build."
        )
    try:
        plain = json.loads(meta[_META])
        if plain["format"] > FORMAT:
            raise StoreError(
                f"{str(file)!r} has the store format {plain['format']}; this version of ilba reads up to {FORMAT}. "
                f"Type: pip install --upgrade ilba"
            )
        content.seek(0)
        cells = pl.read_parquet(content)
        codes = CodeLists.from_json(Design.from_json(plain["design"]), plain["codes"])
        if plain.pop("crc32") != _checksum(plain, cells):
            raise ValueError
        words = [cells[name].to_numpy() for name in cells.columns if name not in (COUNT, MASKED)]
        return FinestTable(
            codes, words, cells[COUNT].to_numpy(), cells[MASKED].to_numpy(), fingerprint=plain["fingerprint"]
        )
    except StoreError:
        raise
    except _UNREADABLE:
        raise StoreError(f"{str(file)!r} is a damaged store. Build it again.") from None


def _dump(meta: Mapping[str, Any]) -> str:
    return json.dumps(meta, ensure_ascii=False, separators=(",", ":"))


def _checksum(meta: Mapping[str, Any], cells: pl.DataFrame) -> int:
    """Over everything in a store: a bit that turns on the disk must not become a count."""
    total = zlib.crc32(_dump(meta).encode())
    for column in cells.get_columns():
        total = zlib.crc32(column.to_numpy().astype("<i8", copy=False).tobytes(), total)
    return total


def read_rds(path: Path_) -> FinestTable:
    """Open the R package's own `full_tb.rds`, masked counts included."""
    file = Path(path)
    if not file.exists():
        raise StoreError(f"there is no file {str(file)!r}.")
    try:
        import rdata
    except ModuleNotFoundError:
        raise MissingExtra("reading R files needs rdata. Type: pip install 'ilba[formats]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rdata reads a data.table as the data.frame that it is, and says so
            saved = rdata.read_rds(file)
        frame, K = saved["full_tb"], int(saved["mask_thr"][0])
        hkey = [str(name) for name in saved["hkey"]]
        key = [str(name) for name in saved["key"]]
    except Exception as problem:
        raise StoreError(f"{str(file)!r} is not a finest table saved by the R package iLBA.") from problem
    return FinestTable.from_counts(frame, hkey, key, K)


def _numbers(column: pl.Series) -> npt.NDArray[Any]:
    """A column of counts as numpy sees it; missing or textual ones are refused later."""
    if column.null_count() or not column.dtype.is_numeric():
        raise InputError(f"the column {column.name} holds something that is not a whole number, or is missing.")
    return (column.cast(pl.Float64) if column.dtype.is_decimal() else column).to_numpy()


def _check_masks(count: IntArray, masked: IntArray, K: int) -> None:
    right = np.where(count >= K, masked == count, (masked == 0) | (masked == K))
    if not right.all():
        raise InputError(
            f"{MASKED} does not fit {COUNT} with K={K} in {int((~right).sum()):,} rows: a count below K is masked to 0 "
            f"or K, and a larger one stays. Give the mask_thr with which it was masked."
        )


def _listed(values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        return [] if values is None else [values]
    return list(values)


def _wrong_number(argument: str, given: Sequence[object], columns: Sequence[str]) -> str:
    return f"{argument} has {len(given)} values where {len(columns)} are needed: {listing(columns) or '(none)'}."
