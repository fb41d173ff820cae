"""The tree of tables: every table that is asked for is rolled up once, from a finer one."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from ilba import Design
from ilba.cells.codes import CodeLists
from ilba.cells.tree import tree
from ilba.design.tables import selections

DESIGN = Design.of({"area": ["a", "b"], "trade": ["c"]}, ["x", "y"])
SIZES = {"a": 2, "b": 6, "c": 3, "x": 4, "y": 2}
CODES = CodeLists.of(
    DESIGN,
    [pl.DataFrame({c: [n * SIZES[c] // 6 for n in range(6)] for c in d}) for d in CodeLists.dimensions(DESIGN)],
)
TABLES = selections(DESIGN)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(TABLES), unique=True))
def test_every_table_asked_for_is_made_once_from_a_finer_one(wanted):
    root, children = tree(CODES, wanted)
    assert root == (DESIGN.finest.levels, DESIGN.finest.keys)
    made = [child for below in children.values() for child in below]
    assert len(set(made)) == len(made)
    assert {(table.levels, table.keys) for table in wanted} <= {root, *made}
    for (levels, keys), below in children.items():
        for child_levels, child_keys in below:
            assert all(child <= own for child, own in zip(child_levels, levels, strict=True))
            assert set(child_keys) <= set(keys)
            assert (child_levels, child_keys) != (levels, keys)
    reached, waiting = set(), [root]
    while waiting:
        reached.add(node := waiting.pop())
        waiting += children.get(node, [])
    assert reached == {root, *made}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(TABLES), unique=True))
def test_a_table_that_nobody_asked_for_is_made_only_with_all_keys(wanted):
    root, children = tree(CODES, wanted)
    asked = {(table.levels, table.keys) for table in wanted}
    more = {child for below in children.values() for child in below} - asked - {root}
    assert all(keys == DESIGN.keys for _, keys in more)


def test_a_table_comes_from_the_one_with_the_smallest_key_more():
    _, children = tree(CODES, TABLES)
    above = {child: parent for parent, below in children.items() for child in below}
    assert above[(0, 0), ()] == ((0, 0), ("y",))  # y has 2 labels and x has 4
    assert above[(0, 0), ("x",)] == ((0, 0), ("x", "y"))
    assert above[(0, 0), ("x", "y")] == ((1, 0), ("x", "y"))  # a has 2 labels and c has 3
