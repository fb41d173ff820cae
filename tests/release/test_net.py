"""The same people are recognised under other names, and other people are not."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from ilba import Design, FinestTable, Secret
from ilba.release.net import Net, columns_of, net, parts_of

SECRET = Secret(bytes(range(32)))
NUMBERS = [1000, 2000, 4000, 8000]


def tags(first, last):
    return np.arange(first, last, dtype=np.uint64)


def seen(*columns, cells=(0, 0), small=0, secret=SECRET, parts=(), names=()):
    """The net of columns of numbers, each with its labels or with those of their places."""
    told = [one if isinstance(one, tuple) else ([str(place) for place in range(len(one))], one) for one in columns]
    divided = [[np.array(numbers) for numbers in part] for part in parts]
    return net([(labels, np.array(numbers)) for labels, numbers in told], tags(*cells), small, secret, divided, names)


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
        ([29, 600, 5000], False),
        ([30, 600, 5000], True),
        ([2**13, 2**15], True),  # 16 bits
        ([600, 1024, 1032, 2048], False),
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


def test_a_third_of_all_numbers_of_two_columns_is_enough():
    common, own, others = [2**17, 2**18], [2**15, 2**16], [2**13, 2**14]
    now, before = seen([*common, *own]), again(seen([*common, *others]))
    assert now.same_columns(before)
    assert not seen([*common, *own, 2**20]).same_columns(before)
    assert seen((list("abcd"), [*common, *own])).labelled_otherwise(again(seen((list("wxyz"), [*common, *others]))))
    assert not again(seen([1000 * n for n in range(1, 30)])).same_columns(again(seen([1000 * n for n in range(1, 30)])))


def test_labels_of_few_equal_numbers_and_of_new_ones_say_nothing():
    many = [2**19 + 10_000 * n for n in range(20)]
    few_equal = [*many[:2], *(n + 5000 for n in many[2:])]
    assert not seen(([f"m{n}" for n in range(20)], few_equal)).labelled_otherwise(again(seen(many)))
    assert not seen(many).labelled_otherwise(again(seen(many[:10])))


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
    assert seen(cells=(0, 100), small=100).no_cells(again(seen(cells=(200, 400), small=200)))
    assert seen(cells=(0, 150), small=150).no_cells(again(seen(cells=(200, 800), small=600)))  # kept as 512
    assert not now.no_cells(again(seen(cells=(200, 300), small=100)))  # kept as 64
    assert not seen(cells=(0, 128), small=128).no_cells(again(seen(cells=(200, 712), small=512)))  # a part of them


# --- parts of the people

WOMEN = [[510, 1030, 2110, 4050], [777, 1555, 5368]]
MEN = [[490, 970, 1890, 3950], [700, 1500, 5100]]
ALL = seen(NUMBERS, [1477, 3055, 10468], parts=[WOMEN, MEN])


def test_a_part_is_recognised_without_the_column_that_defines_it_in_either_order():
    for part in (WOMEN, MEN, WOMEN[::-1], WOMEN[:1], [WOMEN[0], [40, 50]]):
        assert seen(*part).part_of(again(ALL))
        assert ALL.part_of(again(seen(*part)))
        assert not seen(*part).catches(again(ALL))
    strangers = seen([515, 1040, 2100, 4060], [770, 1560, 5370])
    assert not strangers.part_of(again(ALL))
    assert not ALL.part_of(again(strangers))
    fewer = seen(parts=[[WOMEN[0], [350, 990], [450, 890]]])
    assert not fewer.part_of(again(seen(*WOMEN, [40, 50]))), "one of three columns"


def test_a_part_must_exclude_more_chances_the_more_parts_there_are():
    few = [2**9, 2**11, 2**4]  # 5.5 + 6.5 bits: too few
    assert not seen(few).part_of(again(seen(parts=[[few]])))
    enough = [2**9, 2**11, 2**13]  # 5.5 + 6.5 + 7.5 = 19.5 bits: one of 10 parts, but not of 11
    others = [[[n * 1000 + 300, n * 1000 + 600, n * 1000 + 900]] for n in range(10, 30)]
    assert seen(enough).part_of(again(seen(parts=[[enough], *others[:9]])))
    assert not seen(enough).part_of(again(seen(parts=[[enough], *others[:10]])))


def test_parts_that_cannot_tell_are_not_kept_and_eight_hashes_of_a_column_are():
    kept = seen(parts=[[[30, 60]], [[1000 * n for n in range(1, 20)], [3], [500, 700]]])
    assert [[len(column) for column in part] for part in kept.parts] == [[8, 2]]
    assert [[column.tolist() for column in part] for part in again(kept).parts] == [
        [column.tolist() for column in part] for part in kept.parts
    ]
    plain = kept.to_json()
    del plain["parts"]
    assert Net.from_json(plain).parts == ()  # as an earlier version wrote it


def test_a_part_with_all_columns_is_recognised_by_its_small_cells():
    whole = again(seen(cells=(0, 4000), small=4000))
    every = np.arange(0, 4000, 16, dtype=np.uint64)  # one in 16: 16 of them are among the 256 smallest of all
    part = net([], every, 250, SECRET)
    assert part.part_of(whole)
    assert whole.part_of(again(part))
    assert not part.catches(whole)
    assert not net([], every[1:], 249, SECRET).part_of(whole), "15 cells tell nothing"
    even = net([], np.arange(0, 8000, 2, dtype=np.uint64), 4000, SECRET)  # its 256 smallest are up to 510
    for found in (12, 11):  # of 16 that it would have kept, three in four must be there
        cells = [*range(0, 2 * found, 2), *range(101, 101 + 2 * (16 - found), 2), *range(511, 999, 2)]
        assert net([], np.array(cells, dtype=np.uint64), len(cells), SECRET).part_of(again(even)) is (found == 12)


def test_people_are_divided_by_each_key_and_by_the_first_level_with_several_areas():
    design = Design.of({"area": ["city", "town", "block"], "trade": ["branch"]}, ["sex", "age"])
    people = pl.DataFrame(
        {
            "city": ["c"] * 8,
            "town": list("aaaabbbb"),
            "block": list("aabbccdd"),
            "branch": ["x"] * 4 + ["y"] * 4,
            "sex": ["f", "m"] * 4,
            "age": [1, 1, 2, 2, 3, 3, 4, 4],
            "N": [10, 20, 30, 40, 50, 60, 70, 80],
        }
    )
    areas = {one.name: list(one.columns) for one in design.hierarchies}
    finest = FinestTable.from_counts(people, areas, list(design.keys), secret=SECRET)
    tables = parts_of(finest.codes)
    assert {dimension for _, dimension, _ in tables} == {0, 1, 2, 3}
    assert {level for _, dimension, level in tables if dimension == 0} == {2}
    counts, parts = finest.column_counts(columns_of(finest.design), tables)
    assert [sum(numbers) for _, numbers in counts] == [360] * 6
    totals = sorted({int(sum(column)) for part in parts for column in part})
    assert totals == sorted({100, 260, 160, 200, 30, 70, 110, 150})
    women = [sorted(column.tolist()) for part in parts for column in part if sum(column) == 160]
    assert [10, 30, 50, 70] in women  # by age
    assert [40, 120] in women  # by town


# --- spelling


def spelled(*labels, name="state"):
    return seen((list(labels), [1] * len(labels)), names=[name])


def test_labels_with_other_zeros_or_letters_than_before_are_named():
    before = [again(spelled("01", "06", "15", "Yes", "\0 no"))]
    assert spelled("01", "06", "15", "Yes", " no", "16").respelled(before) == []
    assert spelled("1", "6", "15", "yes", "no").respelled(before) == [
        "state '1'", "state '6'", "state 'no'", "state 'yes'",
    ]  # fmt: skip
    assert spelled("1", "6", name="other").respelled(before) == []
    assert spelled("1").respelled([*before, again(spelled("1"))]) == [], "some data was labelled so"
    assert spelled("1", "01").respelled(before) == [], "two labels at once are two labels"
    assert spelled("1").respelled([again(spelled("1", "01"))]) == []
    assert spelled("1").respelled([]) == []
    assert seen((["a\x0001"], [1]), names=["town"]).respelled([again(seen((["b\x001"], [1]), names=["town"]))]) == [
        "town '01'"
    ]


def test_of_many_labels_256_are_compared_and_of_very_many_none():
    many = [f"{n:05d}" for n in range(1000)]
    assert [column.shape for column in spelled(*many).labels] == [(256, 2)]
    assert len(spelled(*map(str, range(1000))).respelled([again(spelled(*many))])) > 200
    for size, kept in ((2**16, 256), (2**16 + 1, 0)):
        assert [column.shape for column in spelled(*map(str, range(size))).labels] == [(kept, 2)]
    assert "00001" not in json.dumps(spelled(*many).to_json()["labels"])


def test_columns_of_more_than_128_labels_and_very_large_tables_of_two_are_left_out():
    def tables(**sizes):
        rows = max(sizes.values())
        people = pl.DataFrame({"town": ["t"] * rows, "N": [9] * rows}).with_columns(
            *(pl.Series(name, [n % size for n in range(rows)]) for name, size in sizes.items())
        )
        codes = FinestTable.from_counts(people, ["town"], list(sizes), secret=SECRET).codes
        found = [(list(table.columns), dimension) for table, dimension, _ in parts_of(codes)]
        return [one for one in found if "town" not in one[0]]

    assert tables(a=128, b=8192) == [(["a", "b"], 1)]  # 2 ** 20 cells
    assert tables(a=128, b=8193) == []
    assert tables(a=129, b=130) == []
    assert tables(a=2, b=128) == [(["a", "b"], 1), (["a", "b"], 2)]
