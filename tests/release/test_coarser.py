"""A coarser table is the sum of the masked counts of a finer one, or there is a reason why not."""

from __future__ import annotations

import polars as pl
import pytest

from ilba import FinestTable, InputError
from ilba.release.coarser import Finer, label_map, sums_of
from support.stores import ZERO

FINE = pl.DataFrame(
    {
        "town": ["a", "a", "a", "b", "b", "b"],
        "sex": ["f", "f", "m", "f", "m", None],
        "age": [1, 2, 2, 7, 1, 2],
        "N": [1, 9, 2, 3, 8, 4],
        "N_masked": [5, 9, 0, 5, 8, 5],
    }
)
BANDS = {1: "young", 2: "young", 7: "old"}


@pytest.fixture
def fine():
    return FinestTable.from_counts(FINE, ["town"], ["sex", "age"], secret=ZERO, missing="category")


def summed(fine, rows, key, **more):
    """The masked counts of a coarser table, made from chosen columns and rows of the finer one."""
    counts = rows.group_by("town", *key).agg(pl.col("N").sum())
    coarse = FinestTable.from_counts(counts, ["town"], key, secret=ZERO, missing="category")
    options = {"regroup": None, "where": None, "rename": None} | more
    found = sums_of(coarse, Finer.of(fine, *options.values()), fine)
    return found.frame.select("town", *key, "N_masked").sort("town", *key).rows()


def test_fewer_columns_groups_and_parts_are_sums_of_masked_counts(fine):
    assert summed(fine, FINE, []) == [("a", 14), ("b", 18)]
    assert summed(fine, FINE, ["sex"]) == [("a", "f", 14), ("b", None, 5), ("b", "f", 5), ("b", "m", 8)]
    grouped = FINE.with_columns(pl.col("age").replace_strict(BANDS))
    expected = [("a", "young", 14), ("b", "old", 5), ("b", "young", 13)]
    assert summed(fine, grouped, ["age"], regroup={"age": BANDS}) == expected
    words = FINE.with_columns(pl.col("sex").replace({"f": "w"}))
    expected = [("a", "w", 14), ("b", None, 5), ("b", "m", 8), ("b", "w", 5)]
    assert summed(fine, words, ["sex"], regroup={"sex": {"f": "w", "m": "m"}}) == expected
    women = FINE.filter(pl.col("sex") == "f")
    for where in ({"sex": "f"}, {"sex": ["f"]}):
        assert summed(fine, women, [], where=where) == [("a", 14), ("b", 5)]
    young = FINE.filter(pl.col("age") < 3)
    assert summed(fine, young, [], where={"age": (1, 2)}) == [("a", 14), ("b", 13)]
    ones = FINE.filter(pl.col("age") == 1)
    assert summed(fine, ones, [], where={"age": 1}) == [("a", 5), ("b", 8)]
    renamed = FINE.rename({"sex": "gender"})
    assert summed(fine, renamed, ["gender"], rename={"gender": "sex"})[1] == ("b", None, 5)


def test_groups_are_read_from_a_file_of_two_columns(fine, tmp_path):
    (tmp_path / "bands.csv").write_text("fine,coarse\n1,young\n2,young\n7,old\n")
    assert label_map("age", tmp_path / "bands.csv") == {"1": "young", "2": "young", "7": "old"}
    assert label_map("age", BANDS) == {"1": "young", "2": "young", "7": "old"}
    grouped = FINE.with_columns(pl.col("age").replace_strict(BANDS))
    assert summed(fine, grouped, ["age"], regroup={"age": str(tmp_path / "bands.csv")})[0] == ("a", "young", 14)
    (tmp_path / "wide.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(InputError, match="has 3 columns; regroup= takes a file with two"):
        label_map("age", tmp_path / "wide.csv")
    with pytest.raises(InputError, match="is a list; give a mapping or the path"):
        label_map("age", [1, 2])


def test_what_does_not_fit_is_refused_with_what_is_wrong(fine):
    with pytest.raises(InputError, match=r"1 cell differ\). It counts other people or another time"):
        summed(fine, FINE.with_columns(N=pl.when(pl.col("N") == 9).then(8).otherwise("N")), [])
    with pytest.raises(InputError, match=r"1 cell differ\). The labels of town differ"):
        summed(fine, FINE.filter(pl.col("town") == "a"), [])
    with pytest.raises(InputError, match=r"The labels of age differ: regroup="):
        summed(fine, FINE.with_columns(pl.col("age").replace_strict(BANDS)), ["age"])
    with pytest.raises(InputError, match=r"codes 2 of 'age' belong"):
        summed(fine, FINE, ["age"], regroup={"age": {1: "young", 7: "old"}})
    with pytest.raises(InputError, match=r"has no column job\. It has town, sex, age"):
        summed(fine, FINE.with_columns(job=pl.lit("x")), ["job"])
    for argument, given in (("where", {"sx": "f"}), ("rename", {"gender": "sx"})):
        with pytest.raises(InputError, match=rf"^{argument} names 'sx', which the finer store does not have"):
            summed(fine, FINE, [], **{argument: given})
    for given in (({"age": BANDS}, None, None), (None, {"sex": "f"}, None), (None, None, {"gender": "sex"})):
        with pytest.raises(InputError, match="go with from_ledger"):
            Finer.of(None, *given)
    assert Finer.of(None, None, {}, None) is None
    assert Finer.of(fine, None, None, None) == Finer(fine)
