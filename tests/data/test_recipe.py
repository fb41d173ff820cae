"""The recipe: what is done to columns before they are labels, on every kind of data."""

from __future__ import annotations

import unicodedata

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ilba
from ilba.data.recipe import Change, ColumnRecipe, Recipe

MESSY = pl.DataFrame(
    {
        "town": ["1001", " 01001", "2002", "02002 "] * 20,
        "sex": ["F", " f", "female", "m"] * 20,
        "age": ["7", "8,5", "93", "n/a"] * 20,
        "status": ["in", "in", "in ", "out"] * 20,
    }
)
CLEAN = [("01", "01001", "f", "05-09", 40), ("02", "02002", "f", "85+", 20), ("02", "02002", "m", None, 20)]


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "sex.csv").write_text("value,becomes\nf,f\nfemale,f\nm,m\n")
    return ilba.Recipe(
        {
            "town": {"pad": 5},
            "region": {"from": "town", "prefix": 2},
            "sex": {"case": "lower", "recode": "sex.csv"},
            "age": {"bands": "0-4,5-9,...,85+"},
        },
        missing=["n/a"],
        decimal=",",
        folder=tmp_path,
    )


def counted(data, recipe, secret, **options):
    options = {"missing": "category", "secret": secret} | options
    finest = ilba.build(data, ["region", "town"], ["sex", "age"], recipe=recipe, **options)
    return finest.frame.drop("N_masked").rows()


def sources(tmp_path):
    MESSY.write_csv(tmp_path / "p.csv", separator=";")
    MESSY.write_parquet(tmp_path / "p.parquet")
    yield MESSY
    yield MESSY.lazy()
    yield MESSY.to_pandas()
    yield MESSY.to_arrow()
    yield duckdb.from_arrow(MESSY.to_arrow())
    yield tmp_path / "p.csv"
    yield tmp_path / "p.parquet"


def test_every_kind_of_data_follows_the_recipe(recipe, secret, tmp_path):
    for data in sources(tmp_path):
        assert counted(data, recipe, secret) == CLEAN


def test_masks_are_those_of_data_that_was_clean_before(recipe, secret):
    clean = pl.DataFrame(
        [row[:4] for row in CLEAN for _ in range(row[4])], schema=["region", "town", "sex", "age"], orient="row"
    )
    arguments = (["region", "town"], ["sex", "age"])
    messy = ilba.build(MESSY, *arguments, recipe=recipe, missing="category", secret=secret)
    assert messy.frame.equals(ilba.build(clean, *arguments, missing="category", secret=secret).frame)


def test_each_step_tells_how_many_records_it_changed(recipe, secret):
    counted(MESSY, recipe, secret)
    assert recipe.changes == [
        Change("town", "trim", 40),
        Change("town", "pad", 40),
        Change("region", "prefix", 80),
        Change("sex", "trim", 20),
        Change("sex", "case", 20),
        Change("sex", "recode", 20),
        Change("age", "missing", 20),
        Change("age", "bands", 60),
    ]


def test_changes_are_told_once_however_often_a_recipe_is_used(recipe, secret):
    counted(MESSY, recipe, secret)
    once = list(recipe.changes)
    counted(MESSY.head(40), recipe, secret)
    assert recipe.changes == once


def test_only_the_records_that_are_asked_for_are_counted(recipe, secret, tmp_path):
    recipe.where = {"status": ["in"]}
    for data in sources(tmp_path):
        assert counted(data, recipe, secret) == CLEAN[:2]
    given = ilba.Recipe(where={"sex": ["f"], "year": [2026]}, without={"town": ["b"]})
    assert (given.where, given.without) == ({"sex": ["f"], "year": ["2026"]}, {"town": ["b"]})
    assert given.asks == ["sex", "year", "town"]


def test_a_line_of_totals_is_not_counted_and_a_missing_value_is_no_total(recipe, secret, tmp_path):
    recipe.without = {"status": ["out", "never"]}
    for data in sources(tmp_path):
        assert counted(data, recipe, secret) == CLEAN[:2]
    people = pl.DataFrame({"town": ["a"] * 6 + ["Total "], "sex": [None, *["f"] * 5, None]})
    left = ilba.build(
        people,
        ["town"],
        recipe=ilba.Recipe(without={"town": ["Total"], "sex": ["x"]}),
        missing="category",
        secret=secret,
    )
    assert left.frame["N"].sum() == 6


