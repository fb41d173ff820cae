"""The same people are recognised under other names, and other people are not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ilba import Design, Secret
from ilba.release.net import Net, columns_of, net

SECRET = Secret(bytes(range(32)))
NUMBERS = [1000, 2000, 4000, 8000]


def tags(first, last):
    return np.arange(first, last, dtype=np.uint64)


def seen(*columns, cells=(0, 0), small=0, secret=SECRET):
    """The net of columns of numbers, each with its labels or with those of their places."""
    told = [one if isinstance(one, tuple) else ([str(place) for place in range(len(one))], one) for one in columns]
    return net([(labels, np.array(numbers)) for labels, numbers in told], tags(*cells), small, secret)


def again(one):
    """As the ledger gives it back."""
    return Net.from_json(json.loads(json.dumps(one.to_json())))


def test_the_same_numbers_of_people_are_recognised_under_any_labels():
    before = again(seen((list("abcd"), NUMBERS)))
    assert seen((list("wxyz"), NUMBERS)).catches(before)
    assert seen((list("badc"), NUMBERS[::-1])).same_columns(before)
    assert not seen([1100, 2100, 4100, 8100]).catches(before)
    assert not seen((list("abcd"), NUMBERS), secret=Secret(bytes(32))).catches(before)
    assert not again(seen(NUMBERS)).same_columns(before)  # what a match is worth is known for the data at hand


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([1000, 2000], False),  # too few to exclude chance
        ([1000, 2000, 4000], True),
        ([29] * 9, False),
        ([30, 40, 50, 60, 70], True),
        ([29, 40, 50, 60], False),
        ([1000, 1007, 2000, 4000], False),
        ([1000, 1008, 2000], True),
        ([1000, 1000, 1000], False),
        ([], False),
    ],
)
def test_numbers_that_are_small_or_near_each_other_tell_nothing(numbers, found):
    assert seen(numbers).same_columns(again(seen(numbers))) is found


def test_half_of_the_columns_are_enough():
    others = [[300 * n, 700 * n, 1500 * n] for n in (3, 5, 7)]
    now = seen(NUMBERS, *others)
    assert now.same_columns(again(seen(NUMBERS, [333, 777, 1555])))
    assert not now.same_columns(again(seen(NUMBERS, [333, 777, 1555], [444, 888, 1666])))
    assert now.same_columns(again(seen(NUMBERS, others[0], [444, 888, 1666], [99, 999])))
    assert now.same_columns(again(seen(NUMBERS, [1, 2], [3, 4])))  # the others tell nothing
    assert seen([*NUMBERS, 333, 5000, 16000, 32000]).same_columns(again(seen(NUMBERS)))
    assert not seen([*NUMBERS, *range(100_000, 1_000_000, 100_000)]).same_columns(again(seen(NUMBERS)))


def test_half_of_a_hundred_small_cells_are_enough():
    before = again(seen(cells=(0, 100), small=128))
    assert seen(cells=(50, 150), small=100).catches(before)
    assert not seen(cells=(51, 151), small=100).catches(before)
    assert not seen(cells=(0, 100), small=99).catches(before)
    assert not seen(cells=(0, 100), small=100).catches(again(seen(cells=(0, 100), small=100)))  # kept as 64
    assert not seen(small=100).same_cells(again(seen(small=128)))


def test_large_data_is_compared_by_its_256_smallest_hashes():
    whole = seen(cells=(0, 4000), small=4000)
    assert whole.cells.tolist() == list(range(256))
    assert whole.same_cells(again(seen(cells=(170, 5000), small=4830)))
    assert not whole.same_cells(again(seen(cells=(171, 5000), small=4829)))
    assert len(seen([1000 * n for n in range(1, 400)]).columns[0]) == 256


def test_what_is_kept_is_noise_and_says_no_size():
    sizes = [again(seen(small=small)).size for small in (0, 1, 2, 3, 64, 127, 128)]
    assert sizes == [0, 1, 2, 2, 64, 64, 128]
    now = seen((list("abcd"), NUMBERS), (["x"], [5000]), cells=(3, 9), small=7)
    plain = now.to_json()
    assert [len(column) for column in plain["columns"]] == [4 * 2 * 16, 2 * 16]
    assert plain["cells"] == "".join(f"{tag:016x}" for tag in range(3, 9))
    assert [column.tolist() for column in again(now).columns] == [column.tolist() for column in now.columns]
    assert not any(str(number) in json.dumps(plain["columns"]) for number in (*NUMBERS, 5000))


def test_labels_that_one_in_five_numbers_changed_are_other_labels():
    numbers = [2**14 + 4000 * n for n in range(10)]
    names = [f"n{n}" for n in range(10)]
    before = again(seen((names, numbers)))

    def changed(many, names=names, numbers=numbers):
        return seen(([f"m{name}" if n < many else name for n, name in enumerate(names)], numbers))

    assert [changed(many).labelled_otherwise(before) for many in (0, 1, 2, 10)] == [False, False, True, True]
    more = [*names, "n10"], [*numbers, 2**14 + 40_000]
    assert not changed(2, *more).labelled_otherwise(again(seen(more)))
    for larger, enough in ((2**15, True), (2**15 - 2**13, False)):  # 16 bits exclude chance: 7.5 + 8.5, or less
        two = [2**13, larger]
        assert seen((["c", "d"], two)).labelled_otherwise(again(seen((["a", "b"], two)))) == enough


def test_the_same_columns_with_other_small_cells_are_other_labels():
    now = seen(NUMBERS, cells=(0, 90), small=90)
    assert now.labelled_otherwise(again(seen(NUMBERS, cells=(500, 590), small=90)))
    assert not now.labelled_otherwise(again(seen(NUMBERS, cells=(10, 100), small=90)))
    assert not now.labelled_otherwise(again(seen([333, 777, 1555, 3333], cells=(500, 590), small=90)))
    assert seen(NUMBERS).labelled_otherwise(again(seen(NUMBERS, cells=(0, 90), small=90)))
    assert now.labelled_otherwise(again(seen(NUMBERS)))
    assert not seen(NUMBERS).labelled_otherwise(again(seen(NUMBERS)))


def test_each_level_and_each_key_is_a_column():
    design = Design.of({"one": ["a", "b"], "two": ["c"]}, ["x", "y"])
    assert [list(table.columns) for table in columns_of(design)] == [["a"], ["a", "b"], ["c"], ["x"], ["y"]]


def test_many_small_cells_with_none_in_common_are_other_labels_or_other_people():
    now = seen(cells=(0, 200), small=200)
    assert now.no_cells(again(seen(cells=(200, 400), small=200)))
    assert not now.no_cells(again(seen(cells=(199, 400), small=201)))
    assert not now.no_cells(again(seen(cells=(200, 300), small=100)))  # kept as 64
    assert not seen(cells=(0, 128), small=128).no_cells(again(seen(cells=(200, 712), small=512)))  # a part of them
