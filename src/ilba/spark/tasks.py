"""What Spark's workers run: Arrow batches in, Arrow batches out, with the same code as the embedded engine.

Each function depends on its batch alone. A lost task that runs again, on another machine or over other batches, gives
the same cells. Little travels to the workers: the packed code lists, and where to find the secret.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import secrets
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CellIndex, CodeLists
from ilba.design.design import COUNT, MASKED, Design, Selection
from ilba.design.recordkeys import KEY_RANGE, RECORD_KEY
from ilba.errors import SecretError
from ilba.files import replacing
from ilba.methods import masking
from ilba.methods.moves import KeyedMoves
from ilba.secret.draws import CellDraws
from ilba.secret.secret import ENVIRONMENT, Secret
from ilba.spark.parts import CellParts
from ilba.tables.finest import masked_counts
from ilba.tables.keys import drawn_keys
from ilba.tables.rollup import Finest, Sums, added_up, roll_up, together
from ilba.tables.store import marked, path_marks
from ilba.tables.table import PackedRows

if TYPE_CHECKING:
    import pyarrow as pa

    from ilba.methods.controlled.block import Before
    from ilba.methods.controlled.plan import Layout, MaskBlock
    from ilba.methods.controlled.search import Rules

IntArray: TypeAlias = npt.NDArray[np.int64]
Batches: TypeAlias = "Iterable[pa.RecordBatch]"

PARTS = [*masking.Parts._fields, "observed"]
"""the columns that are summed"""
_ROWS = 2**18  # cells at a time: Spark's own batches are small
_AT_ONCE = 2**20  # records or sums that are counted together before they are sent


def spare_modules() -> None:
    """Let the collection of garbage pass over what imported modules hold.

    A worker collects garbage after every task. With polars and numpy imported that took longer than most tasks.
    """
    _spared(len(sys.modules))


@lru_cache
def _spared(_modules: int) -> None:
    gc.freeze()


class SecretSource:
    """How a worker gets the secret. It prints only the fingerprint.

    If the secret was given as a file, each worker reads the file at the same path, and the secret never travels. The
    same holds for a secret in the environment. A `Secret` that exists only in the driver's memory travels inside the
    tasks.
    """

    __slots__ = ("_carried", "_path", "fingerprint")

    def __init__(self, fingerprint: str, path: str | None = None, carried: bytes | None = None) -> None:
        self.fingerprint = fingerprint
        self._path = path
        self._carried = carried

    @classmethod
    def of(cls, secret: Secret, given: object) -> SecretSource:
        """Take a secret as the user gave it: a path, a `Secret`, or nothing (from the environment, or a new one)."""
        if isinstance(given, str | os.PathLike):
            return cls(secret.fingerprint, path=str(Path(given).absolute()))
        set_to = os.environ.get(ENVIRONMENT, "").strip() if given is None else ""
        if set_to and secret == Secret.from_environment():
            named = None if set_to.startswith("ilba-secret") else str(Path(set_to).absolute())
            return cls(secret.fingerprint, path=named)
        return cls(secret.fingerprint, carried=secret.to_bytes())

    def open(self) -> Secret:
        """The secret, on a worker."""
        if self._carried is not None:
            return Secret(self._carried)
        secret = Secret.from_file(self._path) if self._path else Secret.from_environment()
        where = f"the file {self._path!r}" if self._path else ENVIRONMENT
        if secret is None:
            raise SecretError(
                f"a worker has no {ENVIRONMENT}. Put the secret file on every worker and give its path as secret, or "
                f"set {ENVIRONMENT} there to such a path."
            )
        if secret.fingerprint != self.fingerprint:
            raise SecretError(
                f"{where} holds another secret on a worker (fingerprint {secret.fingerprint}) than on the driver "
                f"({self.fingerprint}). Give every worker the same one."
            )
        return secret

    def at_hand(self) -> Secret | None:
        """The secret on the driver, if it can be opened there."""
        try:
            return self.open()
        except SecretError:
            return None

    def __repr__(self) -> str:
        return f"SecretSource(fingerprint={self.fingerprint!r})"


@dataclass(frozen=True)
class Shipped:
    """Code lists in the form that travels to the workers; each process unpacks them once."""

    digest: str
    packed: bytes = field(repr=False)

    @classmethod
    def of(cls, codes: CodeLists) -> Shipped:
        """Pack code lists."""
        text = json.dumps({"design": codes.design.to_json(), "codes": codes.to_json()}, ensure_ascii=False).encode()
        return cls(sha256(text).hexdigest(), zlib.compress(text, 1))

    def codes(self) -> CodeLists:
        """The code lists, on a worker."""
        return _unpacked(self)

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=8)
def _unpacked(shipped: Shipped) -> CodeLists:
    plain = json.loads(zlib.decompress(shipped.packed))
    return CodeLists.from_json(Design.from_json(plain["design"]), plain["codes"])


_draws: dict[tuple[str, str], CellDraws] = {}


def draws_of(shipped: Shipped, source: SecretSource) -> CellDraws:
    """The draws of a secret for these code lists, made once in a process, because every label needs a word."""
    name = shipped.digest, source.fingerprint
    if name not in _draws:
        _draws.clear()
        _draws[name] = CellDraws(source.open(), shipped.codes())
    return _draws[name]


def count_cells(batches: Batches, shipped: Shipped, parts: CellParts) -> Iterator[pa.RecordBatch]:
    """Records as packed, counted cells: a byte string for each part and each million records."""
    finest = shipped.codes().finest
    for records in gathered(batches, _AT_ONCE):
        words = [records[name] for name in word_names(finest)]
        yield from _apart(finest, parts, *_counted(finest, words, records.get(RECORD_KEY)))


def _counted(
    finest: CellIndex, words: list[IntArray], keys: IntArray | None
) -> tuple[list[IntArray], dict[str, IntArray]]:
    """Equal cells counted, with the sums of their record keys."""
    if len(words) == 1 and keys is None:  # sorting alone is faster than sorting with other columns
        cells = np.sort(words[0])
        starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
        return [cells[starts]], {COUNT: np.diff(starts, append=len(cells)).astype(np.int64)}
    beside = {} if keys is None else {RECORD_KEY: keys}
    return _summed(finest, words, {**beside, COUNT: np.ones(len(words[0]), dtype=np.int64)})


def _summed(
    cell_index: CellIndex, words: list[IntArray], values: Mapping[str, IntArray]
) -> tuple[list[IntArray], dict[str, IntArray]]:
    packed, sums = added_up(cell_index, words, list(values.values()))
    return packed, dict(zip(values, sums, strict=True))


def _apart(
    cell_index: CellIndex, parts: CellParts, words: Sequence[IntArray], values: Mapping[str, IntArray]
) -> Iterator[pa.RecordBatch]:
    """Sorted cells as byte strings, one for each part that has cells."""
    import pyarrow as pa

    columns = {**dict(zip(word_names(cell_index), words, strict=True)), **values}
    ends = [0, *np.searchsorted(words[0], parts.begins).tolist(), len(words[0])]
    found = [
        (slot, first, last) for slot, first, last in zip(parts.slots, ends, ends[1:], strict=False) if last > first
    ]
    for slot, first, last in found:
        piece = _bytes([_batch({name: column[first:last] for name, column in columns.items()})])
        yield pa.RecordBatch.from_arrays([pa.array([slot], pa.int32()), pa.array([piece])], names=["slot", "piece"])


def put_together(batches: Batches, shipped: Shipped, target: Selection | None = None) -> Iterator[pa.RecordBatch]:
    """The cells of a part from its pieces, sorted, with the values of equal cells added up."""
    import pyarrow as pa

    codes = shipped.codes()
    cell_index = codes.finest if target is None else codes.cell_index(target)
    pieces = [pa.ipc.open_stream(piece.as_buffer()) for batch in batches for piece in batch.column("piece")]
    if not pieces:
        return
    columns = _columns([batch for piece in pieces for batch in piece])
    words = [columns.pop(name) for name in word_names(cell_index)]
    packed, sums = _summed(cell_index, words, columns)
    named = {**dict(zip(word_names(cell_index), packed, strict=True)), **sums}
    for first in range(0, len(packed[0]), _ROWS):
        yield _batch({name: column[first : first + _ROWS] for name, column in named.items()})


def mask(batches: Batches, shipped: Shipped, source: SecretSource) -> Iterator[pa.RecordBatch]:
    """Counted cells (words, N) with their masked counts."""
    codes = shipped.codes()
    draw = draws_of(shipped, source)
    names = word_names(codes.finest)
    for cells in gathered(batches):
        words, count = [cells[name] for name in names], cells[COUNT]
        masked = masked_counts(draw, words, count, codes.design.threshold)
        keys = {RECORD_KEY: cells[RECORD_KEY] % KEY_RANGE} if RECORD_KEY in cells else {}
        yield _batch({**dict(zip(names, words, strict=True)), COUNT: count, MASKED: masked, **keys})


def key_cells(batches: Batches, shipped: Shipped, source: SecretSource) -> Iterator[pa.RecordBatch]:
    """Finest cells, each with a drawn record key."""
    codes, secret = shipped.codes(), source.open()
    for cells in gathered(batches):
        words = [cells[name] for name in word_names(codes.finest)]
        yield _batch({**cells, RECORD_KEY: drawn_keys(secret, codes, words, cells[COUNT])})


def sum_up(
    batches: Batches, shipped: Shipped, source: Selection | None, target: Selection, parts: CellParts | None
) -> Iterator[pa.RecordBatch]:
    """The cells of a table and what these cells add to them: from finest cells, or from the sums of another table.

    The result is pieces for `put_together`, or plain rows if there are no parts.
    """
    codes = shipped.codes()
    here, cell_index = codes.finest if source is None else codes.cell_index(source), codes.cell_index(target)
    waiting: list[Sums] = []
    for cells in gathered(batches):
        waiting.append(roll_up(codes, _as_source(codes, here, cells, source is None), cell_index))
        if sum(map(len, waiting)) >= _AT_ONCE:
            waiting = [together(waiting)]
            if len(waiting[0]) >= _AT_ONCE // 2:  # few cells were equal, so waiting does not help
                yield from _told(waiting.pop(), parts)
    if waiting:
        yield from _told(together(waiting) if len(waiting) > 1 else waiting[0], parts)


def _as_source(codes: CodeLists, here: CellIndex, cells: Mapping[str, IntArray], is_finest: bool) -> Sums | Finest:
    if not is_finest:
        return sums_of(here, cells)
    made = masking.parts(cells[COUNT], cells[MASKED], codes.design.threshold)
    words = [cells[name] for name in word_names(here)]
    return Finest(here, words, lambda first, last: _cut(made, first, last), cells.get(RECORD_KEY))


def _told(sums: Sums, parts: CellParts | None) -> Iterator[pa.RecordBatch]:
    """Sums as rows, or as pieces for each part. `observed` comes last, because it is never 0."""
    beside = {} if sums.keys is None else {RECORD_KEY: sums.keys}
    values = {**dict(zip(PARTS[:4], sums.parts, strict=True)), **beside, PARTS[4]: sums.observed}
    if parts is None:
        yield _batch({**dict(zip(word_names(sums.cell_index), sums.packed, strict=True)), **values})
    else:
        yield from _apart(sums.cell_index, parts, sums.packed, values)


def _cut(parts: masking.Parts, first: int, last: int) -> masking.Parts:
    return masking.Parts(*(part[first:last] for part in parts))


def sums_of(cell_index: CellIndex, columns: Mapping[str, IntArray]) -> Sums:
    """Convert columns of words and summed parts to sums."""
    words = [columns[name] for name in word_names(cell_index)]
    parts, keys = masking.Parts(*(columns[name] for name in PARTS[:4])), columns.get(RECORD_KEY)
    return Sums(cell_index, words, parts, columns["observed"], None if keys is None else keys % KEY_RANGE)


def show(
    batches: Batches, shipped: Shipped, target: Selection, plain: bool, moves: KeyedMoves | None = None
) -> Iterator[pa.RecordBatch]:
    """The cells of a table from their sums: labels, N, N_masked, type1, type2, loss."""
    codes = shipped.codes()
    cell_index = codes.cell_index(target)
    for cells in gathered(batches):
        yield from _batches(PackedRows.of(codes, sums_of(cell_index, cells), plain, moves).detail)


def name_cells(batches: Batches, shipped: Shipped) -> Iterator[pa.RecordBatch]:
    """Finest cells with their labels instead of words."""
    codes = shipped.codes()
    for cells in gathered(batches):
        labels = codes.labels(codes.finest, [cells[name] for name in word_names(codes.finest)])
        yield from _batches(pl.DataFrame([*labels, pl.Series(COUNT, cells[COUNT]), pl.Series(MASKED, cells[MASKED])]))


def used_labels(batches: Batches, places: int) -> Iterator[pa.RecordBatch]:
    """The number of records of each label: digits d0, d1, ... as (place, digit, size)."""
    sizes: list[IntArray] = [np.zeros(0, dtype=np.int64)] * places
    for records in gathered(batches, _AT_ONCE):
        for place in range(places):
            here = np.bincount(records[f"d{place}"], minlength=len(sizes[place]))
            here[: len(sizes[place])] += sizes[place]
            sizes[place] = here
    for place, size in enumerate(sizes):
        digit = np.flatnonzero(size)
        yield _batch({"place": np.full(len(digit), place), "digit": digit, "size": size[digit]})


def used_digits(batches: Batches, shipped: Shipped) -> Iterator[pa.RecordBatch]:
    """The labels that occur: the number of each with the place of its dimension."""
    codes = shipped.codes()
    for cells in gathered(batches):
        digits = [np.unique(d) for d in codes.finest.digits([cells[name] for name in word_names(codes.finest)])]
        place = np.repeat(np.arange(len(digits)), [len(digit) for digit in digits])
        yield _batch({"place": place, "digit": np.concatenate(digits)})


def move(batches: Batches, shipped: Shipped, other: Shipped, moved: Sequence[IntArray]) -> Iterator[pa.RecordBatch]:
    """Cells renumbered for other code lists, with their masked count as their count."""
    before, after = shipped.codes().finest, other.codes().finest
    for cells in gathered(batches):
        digits = before.digits([cells[name] for name in word_names(before)])
        masked = cells[MASKED]
        words = after.pack([numbers[digit] for numbers, digit in zip(moved, digits, strict=True)], len(masked))
        yield _batch({**dict(zip(word_names(after), words, strict=True)), COUNT: masked, MASKED: masked})


def masks_before(batches: Batches, before: Shipped, shipped: Shipped) -> Iterator[pa.RecordBatch]:
    """Cells of an earlier wave in the current numbering, with their masked count as `previous`."""
    theirs, ours = before.codes(), shipped.codes()
    for cells in gathered(batches):
        words, found = ours.cells_of(theirs, [cells[name] for name in word_names(theirs.finest)])
        named = dict(zip(word_names(ours.finest), words, strict=True))
        yield _batch({**named, COUNT: cells[COUNT][found], "previous": cells[MASKED][found]})


def mark_paths(batches: Batches, shipped: Shipped) -> Iterator[pa.RecordBatch]:
    """Finest cells with a checksum of the path of labels in each dimension instead of words."""
    codes = shipped.codes()
    marks = path_marks(codes)
    for cells in gathered(batches):
        digits = codes.finest.digits([cells[name] for name in word_names(codes.finest)])
        paths = {f"path{place}": mark[digit] for place, (mark, digit) in enumerate(zip(marks, digits, strict=True))}
        keys = {RECORD_KEY: cells[RECORD_KEY]} if RECORD_KEY in cells else {}
        yield _batch({**paths, COUNT: cells[COUNT], MASKED: cells[MASKED], **keys})


def count_small(batches: Batches, shipped: Shipped, along: int) -> Iterator[pa.RecordBatch]:
    """Numbers of small cells by area along a dimension (part 0) and by count (part 1), and of all cells (part 2)."""
    codes = shipped.codes()
    for cells in gathered(batches):
        small = (cells[COUNT] > 0) & (cells[COUNT] < codes.design.threshold)
        area = codes.finest.block([cells[name][small] for name in word_names(codes.finest)], along, along)
        every = codes.finest.block([cells[name] for name in word_names(codes.finest)], along, along)
        for part, values in enumerate((area, cells[COUNT][small], every)):
            which, size = np.unique(values, return_counts=True)
            yield _batch({"part": np.full(len(which), part), "which": which, "size": size.astype(np.int64)})


def with_block(batches: Batches, shipped: Shipped, along: int, block_of: IntArray) -> Iterator[pa.RecordBatch]:
    """Finest cells with the number of their block, without those of other blocks (-1)."""
    codes = shipped.codes()
    for cells in gathered(batches):
        area = codes.finest.block([cells[name] for name in word_names(codes.finest)], along, along)
        block = block_of[area]
        here = block >= 0
        yield _batch({**{name: column[here] for name, column in cells.items()}, "block": block[here]})


def keyed_numbers(batches: Batches, shipped: Shipped, source: SecretSource) -> Iterator[pa.RecordBatch]:
    """The keyed numbers of small cells, with their counts."""
    codes = shipped.codes()
    draw = _chosen_draws(shipped, source)
    for cells in gathered(batches):
        words = [cells[name] for name in word_names(codes.finest)]
        yield _batch({COUNT: cells[COUNT], "number": draw(words, cells[COUNT])})


def tag_cells(
    batches: Batches, shipped: Shipped, source: SecretSource, purpose: str, below: int | None
) -> Iterator[pa.RecordBatch]:
    """Finest cells, whether each is small, and a keyed tag of small cells (0 for the others).

    If `below` is None, all cells count as small.
    """
    codes = shipped.codes()
    name = shipped.digest, f"{source.fingerprint} {purpose} {below}"
    if name not in _draws:
        _draws.clear()
        _draws[name] = CellDraws(source.open().derived(purpose), codes, below)
    for cells in gathered(batches):
        words = [cells[name] for name in word_names(codes.finest)]
        if below is None:
            every = _draws[name].any_tags(words, cells[COUNT]).view(np.int64)
            yield _batch({**cells, "small": np.ones(len(every), dtype=np.int64), "tag": every})
            continue
        small = cells[COUNT] < below
        tag = np.zeros(len(small), dtype=np.int64)
        tag[small] = _draws[name].tags([word[small] for word in words], cells[COUNT][small]).view(np.int64)
        yield _batch({**cells, "small": small.astype(np.int64), "tag": tag})


def choose_block(
    cells: pa.Table,
    shipped: Shipped,
    source: SecretSource,
    wanted: Sequence[Selection],
    turn: Mapping[int, tuple[MaskBlock, Before]],
    rules: Rules,
) -> pa.Table:
    """The cells of one block with their masks (part 0), and what the block leaves.

    If there is a column `previous`, it holds the masked counts that stay, and -1 for the others. What is left comes in
    the same columns: names, errors and times for each carried area (part 1, 2, ...), and numbers (part -1).
    """
    import pyarrow as pa

    from ilba.methods.controlled.block import Cells, Ready, choose_masks
    from ilba.methods.controlled.free import choose_values

    codes, columns = shipped.codes(), _columns(cells.to_batches())
    K, names = codes.design.threshold, word_names(codes.finest)
    number = int(columns["block"][0])
    block, before = turn[number]
    count, masked = columns[COUNT], columns[MASKED].copy()
    small = np.flatnonzero((count > 0) & ((count < K) | rules.free))
    words = [columns[name][small] for name in names]
    known = columns["previous"][small] if "previous" in columns else None
    if known is not None and not rules.free:
        known = np.where(known < 0, -1, known > 0).astype(np.int8)
    draws = _chosen_draws(shipped, source)
    draw = (draws.any_count if rules.free else draws)(words, count[small]).astype(np.uint64)
    given = Cells(codes.finest.digits(words), count[small], draw, masked[small] == K, known)
    solve = choose_values if rules.free else choose_masks
    ready = Ready.of(_layout(shipped, tuple(wanted)), block, given)
    done = solve(ready, before, rules, lambda *_: None)
    masked[small] = K * done.up.astype(np.int64) if done.values is None else done.values
    told = np.array([done.over, done.reached, done.kept, *done.classes], dtype=np.int64)
    parts = [(0, [columns[name] for name in names], count, masked)]
    for place, (name, error, times) in enumerate(done.errors, 1):
        parts.append((place, [name.view(np.int64)], error, times.astype(np.int64)))
    parts.append((-1, [np.arange(len(told))], told, told))
    batches = []
    for part, packed, one, other in parts:
        rest = [np.zeros(len(one), dtype=np.int64)] * (len(names) - len(packed))
        named = dict(zip(names, [*packed, *rest], strict=True))
        full = {"part": np.full(len(one), part), "block": np.full(len(one), number)}
        batches.append(_batch({**named, COUNT: one, MASKED: other, **full}))
    return pa.Table.from_batches(batches)


@lru_cache(maxsize=2)
def _layout(shipped: Shipped, wanted: tuple[Selection, ...]) -> Layout:
    from ilba.methods.controlled.plan import Layout

    return Layout(shipped.codes(), wanted)


def _chosen_draws(shipped: Shipped, source: SecretSource) -> CellDraws:
    name = shipped.digest, f"{source.fingerprint} controlled"
    if name not in _draws:
        _draws.clear()
        _draws[name] = CellDraws(source.open().derived("controlled"), shipped.codes())
    return _draws[name]


def pick(batches: Batches, columns: Sequence[str], public: bool) -> Iterator[pa.RecordBatch]:
    """Some columns; for the public, without rows that are masked to 0."""
    import pyarrow.compute as pc

    for batch in batches:
        kept = batch.filter(pc.greater(batch.column(MASKED), 0)) if public else batch
        yield kept.select(list(columns))


def write_part(batches: Batches, folder: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Write cells to a separate Parquet file in a folder, and return its description for the dataset: a row, or none.

    A lost attempt leaves a file that nobody names. If there is no such folder, `file` is empty.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark import TaskContext

    there = Path(folder)
    task = TaskContext.get()
    name = f"part-{task.partitionId() if task else 0:05d}-{secrets.token_hex(4)}.parquet"
    rows, mark, ends, writer = 0, 0, [], None
    with contextlib.ExitStack() as opened:
        for cells in gathered(batches):
            if not there.is_dir():
                yield _part("", 0, 0, 0, 0, "")
                return
            found = {column: cells[column] for column in columns}
            table = pa.Table.from_batches([_batch(found)])
            if writer is None:
                temporary = opened.enter_context(replacing(there / name))
                # Spark checks each page that it reads.
                writer = pq.ParquetWriter(temporary, table.schema, **_PARQUET, use_dictionary=list(columns[1:]))
            writer.write_table(table)
            rows, mark = rows + len(table), mark ^ marked(list(found.values()))
            ends += [int(cells[columns[0]].min()), int(cells[columns[0]].max())]
        if writer is None:
            return
        writer.close()
        with temporary.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    yield _part(name, rows, min(ends), max(ends), mark, digest)


PART = "file string, rows long, first long, last long, mark string, sha256 string"
"""what `write_part` says about a file"""
_PARQUET: Any = {
    "compression": "zstd",
    "write_page_checksum": True,
    "column_encoding": {"cell0": "DELTA_BINARY_PACKED"},
}


def _part(*told: Any) -> pa.RecordBatch:
    import pyarrow as pa

    file, rows, first, last, mark, digest = told
    values = [[file], [rows], [first], [last], [f"{mark:016x}"], [digest]]
    names = [field.split()[0] for field in PART.split(", ")]
    return pa.RecordBatch.from_pydict(dict(zip(names, map(pa.array, values), strict=True)))


def enclose(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Batches as bytes, one row each, so that the driver takes a table by pieces instead of by rows."""
    yield from map(_enclosed, _together(batches))


