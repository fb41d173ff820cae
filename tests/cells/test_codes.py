"""Code lists and packed cells: an area is a run of finer ones, and a cell is its digits."""

from __future__ import annotations

import datetime
import itertools
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ilba import Design, InputError
from ilba.cells.codes import (
    CellIndex,
    CodeList,
    CodeLists,
    Place,
    canonical,
    label_type,
    sorted_order,
    typed_labels,
)

DESIGN = Design.of(["a", "b", "c"], ["x", "y"])
TEXTS = st.sampled_from(["", "0", "1", "01", "10", "-1", "나", "z", "1" * 19])


@st.composite
def code_lists(draw):
    """The lists of three levels and two keys, with whole numbers, texts and missing labels among them."""
    kinds = [draw(st.sampled_from([st.integers(-2, 3), TEXTS])) for _ in DESIGN.columns]
    types = [pl.String if kind is TEXTS else pl.Int64 for kind in kinds]
    columns = {
        name: pl.Series(name, draw(st.lists(st.one_of(st.none(), kind), min_size=6, max_size=6)), dtype=dtype)
        for name, kind, dtype in zip(DESIGN.columns, kinds, types, strict=True)
    }
    return CodeLists.of(DESIGN, [pl.DataFrame([columns[c] for c in d]) for d in CodeLists.dimensions(DESIGN)])


@settings(max_examples=30)
@given(st.one_of(st.integers(), st.text(), st.floats(), st.booleans(), st.none(), st.dates(), st.datetimes()))
def test_a_label_stays_what_it_is(value):
    label = canonical(value)
    assert label is None or type(label) in (str, int)
    assert canonical(label) == label


@given(st.integers(-(2**53), 2**53))
def test_a_whole_number_of_any_kind_is_one_label(number):
    assert canonical(number) == canonical(float(number)) == canonical(np.int64(number)) == canonical(np.float64(number))


def test_what_is_missing_has_no_label_whoever_wrote_it():
    for missing in (None, math.nan, np.float32("nan"), pd.NA, pd.NaT):
        assert canonical(missing) is None
    assert canonical("") == ""
    assert [canonical(value) for value in (True, np.False_, 0.5, datetime.date(2020, 2, 1))] == [
        "true",
        "false",
        "0.5",
        "2020-02-01",
    ]


@settings(max_examples=30)
@given(st.lists(st.one_of(st.none(), TEXTS, st.integers(-(10**20), 10**20).map(str), st.text(max_size=3))))
def test_a_public_column_is_of_numbers_only_where_that_changes_no_code(codes):
    texts = pl.Series("x", codes, dtype=pl.String)
    kind = label_type(texts)
    whole = [code is None or (code.lstrip("-").isdecimal() and str(int(code)) == code) for code in codes]
    short = [code is None or len(code.lstrip("-")) <= 18 for code in codes]
    assert (kind == pl.Int64) == (all(whole) and all(short) and texts.count() > 0)
    if kind == pl.Int64:
        assert texts.cast(pl.Int64).cast(pl.String).equals(texts)
    assert typed_labels(texts.to_frame()).schema == {"x": kind}


@settings(max_examples=30)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_numbers_and_their_texts_make_a_public_column_of_one_type(codes):
    numbers = pl.Series("x", codes, dtype=pl.Int64)
    assert label_type(numbers) == label_type(numbers.cast(pl.String))


@settings(max_examples=15)
@given(code_lists())
def test_every_level_numbers_its_paths_in_order_and_an_area_is_a_run_of_finer_ones(codes):
    for listed in codes.lists:
        rows = listed.labels.rows()
        for level in range(listed.depth + 1):
            paths = list(dict.fromkeys(row[:level] for row in rows))
            assert listed.size(level) == len(paths)
            assert listed.nodes[level].tolist() == [paths.index(row[:level]) for row in rows]
            assert listed.below(level).tolist() == [sum(row[:level] == path for row in rows) for path in paths]
            for above in range(level + 1):
                upper = list(dict.fromkeys(row[:above] for row in rows))
                assert listed.parents(level, above).tolist() == [upper.index(path[:above]) for path in paths]
            if level:
                assert list(zip(*listed.named(level, np.arange(len(paths))), strict=True)) == paths
                assert [listed.node(path) for path in paths] == list(range(len(paths)))


def test_a_path_is_found_by_what_its_labels_say():
    listed = CodeList(pl.DataFrame({"region": [1, 1, 2], "town": ["a", "b", "a"]}))
    assert listed.node(["1", "b"]) == listed.node([1.0, "b"]) == 1
    assert listed.node([2, "b"]) is None
    assert listed.recurring() == {"town": ["a"]}
    with pytest.raises(InputError, match=r"3 is not a value of 'region'\. Its values are 1, 2"):
        listed.node([3])
    with pytest.raises(InputError, match=r"'A' is not a value of 'town'\. Did you mean 'a'"):
        listed.node([1, "A"])


