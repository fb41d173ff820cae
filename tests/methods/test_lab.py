"""What every method of the lab keeps: numbers that its preimage explains, sums that hold where it says so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import methods
from ilba.attack.field import MethodTables
from ilba.design.tables import wanted_tables
from ilba.methods.lab import METHODS, method_of
from support.people import HKEY

FIELD = [
    methods.CellKey(D=2, V=1.0),
    methods.CellKey(D=5, V=3.0, js=2, pstay=0.5, threshold=5),
    methods.Rounding(3),
    methods.Rounding(5, "conventional"),
    methods.SmallCountRounding(5),
    methods.Suppression(kind="primary"),
    pytest.param(methods.Suppression(), marks=pytest.mark.slow),
    methods.Noise(1.0),
    methods.Noise(2.0, "gaussian"),
    methods.Noise(1.0, fit=True),
]


@pytest.fixture(scope="module")
def small(people, secret):
    return ilba.build(people.head(400), HKEY[:2], ["sex", "job"], secret=secret)


def published(method, finest):
    return MethodTables.made_by(method, finest, wanted_tables(finest.design))


@pytest.mark.parametrize("method", FIELD, ids=str)
def test_the_truth_lies_in_what_the_public_description_lets_everybody_conclude(small, method):
    made = published(method, small)
    for node, rows in made.tables.items():
        true = rows.truth.sum_small + rows.truth.sum_large
        areas = made.codes.lists[0].size(node[0])
        known = made._bounds(node, 0, areas)
        truth = made.dense(node, 0, areas, true)
        if method.bounded:
            assert (known.low <= truth).all(), node
            assert (truth <= known.high).all(), node


@pytest.mark.parametrize("method", FIELD, ids=str)
def test_sums_hold_where_the_method_says_so_and_nowhere_else(small, method):
    made = published(method, small)
    whole = made.tables[(0,) * len(made.lattice.base)].value[0]
    sums = []
    for node, rows in made.tables.items():
        if made.shown[node].blank is None:
            sums.append(int(rows.value.sum() + made.shown[node].invented.sum()))
    if sums:
        assert all(total == whole for total in sums) == method.additive


@pytest.mark.parametrize("method", FIELD, ids=str)
def test_the_audit_attacks_every_method_and_never_calls_one_safe_that_is_not_certified(small, method):
    if not method.bounded:
        pytest.skip("its numbers prove nothing, so there is nothing to attack")
    report = ilba.audit(published(method, small), explanations=0)
    assert report.cells_small > 0
    assert 0 <= report.share <= 1
    assert not report.safe


def test_noise_is_unbounded_so_nothing_is_proven_and_nothing_called_safe(small):
    made = ilba.compare(small, methods=["noise:1"], max_keys=1)
    (row,) = made.rows.to_dicts()
    assert (row["provable"], row["exact"], row["safe"]) == (0, 0, False)
    low, high = methods.Noise(1.0).preimage(np.array([3]), np.array([1]))
    assert (low[0], high[0]) == (0, 2**40)


def test_small_count_rounding_and_keys_with_js_publish_no_small_count(small):
    for method, least in ((methods.SmallCountRounding(5), 5), (methods.CellKey(D=5, V=3.0, js=2), 3)):
        for rows in published(method, small).tables.values():
            assert ((rows.value == 0) | (rows.value >= least)).all()


def test_the_same_cell_has_the_same_number_in_every_table_by_cell_keys(small):
    """A table by all keys at a level, and the same cells where another variable has one code alone."""
    frame = small.frame.with_columns(all=pl.lit("x")).drop("N_masked")
    wide = ilba.FinestTable.from_counts(frame, HKEY[:2], ["sex", "job", "all"], secret=ilba.Secret(bytes(32)))
    made = published(methods.CellKey(D=3, V=2.0), wide)
    for node, rows in made.tables.items():
        if node[-1]:
            assert (rows.value == made.tables[(*node[:-1], 0)].value).all()


def test_a_method_is_typed_with_its_parameters():
    assert method_of("rounding:3") == methods.Rounding(3)
    assert method_of("rounding:base=3,kind=conventional") == methods.Rounding(3, "conventional")
    assert method_of("cell-key:D=5,V=3,js=2") == methods.CellKey(D=5, V=3.0, js=2)
    assert method_of("noise:epsilon=0.5,fit=true") == methods.Noise(0.5, fit=True)
    assert method_of("controlled").label == "controlled"


def test_parameters_of_a_ptable_beside_a_given_one_are_refused(tmp_path):
    table = methods.ptable(2, 1.0)
    table.write_csv(tmp_path / "p.csv")
    for beside, names in (("D=4", "D"), ("D=3", "D"), ("V=3,js=1", "V, js"), ("threshold=2,pstay=0.5", "pstay")):
        with pytest.raises(ilba.InputError, match=rf"beside ptable, .* Leave out {names}, or leave out ptable"):
            method_of(f"cell-key:ptable={tmp_path / 'p.csv'},{beside}")
    with pytest.raises(ilba.InputError, match=r"cell-key: D=4 cannot be given beside ptable"):
        methods.CellKey(table, D=4)


def test_a_cell_key_method_takes_a_ptable_of_either_layout(small, tmp_path):
    table = methods.ptable(2, 1.0)
    table.write_csv(tmp_path / "p.csv")
    by_name = method_of(f"cell-key:ptable={tmp_path / 'p.csv'}")
    assert methods.CellKey(tmp_path / "p.csv").ptable.equals(by_name.ptable)
    assert by_name.label == "cell-key ptable=p.csv"
    for one, other in zip(
        published(methods.CellKey(table), small).tables.values(), published(by_name, small).tables.values(), strict=True
    ):
        assert (one.value == other.value).all()
    table.write_csv(tmp_path / "p2.csv", separator=";", decimal_comma=True, quote_style="never")
    assert method_of(f"cell-key:ptable={tmp_path / 'p2.csv'}").ptable.equals(by_name.ptable)
    with pytest.raises(ilba.InputError, match=r"the p-table .* cannot be read: No such file"):
        method_of("cell-key:ptable=nowhere.csv")
    with pytest.raises(ilba.InputError, match="threshold='x' is not a whole number"):
        method_of(f"cell-key:ptable={tmp_path / 'p.csv'},threshold=x")
    assert method_of(f"cell-key:ptable={tmp_path / 'p.csv'},threshold=3").threshold == 3
    keyed = pl.DataFrame({"pcv": [1, 1, 2, 2], "ckey": [0, 1, 0, 1], "pvalue": [-1, 1, 0, 1]})
    values = published(methods.CellKey(keyed), small).tables
    assert all((rows.value >= 0).all() for rows in values.values())


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("roundin", "Did you mean 'rounding'"),
        ("rounding:bas=3", "Did you mean 'base'"),
        ("rounding:base=x", "base='x' is not a whole number"),
        ("rounding:kind=x", "kind='x' is not one of"),
        ("noise:epsilon=x", "epsilon='x' is not a number"),
        ("noise:fit=x", "fit='x' is not true or false"),
        ("sca:3", "sca has no parameters"),
        ("rounding:base=1", "at least 2"),
        ("rounding:3,5", "write rounding:base"),
        ("sca:3", "sca"),
        (3, "holds a int"),
    ],
)
def test_a_method_that_is_mistyped_is_answered_with_what_there_is(typed, told):
    with pytest.raises(ilba.InputError, match=told.replace("(", r"\(")):
        method_of(typed)


def test_every_method_has_a_schema_and_says_what_it_does_not_do():
    for made in METHODS.values():
        assert made.schema()["additionalProperties"] is False
        assert made.about
        assert made.strong
        assert made.weak
    assert methods.Rounding.schema()["properties"]["base"] == {"type": "integer", "default": 5}


@dataclass(frozen=True)
class TopCoding(methods.Method):
    """A method of somebody else's: counts from a limit on are published as the limit."""

    name = "top-coding"
    about = "counts above a limit are published as the limit"
    strong = "hides how large the largest cells are"
    weak = "hides no small count"
    limit: int = 50

    def publish(self, cells):
        return [methods.Shown(np.minimum(table.count, self.limit)) for table in cells.tables]

    def preimage(self, value, size):
        return value, np.where(value == self.limit, 2**40, value)


def test_a_method_of_ones_own_is_one_class(small):
    made = ilba.compare(small, methods=[TopCoding(limit=20), "rounding:5"])
    assert made.rows["method"].to_list() == ["top-coding limit=20", "rounding base=5"]
    assert made.rows["provable"][0] == 1
