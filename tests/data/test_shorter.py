"""Lines of csv files with fewer fields than columns are found and counted, as Python's reader counts them."""

import csv
import io

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ilba.data.reading import Reading
from ilba.data.shorter import refuse_shorter
from ilba.errors import InputError

FIELD = st.sampled_from(["", "x", "2", "y|z", 'q"r', "l\nm", "l\n\n|m"])
FULL = st.tuples(st.sampled_from("xy"), FIELD, st.sampled_from(["", "", "z", "u\nv|"]))
RECORD = st.one_of(
    FULL, FULL, FULL, st.tuples(st.sampled_from("xy"), FIELD), st.tuples(FIELD.filter(bool)), st.just(())
)


def said(path, reading=None):
    try:
        refuse_shorter(path, reading or Reading())
    except InputError as error:
        return str(error)
    return ""


@given(st.lists(RECORD, min_size=1, max_size=12), st.sampled_from(["\n", "\r\n"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_short_lines_are_counted_and_the_first_is_named(tmp_path, records, ends):
    text = io.StringIO()
    csv.writer(text, delimiter="|", lineterminator=ends).writerows([("a", "b", "c"), *records])
    (tmp_path / "p.csv").write_bytes(text.getvalue().encode())
    line, found = 2, []
    for record in records:
        if 0 < len(record) < 3:
            found.append(f"line {line}, with {len(record)} of 3.")
        line += 1 + sum(field.count("\n") for field in record)
    told = said(tmp_path / "p.csv", Reading(separator="|"))
    if found:
        assert f"{len(found)} line{'s' * (len(found) > 1)} with too few fields. The first is {found[0]}" in told
    else:
        assert not told


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,a\n1,\n3\n", "line 3, with 1 of 2."),  # equal names
        ('a,"b,c",d\n1,2,\n3,4\n', "line 3, with 2 of 3."),  # a separator in a name
        ("a,b,c,\n1,2\n3,4,5\n", "line 2, with 2 of 3."),  # a column without a name at the end
        ("a,b,c,,\n1,2,3\n4,5\n", "line 3, with 2 of 3."),  # two such columns
        ("a\nx\n\ny\n", ""),  # one column
    ],
)
def test_names_do_not_change_what_is_short(tmp_path, text, found):
    (tmp_path / "p.csv").write_text(text)
    told = said(tmp_path / "p.csv")
    assert (f"1 line with too few fields. The first is {found}" in told) if found else not told


def test_notes_are_named_only_where_each_short_line_is_one(tmp_path):
    (tmp_path / "p.csv").write_text("a,b,c\n1,2,\nSource: x\n")
    assert "with --notes drop" in said(tmp_path / "p.csv")
    assert not said(tmp_path / "p.csv", Reading(notes="drop"))
    (tmp_path / "p.csv").write_text("a,b,c\n1,2,\nSource: x\n1,2\n")
    assert "2 lines" in said(tmp_path / "p.csv")
    assert "--notes" not in said(tmp_path / "p.csv")


def test_files_of_other_formats_have_no_lines(tmp_path):
    pl.DataFrame({"a": ["1"], "b": [None]}, schema={"a": pl.String, "b": pl.String}).write_parquet(
        tmp_path / "p.parquet"
    )
    (tmp_path / "p.csv").write_text("a,b\n1,\n2\n")
    (tmp_path / "p.txt.parquet").write_text("a,b\n1,\n2\n")
    (tmp_path / "d.csv").mkdir()
    assert not said(tmp_path / "p.parquet")
    assert not said(tmp_path / "p.txt.parquet")
    assert not said(tmp_path / "d.csv")
    assert "p.csv" in said(str(tmp_path / "p.*"))