@pytest.mark.parametrize(
    ("steps", "values", "expected"),
    [
        ({}, [" a ", "a"], ["a", "a"]),
        ({}, ["  ", ""], [None, None]),
        ({"trim": False}, [" a ", "a"], [" a ", "a"]),
        ({"missing": ["-"]}, ["-", "a"], [None, "a"]),
        ({"case": "upper"}, ["ä", None], ["Ä", None]),
        ({"case": "lower"}, ["KADIN", "EVLİ", "EVLI\u0307", "ΝΑΙΣ"], ["kadin", "evli", "evli", "ναις"]),
        ({"case": "lower-tr"}, ["KADIN", "EVLİ", "EVLI\u0307", "Kadın"], ["kadın", "evli", "evli", "kadın"]),
        ({"case": "upper-tr"}, ["Kadın", "evli", "Şırnak"], ["KADIN", "EVLİ", "ŞIRNAK"]),
        ({"replace": {"St.": "Saint ", "  ": " "}}, ["St. Ives", "x"], ["Saint  Ives", "x"]),
        ({"split": "-", "part": 2}, ["11-02", "12-03"], ["02", "03"]),
        ({"date": "%d.%m.%Y"}, ["31.01.2020", None], ["2020-01-31", None]),
        (
            {"date": ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"]},
            ["31.01.2020", "01/02/2020", "01/31/2020"],
            ["2020-01-31", "2020-02-01", "2020-01-31"],
        ),
        ({"date": ["%d.%m.%Y", "%d.%m.%y"]}, ["18.3.26", "18.03.2026"], ["2026-03-18", "2026-03-18"]),
        ({"date": "%d.%m.%Y", "take": "quarter"}, ["31.01.2020", "01.12.2021"], ["2020-Q1", "2021-Q4"]),
        ({"date": "%d.%m.%Y", "take": "year"}, ["31.01.2020", None], ["2020", None]),
        ({"date": "%d.%m.%Y", "take": "month"}, ["31.01.2020", None], ["2020-01", None]),
        ({"date": "%Y-%m-%d", "age_on": "2026-07-01"}, ["1990-07-01", "1990-07-02"], ["36", "35"]),
        ({"pad": 3}, ["7", "1234"], ["007", "1234"]),
        ({"prefix": 2}, ["0117", "9"], ["01", "9"]),
        ({"bands": "0-4,5-9,...,15-17,18+"}, ["0", "14", "17.9", "18"], ["00-04", "10-14", "15-17", "18+"]),
        ({"bands": "0,1-9,10+"}, ["0", "9", "100"], ["00", "01-09", "10+"]),
        (
            {"bands": "0-1.49,1.5-2.29,2.3-9.9,10+"},
            ["1.499", "2.2", "2.3", "1.50-2.29", "12", "11+"],
            ["00.00-01.49", "01.50-02.29", "02.30-09.99", "01.50-02.29", "10.00+", "10.00+"],
        ),
        ({"width": 10, "top": 25}, ["24", "25"], ["20-24", "25+"]),
        ({"width": 5, "top": 85}, ["7", "0-4", "05-09", "85+", "90+"], ["05-09", "00-04", "05-09", "85+", "85+"]),
        ({"width": 5, "top": 85, "unmatched": "missing"}, ["80+", "3-7", "+"], [None, None, None]),
        ({"bands": "0-4,5-9", "unmatched": "missing"}, ["0-4", "5+"], ["0-4", None]),
        ({"bands": "0-4,5+", "unmatched": "keep"}, ["3", "old"], ["0-4", "old"]),
        ({"bands": "0-4,5+", "unmatched": "missing"}, ["3", "old"], ["0-4", None]),
    ],
)
def test_a_step_does_what_it_says(steps, values, expected):
    frame = pl.DataFrame({"x": values, "N": [1] * len(values)}, schema_overrides={"x": pl.String})
    assert ilba.Recipe({"x": steps}).applied(frame, ["x"])["x"].to_list() == expected


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("%d.%m.%Y", r"2 values \('18.3.26', '18.3.48'\) are not written as.* %y is a year of"),
        ("%d.%m.%y", r"1 value \('18.3.48'\) is after age_on"),
    ],
)
def test_a_year_of_two_digits_never_makes_an_age_of_another_century(form, says):
    frame = pl.DataFrame({"age": ["18.3.26", "18.3.48"], "N": [1, 1]})
    with pytest.raises(ilba.InputError, match=says):
        ilba.Recipe({"age": {"date": form, "age_on": "2026-07-01", "width": 5, "top": 85}}).applied(frame, ["age"])


