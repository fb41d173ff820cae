"""Which tables are meant: every table of a cube has a name of its own, and the name leads back to it."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ilba import Design, InputError
from ilba.design.tables import selections, wanted_tables
from support.designs import designs

DESIGN = Design.of(["region", "town"], ["sex", "age", "job"])


@settings(max_examples=25)
@given(designs())
def test_a_cube_has_each_table_once_and_each_has_a_name_of_its_own(design):
    tables = selections(design)
    levels = math.prod(len(hierarchy.columns) + 1 for hierarchy in design.hierarchies)
    assert len(tables) == len(set(tables)) == len({table.name for table in tables}) == levels * 2 ** len(design.keys)


@settings(max_examples=25)
@given(designs(), st.data())
def test_the_name_of_a_table_leads_back_to_it_whatever_its_columns_are_called(design, data):
    table = data.draw(st.sampled_from(selections(design)))
    assert wanted_tables(design, [table.name]) == wanted_tables(design, table) == [table]
    shuffled = data.draw(st.permutations(table.keys)) if table.keys else ()
    other = design.select(table.by_name, shuffled)
    assert wanted_tables(design, [table.name, other.name, other]) == [table]


def test_the_dots_of_a_column_need_no_quotes_in_the_name_of_a_table():
    design = Design.of({"area": ["adm.1", "adm.1.b"], "job": ["job"]}, ["sex", "age.band", "age", "band"])
    plain = ["adm.1.b+job.sex.age.band", "adm.1.age.sex", "all.age.band", "all.age%2Eband"]
    found = [(table.levels, table.keys) for table in wanted_tables(design, plain)]
    by_band = ((2, 1), ("sex", "age.band"))
    assert found == [by_band, ((1, 0), ("sex", "age")), ((0, 0), ("age", "band")), ((0, 0), ("age.band",))]


@given(st.integers(0, 4))
def test_max_keys_cuts_a_cube_to_tables_with_so_many_keys(most):
    tables = selections(DESIGN, max_keys=most)
    assert tables == [table for table in selections(DESIGN) if len(table.keys) <= most]


@settings(max_examples=30)
@given(st.sets(st.sampled_from([0, 1, 2]), min_size=1), st.sets(st.sampled_from(DESIGN.keys)))
def test_levels_and_keys_cut_a_cube_to_the_tables_within_them(levels, keys):
    tables = selections(DESIGN, levels=levels, keys=list(keys))
    assert set(tables) == {
        table for table in selections(DESIGN) if table.levels[0] in levels and set(table.keys) <= keys
    }
    orders = [list(order) for order in itertools.permutations(keys)]
    assert all(selections(DESIGN, levels=levels, keys=order) == tables for order in orders)


def test_a_level_may_be_given_alone_by_name_and_several_times():
    assert selections(DESIGN, levels="town") == selections(DESIGN, levels=[2, "town", 2]) == selections(DESIGN, 2)
    assert selections(DESIGN, levels={"area": "town"}) == selections(DESIGN, levels="town")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tables": []}, "tables is empty"),
        ({"tables": ["twon.sex"]}, "there is no table 'twon.sex'. Did you mean 'town'"),
        ({"tables": ["town.sxe"]}, "Did you mean 'sex'"),
        ({"tables": ["region+town"]}, "there is no table 'region.town'"),
        ({"tables": [7]}, "tables contains 7, which is neither a table nor the name of one"),
        ({"tables": ["town"], "max_keys": 1}, "leave out levels, keys and max_keys"),
        ({"tables": ["town"], "levels": [1]}, "leave out levels, keys and max_keys"),
        ({"tables": [Design.of({"a": ["x"], "b": ["y"]}, []).finest]}, "belongs to another design"),
        ({"max_keys": -1}, "max_keys=-1 is not a whole number"),
        ({"max_keys": True}, "max_keys=True is not a whole number"),
        ({"keys": ["jbo"]}, "Did you mean 'job'"),
    ],
)
def test_a_wrong_list_of_tables_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        wanted_tables(DESIGN, **options)


@pytest.mark.parametrize("name", ["town.branch.sex", "town.sex.branch", "branch.town.sex"])
def test_a_table_of_two_hierarchies_that_is_written_with_a_dot_is_told_its_name(name):
    design = Design.of({"area": ["region", "town"], "industry": ["section", "branch"]}, ["sex"])
    with pytest.raises(InputError, match=r"not to the keys. Write the table as 'town\+branch.sex'"):
        wanted_tables(design, name)
    assert wanted_tables(design, "town+branch.sex")[0].name == "town+branch.sex"