@st.composite
def packed_cells(draw):
    """Places of up to eight dimensions, some with so many labels that they need several words, and cells in them."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 1000, 2**31, 2**62]), max_size=8))
    cells = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    rows = draw(st.lists(cells, min_size=1, max_size=20))
    return CellIndex([Place(number, 1, size) for number, size in enumerate(sizes)]), rows


@settings(max_examples=30)
@given(packed_cells())
def test_a_packed_cell_is_its_digits_and_sorts_as_they_do(made):
    index, rows = made
    digits = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    packed = index.pack(digits, len(rows))
    assert all(found.tolist() == given.tolist() for found, given in zip(index.digits(packed), digits, strict=True))
    assert index.grid == math.prod(place.size for place in index.places)
    assert len(index.words) > 1 or index.grid < 2**63
    words = list(zip(*(word.tolist() for word in packed), strict=True))
    assert sorted(range(len(rows)), key=words.__getitem__) == sorted(range(len(rows)), key=rows.__getitem__)


@settings(max_examples=15)
@given(code_lists(), st.data())
def test_a_cell_of_a_coarser_table_is_the_one_with_the_labels_above(codes, data):
    source = codes.cell_index(DESIGN.finest)
    rows = [data.draw(st.tuples(*(st.integers(0, place.size - 1) for place in source.places))) for _ in range(5)]
    packed = source.pack([np.array(column) for column in zip(*rows, strict=True)], len(rows))
    keys = data.draw(st.permutations(["x", "y"]))[: data.draw(st.integers(0, 2))]
    table = DESIGN.select(data.draw(st.integers(0, 3)), keys)
    target = codes.cell_index(table)
    found = codes.labels(target, source.project(packed, target, codes.lists))
    whole = {column.name: column for column in codes.labels(source, packed)}
    assert [column.name for column in found] == list(table.columns)
    assert all(column.equals(whole[column.name]) for column in found)


@settings(max_examples=15)
@given(code_lists(), st.integers(0, 3), st.sets(st.sampled_from(["x", "y"])), st.sampled_from([1, 7, 2**61]))
def test_the_grid_below_a_cell_is_counted_as_if_it_were_made(codes, level, keys, most):
    table = DESIGN.at([level], sorted(keys))
    index = codes.cell_index(table)
    digits = list(itertools.product(*(range(place.size) for place in index.places)))
    packed = index.pack([np.array(column) for column in zip(*digits, strict=True)], len(digits))
    finest = codes.cell_index(DESIGN.finest)
    every = list(itertools.product(*(range(place.size) for place in finest.places)))
    made = finest.project(finest.pack([np.array(c) for c in zip(*every, strict=True)], len(every)), index, codes.lists)
    below = np.bincount(made[0], minlength=index.grid)[packed[0]]
    assert codes.grid(index, packed, most).tolist() == np.minimum(below, most).tolist()


@settings(max_examples=15)
@given(code_lists())
def test_code_lists_come_back_from_json_as_they_were(codes):
    again = CodeLists.from_json(DESIGN, json.loads(json.dumps(codes.to_json())))
    assert all(one.labels.equals(other.labels) for one, other in zip(codes.lists, again.lists, strict=True))
    assert all(one.labels.schema == other.labels.schema for one, other in zip(codes.lists, again.lists, strict=True))


@pytest.mark.slow
@settings(max_examples=15)
@given(code_lists(), st.data())
def test_labels_that_are_shown_in_other_types_keep_their_words_under_their_new_numbers(codes, data):
    used = [np.array(sorted(data.draw(st.sets(st.integers(0, len(one) - 1))))) for one in codes.lists]
    used = [numbers.astype(np.int64) for numbers in used]
    assume(all(len(numbers) for numbers in used))
    shown, moved = codes.shown(used, lambda _, texts: label_type(texts))
    for listed, kept, new, numbers in zip(codes.lists, used, shown.lists, moved, strict=True):
        assert len(new) == len(kept)
        assert np.flatnonzero(numbers >= 0).tolist() == kept.tolist()
        assert new.labels.cast(pl.String)[numbers[kept]].equals(listed.labels.cast(pl.String)[kept])
        assert new.labels.equals(new.labels.sort(new.columns))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 9)), st.sampled_from([10, 2**62]))
def test_cells_are_sorted_and_equal_ones_stay_as_they_stand(cells, grid):
    given_cells = np.array(cells, dtype=np.int64)
    assert sorted_order(given_cells, grid).tolist() == np.argsort(given_cells, kind="stable").tolist()