def test_numbers_that_were_read_as_fractions_become_whole_codes_and_nan_is_missing():
    frame = pl.DataFrame({"x": [1.0, float("nan"), None, 20.0], "N": [1] * 4})
    assert ilba.Recipe({"x": {"pad": 2}}).applied(frame, ["x"])["x"].to_list() == ["01", None, None, "20"]


def test_a_value_without_a_recode_is_named_as_in_the_data_and_a_missing_value_as_such(tmp_path):
    (tmp_path / "towns.csv").write_text("town,district\n0203012,0203\n")
    frame = pl.DataFrame({"town": ["203012", " b/d"], "N": [1, 1]})
    steps = {"town": {"pad": 7}, "d": {"from": "town", "recode": "towns.csv"}}
    says = r"recipe.d: 1 value \('b/d'\) is not in 'towns.csv'. If it is missing there, write missing = \['b/d'\]"
    with pytest.raises(ilba.InputError, match=says):
        ilba.Recipe(steps, folder=tmp_path).applied(frame, ["d", "town"])
    cured = ilba.Recipe(steps, folder=tmp_path, missing=["b/d"])
    assert cured.applied(frame, ["d", "town"]).rows() == [("0203", "0203012"), (None, None)]


def test_zeros_of_recoded_values_have_an_entry_and_a_pad_that_does_nothing_names_it(tmp_path):
    (tmp_path / "towns.csv").write_text("town,district\n0203012,203\n1601011,1601\n")
    frame = pl.DataFrame({"town": ["0203012", "1601011"], "N": [1, 1]})

    def made(**steps):
        return ilba.Recipe({"d": {"from": "town", **steps}}, folder=tmp_path).applied(frame, ["d"])["d"].to_list()

    assert made(recode={"file": "towns.csv", "pad_to": 4}) == ["0203", "1601"]
    assert made(recode="towns.csv", pad=7) == ["203", "1601"]
    with pytest.raises(ilba.InputError, match=r"pad = 4 adds zeros before the recode.*{.., pad_to = 4} instead"):
        made(recode="towns.csv", pad=4)


def test_a_day_that_does_not_exist_is_answered_with_an_entry_that_helps():
    frame, steps = pl.DataFrame({"age": ["31/02/1980", "01/03/1980"], "N": [1, 1]}), {"date": "%d/%m/%Y"}
    with pytest.raises(ilba.InputError, match=r"'31/02/1980'.*days that do not exist, such as 31/02: missing = \[..\]"):
        ilba.Recipe({"age": steps}).applied(frame, ["age"])
    mended = ilba.Recipe({"age": steps | {"missing": ["31/02/1980"]}}).applied(frame, ["age"])
    assert mended["age"].to_list() == [None, "1980-03-01"]


@pytest.mark.parametrize("more", [{"width": 5, "top": 85}, {}])
def test_a_date_of_birth_after_the_day_of_ages_is_told_so_and_is_no_age(more):
    frame = pl.DataFrame({"age": ["1990-07-01", "2026-08-01", "2027-01-01"], "N": [1, 1, 1]})
    steps = {"date": "%Y-%m-%d", "age_on": "2026-07-01", **more}
    says = r"2 values \('2026-08-01', '2027-01-01'\) are after age_on = '2026-07-01'.*Set age_on to the day"
    with pytest.raises(ilba.InputError, match=says):
        ilba.Recipe({"age": steps}).applied(frame, ["age"])
    ages = ilba.Recipe({"age": steps | {"unmatched": "missing"}}).applied(frame, ["age"])["age"].to_list()
    assert ages == ["35-39" if more else "36", None, None]


@pytest.mark.parametrize(
    ("unmatched", "expected"), [("keep", ["f", "x", None, None]), ("missing", ["f", None, None, None])]
)
def test_values_that_a_recode_does_not_have_are_kept_or_missing(unmatched, expected, tmp_path):
    (tmp_path / "sex.csv").write_text("value,becomes\n1,f\n9,\n")
    frame = pl.DataFrame({"sex": ["1", "x", "9", None], "N": [1] * 4})
    recipe = ilba.Recipe({"sex": {"recode": "sex.csv", "unmatched": unmatched}}, folder=tmp_path)
    assert recipe.applied(frame, ["sex"])["sex"].to_list() == expected


