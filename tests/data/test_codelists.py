"""The agency's code list says the same from a frame, a csv file and a json file."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ilba import Design, InputError
from ilba.data.codelists import CODE_COLUMNS, listed_paths, read_labels

DESIGN = Design.of({"area": ["region", "town"], "trade": ["branch"]}, ["sex"])
ROWS = [
    {"variable": "region", "code": None, "label_en": "Region", "label_ko": "지역", "parent": None},
    {"variable": "region", "code": "01", "label_en": "North, far", "label_ko": "북부", "parent": None},
    {"variable": "region", "code": "02", "label_en": 'the "South"', "label_ko": None, "parent": None},
    {"variable": "town", "code": "1", "label_en": None, "label_ko": "읍", "parent": "01"},
    {"variable": "town", "code": "1", "label_en": None, "label_ko": "면", "parent": "02"},
    {"variable": "town", "code": "2", "label_en": None, "label_ko": None, "parent": "02"},
    {"variable": "trade", "code": None, "label_en": "Trade", "label_ko": None, "parent": None},
    {"variable": "sex", "code": "1", "label_en": "Women", "label_ko": "여자", "parent": None},
]
FRAME = pl.DataFrame(ROWS, schema=dict.fromkeys(CODE_COLUMNS, pl.String))


def test_a_frame_a_csv_and_a_json_file_say_the_same(tmp_path):
    FRAME.write_csv(tmp_path / "codes.csv")
    (tmp_path / "codes.json").write_text(json.dumps(ROWS, ensure_ascii=False), encoding="utf-8")
    (tmp_path / "columns.json").write_text(json.dumps(FRAME.to_dict(as_series=False)), encoding="utf-8")
    given = [FRAME, FRAME.to_dict(as_series=False), *(tmp_path / f"{n}" for n in ("codes.csv", "codes.json"))]
    for labels in (*given, tmp_path / "columns.json", str(tmp_path / "codes.csv")):
        assert read_labels(labels, DESIGN).equals(FRAME)


def test_a_list_is_cut_to_the_variables_and_the_names_of_hierarchies_of_the_design():
    more = pl.DataFrame(
        {
            "variable": ["age", "trade", "branch", "sex"],
            "code": ["1", "A", "A", "1"],
            "label_en": ["x", "x", "x", "Women"],
        }
    )
    found = read_labels(pl.concat([FRAME, more], how="diagonal"), DESIGN)
    assert found.filter(pl.col("variable").is_in(["age", "trade"])).rows() == [("trade", None, "Trade", None, None)]
    assert found.filter(variable="branch").rows() == [("branch", "A", "x", None, None)]
    assert found.filter(variable="sex").height == 2  # another row for the same code stays, to be told later


def test_no_list_is_an_empty_one_and_columns_may_be_left_out():
    assert read_labels(None, DESIGN).schema == FRAME.schema
    assert read_labels(None, DESIGN).is_empty()
    assert read_labels({"variable": ["sex"], "code": [1]}, DESIGN).rows() == [("sex", "1", None, None, None)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(codes=st.lists(st.one_of(st.integers(-99, 99), st.text("0123456789ab", min_size=1), st.booleans()), min_size=1))
def test_codes_of_several_kinds_are_the_labels_that_data_would_have(codes, tmp_path):
    words = [{True: "true", False: "false"}[code] if isinstance(code, bool) else str(code) for code in codes]
    (tmp_path / "codes.json").write_text(json.dumps([{"variable": "sex", "code": code} for code in codes]))
    for labels in ({"variable": ["sex"] * len(codes), "code": codes}, tmp_path / "codes.json"):
        assert read_labels(labels, DESIGN)["code"].to_list() == list(dict.fromkeys(words))


def test_an_area_is_found_by_its_chain_of_parents():
    assert listed_paths(FRAME, ["region", "town"]).rows() == [("01", "1"), ("02", "1"), ("02", "2")]
    assert listed_paths(FRAME, ["sex"]).rows() == [("1",)]
    assert listed_paths(FRAME, ["branch"]).is_empty()


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"code": ["1"]}, "the code list has no column 'variable'"),
        ({"variable": ["sex"]}, "the code list has no column 'code'"),
        ({"variable": ["sex"], "code": ["1"], "parent": [["01"]]}, "lists or objects in the column 'parent'"),
        (7, "the code list is not a table"),
    ],
)
def test_what_is_no_code_list_is_refused(labels, says):
    with pytest.raises(InputError, match=says):
        read_labels(labels, DESIGN)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("codes.json", "[1, 2]", "is not a list of objects. Write it so"),
        ("codes.json", "{", "cannot be read as csv or json"),
        ("codes.json", "[" * 100_000, "cannot be read as csv or json"),
        ("codes.csv", None, "cannot be read as csv or json"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, text, says):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=f"{name}.*{says}"):
        read_labels(tmp_path / name, DESIGN)
