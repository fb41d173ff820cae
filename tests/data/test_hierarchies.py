"""Files of hierarchies: read, written back, and refused with the line that is wrong."""

from __future__ import annotations

import polars as pl
import pytest

import ilba

GOOD = [
    "h01_flat",
    "h02_age3",
    "h03_deep6",
    "h04_single_child",
    "h05_utf8_crlf",
    "h06_tauargus_region",
    "h07_tauargus_region2",
    "h08_tauargus_age",
    "h09_eu_cas",
    "h10_eu_geo",
    "h11_eu_age",
]


@pytest.fixture
def folder(shared):
    return shared / "outside" / "07_hrc"


@pytest.mark.parametrize("name", GOOD)
def test_a_hierarchy_of_others_is_read_as_they_read_it_and_written_back(name, folder, tmp_path):
    found = ilba.read_hierarchy(folder / f"{name}.hrc")
    expected = pl.read_csv(folder / f"tree_{name}.csv", schema_overrides={"code": pl.String, "parent": pl.String})
    assert found.tree.equals(expected)
    found.write(tmp_path / "again.hrc")
    assert ilba.read_hierarchy(tmp_path / "again.hrc").tree.equals(found.tree)
    summary = pl.read_csv(folder / "summary.csv").filter(file=name).row(0, named=True)
    equal = (tmp_path / "again.hrc").read_bytes() == (folder / f"{name}.hrc").read_bytes()
    assert equal == summary["write_back_is_byte_equal"]
    leaves = found.tree["is_leaf"].sum()
    assert (found.tree.height, leaves, found.depth) == (summary["nodes"], summary["leaves"], summary["max_depth"])


@pytest.mark.parametrize("name", ["h02_age3", "h04_single_child", "h08_tauargus_age"])
def test_the_path_of_each_leaf_repeats_its_last_code(name, folder):
    expected = pl.read_csv(folder / f"wide_{name}.csv", infer_schema=False)
    assert ilba.read_hierarchy(folder / f"{name}.hrc").paths.equals(expected)


def test_a_malformed_hierarchy_is_refused_with_its_line(folder):
    for file, line, _ in pl.read_csv(folder / "malformed.csv").iter_rows():
        with pytest.raises(ilba.InputError, match=rf"line {line} "):
            ilba.read_hierarchy(folder / f"{file}.hrc")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("A\n@@B\n", "line 2 skips a level: 3 after 1"),
        ("A\n@B\nA\n", "line 3 has the code 'A' again"),
        ("A\n@A\n", "line 2 has the code 'A', which is also the code of its parent"),
        ("A\n\nB\n", "line 2 is blank"),
        ("A\n#B\n", "line 2 begins with '#'"),
        ("@\nA\n", "line 2 has no '@', though the first line is the root"),
        ("@Total\n@A\n", "line 2 has no '@@', though the first line is the root"),
    ],
)
def test_what_is_wrong_in_a_hierarchy_is_said(text, says, tmp_path):
    (tmp_path / "x.hrc").write_text(text)
    with pytest.raises(ilba.InputError, match=says):
        ilba.read_hierarchy(tmp_path / "x.hrc")


def test_a_dim_list_is_the_same_hierarchy(tmp_path):
    (tmp_path / "x.hrc").write_text("A\n@B\nC\n")
    for text in ("@\n@A\n@@B\n@C\n", "@Total\n@@A\n@@@B\n@@C\n", "@ Total\n@@ A\n@@@ B\n@@ C\n"):
        (tmp_path / "dim.hrc").write_text(text)
        assert ilba.read_hierarchy(tmp_path / "dim.hrc").tree.equals(ilba.read_hierarchy(tmp_path / "x.hrc").tree)


def test_a_file_that_is_not_there_is_answered_with_the_nearest(tmp_path):
    (tmp_path / "regions.hrc").write_text("A\n")
    with pytest.raises(ilba.InputError, match=r"Did you mean 'regions\.hrc'"):
        ilba.read_hierarchy(tmp_path / "region.hrc")


def test_a_file_of_tau_argus_gives_the_levels_above_a_column(tmp_path, secret):
    file = tmp_path / "nace.hrc"
    file.write_text("A\n@A01\n@@A011\n@@A012\n@A02\nB\n@B05\n")
    firms = pl.DataFrame({"branch": [*["A011"] * 6, *["A012"] * 7, *["A02"] * 8, *["B05"] * 9], "size": ["s"] * 30})
    levels = ["section", "division", "branch"]
    finest = ilba.build(firms, levels, ["size"], hrc={"branch": file}, secret=secret)
    assert finest.table("division").frame["N_masked"].to_list() == [13, 8, 9]
    assert finest.table("section").frame.drop("type1", "type2").rows() == [("A", 21), ("B", 9)]
    trimmed = ilba.build(
        firms.with_columns(branch=" " + pl.col("branch")), levels, ["size"], recipe={"size": {}}, hrc={"branch": file},
        secret=secret,
    )  # fmt: skip
    assert trimmed.frame.equals(finest.frame)
    with pytest.raises(ilba.InputError, match=r"and 1 is named.*: level1,level2,branch\."):
        ilba.build(firms, levels[1:], ["size"], hrc={"branch": file}, secret=secret)
    (tmp_path / "flat.hrc").write_text("A\n  A011\n  A012\n")
    with pytest.raises(ilba.InputError, match=r"flat\.hrc has no code below another.*write '@'"):
        ilba.build(firms, levels[1:], ["size"], hrc={"branch": tmp_path / "flat.hrc"}, secret=secret)
    with pytest.raises(ilba.InputError, match=r"Did you mean 'branch'.*--hrc branch="):
        ilba.build(firms, levels, ["size"], hrc={"brnch": file}, secret=secret)
    with pytest.raises(ilba.InputError, match=r"--hrc COLUMN=nace\.hrc"):
        ilba.build(firms, ["nace.hrc"], ["size"], secret=secret)