def test_a_column_is_made_through_columns_that_nobody_asks_for():
    frame = pl.DataFrame({"raw": ["1001", "22002"], "other": ["x", "y"], "N": [1, 1]})
    recipe = ilba.Recipe(
        {
            "region": {"from": "town", "prefix": 2},
            "town": {"from": "padded", "prefix": 4},
            "padded": {"from": "raw", "pad": 5},
            "unused": {"from": "other", "case": "upper"},
        }
    )
    assert recipe.applied(frame, ["region"]).rows() == [("01",), ("22",)]
    assert [change.column for change in recipe.changes] == ["padded", "town", "region"]
    assert recipe.needs(["region", "town", "unused"]) == ["raw", "other"]


def test_levels_are_climbed_from_paths_of_codes_the_finest_last():
    paths = pl.DataFrame({"nation": ["N", "N"], "region": ["R1", "R2"], "town": ["1", "2"]})
    recipe = ilba.Recipe()
    recipe.climb("town", ["land", "part"], paths, "towns.hrc")
    frame = pl.DataFrame({"town": ["2", "1", "2"], "N": [1, 1, 1]})
    assert recipe.applied(frame, ["land", "part", "town"]).rows() == [
        ("N", "R2", "2"),
        ("N", "R1", "1"),
        ("N", "R2", "2"),
    ]
    with pytest.raises(ilba.InputError, match=r"towns.hrc has 2 levels above the finest, and 1 is named \(land\)"):
        recipe.climb("town", ["land"], paths, "towns.hrc")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("R1", r"town: 1 value \('R1'\) is above the finest codes of 'towns.hrc'\. Give .* below 'R1' there"),
        ("9", r"town: 1 value \('9'\) is not in 'towns.hrc'\. Add what is missing there, or make them missing"),
    ],
)
def test_a_code_that_is_not_a_finest_one_of_its_hierarchy_is_told_what_it_is(code, says):
    paths = pl.DataFrame({"nation": ["N", "N"], "region": ["R1", "3"], "town": ["1", "3"]})
    frame = pl.DataFrame({"town": ["3", code], "N": [1, 1]})
    recipe = ilba.Recipe()
    recipe.climb("town", ["land", "part"], paths, "towns.hrc")
    with pytest.raises(ilba.InputError, match=says):
        recipe.applied(frame, ["land", "part", "town"])
    as_told = ilba.Recipe({"town": {"missing": [code]}})
    as_told.climb("town", ["land", "part"], paths, "towns.hrc")
    assert as_told.applied(frame, ["land", "part", "town"]).rows() == [("N", "3", "3"), (None, None, None)]


def test_a_file_of_levels_for_a_column_that_the_data_lacks_asks_for_the_column_of_the_data():
    recipe = ilba.Recipe()
    recipe.climb("class", ["part"], pl.DataFrame({"region": ["R"], "town": ["1"]}), "towns.hrc")
    with pytest.raises(ilba.InputError, match=r"'towns.hrc' has the levels above 'class', .* with its finest codes"):
        recipe.check_sources(["town"], "'people.csv'")


def test_a_column_that_nothing_changes_keeps_its_type():
    frame = pl.DataFrame({"x": [1, 2], "y": [1.0, None], "N": [1, 1]})
    assert ilba.Recipe().applied(frame, ["x", "y"]).equals(frame.drop("N"))


