"""The blocks and rounds in which masks are chosen. They are part of the method: others give other masks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ilba import FinestTable, Secret
from ilba.design.tables import wanted_tables
from ilba.methods.controlled import plan
from ilba.methods.controlled.plan import Layout, MaskBlock, rounds


def layout(frame, hkey, key=(), tables="all"):
    finest = FinestTable.from_counts(
        frame.with_columns(N=pl.lit(1)), hkey, list(key), secret=Secret(bytes(32)), missing="category"
    )
    return Layout(finest.codes, wanted_tables(finest.design, tables))


def test_the_names_of_cells_stay():
    assert plan._scattered(0, 1, 2).tolist() == [0x946D284ABB1624EF, 0xC0ED172FC12E6C87]
    assert plan._scattered(1, 0, 1).tolist() == [0xF22EC5037C019372]
    assert plan._scattered(2, 3, 1).tolist() == [0xA0191FC9DB38F7AD]


def turns(*lanes):
    """The rounds of areas with so many blocks each."""
    areas = [area for area, blocks in enumerate(lanes) for _ in range(blocks)]
    blocks = [MaskBlock(n, n, n + 1, 1, (1,), (), (0, area)) for n, area in enumerate(areas)]
    return [[block.number for block in turn] for turn in rounds(blocks)]


@pytest.mark.parametrize(
    ("lanes", "expected"),
    [
        ((), []),
        ((1,), [[0]]),
        ((3,), [[0], [1], [2]]),
        ((4,), [[0, 1], [2], [3]]),
        ((7,), [[0, 1], [2, 3], [4], [5], [6]]),
        ((2, 5), [[0, 2], [1, 3], [4], [5], [6]]),
        ((1, 6), [[0, 1], [2, 3], [4], [5], [6]]),
        ((5, 2, 1), [[0, 5], [1, 6], [2, 7], [3], [4]]),
    ],
)
def test_two_areas_are_processed_at_once_and_the_last_blocks_of_one_alone(lanes, expected):
    assert turns(*lanes) == expected


def test_of_many_areas_a_32nd_is_processed_at_once():
    assert [len(turn) for turn in turns(*[1] * 133)][:14] == [4, 4, *[3] * 10, 2, 2]
    assert turns(*[9] * 96)[0] == [0, 9, 18]
    assert turns(*[9] * 95)[0] == [0, 9]


def test_areas_are_joined_to_blocks_while_they_are_small_and_share_the_area_above(monkeypatch):
    monkeypatch.setattr(plan, "BLOCK", 10)
    size = np.array([3, 0, 2, 5, 1, 0, 4, 6, 20, 1])
    area = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    above = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    assert plan._runs(size, area, above) == [(0, 4, 10), (4, 5, 1), (6, 8, 10), (8, 9, 20), (9, 10, 1)]


def test_blocks_go_along_the_hierarchy_with_the_most_areas_or_else_the_largest_key():
    frame = pl.DataFrame(
        {"a": list("xxyy"), "b": list("pqrs"), "c": list("kklm"), "z": list("oooo"), "u": list("vvww")}
    )
    for hkey, key, along in (
        ({"one": ["c"], "two": ["a", "b"]}, ["u"], "b"),
        ({"one": ["c"], "two": ["z"]}, ["b", "u"], "c"),
        (["z"], ["u", "b", "c"], "b"),
        ({"one": ["u"], "two": ["a"]}, ["b"], "a"),  # as many: in the order of their names
        ({"one": ["a"], "two": ["u"]}, ["b"], "a"),
    ):
        assert layout(frame, hkey, key).areas.columns[-1] == along


def test_tables_are_counted_by_level_and_pattern():
    frame = pl.DataFrame({"a": list("xxyy"), "b": list("pqrs"), "u": list("vvww")})
    made = layout(frame, ["a", "b"], ["u"], ["all", "a", "b", "a.u", "b.u", "b.u"])
    assert made.patterns == [((), ()), ((), ("u",))]
    assert made.times.tolist() == [[1, 0], [1, 1], [1, 1]]
    assert [[len(level) for level in words] for words in made._words] == [[1, 2, 4], [1, 2]]


def test_cells_are_sorted_by_their_texts_also_where_one_number_cannot_hold_them():
    keys = [f"k{n}" for n in range(9)]
    rng = np.random.default_rng(1)
    values = {key: np.concatenate([rng.permutation(200), rng.integers(0, 200, 60)]) for key in keys}
    frame = pl.DataFrame({"town": np.arange(260) % 20, **values}).with_columns(pl.col("k3").cast(pl.String))
    made = layout(frame, ["town"], keys, ["town"])
    digits = [rng.integers(0, len(listed), 300) for listed in made.codes.lists]
    for digit in digits[:5]:
        digit[:] = digit // 80
    ranks = [made.ranks[place][digits[place]] for place in made._in_order]
    assert made.order(digits).tolist() == sorted(range(300), key=lambda row: [int(rank[row]) for rank in ranks])
    texts = made.codes.lists[0].labels["town"].cast(pl.String).to_list()
    assert made.ranks[0].tolist() == [sorted(texts).index(text) for text in texts]
    missing = layout(pl.DataFrame({"town": ["b", "", None, "10", "9"]}), ["town"])
    assert missing.codes.lists[0].labels["town"].to_list() == [None, "", "10", "9", "b"]
    assert missing.ranks[0].tolist() == [0, 1, 2, 3, 4]


def test_the_errors_of_areas_around_a_block_are_carried(monkeypatch):
    """Along areas in towns in regions: one region of two towns, one of single areas, one far, one not quite."""
    frame = pl.DataFrame(
        {
            "region": list("1" * 5 + "2" * 2 + "3" * 9 + "4" * 8),
            "town": list("AABBB" + "CD" + "E" * 9 + "F" * 8),
            "area": list("abcdefghijklmnopqrstuvwx"),
            "sex": list("mf" * 12),
        }
    )
    made = layout(frame, ["region", "town", "area"], ["sex"], ["all", "region", "town", "town.sex", "area"])
    sizes = np.array([6, 5, 4, 6, 1, 3, 2, *[9] * 9, *[8] * 8])
    monkeypatch.setattr(plan, "BLOCK", 10)
    blocks = made.blocks(sizes)
    assert [block.number for block in blocks] == list(range(23))
    assert [(block.first, block.last, block.size) for block in blocks][:6] == [
        (0, 1, 6),
        (1, 2, 5),
        (2, 4, 10),
        (4, 5, 1),
        (5, 6, 3),
        (6, 7, 2),
    ]
    around = {block.number: [(one.node, one.times.tolist(), one.far) for one in block.carried] for block in blocks}
    whole = ((0, 0), [1, 0], True)
    assert around[1] == [whole, ((1, 0), [1, 0], False), ((2, 0), [1, 1], False)]
    assert around[3] == [whole, ((1, 0), [1, 0], False), ((2, 1), [1, 1], False)]
    assert around[4] == [whole, ((1, 1), [1, 0], False)]  # a town of one area is inside
    assert around[14] == [whole, ((1, 2), [2, 1], True)]  # a region of one town is that town
    assert around[15] == [whole, ((1, 3), [2, 1], False)]
    assert [blocks[n].levels for n in (1, 4, 14)] == [(3,), (3, 2), (3,)]
    assert [blocks[n].lane for n in (1, 3, 5, 14, 15)] == [(1, 0), (1, 0), (1, 1), (-1, 14), (1, 3)]
    without = layout(frame, ["region", "town", "area"], ["sex"], ["area"]).blocks(sizes)
    assert {block.carried for block in without} == {()}
    for most, expected in (
        (81, [(0, 7, 27), (7, 16, 81), (16, 24, 64)]),
        (171, [(0, 16, 108), (16, 24, 64)]),
        (172, [(0, 24, 172)]),
    ):
        monkeypatch.setattr(plan, "BLOCK", most)
        assert [(block.first, block.last, block.size) for block in made.blocks(sizes)] == expected
    assert made.blocks(sizes)[0].levels == (3, 2, 1, 0)


def test_an_area_takes_no_more_blocks_at_once_than_there_are_idle_lanes(monkeypatch):
    monkeypatch.setattr(plan, "LANES", 4)
    assert turns(7, 7)[0] == [0, 1, 2, 7]
    assert turns(4, 7)[0] == [0, 1, 4, 5]