def _enclosed(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([_bytes(batches)], pa.binary())], names=["piece"])


def _bytes(batches: Sequence[pa.RecordBatch]) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def gathered(batches: Batches, most: int = 0) -> Iterator[dict[str, IntArray]]:
    """The integer columns of many small batches, some hundred thousand rows at a time, or `most`."""
    yield from map(_columns, _together(batches, most or _ROWS))


def _together(batches: Batches, most: int = 0) -> Iterator[list[pa.RecordBatch]]:
    """Small batches in groups of some hundred thousand rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= (most or _ROWS):
            yield waiting
            waiting, rows = [], 0
    if rows:
        yield waiting


def _columns(batches: Sequence[pa.RecordBatch]) -> dict[str, IntArray]:
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    return {name: table.column(name).to_numpy().astype(np.int64, copy=False) for name in table.column_names}


def word_names(cell_index: CellIndex) -> list[str]:
    """The columns that hold packed cells."""
    return [f"cell{place}" for place in range(len(cell_index.words))]


def sum_names(cell_index: CellIndex, with_keys: bool) -> list[str]:
    """The columns that hold the sums of a table. The last is never 0."""
    return [*word_names(cell_index), *PARTS[:4], *([RECORD_KEY] if with_keys else []), PARTS[4]]


def _batch(columns: Mapping[str, IntArray]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def _batches(frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    types = [pa.string() if dtype == pl.String else pa.int64() for dtype in frame.dtypes]
    table = frame.to_arrow().cast(pa.schema(list(zip(frame.columns, types, strict=True))))
    yield from table.to_batches(max_chunksize=_ROWS)