def test_bands_sort_as_their_numbers_and_are_declared_with_plain_labels():
    bands = ilba.Recipe({"age": {"width": 5, "top": 100}}).declared_bands()["age"]
    assert [code for code, _ in bands] == sorted(code for code, _ in bands)
    assert bands[:2] == [("000-004", "0-4"), ("005-009", "5-9")]
    assert bands[-1] == ("100+", "100+")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"age": {"band": "0-4"}}, "recipe.age has the entry 'band', which is not known. Did you mean 'bands'?"),
        ({"age": {"pad": "5"}}, "recipe.age.pad: expected int"),
        ({"age": {"bands": "0-4,6-9"}}, "have a gap, overlap, or are not in order"),
        ({"age": {"bands": "0-1.5,1.5-2.5"}}, r"or are not in order\. Write 0-4,5-9 or 0-1\.4,1\.5-2\.4"),
        ({"age": {"bands": "...,5+"}}, "three points go between two bands"),
        ({"age": {"bands": "0-4,5+,...,20+"}}, "three points go between two bands"),
        ({"age": {"bands": "young"}}, "'young' is not a band. Write 0-4, 7 or 85"),
        ({"age": {"width": 5}}, "width without top"),
        ({"age": {"take": "year"}}, "take without date"),
        ({"age": {"age_on": "2026-07-01"}}, "age_on without date"),
        ({"age": {"part": 2}}, "part without split"),
        ({"age": {"split": "-", "part": 5, "top": 5}}, "top without width"),
        ({"age": {"bands": "0-4,5+", "width": 5, "top": 10}}, "bands and width. Leave one"),
        ({"a": {"from": "b"}, "b": {"from": "a"}}, "are made from each other"),
        ({"age": {"case": "title"}}, "recipe.age.case: 'title' is not known."),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_with_what_to_type(columns, says):
    with pytest.raises(ilba.InputError, match=says):
        ilba.Recipe(columns)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ({"recode": "sex.csv"}, r"2 values \('F', 'x'\) are not in 'sex.csv'. In lower case they match: write case"),
        ({"recode": "codes.csv"}, "Add what is missing there, or write unmatched = 'keep' or 'missing' in the recipe"),
        ({"recode": "twice.csv"}, "two new values for f"),
        ({"recode": {"file": "sex.csv", "from": "valeu"}}, "no column 'valeu'. Did you mean 'value'"),
        ({"recode": "se.csv"}, "there is no file .* Did you mean 'sex.csv'"),
        ({"bands": "0-4,5+"}, r"3 values \('F', 'f', 'x'\) are in no band. Add a band"),
        ({"date": "%Y"}, r"are not written as '%Y'\. .* or several: date = \["),
        ({"split": "-", "part": 2}, "without part 2 between '-'"),
    ],
)
def test_values_that_do_not_match_stop_with_examples(steps, says, tmp_path, secret):
    (tmp_path / "sex.csv").write_text("value,becomes\nf,f\n")
    (tmp_path / "codes.csv").write_text("value,becomes\n001,a\n")
    (tmp_path / "twice.csv").write_text("value,becomes\nf,f\nf,m\n")
    data = pl.DataFrame({"town": ["a"] * 3, "sex": ["f", "F", "x"]})
    with pytest.raises(ilba.InputError, match=says):
        ilba.build(data, ["town"], ["sex"], secret=secret, recipe=ilba.Recipe({"sex": steps}, folder=tmp_path))


def test_leading_zeros_are_suggested(tmp_path, secret):
    (tmp_path / "towns.csv").write_text("AGS,region\n01001,01\n02002,02\n")
    data = pl.DataFrame({"town": ["1001", "2002"]})
    recipe = {"region": {"from": "town", "recode": {"file": str(tmp_path / "towns.csv"), "to": "region"}}}
    with pytest.raises(ilba.InputError, match=r"With leading zeros they match: write pad = 5"):
        ilba.build(data, ["region", "town"], [], secret=secret, recipe=recipe)


def test_a_recipe_for_a_column_that_is_not_there_is_answered_with_the_nearest(secret):
    with pytest.raises(ilba.InputError, match=r"from 'gendr', which the data does not have. Did you mean 'gender'"):
        ilba.build(pl.DataFrame({"gender": ["f"]}), ["gender"], [], recipe={"sex": {"from": "gendr"}}, secret=secret)


def test_every_step_of_a_recipe_is_described():
    import msgspec

    schema = msgspec.json.schema(ColumnRecipe)["$defs"]["ColumnRecipe"]["properties"]
    assert all(entry.get("description") for entry in schema.values())


def banded(values, decimal="", **steps):
    recipe = ilba.Recipe({"x": {"bands": "0-999,1000-1999,2000+"} | steps}, decimal=decimal)
    return recipe.applied(pl.DataFrame({"x": values, "N": [1] * len(values)}), ["x"])["x"].to_list()


def test_with_decimal_commas_a_dot_before_three_digits_separates_thousands_and_any_other_dot_is_refused():
    assert banded(["2.611", "667", "1.530,55", "1.234.567", "0,5"], ",") == [
        *("2000+", "0000-0999", "1000-1999", "2000+", "0000-0999"),
    ]
    with pytest.raises(ilba.InputError, match=r"'1.5'.*replace = \{'.' = ','\}"):
        banded(["1.5", "2.611"], ",")
    assert banded(["1.5", "2.611"], ",", replace={".": ","}) == ["0000-0999"] * 2
    assert banded([2.611, 1667.5], ",") == ["0000-0999", "1000-1999"]  # numbers, not texts


