"""The words of a publication: names, ranks, levels and K are checked once, and a design is the same after a file."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ilba import Design, InputError
from ilba.design.design import LARGEST, RESERVED, Origins, file_name
from support.designs import designs


@settings(max_examples=30)
@given(designs())
def test_a_design_comes_back_from_json_as_it_was(design):
    assert Design.from_json(json.loads(json.dumps(design.to_json()))) == design


@given(st.sampled_from(["declared", "proposed"]), st.lists(st.text()))
def test_origins_come_back_from_json_as_they_were(keys, dropped):
    origins = Origins(keys, tuple(dropped))
    assert Origins.from_json(json.loads(json.dumps(origins.to_json()))) == origins


@pytest.mark.long
@settings(max_examples=30)
@given(designs())
def test_a_level_is_the_same_by_its_column_by_its_number_and_by_its_number_as_text(design):
    for hierarchy in design.hierarchies:
        for number, column in enumerate(hierarchy.columns, 1):
            asked = [column, number, float(number), np.int8(number)]
            assert {design.select({hierarchy.name: level}).levels for level in asked} == {
                tuple(number if other is hierarchy else 0 for other in design.hierarchies)
            }
            assert design.select(column) == design.select({hierarchy.name: number})
            if str(number) not in hierarchy.columns:
                assert hierarchy.level(str(number)) == number


@settings(max_examples=30)
@given(designs(), st.data())
def test_the_columns_of_a_table_are_its_areas_from_coarse_to_fine_and_then_its_keys(design, data):
    levels = [data.draw(st.integers(0, len(hierarchy.columns))) for hierarchy in design.hierarchies]
    keys = data.draw(st.permutations(design.keys)) if design.keys else []
    names = [hierarchy.name for hierarchy in design.hierarchies]
    table = design.select(dict(zip(names, levels, strict=True)), keys)
    areas = [c for h, level in zip(design.hierarchies, levels, strict=True) for c in h.columns[:level]]
    assert table.columns == (*areas, *keys)
    assert table.finest == tuple(h.columns[n - 1] for h, n in zip(design.hierarchies, levels, strict=True) if n)
    assert design.at(levels, keys).keys == design.keys
    assert design.at(levels, keys).levels == table.levels == tuple(levels)


@settings(max_examples=30)
@given(designs())
def test_the_finest_table_has_every_column_of_the_design(design):
    assert design.finest.columns == design.columns


@settings(max_examples=30)
@given(st.permutations(["LA1", "LA2", "LA3", "OA"]), st.floats(0.1, 9))
def test_ranks_put_the_levels_in_order_however_they_are_listed(columns, step):
    ranks = [step * (1 + sorted(columns).index(column)) for column in columns]
    assert Design.of(columns, [], hkey_rank=ranks) == Design.of(["LA1", "LA2", "LA3", "OA"], [])


def test_one_name_may_be_given_without_a_list():
    assert Design.of("town", "sex") == Design.of(["town"], ["sex"]) == Design.of({"area": "town"}, ("sex",))
    assert Design.of("town", "sex").select("town", "sex") == Design.of("town", "sex").finest


@pytest.mark.parametrize("K", [3, 5.0, np.int64(10), LARGEST])
def test_a_whole_number_of_any_kind_is_a_threshold(K):
    threshold = Design.of(["town"], [], K).threshold
    assert (threshold, type(threshold)) == (int(K), int)


@pytest.mark.parametrize("K", [2, 0, -5, True, 5.5, math.nan, math.inf, "5", None, LARGEST + 1])
def test_what_is_no_threshold_is_refused_with_the_usual_ones(K):
    with pytest.raises(InputError, match=r"mask_thr=.* The usual ones are 3, 5 and 10"):
        Design.of(["town"], [], K)


@pytest.mark.parametrize("name", ["*", "^town$"])
def test_a_name_that_would_be_taken_for_a_pattern_is_refused(name):
    with pytest.raises(InputError, match=r"would be taken for a pattern. Rename it"):
        Design.of(["town"], [name])
    assert Design.of(["^town"], ["age$"]).columns == ("^town", "age$")


@pytest.mark.parametrize("name", RESERVED)
def test_a_column_of_the_result_is_no_column_of_the_data(name):
    for hkey, key in (([name], []), (["town"], [name]), ({"one": ["town"], "two": [name]}, [])):
        with pytest.raises(InputError, match=f"a column called '{name}' would collide"):
            Design.of(hkey, key)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"hkey": []}, "hkey is empty: name at least one column"),
        ({"hkey": {}}, "hkey is empty: name at least one hierarchy"),
        ({"hkey": {"area": []}}, r"hkey\['area'\] is empty"),
        ({"hkey": 7}, "hkey=7 is not a list of column names"),
        ({"hkey": ["town", 7]}, "hkey contains 7, which is not the name of a column"),
        ({"hkey": ["town", ""]}, "hkey contains '', which is not the name of a column"),
        ({"hkey": ["town", "town"]}, "hkey names town twice"),
        ({"hkey": {"one": ["a", "b"], "two": ["b"]}}, "b is in two hierarchies"),
        ({"key": ["sex", "town"]}, "town is in hkey and in key"),
        ({"key": ["sex", "sex"]}, "key names sex twice"),
        ({"cells": "observe"}, "Did you mean 'observed'"),
        ({"hkey_rank": [1, 2]}, "hkey_rank has 2 ranks for 1 columns"),
        ({"hkey": ["a", "b"], "hkey_rank": [1, 1]}, "the same rank twice"),
        ({"hkey": ["a", "b"], "hkey_rank": [1, math.nan]}, "not a number"),
        ({"hkey": ["a", "b"], "hkey_rank": ["1", "2"]}, "not a number"),
        ({"hkey": {"area": ["a", "b"]}, "hkey_rank": [1, 2]}, "hkey_rank is only for one hierarchy"),
    ],
)
def test_a_wrong_design_is_refused_with_what_is_wrong(given, says):
    with pytest.raises(InputError, match=says):
        Design.of(**{"hkey": ["town"], "key": ["sex"]} | given)


@pytest.mark.parametrize(
    ("level", "key", "says"),
    [
        ("twon", (), "Did you mean 'town'"),
        (3, (), "level=3 is not in this store. Its levels are 0 .none., 1 region, 2 town"),
        (-1, (), "level=-1"),
        (True, (), "level=True"),
        (1.5, (), "level=1.5"),
        ({"aera": 1}, (), "Did you mean 'area'"),
        (1, ["sxe"], "Did you mean 'sex'"),
        (1, ["town"], "belongs to a hierarchy: choose it with level='town'"),
        (1, ["sex", "sex"], "key names sex twice"),
    ],
)
def test_a_table_that_is_not_there_is_refused_with_what_is(level, key, says):
    with pytest.raises(InputError, match=says):
        Design.of(["region", "town"], ["sex", "age"]).select(level, key)


def test_a_store_without_keys_says_so():
    with pytest.raises(InputError, match="It has no keys"):
        Design.of(["town"], []).select(0, ["sex"])


@settings(max_examples=30)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(min_size=1, max_size=3))
def test_the_name_of_a_file_is_short_and_belongs_to_one_table(name, more):
    for long in (name, name * 250):
        assert len(file_name(long)) <= 200
        assert file_name(long) == long or len(long) > 200
    assert file_name(name * 250 + "a") != file_name(name * 250 + "b")


@pytest.mark.parametrize("asked", ["NUTS1,division", "division, NUTS1"])
def test_levels_of_several_hierarchies_without_their_names_are_advised_as_they_were_asked_for(asked):
    design = Design.of({"region": ["NUTS1", "NUTS2"], "branch": ["section", "division"]}, ["size"])
    with pytest.raises(InputError, match=r"does not say which hierarchy.*region.*branch") as told:
        design.select(asked)
    typed = re.search(r"\(--level (.+)\)", str(told.value))[1]
    assert sorted(typed.split(",")) == ["branch=division", "region=NUTS1"]
    assert design.select(dict(one.split("=") for one in typed.split(","))).levels == (1, 2)
    for unknown in ("NUTS1,town", "NUTS1,NUTS2", 2):
        with pytest.raises(InputError, match=r"--level region=1,branch=1\)"):
            design.select(unknown)
