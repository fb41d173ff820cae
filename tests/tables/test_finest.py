"""The finest table and what is asked of it: tables, cells, both readings of S, several hierarchies."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

import ilba
from ilba import FinestTable
from ilba.methods import masking
from ilba.secret.draws import CellDraws
from ilba.secret.secret import draws
from ilba.tables.table import csv_text
from support.people import HKEY, KEY, population
from support.size import tries
from support.stores import ZERO, stores


def every_selection(finest):
    depths = [range(len(h.columns) + 1) for h in finest.design.hierarchies]
    names = [h.name for h in finest.design.hierarchies]
    for levels in itertools.product(*depths):
        for size in range(len(finest.design.keys) + 1):
            for keys in itertools.permutations(finest.design.keys, size):
                yield dict(zip(names, levels, strict=True)), list(keys)


def grid_size(codes, labels: dict, columns) -> int:
    """How many cells of the code-list grid carry these labels, counted by making the grid."""
    size = 1
    for dimension in codes.lists:
        chosen = {column: labels[column] for column in dimension.columns if column in labels}
        size *= dimension.labels.filter([pl.col(c) == v for c, v in chosen.items()] or True).height
    return size


@pytest.mark.slow
@settings(max_examples=tries(40), deadline=None)
@given(stores())
def test_every_row_of_every_table_follows_the_paper_and_equals_its_cell(made):
    finest, counts = made
    K = finest.design.threshold
    frame = finest.frame
    for level, keys in every_selection(finest):
        table = finest.table(level, keys)
        columns = list(table.selection.columns)
        assert table.frame.select(columns).equals(table.frame.select(columns).unique().sort(columns)) or not columns
        assert table.detail["N"].sum() == counts["N"].sum()
        for row in table.detail.iter_rows(named=True):
            inside = frame.filter([pl.col(c) == row[c] for c in columns] or True)
            f, f_sca = inside["N"].to_numpy(), inside["N_masked"].to_numpy()
            small = f <= K
            n_small = int(small.sum())
            if finest.design.cells == "grid":
                n_small = grid_size(finest.codes, {c: row[c] for c in columns}, columns) - int((~small).sum())
            masked = masking.ilba(n_small, (f_sca[small] == K).sum(), f[small].sum(), K)
            assert row["N"] == f.sum()
            assert row["N_masked"] == f[~small].sum() + masked.sum_masked
            assert (row["type1"], row["type2"]) == (masked.type1, masked.type2)
            assert abs(row["loss"]) <= masking.loss_bound(n_small, f[small].sum(), K)
            values = [row[c] for c in columns]
            at = len(columns) - len(keys)
            assert finest.cell(level, keys, values[:at], values[at:]) == row["N_masked"]


@pytest.mark.slow
@settings(max_examples=tries(30), deadline=None)
@given(stores())
def test_a_store_opens_as_it_was_saved(made):
    import tempfile
    from pathlib import Path

    finest, _ = made
    with tempfile.TemporaryDirectory() as folder:
        opened = ilba.open_store(finest.save(Path(folder) / "s.parquet"))
    assert opened.frame.equals(finest.frame)
    assert opened.design == finest.design
    for level, keys in every_selection(finest):
        assert opened.table(level, keys).detail.equals(finest.table(level, keys).detail)


def test_a_cell_of_the_grid_that_nobody_is_in_is_0(finest):
    assert finest.cell("block", KEY, ["01", "0101", "010101"], ["f", 12, "공무원"]) in (0, 5)
    empty = FinestTable.from_counts(
        pl.DataFrame({"t": ["a", "b"], "x": [1, 2], "N": [9, 9]}), ["t"], cells="grid", secret=ZERO
    )
    assert empty.cell(1, "x", ["a"], [2]) == 0
    assert empty.lookup(1, "x", ["a"], [2]) == (0, False)


def test_the_two_readings_differ_where_the_grid_has_zeros():
    counts = pl.DataFrame({"t": ["a", "b"], "x": [1, 2], "N": [2, 50], "N_masked": [0, 50]})
    observed = FinestTable.from_counts(counts, ["t"])
    grid = FinestTable.from_counts(counts, ["t"], cells="grid")
    assert observed.cell(1, hkey_value="a") == 0
    assert grid.cell(1, hkey_value="a") == 5


def test_rows_with_no_records_only_add_codes():
    counts = pl.DataFrame({"t": ["a", "b"], "x": [1, 2], "N": [2, 0], "N_masked": [0, 0]})
    finest = FinestTable.from_counts(counts, ["t"], cells="grid")
    assert finest.frame.rows() == [("a", 1, 2, 0)]
    assert finest.cell(1, hkey_value="b") == 0
    assert finest.cell(1, "x", "a", 2) == 0
    assert finest.cell(1, hkey_value="a") == 5  # the zero makes a second small cell
    with pytest.raises(ilba.InputError, match="'c' is not a value of 't'"):
        finest.cell(1, hkey_value="c")


def test_grids_beyond_63_bits_are_packed_into_several_words_and_never_made(secret):
    rng = np.random.default_rng(3)
    names = [f"k{i}" for i in range(14)]
    data = pl.DataFrame({"t": rng.integers(0, 40, 500)} | {name: rng.integers(0, 60, 500) for name in names})
    data = pl.concat([data, data.head(20), data.head(20)])
    for cells in ("observed", "grid"):
        finest = ilba.build(data, ["t"], names, cells=cells, secret=secret)
        assert len(finest._words) == 2
        counted = data.group_by(data.columns).len().sort(data.columns)
        assert finest.frame.drop("N", "N_masked").equals(counted.drop("len"))
        assert (finest.frame["N"] == counted["len"].cast(pl.Int64)).all()
        table = finest.table(1, names)
        assert table.frame.select(data.columns).equals(counted.drop("len"))
        for row in table.frame.head(30).iter_rows():
            assert finest.cell(1, names, row[:1], row[1:15]) == row[15]
        assert finest.table().detail["N"].to_list() == [540]


def test_counts_above_2_to_the_31_are_exact():
    big = 2**40 + 3
    counts = pl.DataFrame({"t": ["a", "a", "b"], "x": [1, 2, 1], "N": [big, 2, big], "N_masked": [big, 5, big]})
    finest = FinestTable.from_counts(counts, ["t"])
    assert finest.cell() == 2 * big + 5
    assert finest.table(1).detail["N"].to_list() == [big + 2, big]


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"t": ["a"]}),
        pl.DataFrame({"t": ["a"] * 7, "x": ["same"] * 7}),
        pl.DataFrame(
            {"t": ["서울", "부산", "a,b", 'say "hi"', "two\nlines", ""], "x": ["é", "e", "'", ";", "\t", " "]}
        ),
        pl.DataFrame({"t": [1, 2, 3], "x": ["1", "b", "c"], "y": [True, False, None], "z": [1.5, 2.0, 3.0]}),
        pl.DataFrame({"cell0": ["a", "b"], "len": [1, 2], "literal": ["x", "y"], "sum_large": [1, 1]}),
    ],
    ids=["one row, no keys", "one category", "odd text", "mixed types", "columns named like ours"],
)
def test_odd_but_legal_data_goes_through(data, tmp_path, secret):
    hkey = data.columns[:1]
    finest = ilba.build(data, hkey, secret=secret, missing="category")
    opened = ilba.open_store(finest.save(tmp_path / "s.parquet"))
    assert opened.frame.equals(finest.frame)
    assert finest.frame["N"].sum() == data.height
    table = opened.table(1, data.columns[1:])
    assert len(table) == data.unique().height
    for row in table.frame.iter_rows():
        labels = row[: data.width]
        assert opened.cell(1, data.columns[1:], labels[:1], labels[1:]) == row[data.width]
    table.write_csv(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        back = list(csv.reader(file))
    assert back[0] == table.frame.columns
    assert back[1:] == [["NA" if v is None else str(v) for v in row] for row in table.frame.rows()]


def test_a_missing_value_can_be_a_category(secret):
    data = pl.DataFrame({"t": ["a", "a", None, "b"], "x": [1, None, 2, 2]})
    with pytest.warns(ilba.Notice, match="2 of 4 rows have a missing value"):
        dropped = ilba.build(data, ["t"], secret=secret)
    assert dropped.frame["N"].sum() == 2
    kept = ilba.build(data, ["t"], secret=secret, missing="category")
    assert kept.frame["N"].sum() == 4
    assert kept.table("t").frame["t"].to_list() == [None, "a", "b"]
    assert kept.cell(1, "x", [None], [2]) in (0, 5)


def test_draws_of_packed_cells_are_the_draws_of_their_labels(finest, secret):
    small = np.flatnonzero(finest._count < 5)
    frame = finest.frame[small]
    labels = {}
    for column in HKEY + KEY:
        known = frame[column].unique().to_list()
        labels[column] = (known, np.array([known.index(value) for value in frame[column]]))
    packed = CellDraws(secret, finest.codes)([word[small] for word in finest._words], frame["N"].to_numpy())
    assert packed.tolist() == draws(secret, labels, frame["N"]).tolist()


def test_levels_go_by_number_by_name_and_0_means_none(finest):
    assert finest.table(2).frame.equals(finest.table("town").frame)
    assert finest.table("2").frame.equals(finest.table("town").frame)
    assert finest.table(np.int64(2)).frame.equals(finest.table("town").frame)
    assert finest.table(0, "sex").frame.columns == ["sex", "N_masked", "type1", "type2"]
    assert finest.table().detail["N"].to_list() == [3000]
    assert finest.table(1, None).frame.equals(finest.table(1).frame)


def test_the_columns_of_a_table_stand_in_the_order_asked_for(finest):
    table = finest.table("region", ["job", "sex"])
    assert table.frame.columns == ["region", "job", "sex", "N_masked", "type1", "type2"]
    assert table.frame.equals(table.frame.sort("region", "job", "sex"))
    turned = finest.table("region", ["sex", "job"]).frame
    assert turned.select(table.frame.columns).sort("region", "job", "sex").equals(table.frame)


def test_a_public_table_has_no_true_count_no_flag_no_loss_and_no_zero(finest):
    table = finest.table("block", KEY)
    public = table.public()
    assert public.columns == [*HKEY, *KEY, "N_masked"]
    assert table.frame["N_masked"].min() == 0
    assert public["N_masked"].min() >= 5


def test_a_finest_table_and_a_table_call_themselves_confidential(finest):
    assert "confidential" in repr(finest)
    assert "confidential" in repr(finest.table(1))
    assert "confidential" in finest.table(1)._repr_html_()


@pytest.mark.parametrize(
    ("level", "key", "hkey_value", "key_value", "says"),
    [
        (4, [], [], [], r"level=4 is not in this store. Its levels are 0 \(none\), 1 region, 2 town, 3 block"),
        (-1, [], [], [], "level=-1"),
        (1.5, [], [], [], "level=1.5"),
        (True, [], [], [], "level=True"),
        ("twon", [], [], [], "Did you mean 'town'"),
        ({"aera": 1}, [], [], [], "Did you mean 'area'"),
        (1, ["sxe"], ["01"], ["f"], "Did you mean 'sex'"),
        (1, ["town"], ["01"], ["0101"], "belongs to a hierarchy"),
        (1, ["sex", "sex"], ["01"], ["f", "f"], "twice"),
        (1, [3], ["01"], ["f"], "not the name of a column"),
        (1, [], [], [], "hkey_value has 0 values where 1 are needed: region"),
        (2, [], ["0101"], [], "hkey_value has 1 values where 2"),
        (2, [], {"area": ["0101"]}, [], "hkey_value has 1 values where 2"),
        (1, [], {"aera": ["01"]}, [], "Did you mean 'area'"),
        (1, ["sex"], ["01"], [], "key_value has 0 values where 1 are needed: sex"),
        (1, ["sex"], ["01"], ["f", "m"], "key_value has 2"),
        (1, ["sex"], ["1"], ["f"], "'1' is not a value of 'region'. Did you mean '01'"),
        (1, ["sex"], ["01"], ["x"], "'x' is not a value of 'sex'"),
        (1, ["age"], ["01"], ["two"], "'two' is not a value of 'age'"),
        (1, ["age"], ["01"], [10**30], "is not a value of 'age'"),
        (1, ["age"], ["01"], [None], "None is not a value of 'age'"),
    ],
)
def test_a_wrong_question_gets_an_answer_that_names_the_fix(finest, level, key, hkey_value, key_value, says):
    with pytest.raises(ilba.InputError, match=says):
        finest.cell(level, key, hkey_value, key_value)


def test_labels_are_compared_by_identity_not_by_type(finest):
    values = {finest.cell(1, "age", "01", age) for age in (3, "3", 3.0, np.int32(3))}
    assert len(values) == 1
    with pytest.raises(ilba.InputError, match="'03' is not a value"):
        finest.cell(1, "age", "01", "03")


ODD = [None, "", "NA", 'a "b"', "c,d", "e\nf", "한글", "plain"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", 'a "name", quoted'])
@pytest.mark.parametrize("rows", [1, 40, 4000])
def test_a_csv_file_is_spelled_as_its_frame_is(rows, name, tmp_path):
    rng = np.random.default_rng(rows)
    labels = {"town": rng.choice(3, rows), "block": rng.choice(9, rows), name: [ODD[i] for i in rng.choice(8, rows)]}
    # With so many numbers a cell needs two words.
    wide = {f"k{place}": rng.choice(2**16, rows) for place in range(6)} if rows > 1000 else {}
    counts = pl.DataFrame(
        {**labels, "age": [(1, 7, None)[i] for i in rng.choice(3, rows)], **wide, "N": rng.integers(1, 9, rows)}
    )
    counts = counts.group_by(pl.exclude("N")).agg(pl.col("N").sum())
    finest = FinestTable.from_counts(counts, ["town", "block"], secret=ZERO, missing="category")
    assert len(finest.codes.finest.words) == (2 if wide else 1)
    for level, keys in [(0, []), (1, []), (0, [name]), (2, ["age", name]), (2, [name, "age", *wide])]:
        table = finest.table(level, keys)
        table.write_csv(tmp_path / "table.csv")
        assert (tmp_path / "table.csv").read_bytes().decode() == csv_text(table.frame)
        assert table.head(3).equals(table.frame.head(3))


def test_the_lines_of_many_rows_with_few_counts_are_spelled_as_their_frame_is(tmp_path):
    rng = np.random.default_rng(1)
    count = rng.integers(1, 8, 1400)
    masked = np.where(count >= 5, count, 5 * rng.integers(0, 2, 1400))
    labels = {"town": np.repeat(np.arange(700), 2), "sex": np.tile([1, 2], 700)}
    finest = FinestTable.from_counts(pl.DataFrame({**labels, "N": count, "N_masked": masked}), hkey=["town"])
    towns, everything = finest.table(1), finest.table(1, ["sex"])
    assert {(1, 0), (0, 1), (0, 0)} == set(towns.frame.select("type1", "type2").iter_rows())
    for table in (towns, everything):
        assert table._rows.quoted.width < table.frame.width - 1  # the numbers are one column of texts
        table.write_csv(tmp_path / "t.csv")
        assert (tmp_path / "t.csv").read_bytes().decode() == csv_text(table.frame)


def test_known_codes_that_never_stand_together_are_0(finest):
    assert finest.lookup(2, hkey_value=["01", "0203"]) == (0, False)


def test_several_hierarchies_need_to_be_named():
    frame = pl.DataFrame({"a": [1, 2], "b": [1, 2], "c": ["x", "y"], "N": [7, 8]})
    finest = FinestTable.from_counts(frame, {"area": ["a", "b"], "trade": ["c"]}, secret=ZERO)
    with pytest.raises(ilba.InputError, match="area, trade: give level="):
        finest.table(1)
    assert finest.table("b").frame.columns[:2] == ["a", "b"]
    assert finest.table(0).detail["N"].to_list() == [15]
    assert finest.table({"trade": 1}).frame["c"].to_list() == ["x", "y"]
    assert finest.cell({"area": 1, "trade": 1}, (), [1, "x"]) == 7
    assert finest.cell({"area": 1, "trade": 1}, (), {"area": 1, "trade": "x"}) == 7


@pytest.mark.parametrize(
    ("frame", "options", "says"),
    [
        ({"t": ["a"], "n": [1]}, {}, "has no column 'N'"),
        ({"t": ["a"], "N": [1.5]}, {}, "not a whole number"),
        ({"t": ["a"], "N": [-1]}, {}, "below 0"),
        ({"t": ["a"], "N": [None]}, {}, "or is missing"),
        ({"t": ["a"], "N": ["x"]}, {}, "not a whole number"),
        ({"t": ["a"], "N": [0]}, {}, "no row with a count above 0"),
        ({"t": ["a", "a"], "N": [2, 3], "N_masked": [5, 0]}, {}, "two rows"),
        ({"t": ["a"], "N": [2], "N_masked": [3]}, {}, "does not fit"),
        ({"t": ["a"], "N": [9], "N_masked": [10]}, {}, "does not fit"),
        ({"t": ["a"], "N": [5], "N_masked": [0]}, {}, "does not fit"),
        ({"t": ["a"], "N": [5]}, {"hkey": ["q"]}, "'q', which the data does not have"),
        ({"t": ["a"], "N": [5]}, {"mask_thr": 2}, "mask_thr=2"),
        ({"t": ["a"], "N": [5]}, {"missing": "keep"}, "missing='keep'"),
        ({"t": ["a"], "N": [0], "N_masked": [5]}, {}, "no row with a count"),
        ({"t": ["a", "b"], "N": [0, 7], "N_masked": [5, 7]}, {}, "does not fit"),
        ({"t": ["a"], "N": [5]}, {"cells": "gird"}, "Did you mean 'grid'"),
    ],
)
def test_counts_that_cannot_be_are_refused(frame, options, says):
    with pytest.raises(ilba.InputError, match=says):
        FinestTable.from_counts(pl.DataFrame(frame), **({"hkey": ["t"], "secret": ZERO} | options))


def test_counts_without_masks_may_repeat_and_are_added(secret):
    frame = pl.DataFrame({"t": ["a", "a", "b"], "N": [1, 2, 9]})
    finest = FinestTable.from_counts(frame, ["t"], secret=secret)
    assert finest.frame["N"].to_list() == [3, 9]


def test_a_finest_table_from_counts_has_the_masks_of_one_from_records(people, finest, secret):
    counts = finest.frame.drop("N_masked")
    assert FinestTable.from_counts(counts, HKEY, KEY, secret=secret).frame.equals(finest.frame)
    text = counts.with_columns(pl.col("age").cast(pl.String))
    from_text = FinestTable.from_counts(text, HKEY, KEY, secret=secret).frame
    assert from_text.with_columns(pl.col("age").cast(pl.Int64)).sort(HKEY + KEY).equals(finest.frame)


@pytest.mark.parametrize("masks", [{}, {"N_masked": [5, 9]}])
def test_counts_declare_whose_they_are_and_the_store_keeps_it(masks, secret, tmp_path):
    counts = pl.DataFrame({"t": ["a", "b"], "N": [3, 9], **masks})
    of_whom = {"population": "census", "wave": "2026", "period": "2026-07-01", "unit": "persons"}
    finest = FinestTable.from_counts(counts, ["t"], secret=secret, **of_whom)
    assert finest.population == ilba.Population("census", "2026", "2026-07-01", "persons")
    assert ilba.open_store(finest.save(tmp_path / "s.parquet")).population == finest.population
    assert not FinestTable.from_counts(counts, ["t"], secret=secret).population.declared
    with pytest.raises(ilba.InputError, match="belongs to a population"):
        FinestTable.from_counts(counts, ["t"], secret=secret, wave="2026")


def test_the_error_for_counts_shows_the_line_that_takes_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text("town,sex,N\n01,f,70\n02,m,80\n")
    ilba.Secret(bytes(32)).to_file("agency.secret")
    with pytest.raises(ilba.InputError, match="type in Python: ilba") as refused:
        ilba.build(
            "counts.csv",
            ["town"],
            ["sex"],
            10,
            output_path="s.parquet",
            secret="agency.secret",
            wave=2026,
            population="p",
        )
    eval(str(refused.value).partition("type in Python: ")[2], {"ilba": ilba})
    stored = ilba.open_store("s.parquet")
    assert (stored.design.threshold, stored.population) == (10, ilba.Population("p", "2026"))
    assert stored.frame["town"].to_list() == ["01", "02"]
    with pytest.raises(ilba.InputError, match=r"from_counts\(data, .*secret='agency.secret'") as refused:
        ilba.build(pl.DataFrame({"t": ["a"], "N": [1]}), ["t"], secret=ilba.Secret(bytes(range(32))))
    assert "Secret" not in str(refused.value)


def test_a_missing_label_in_counts_is_told(secret):
    frame = pl.DataFrame({"t": ["a", None], "N": [3, 9]})
    with pytest.warns(ilba.Notice, match="1 row with a missing label"):
        assert len(FinestTable.from_counts(frame, ["t"], secret=secret)) == 1
    assert len(FinestTable.from_counts(frame, ["t"], secret=secret, missing="category")) == 2


def test_the_population_of_these_tests_has_small_and_large_cells():
    counts = population().group_by(HKEY + KEY).len()["len"]
    assert (counts < 5).sum() > 200
    assert (counts > 5).sum() > 100


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda f: ilba.build(population(10), hkye=HKEY), r"build\(\) has no argument 'hkye'. Did you mean 'hkey'\?"),
        (lambda f: ilba.save_full_tb(population(10), HKEY, mask_tr=5), "Did you mean 'mask_thr'"),
        (lambda f: ilba.save_agg_tb(hkey_levle=1, key=[]), "Did you mean 'hkey_level'"),
        (lambda f: FinestTable.from_counts(f.frame, HKEY, KEY, cell="grid"), "Did you mean 'cells'"),
        (lambda f: f.table(levle=1), "Did you mean 'level'"),
        (lambda f: f.cell(level=1, hkey_values=["01"]), "Did you mean 'hkey_value'"),
    ],
)
def test_a_misspelled_argument_is_refused_with_the_nearest_name(finest, call, says):
    with pytest.raises(TypeError, match=says) as caught:
        call(finest)
    assert isinstance(caught.value, ilba.InputError)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(stores())
def test_the_other_reading_of_a_table_is_the_table_built_with_it(made):
    finest, frame = made
    for cells in ("observed", "grid"):
        design = finest.design
        hkey = {hierarchy.name: list(hierarchy.columns) for hierarchy in design.hierarchies}
        built = FinestTable.from_counts(frame, hkey, design.keys, design.threshold, secret=ZERO, cells=cells)
        other = finest.with_cells(cells)
        assert other.frame.equals(built.frame)
        assert other.table(0).frame.equals(built.table(0).frame)


@pytest.mark.slow
@given(stores())
def test_a_table_is_named_by_its_levels_and_keys(made):
    design = made[0].design
    for levels, keys in every_selection(made[0]):
        asked = design.select(levels, keys)
        assert asked.by_name == levels
        assert design.at(asked.levels, keys) == design.select(levels, [key for key in design.keys if key in keys])
    assert set(design.finest.columns) == set(design.columns)


def test_codes_under_different_parents_are_named_unless_they_have_fewer_than_K_records(secret):
    people = pl.DataFrame({"county": ["1"] * 9 + ["2", "2", "1", "2"], "town": ["a"] * 9 + ["a", "b", "c", "c"]})
    with pytest.warns(ilba.Notice) as told:
        ilba.build(people, ["county", "town"], [], secret=secret)
    (text,) = [str(one.message) for one in told]
    assert text.startswith("'town' has 2 codes under different parents ('a'). Each")


def test_codes_that_only_the_code_list_has_under_another_parent_do_not_blame_the_data(secret):
    people = pl.DataFrame({"county": ["001"] * 9 + ["002"] * 9, "town": ["a"] * 9 + ["b"] * 9})
    labels = pl.DataFrame(
        {"variable": ["county"] * 2 + ["town"] * 2, "code": ["1", "2", "a", "b"], "parent": [None, None, "1", "2"]}
    )
    with pytest.warns(ilba.Notice) as told:
        ilba.build(people, ["county", "town"], [], secret=secret, labels=labels)
    (text,) = [str(one.message) for one in told]
    start = "the code list has 2 codes of 'town' under other parents than the data, or under several ('a', 'b')."
    assert text.startswith(start)
    assert text.endswith("correct the code list.")
