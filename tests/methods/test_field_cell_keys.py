"""Cell keys and p-tables against the results of the offices' own packages (folders 01, 02 and the keys of 03)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.methods import cell_key_table, create_perturbed_table, ptable
from ilba.methods.cell_key import whole_keys
from ilba.methods.ptables import read_ptable

ONS = {
    "a_var1_var5_var8_t10": ("micro.csv", "ptable_10_5", 200),
    "b_var1_t10": ("micro.csv", "ptable_10_5", 5),
    "c_var2_var3_t10": ("micro.csv", "ptable_10_5", 8),
    "d_var4_var10_t0": ("micro.csv", "ptable_10_5", 196),
    "e_9k_var2_var3_t10": ("micro9k_own.parquet", "ptable_10_5", 8),
    "f_keyed_var1_var5_var8_t0": ("micro.csv", "ptable_keyed_own", 200),
    "g_keyed_var2_var3_t0": ("micro.csv", "ptable_keyed_own", 8),
    "h_keyed_9k_var2_var3_t0": ("micro9k_own.parquet", "ptable_keyed_own", 8),
}
EU = {  # D, V, js, pstay, the rows whose chances rise towards no change
    "A": (5, 3.0, 2, 0.5, True),
    "B": (2, 1.0, 0, 0.0, True),
    "C": (3, 1.5, 1, 0.0, True),
    "D": (2, 1.05, 1, 0.0, [1, 2, 4]),
}

EU_TABLES = [pytest.param("A", marks=pytest.mark.slow), "B", "C", "D"]


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.all().cast(pl.String))


@pytest.fixture(scope="module")
def ons(shared):
    return shared / "outside" / "01_ons"


@pytest.fixture(scope="module")
def eu(shared):
    return shared / "outside" / "02_eu_cell_key"


@pytest.mark.parametrize("case", ONS)
def test_the_onss_function_gives_the_onss_table(ons, case):
    source, moves, rows = ONS[case]
    data = pl.read_csv(ons / source) if source.endswith("csv") else pl.read_parquet(ons / source)
    columns = [word for word in case.split("_") if word.startswith("var")]
    threshold = 10 if case.endswith("t10") else 0
    found = create_perturbed_table(
        data, pl.read_parquet(ons / f"{moves}.parquet"), columns[:1], columns[1:], "record_key", threshold
    )
    expected = pl.read_csv(ons / f"expected_{case}.csv")
    assert found.height == rows
    assert as_text(found).equals(as_text(expected))


def test_the_onss_function_takes_pandas_names_as_text_and_no_area(ons):
    data = pl.read_csv(ons / "micro.csv")
    moves = pl.read_parquet(ons / "ptable_keyed_own.parquet")
    ours = create_perturbed_table(data, moves, ["var2"], ["var3"], "record_key", 0)
    other = create_perturbed_table(data.to_pandas(), moves.to_pandas(), None, ["var2", "var3"], "record_key", 0)
    assert as_text(ours).equals(as_text(other))
    assert create_perturbed_table(data, moves, "var1", None, "record_key", 0).columns[0] == "var1"


def test_a_column_that_is_not_there_is_named(ons):
    data = pl.read_csv(ons / "micro.csv", n_rows=5)
    moves = pl.read_parquet(ons / "ptable_keyed_own.parquet")
    with pytest.raises(ilba.InputError, match="no column 'var11'"):
        create_perturbed_table(data, moves, "var11", None, "record_key", 0)
    with pytest.raises(ilba.InputError, match="not a p-table"):
        create_perturbed_table(data, data, "var1", None, "record_key", 0)


@pytest.mark.parametrize("name", EU_TABLES)
def test_a_ptable_of_greatest_entropy_is_that_of_the_r_package(eu, name):
    D, V, js, pstay, monotone = EU[name]
    found = ptable(D, V, js, pstay, monotone)
    expected = pl.read_csv(eu / f"ptable_{name}.csv")
    assert found.select("i", "j").equals(expected.select("i", "j"))
    for ours, theirs in (("p", "p"), ("lower", "p_int_lb"), ("upper", "p_int_ub")):
        assert np.abs(found[ours].to_numpy() - expected[theirs].to_numpy()).max() < 1e-6


@pytest.mark.parametrize("name", EU_TABLES)
def test_the_moments_of_a_ptable_are_those_of_the_r_package(eu, name):
    D, V, js, pstay, monotone = EU[name]
    v = pl.col("j") - pl.col("i")
    found = ptable(D, V, js, pstay, monotone)
    moments = found.group_by("i", maintain_order=True).agg(
        mean=(v * pl.col("p")).sum(), variance=(v**2 * pl.col("p")).sum(), n_targets=pl.len()
    )
    expected = pl.read_csv(eu / f"moments_{name}.csv")
    assert np.abs(moments["mean"].to_numpy()).max() < 1e-6
    assert np.abs(moments["variance"].to_numpy() - expected["variance"].to_numpy()).max() < 1e-5
    assert moments["n_targets"].to_list() == expected["n_targets"].to_list()


@pytest.mark.long
def test_a_ptable_that_cannot_be_is_refused_with_the_reason():
    with pytest.raises(ilba.InputError, match=r"the count 1 becomes 0 or 3 at best, so its variance is at least 2"):
        ptable(D=5, V=2, js=2)
    with pytest.raises(ilba.InputError, match="D=1 is too small for js=2"):
        ptable(D=1, V=3, js=2)
    with pytest.raises(ilba.InputError, match="D=2 is too small for js=2: every change of the count 3 would be in one"):
        ptable(D=2, V=3, js=2)
    with pytest.raises(ilba.InputError, match="no unbiased probabilities were found"):
        ptable(D=14, V=1.0000001, js=1)
    for given, said in (
        ({"D": 0}, "^D=0 is not a whole number of at least 1"),
        ({"D": True}, "D=True is not a whole number"),
        ({"js": -1}, "^js=-1 is not a whole number of at least 0"),
        ({"V": 0}, "V=0: a variance above 0"),
        ({"pstay": 1}, "pstay=1 is not a probability below 1"),
        ({"pstay": -0.1}, "pstay=-0.1 is not a probability"),
    ):
        with pytest.raises(ilba.InputError, match=said):
            ptable(**{"D": 2, "V": 1.0} | given)


@pytest.mark.parametrize(("name", "tables"), [("A", "region_sex_age"), ("B", "region_sex_age"), ("C", "region_age")])
def test_european_cell_keys_give_the_r_packages_table(eu, name, tables):
    people = pl.read_csv(eu / "micro_own.csv").drop("id").with_columns(county=pl.col("region").str.slice(0, 2))
    others = tables.split("_")[1:]
    found = cell_key_table(
        people, pl.read_csv(eu / f"ptable_{name}.csv"), f"(region + county)*{'*'.join(others)}", "rkey"
    )
    expected = pl.read_csv(eu / f"expected_{name}_{tables}.csv")
    labels = ["region", *others]
    both = expected.join(found, on=labels, how="full", suffix="_ours")
    assert both.height == expected.height == found.height
    for column in ("uwc", "pert", "puwc"):
        assert both[column].equals(both[f"{column}_ours"].alias(column))
    assert np.abs(both["ckey"].to_numpy() - both["ckey_ours"].to_numpy()).max() < 1e-9


def test_the_handbooks_example_of_a_cell_key(shared):
    folder = shared / "outside" / "03_handbook"
    people = pl.read_csv(folder / "ckm_micro.csv").drop("id")
    found = cell_key_table(people, pl.read_csv(folder / "ckm_ptable.csv"), "sex", "record_key", closed="right")
    expected = pl.read_csv(folder / "ckm_expected.csv").row(0, named=True)
    (male,) = found.filter(pl.col("sex") == "male").to_dicts()
    assert (male["uwc"], male["ckey"], male["pert"], male["puwc"]) == (
        expected["count"],
        expected["cell_key"],
        expected["noise"],
        expected["perturbed"],
    )


def test_a_key_on_a_bound_belongs_above_it_or_below_it():
    moves = pl.DataFrame({"i": [0, 1, 1], "j": [0, 0, 2], "p": [1.0, 0.5, 0.5]})
    one = pl.DataFrame({"sex": ["f"], "record_key": [0.5]})
    assert cell_key_table(one, moves, "sex")["puwc"].to_list() == [2, 2]
    assert cell_key_table(one, moves, "sex", closed="right")["puwc"].to_list() == [0, 0]
    with pytest.raises(ilba.InputError, match=r"closed='Right' is not known\. It is 'left' or 'right'"):
        cell_key_table(one, moves, "sex", closed="Right")


PEOPLE = pl.DataFrame({"sex": ["f", "f", "m"], "town": ["a", None, "a"], "record_key": [0, 1, 0]})
ONS_MOVES = pl.DataFrame({"pcv": [1, 1, 2, 2], "ckey": [0, 1, 0, 1], "pvalue": [-1, 1, 0, 1]})


def test_every_combination_has_a_row_also_that_of_a_missing_label():
    found = create_perturbed_table(PEOPLE, ONS_MOVES, "town", "sex", threshold=0)
    assert found.select("town", "sex", "pre_sdc_count", "count").rows() == [
        (None, "f", 1, 2),
        (None, "m", 0, 0),
        ("a", "f", 1, 0),
        ("a", "m", 1, 0),
    ]


@pytest.mark.parametrize(("threshold", "shown"), [(0, [3, 0]), (1, [3, None]), (3, [3, None]), (4, [None, None])])
def test_a_count_below_the_threshold_is_null(threshold, shown):
    for area in ("", None, []):
        found = create_perturbed_table(PEOPLE, ONS_MOVES, area, "sex", "record_key", threshold)
        assert found["count"].to_list() == shown


def test_counts_below_10_are_null_unless_another_threshold_is_given():
    moves = pl.DataFrame({"pcv": range(1, 11), "ckey": [0] * 10, "pvalue": [0] * 10})
    people = pl.DataFrame({"sex": ["f"] * 9 + ["m"] * 10, "record_key": [0] * 19})
    assert create_perturbed_table(people, moves, tab_vars="sex")["count"].to_list() == [None, 10]


def test_a_table_without_columns_is_refused():
    with pytest.raises(ilba.InputError, match="give geog= or tab_vars="):
        create_perturbed_table(PEOPLE, ONS_MOVES, "", None)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["a", "b"], "not all numbers"),
        ([0.5, float("nan")], "not all numbers"),
        ([0.5, float("inf")], "not all numbers"),
        ([0.5, None], "not all numbers"),
        ([0.5, 1.25], "have to lie in"),
        ([-0.25, 0.5], "have to lie in"),
    ],
)
def test_record_keys_that_decide_nothing_are_refused(keys, said):
    people = pl.DataFrame({"sex": ["f", "m"], "record_key": keys})
    with pytest.raises(ilba.InputError, match=said):
        cell_key_table(people, MOVES, "sex")


def test_whole_record_keys_count_modulo_the_number_of_keys_in_every_type():
    for keys in ([0, 3, 4], [0.0, 3.0, 4.0], [256, 7, 8]):
        found = create_perturbed_table(
            PEOPLE.with_columns(record_key=pl.Series(keys)), ONS_MOVES, None, "sex", threshold=0
        )
        assert found["ckey"].to_list() == [1, 0]


MOVES = pl.DataFrame({"i": [0, 1, 1], "j": [0, 0, 2], "p": [1.0, 0.25, 0.75]})


@pytest.mark.parametrize("name", ["upper", "p_int_ub", "ub"])
def test_a_european_ptable_has_chances_or_upper_bounds(name):
    one = pl.DataFrame({"sex": ["f", "m"], "record_key": [0.2, 0.3]})
    bounds = pl.DataFrame({"i": [1, 0, 1], "j": [2, 0, 0], name: [1.0, 1.0, 0.25]})
    expected = cell_key_table(one, MOVES, "sex")
    assert expected["puwc"].to_list() == [3, 0, 2]
    assert cell_key_table(one, bounds, "sex").equals(expected)
    assert cell_key_table(one, MOVES.reverse(), "sex").equals(expected), "in any order of its rows"


def test_a_ptable_may_have_padded_numbers_as_pt_export_of_r_writes_them(tmp_path):
    (tmp_path / "p.txt").write_text("i; j;p;v;p_int_ub\n0; 0;1.00; 0;1.00\n1; 0;0.25;-1;0.25 \n1; 2;0.75; 1;1.00\n")
    assert read_ptable(tmp_path / "p.txt").mark == read_ptable(MOVES).mark


def test_a_ptable_separated_by_blanks_is_told_what_is_read(tmp_path):
    (tmp_path / "p.txt").write_text('"i" "j" "p"\n"1" 0 0 1\n"2" 1 0 0.25\n"3" 1 2 0.75\n')  # write.table of R
    with pytest.raises(
        ilba.InputError, match=r"p\.txt' are separated by blanks\. Commas, semicolons and tabs are read"
    ):
        read_ptable(tmp_path / "p.txt")


def test_a_sliced_ptable_has_a_result_in_several_intervals_in_the_order_of_their_bounds():
    sliced = pl.DataFrame(
        {"i": [0, 1, 1, 1], "j": [0, 0, 2, 0], "p": [1.0, 0.5, 0.25, 0.25], "p_int_ub": [1.0, 1.0, 0.5, 0.25]}
    )
    one = pl.DataFrame({"sex": ["a", "b", "c"], "record_key": [0.1, 0.3, 0.6]})
    for given in (sliced, sliced.reverse(), sliced.drop("p")):
        assert cell_key_table(one, given, "sex")["puwc"].to_list()[1:] == [0, 2, 0]
    assert read_ptable(sliced).chance(np.array([0, 2]), np.array([1, 1])).tolist() == [0.75, 0.25]
    with pytest.raises(ilba.InputError, match="has i=0, j=0 twice"):
        read_ptable(pl.concat([sliced, sliced.head(1)]))


def test_intervals_that_are_rearranged_but_not_sliced_are_read_in_the_order_of_their_bounds():
    rearranged = pl.DataFrame({"i": [0, 1, 1], "j": [0, 0, 2], "p": [1.0, 0.25, 0.75], "p_int_ub": [1.0, 1.0, 0.75]})
    one = pl.DataFrame({"sex": ["a", "b", "c"], "record_key": [0.1, 0.7, 0.8]})
    chained = rearranged.drop("p").with_columns(p_int_lb=pl.Series([0.0, 0.75, 0.0]))
    for given in (rearranged, rearranged.reverse(), rearranged.drop("p"), chained):
        assert cell_key_table(one, given, "sex")["puwc"].to_list()[1:] == [2, 2, 0]


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        (MOVES.drop("p"), "not a p-table: it has i, j"),
        (MOVES.with_columns(v=pl.Series([0, -1, 2])), "i=1, j=2: v is not the change j - i"),
        (MOVES.drop("i"), "not a p-table: it has j, p"),
        (MOVES.filter(pl.col("i") == 1), "without a gap"),
        (ONS_MOVES.head(3), "has 3 rows; 2 counts and 2 keys need 4"),
        (MOVES.with_columns(p=pl.Series([1.0, 0.25, 0.7])), "probabilities of i=1 .* do not add up to 1"),
        (MOVES.with_columns(p=pl.Series([1.0, 1.25, -0.25])), "probabilities of i=1 .* are below 0"),
        (MOVES.rename({"p": "upper"}), "probabilities of i=1 .* do not add up to 1"),
        (MOVES.with_columns(p=pl.Series(["1", "a", "b"])), "column 'p' of the p-table has a gap"),
        (MOVES.with_columns(j=pl.Series([0, None, 2])), "column 'j' of the p-table has a gap"),
        (MOVES.with_columns(upper=pl.Series([1.0, 0.5, 1.0])), "contradicts itself at i=1, j=0"),
        (MOVES.with_columns(j=pl.Series([0, -1, 2])), "has i or j below 0"),
        (MOVES.with_columns(j=pl.Series([0, 2, 2])), "has i=1, j=2 twice"),
        (pl.concat([ONS_MOVES.head(3), ONS_MOVES.head(1)]), "has pcv=1, ckey=0 twice"),
        ("nowhere.csv", "'nowhere.csv' cannot be read"),
        (MOVES.head(0), r"^the p-table has no rows\.$"),
        (ONS_MOVES.head(0), r"^the p-table has no rows\.$"),
        (MOVES.with_columns(i=pl.Series([0.0, 1.0, 1.5])), "column 'i' of the p-table has decimals"),
        (MOVES.with_columns(j=pl.Series([2, 0, 2])), r"changes empty cells: it has i=0, j=2\. Empty cells stay 0"),
        (
            MOVES.with_columns(upper=pl.Series([1.0, 0.25, 1.0]), lower=pl.lit(0.0)),
            "contradicts itself at i=1, j=2: p is not the width of the interval from lower to upper. .*leave lower out",
        ),
    ],
)
def test_a_ptable_that_is_not_one_is_refused(moves, said):
    with pytest.raises(ilba.InputError, match=said):
        cell_key_table(PEOPLE, moves, "sex")


FULL = MOVES.with_columns(
    v=pl.Series([0.0, -1.0, 1.0]), upper=pl.Series([1.0, 0.25, 1.0]), lower=pl.Series([0.0, 0.0, 0.25])
)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("moves", "name"),
    [
        *((FULL, name) for name in FULL.columns),
        (FULL.drop("p"), "lower"),
        (FULL.drop("p", "lower"), "upper"),
        (MOVES, "p"),
        *((ONS_MOVES, name) for name in ONS_MOVES.columns),
    ],
)
def test_a_number_that_is_not_finite_is_refused_in_every_column_of_a_ptable(moves, name, wrong, tmp_path):
    read_ptable(moves)
    for row in range(moves.height):
        damaged = moves.with_columns(pl.when(pl.int_range(pl.len()) == row).then(wrong).otherwise(name).alias(name))
        damaged.write_csv(tmp_path / "p.csv")
        for given in (damaged, tmp_path / "p.csv"):
            with pytest.raises(ilba.InputError, match=f"column '{name}' of the p-table has a gap, a text, NaN"):
                read_ptable(given)


def test_a_file_with_a_header_only_is_a_ptable_without_rows(tmp_path):
    for moves in (MOVES, ONS_MOVES):
        moves.head(0).write_csv(tmp_path / "p.csv")
        with pytest.raises(ilba.InputError, match=r"^the p-table has no rows\.$"):
            ilba.methods.CellKey(tmp_path / "p.csv")


def test_a_ptable_of_the_ons_may_hold_its_whole_numbers_as_floats():
    assert read_ptable(ONS_MOVES.cast(pl.Float64)).mark == read_ptable(ONS_MOVES).mark


BOUNDS = ptable(D=3, V=1.5, js=1).rename({"lower": "p_int_lb", "upper": "p_int_ub"}).drop("p")
WRONG_END = BOUNDS.with_columns(
    p_int_ub=pl.when(pl.col("i") == 4, pl.col("p_int_ub") == 1).then(0.9).otherwise("p_int_ub")
)


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (WRONG_END, "contradicts itself at i=4, j=7: p_int_lb is not the upper bound of the interval before"),
        (WRONG_END.drop("p_int_lb"), "probabilities of i=4 .* do not add up to 1"),
        (BOUNDS.with_columns(pl.col("p_int_ub") * 0.999), "probabilities of i=0 .* do not add up to 1"),
        (BOUNDS.with_columns(pl.col("p_int_ub").reverse()), "contradicts itself at i=1"),
        (BOUNDS.with_columns(p_int_lb=pl.lit(None, pl.Float64)), "column 'p_int_lb' of the p-table has a gap"),
    ],
)
def test_bounds_without_chances_chain_and_end_at_1(damaged, said):
    assert read_ptable(BOUNDS).mark == read_ptable(BOUNDS.drop("p_int_lb")).mark
    with pytest.raises(ilba.InputError, match=said):
        read_ptable(damaged)


def test_a_ptable_that_moves_counts_below_zero_needs_a_threshold():
    moves = ONS_MOVES.with_columns(pvalue=pl.Series([-2, 0, 1, 1]))
    with pytest.raises(ilba.InputError, match=r"below 0, first at pcv=1, ckey=0.*threshold=1"):
        ilba.methods.CellKey(moves)
    assert ilba.methods.CellKey(moves, threshold=1).blank_chance(np.array([0, 1, 2]), 5).tolist() == [1, 0.5, 0]


def test_badly_spread_keys_with_a_european_ptable_are_refused_since_they_would_change_all_counts_one_way():
    with pytest.raises(ilba.InputError, match=r"record keys from 0 to 200 .* in one direction.*Divide them"):
        cell_key_table(PEOPLE.with_columns(record_key=pl.lit(200)), MOVES, "sex")
    keys = np.random.default_rng(1).integers(0, 2**24, 1000)
    with pytest.raises(ilba.InputError, match="in one direction"):
        cell_key_table(pl.DataFrame({"sex": "f", "record_key": keys}), MOVES, "sex")
    half = pl.DataFrame({"sex": "f", "record_key": keys / 2**25})
    with pytest.raises(ilba.InputError, match="not spread over 0 to 1"):
        cell_key_table(half, MOVES, "sex")
    wide = ONS_MOVES.select("pvalue").head(1).join(pl.DataFrame({"ckey": range(256)}), how="cross").with_columns(pcv=1)
    for moves, one in ((wide, 0), (wide, 9), (wide, 1000), (MOVES, 0), (MOVES, 0.0)):
        same = pl.DataFrame({"sex": ["f"] * 100, "record_key": [one] * 100})
        with pytest.raises(ilba.InputError, match=r"not spread over 0 to .* in one direction.*Draw random keys"):
            cell_key_table(same, moves, "sex")
        assert cell_key_table(same.head(1), moves, "sex")["uwc"].to_list() == [1, 1]
    with pytest.raises(ilba.InputError, match=r"not 'people.csv'\. Read the file first: polars.read_csv"):
        cell_key_table("people.csv", MOVES, "sex")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([0.0, 0.25, 1.0], [0, 25_000_000, 0]),  # both ends are decimals among decimals
        ([0.5, 1.0], [50_000_000, 0]),
        ([3, 99_999_999], [3, 99_999_999]),
        ([50_000_000, 10**8], [50_000_000, 0]),
        ([], []),
    ],
)
def test_record_keys_become_whole_numbers_below_the_number_of_parts(given, kept):
    assert whole_keys(given, 10**8).tolist() == kept


def test_whole_keys_of_0_and_1_are_no_keys_from_0_to_1():
    with pytest.raises(ilba.InputError, match="or give a p-table with pcv, ckey and pvalue"):
        whole_keys([0, 1] * 9, 10**8)


def test_a_table_by_cell_keys_names_a_record_key_that_is_missing():
    people = pl.DataFrame({"sex": ["f", "m"], "key": [0.75, 0.5]})
    with pytest.raises(ilba.InputError, match="there is no column 'record_key'"):
        cell_key_table(people, pl.DataFrame({"i": [0, 1], "j": [0, 1], "p": [1.0, 1.0]}), "sex")
