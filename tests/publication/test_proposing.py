"""What `init` proposes from what the files are."""

from __future__ import annotations

import tomllib

import polars as pl
import pyreadstat
import pytest

import ilba
from ilba.publication.prepared import Prepared


def proposed(folder):
    return tomllib.loads((folder / "publication.toml").read_text("utf-8"))


def test_labels_of_spss_become_a_code_list_and_names_of_columns(tmp_path):
    people = pl.DataFrame({"region": [1.0, 2.0, 3.0, 4.0] * 50, "sex": [1.0] * 70 + [2.0] * 130})
    pyreadstat.write_sav(
        people,
        tmp_path / "p.sav",
        column_labels={"sex": "Sex of person"},
        variable_value_labels={"sex": {1: "Male", 2: "Female"}},
    )
    ilba.init(tmp_path / "p.sav", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["labels"] == {"sex": {"en": "Sex of person"}}
    assert plain["codes"]["sex"] == {"file": "codes-sex.csv", "code": "code", "label": {"en": "label"}}
    assert ("sex", "1", "Male", None, None) in Prepared(tmp_path).labels.rows()


def test_columns_that_nest_become_a_hierarchy_and_at_most_six_keys_are_proposed(tmp_path):
    place = pl.DataFrame({"x": range(2000)})
    keys = {f"k{n}": (pl.col("x") // (n + 3)) % 3 for n in range(8)}
    place.select((pl.col("x") % 5).alias("region"), (pl.col("x") % 40).alias("town"), **keys).write_parquet(
        tmp_path / "p.parquet"
    )
    ilba.init(tmp_path / "p.parquet", out=tmp_path, mask_thr=10, wave="2026")
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {"area": ["region", "town"]}
    assert plain["keys"] == ["k0", "k1", "k2", "k3", "k4", "k5"]
    assert (plain["mask_thr"], plain["population"]["wave"], plain["tables"]["max_keys"]) == (10, "2026", 3)
    assert "Possible further keys: k6, k7" in (tmp_path / "publication.toml").read_text("utf-8")


def test_quantities_alone_are_refused(tmp_path):
    pl.DataFrame({"income": [i / 7 for i in range(500)]}).write_csv(tmp_path / "p.csv")
    with pytest.raises(ilba.InputError, match="looks like an area or another level"):
        ilba.init(tmp_path / "p.csv", out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["p.csv"]


def test_names_of_columns_with_odd_letters_are_written_so_that_they_are_read_back(tmp_path):
    pl.DataFrame({"시 군": ["a", "b"] * 50, "a.b = c": ["x", "y", "z", "x"] * 25}).write_csv(tmp_path / "p.csv")
    ilba.init(tmp_path / "p.csv", out=tmp_path)
    assert {*Prepared(tmp_path).design.columns} == {"시 군", "a.b = c"}
