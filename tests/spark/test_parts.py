"""Cells travel in parts: the numbers are the same for any parts, and each part is one file. No Java is needed here."""

from __future__ import annotations

import hashlib
import stat
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.spark import parts, tasks
from support.people import HKEY, KEY, population
from support.size import few

pa = pytest.importorskip("pyarrow")
SECRET = ilba.Secret(bytes(range(32)))


@pytest.fixture(scope="module")
def reference():
    return ilba.build(population(), HKEY, KEY, secret=SECRET)


def of_parts(pieces, divided):
    """The pieces of each part, as Spark brings them together, part after part."""
    by_slot = {slot: [] for slot in divided.slots}
    assert len(by_slot) == len(divided.slots)
    for piece in pieces:
        by_slot[piece.column("slot")[0].as_py()].append(piece)
    yield from by_slot.values()


@pytest.mark.parametrize(
    ("size", "at_once"), few([(300, 500), (2**20, 2**20), pytest.param(1, 64, marks=pytest.mark.slow)], 2)
)
def test_records_are_counted_masked_and_written_alike_whatever_the_parts(
    reference, tmp_path, monkeypatch, size, at_once
):
    monkeypatch.setattr(parts, "ROWS", size)
    monkeypatch.setattr(tasks, "_AT_ONCE", at_once)
    codes, shipped = reference.codes, tasks.Shipped.of(reference.codes)
    records = np.repeat(reference.cells["cell0"].to_numpy(), reference.cells["N"].to_numpy())
    np.random.default_rng(1).shuffle(records)
    weights = [
        np.bincount(digit, minlength=place.size)
        for digit, place in zip(codes.finest.digits([records]), codes.finest.places, strict=True)
    ]
    divided = parts.CellParts.of(codes.finest, weights, len(records))
    assert (len(divided) == 1) == (size == 2**20)
    batches = [pa.RecordBatch.from_pydict({"cell0": records[i : i + 200]}) for i in range(0, len(records), 200)]
    pieces = list(tasks.count_cells(batches, shipped, divided))
    source, found = tasks.SecretSource.of(SECRET, SECRET), []
    for of_one in of_parts(pieces, divided):
        masked = tasks.mask(tasks.put_together(of_one, shipped), shipped, source)
        for told in tasks.write_part(masked, str(tmp_path), reference._about.columns):
            row = told.to_pylist()[0]
            file = tmp_path / row["file"]
            assert hashlib.sha256(file.read_bytes()).hexdigest() == row["sha256"]
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            cells = pl.read_parquet(file)
            assert (row["rows"], row["first"], row["last"]) == (len(cells), cells["cell0"].min(), cells["cell0"].max())
            found.append(cells)
    assert pl.concat(found).equals(reference.cells)


def test_a_part_whose_folder_a_worker_does_not_see_is_not_written(reference, tmp_path):
    batches = reference.cells.to_arrow().to_batches()
    (told,) = tasks.write_part(batches, str(tmp_path / "elsewhere"), reference._about.columns)
    assert told.to_pylist()[0]["file"] == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("level_and_keys", [("town", ["sex"]), ("block", ["age", "sex", "job"]), (0, ["job"]), (0, [])])
def test_sums_put_together_from_parts_are_the_table_in_its_order(reference, monkeypatch, level_and_keys):
    monkeypatch.setattr(parts, "ROWS", 20)
    monkeypatch.setattr(tasks, "_AT_ONCE", 50)
    monkeypatch.setattr(tasks, "_ROWS", 30)
    codes, shipped = reference.codes, tasks.Shipped.of(reference.codes)
    selection = reference.design.select(*level_and_keys)
    divided = parts.CellParts.of_table(codes, codes.cell_index(selection), len(reference))
    batches = [
        piece.to_arrow().to_batches()[0]
        for piece in reference.cells.sample(fraction=1, shuffle=True, seed=2).iter_slices(70)
    ]
    pieces = list(tasks.sum_up(batches, shipped, None, selection, divided))
    shown = [
        pl.DataFrame(batch)
        for of_one in of_parts(pieces, divided)
        for batch in tasks.show(tasks.put_together(of_one, shipped, selection), shipped, selection, False)
    ]
    assert pl.concat(shown).equals(reference.table(*level_and_keys).detail)


def test_parts_are_even_where_one_area_has_nearly_everybody(monkeypatch):
    people = pl.DataFrame({"t": ["a"] * 9000 + ["b", "c"] * 500, "k": list(range(100)) * 100, "s": ["f", "m"] * 5000})
    finest = ilba.build(people, ["t"], ["k", "s"], secret=SECRET)
    monkeypatch.setattr(parts, "ROWS", 1000)
    weights = [people[name].value_counts(sort=False).sort(name)["count"].to_numpy() for name in ("t", "k", "s")]
    divided = parts.CellParts.of(finest.codes.finest, weights, people.height)
    part = np.searchsorted(divided.begins, finest.cells["cell0"].to_numpy(), side="right")
    sizes = np.bincount(part, weights=finest.cells["N"].to_numpy())
    assert len(divided) >= 9
    assert sizes.max() < 1600


def test_each_part_has_a_number_that_sparks_hash_sends_to_its_partition():
    told_by_spark = {0: 933211791, 1: -559580957, 2: 1765031574}  # SELECT hash(0), hash(1), hash(2)
    assert parts._murmur(np.array(list(told_by_spark), dtype=np.uint32)).view(np.int32).tolist() == [
        *told_by_spark.values()
    ]
    for size in (1, 2, 7, 200):
        hashed = parts._murmur(parts._slots(size).astype(np.uint32)).view(np.int32)
        assert (hashed % size).tolist() == list(range(size))


@pytest.mark.long
def test_a_worker_passes_over_modules_when_it_collects_garbage():
    code = """
import gc
from ilba.spark import tasks
kept = []
for _ in range(3):
    tasks.spare_modules()
    kept.append(gc.get_freeze_count())
assert 0 < kept[0] == kept[1] == kept[2], kept  # no more than modules
import sqlite3
tasks.spare_modules()
assert gc.get_freeze_count() > kept[0]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