def test_dots_before_three_digits_alone_are_asked_about_and_declaring_the_sign_answers():
    with pytest.raises(ilba.InputError, match=r"thousands, or decimals\?.*decimal = ','.*decimal = '\.'"):
        banded(["2.611", "667"])
    assert banded(["2.611", "667"], ".") == ["0000-0999"] * 2
    assert banded(["2.611", "667"], replace={".": ""}) == ["2000+", "0000-0999"]
    assert banded(["2.611", "0.667"]) == banded(["2.611", "6.67"]) == banded([2.611, 3.125]) == ["0000-0999"] * 2


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1.530,55", r"decimal commas, write decimal = ','"),
        ("1,530.55", r'replace = {"," = ""}'),
        ("1\u00a0530", r'replace = {"\u00a0" = ""}'),
        ("1.234.567", r'replace = {"." = ""}'),
    ],
)
def test_the_error_of_a_number_with_other_signs_names_the_step_that_reads_it(value, said):
    with pytest.raises(ilba.InputError) as caught:
        banded([value, "5"])
    assert said in str(caught.value)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("as_frame", [pl.DataFrame, pl.DataFrame.to_pandas])
def test_where_and_without_match_values_in_either_form_of_unicode(form, as_frame):
    total, town = (unicodedata.normalize(form, text) for text in ("Tổng cộng", "Huế"))
    people = as_frame(pl.DataFrame({"town": [town, town, "b", total], "sex": ["f", "m", "f", None]}))
    for recipe, towns in [({"without": {"town": ["Tổng cộng"]}}, {town, "b"}), ({"where": {"town": ["Huế"]}}, {town})]:
        finest = ilba.build(
            people,
            ["town"],
            ["sex"],
            recipe=ilba.Recipe({}, **recipe),
            missing="category",
            secret=ilba.Secret(bytes(32)),
        )
        assert set(finest.frame["town"]) == towns


CODES = st.sampled_from("abcdef")


@given(st.dictionaries(CODES, CODES, min_size=1), st.sets(CODES, min_size=1), st.randoms())
def test_a_list_of_all_codes_after_a_recode_stays_as_it_is(tmp_path_factory, recode, values, random):
    recipe, made = recoded(tmp_path_factory, recode, values)
    more = random.sample("uvwxyz", 2)
    listed = pl.Series([*sorted(made), *more])
    assert recipe.renamed(listed, "town").equals(listed)


@given(st.dictionaries(CODES, st.sampled_from("uvwxyz"), min_size=1), st.sets(CODES, min_size=1))
def test_a_list_of_old_codes_is_renamed_as_the_data_where_no_two_become_one(tmp_path_factory, recode, values):
    recipe, made = recoded(tmp_path_factory, recode, values)
    found = recipe.renamed(pl.Series(sorted(values)), "town")
    assert found.n_unique() == len(values)
    if len(made) == len(values):
        assert set(found) == made


@pytest.mark.parametrize(
    "entry",
    [{"unmatched": "keep", "case": "upper"}, {"recode": "codes.csv"}, {"recode": "codes.csv", "unmatched": "missing"}],
)
def test_only_a_recode_that_keeps_what_it_does_not_name_renames_lists(tmp_path, entry):
    (tmp_path / "codes.csv").write_text("new,old\n0111,0101\n")
    listed = pl.Series(["0102", "0111"])
    assert Recipe({"town": entry}, folder=tmp_path).renamed(listed, "town").equals(listed)
    kept = Recipe({"town": {"recode": "codes.csv", "unmatched": "keep"}}, folder=tmp_path)
    assert kept.renamed(listed, "town").to_list() == ["0102", "0101"]


def recoded(tmp_path_factory, recode, values):
    """A recipe that keeps the other values, and what it makes of some."""
    folder = tmp_path_factory.mktemp("recode")
    (folder / "codes.csv").write_text("new,old\n" + "".join(f"{old},{new}\n" for old, new in recode.items()))
    recipe = Recipe({"town": {"recode": "codes.csv", "unmatched": "keep"}}, folder=folder)
    return recipe, set(recipe.applied(pl.DataFrame({"town": sorted(values), "N": [1] * len(values)}), ["town"])["town"])
