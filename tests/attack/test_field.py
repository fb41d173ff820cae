"""Tables of the field's methods as an attacker sees them: made, read from a store or a release, and bounded."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import methods
from ilba.attack.audit import tables_by
from ilba.attack.field import MethodTables
from ilba.attack.lattice import table_of
from ilba.design.tables import wanted_tables
from ilba.errors import InputError, SecretError
from ilba.methods.lab import method_of
from ilba.methods.method import Shown
from support.attacks import public_release
from support.stores import ZERO

KEYED = methods.CellKey(D=2, V=1.0, threshold=3)
PRIMARY = methods.Suppression(kind="primary")


@pytest.fixture(scope="module")
def finest():
    """Three towns by two values; nobody lives in the last town."""
    cells = {"town": [*"aabbcc"], "x": [0, 1] * 3, "N": [2, 9, 4, 1, 0, 0]}
    return ilba.FinestTable.from_counts(pl.DataFrame(cells), ["town"], ["x"], 5, secret=ZERO, cells="grid")


def _ends(tables, node):
    """What each number of a table means by itself, cell by cell."""
    known = tables.knowledge(node[0], 0, tables.codes.lists[0].size(node[0]))[node]
    assert known.misfits == 0
    return list(zip(known.low.T.ravel().tolist(), known.high.T.ravel().tolist(), strict=True))


@pytest.mark.parametrize("method", [KEYED, methods.CellKey(D=2, V=1.0), PRIMARY, methods.Rounding(3)], ids=str)
def test_a_store_shows_what_an_outsider_reads_in_its_public_tables(finest, method):
    own = finest.with_method(method)
    names = {"town.x": (1, 1), "town": (1, 0)}
    tables = MethodTables.published_by(own, wanted_tables(own.design, names))
    read = MethodTables.from_release(method, own.codes, public_release(own, names))
    assert tables.cells == read.cells == "grid"
    for node in names.values():
        seen = []
        for one in (tables, read):
            value, blank = one.tables[node].value, one.shown[node].blank
            assert (blank is not None) == method.blanks
            hidden = np.zeros(len(value), bool) if blank is None else blank
            assert not value[hidden].any()  # no code reads the count behind a blank by mistake
            numbers = zip(one.tables[node].packed.tolist(), value.tolist(), hidden, strict=True)
            seen.append({cell: None if blank else number for cell, number, blank in numbers})
        left_out = None if method.absent_blank else 0  # what a cell without a row is
        assert {cell: seen[1].get(cell, left_out) for cell in seen[0]} == seen[0]
        assert _ends(tables, node) == _ends(read, node)
    with pytest.raises(InputError, match="publishes its masks"):
        MethodTables.published_by(finest, wanted_tables(own.design, names))


@pytest.fixture(scope="module")
def keyed():
    """Forty records in two towns, each with a key of its own."""
    rows = {"town": [*"aaab"] * 10, "x": [0, 1, 2, 0, 1] * 8, "key": [(i * 37) % 256 for i in range(40)]}
    return ilba.build(pl.DataFrame(rows), ["town"], ["x"], 5, secret=ZERO, record_key="key")


@pytest.mark.parametrize(
    "method",
    [methods.CellKey(D=2, V=1.0), methods.Rounding(5), methods.SmallCountRounding(7), methods.Noise(1.0)],
    ids=str,
)
@pytest.mark.parametrize("store", ["finest", "keyed"])
def test_methods_are_compared_and_audited_by_the_numbers_of_a_release(request, store, method):
    table = request.getfixturevalue(store)
    wanted = wanted_tables(table.design)
    released = {one.selection.name: one.detail for one in table.with_method(method).tables(wanted)}
    loss = np.concatenate([one["loss"].filter(one["N"] > 0).abs().to_numpy() for one in released.values()])
    (row,) = ilba.compare(table, methods=[method], attackers=[]).rows.iter_rows(named=True)
    assert (row["mean_loss"], row["max_loss"]) == (pytest.approx(loss.mean()), loss.max())
    audited = tables_by(method, table, wanted)
    for node, rows in audited.tables.items():
        detail = released[table_of(table.design, node).name]
        assert sorted(rows.value) == sorted(detail["N_masked"].filter(detail["N"] > 0))


@pytest.mark.parametrize(
    ("method", "smallest"),
    [
        ("cell-key:D=2,V=1", 1),
        ("cell-key:D=5,V=3,js=2", 3),
        ("cell-key:D=2,V=1,threshold=4", 4),
        ("rounding:3", 3),
        ("rounding:base=7,kind=conventional", 7),
        ("small-count-rounding:4", 4),
        ("suppression", 5),
        ("suppression:max_n=2", 3),
        ("noise:1", 1),
        ("controlled", 5),
    ],
)
def test_a_method_says_the_smallest_number_that_it_publishes(keyed, method, smallest):
    asked = method_of(method)
    assert asked.smallest(5) == smallest
    if asked.policy is None:
        numbers = [one.detail["N_masked"] for one in keyed.with_method(asked).tables(wanted_tables(keyed.design))]
        assert all(one.filter(one > 0).is_between(smallest, 200).all() for one in numbers)


def test_another_secret_in_the_environment_does_not_stop_a_comparison(finest, monkeypatch, tmp_path):
    wanted = wanted_tables(finest.design, ["town.x"])
    finest.save(tmp_path / "s.parquet")
    (tmp_path / "s.secret").unlink(missing_ok=True)
    (tmp_path / "other").mkdir()
    moved = ilba.open_store(tmp_path / "s.parquet")
    other = ilba.Secret(bytes(range(32))).to_file(tmp_path / "other" / "agency.secret")
    monkeypatch.setenv("ILBA_SECRET", str(other))
    made = MethodTables.as_released(methods.Rounding(5), moved, wanted)
    assert made.shown[(1, 1)].value.tolist() == (
        MethodTables.made_by(methods.Rounding(5), moved, wanted).shown[(1, 1)].value.tolist()
    )
    with pytest.raises(SecretError, match="another secret"):
        MethodTables.as_released(methods.Rounding(5), moved, wanted, ilba.Secret(bytes(range(32))))


def test_a_blank_means_any_count_that_is_left_blank(finest):
    frame = pl.DataFrame({"town": [*"aab"], "x": [0, 1, 0], "N_masked": [None, 9, 3]})
    read = MethodTables.from_release(PRIMARY, finest.codes, {"town.x": frame})
    assert _ends(read, (1, 1)) == [(1, 4), (9, 9), (3, 3), (0, 0), (0, 0), (0, 0)]
    # Where empty cells are left blank too, a cell without a row is a blank.
    read = MethodTables.from_release(KEYED, finest.codes, {"town.x": frame})
    assert _ends(read, (1, 1)) == [(0, 4), (7, 11), (1, 5), (0, 4), (0, 4), (0, 4)]
    full = {node: Shown(rows.value) for node, rows in read.tables.items()}
    read = MethodTables(finest.codes, KEYED, read.tables, full, None)
    assert _ends(read, (1, 1)) == [(0, 2), (7, 11), (1, 5), (0, 4), (0, 4), (0, 4)]


def test_tables_are_made_with_the_same_draws_on_every_run(finest):
    def numbers(*seed):
        wanted = wanted_tables(finest.design, ["town.x"])
        return MethodTables.made_by(methods.Noise(1.0), finest, wanted, *seed).shown[(1, 1)].value.tolist()

    assert numbers() == numbers(2010)
    assert numbers(2011) != numbers()


@pytest.mark.parametrize("method", ["suppression:kind=optimal", "rounding:base=5,kind=controlled"])
def test_a_search_that_time_cut_off_is_audited_by_the_numbers_in_the_folder(tmp_path, monkeypatch, method):
    counts = pl.DataFrame({"town": [*"aaabbb"], "x": [0, 1, 2] * 2, "N": [2, 9, 8, 4, 0, 7]})
    store = ilba.FinestTable.from_counts(counts, ["town"], ["x"], 5, secret=ZERO)
    wanted = ["town.x", "town", "all.x"]
    release = store.release(tmp_path / "out", method, wanted, accept_risk=True, ledger=False)

    def found_otherwise(cells, *others, **options):
        return cells.published > 4 if method.startswith("suppression") else cells.published + 5

    monkeypatch.setattr("ilba.methods.suppression.best_pattern", found_otherwise)
    monkeypatch.setattr("ilba.methods.lab.rounded_together", found_otherwise)
    report = ilba.audit(release, store=store)
    assert report.cells_small == 2
    for node, rows in report.published.tables.items():
        table = release.table(table_of(store.design, node).name)
        assert report.published.method.blanks == (report.published.shown[node].blank is not None)
        assert sorted(rows.value) == sorted(
            [0] * (len(rows.value) - table.height) + table["N_masked"].fill_null(0).to_list()
        )
    assert ilba.risk(release, "proof", store=store).rows["small"].to_list() == [2]
    other = ilba.FinestTable.from_counts(counts.with_columns(N=pl.col("N") + 10), ["town"], ["x"], 5, secret=ZERO)
    with pytest.raises(InputError, match=r"not made from this store: the table '[\w.]+' differs"):
        ilba.audit(release, store=other)
