"""The synthetic census: as full as the paper's, the same everywhere, and a map that fits its codes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ilba
from ilba.datasets import census, census_codes, census_geometry, census_parts

pytestmark = pytest.mark.slow

AREAS = ["LA1", "LA2", "LA3", "OA"]
KEYS = ["gender", "mar", "edu", "age", "htype"]
CATEGORIES = {
    "gender": {1, 2},
    "age": set(range(1, 19)),
    "edu": set(range(1, 10)),
    "mar": {1, 2, 3, 4, 9},
    "htype": {*range(11, 16), 19, *range(21, 30), 31, 32, 33, 39, 41, 99},
}
# Section 3.4 of the paper: rows at each level by gender, + mar, + edu, + age, + htype.
PAPER_ROWS = [
    [2, 10, 79, 777, 5140],
    [10, 50, 387, 3591, 21474],
    [156, 780, 5627, 37070, 145061],
    [5012, 24777, 116297, 370774, 617543],
]
PAPER_LOSS = {-2: 9.48, -1: 23.86, 0: 14.04, 1: 16.39, 2: 19.05, 3: 11.34, 4: 4.65, 5: 0.77, 6: 0.42}
PAPER_LOSS_ROWS = 36_802
SECRET = ilba.Secret.from_text("ilba-secret-1:" + "5e" * 32)


def finest(frame: pl.DataFrame) -> ilba.FinestTable:
    key = ["gender", "age", "edu", "mar", "htype"]
    return ilba.build(frame, hkey=AREAS, key=key, mask_thr=5, secret=SECRET)


def rows(store: ilba.FinestTable) -> list[list[int]]:
    return [[len(store.table(level=level, key=KEYS[:last])) for last in range(1, 6)] for level in range(1, 5)]


def loss(store: ilba.FinestTable) -> tuple[int, dict[int, float]]:
    distribution = store.table(level=3, key=["gender", "age", "htype"]).loss
    count = {str(label): n for label, n in zip(distribution["Loss"], distribution["n"], strict=True)}
    total = count.pop("Total")
    return total, {int(label): 100 * n / total for label, n in count.items()}


@pytest.fixture(scope="module")
def city() -> pl.DataFrame:
    return census()


@pytest.fixture(scope="module")
def store(city: pl.DataFrame) -> ilba.FinestTable:
    return finest(city)


@pytest.fixture(scope="module")
def city_rows(store: ilba.FinestTable) -> list[list[int]]:
    return rows(store)


@pytest.fixture(scope="module")
def city_loss(store: ilba.FinestTable) -> tuple[int, dict[int, float]]:
    return loss(store)


# --- as full as the paper's census


def test_census_has_a_million_rows_and_the_columns_of_the_paper(city):
    assert city.height == 1_000_000
    assert city.schema == pl.Schema(
        dict.fromkeys(AREAS, pl.String) | dict.fromkeys(["gender", "age", "edu", "mar", "htype"], pl.Int64)
    )
    assert city.null_count().sum_horizontal().item() == 0


def test_census_has_the_numbers_of_categories_of_the_paper(city):
    assert [city[area].n_unique() for area in AREAS] == [1, 5, 78, 2506]
    assert {key: set(city[key].unique()) for key in CATEGORIES} == CATEGORIES


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("keys", [1, 2, 3, 4, 5])
def test_tables_have_as_many_rows_as_in_the_paper(city_rows, level, keys):
    ours, paper = city_rows[level - 1][keys - 1], PAPER_ROWS[level - 1][keys - 1]
    assert ours == pytest.approx(paper, rel=0 if paper < 100 else 0.03)


def test_rows_of_a_table_are_the_distinct_combinations_of_the_records(city, city_rows):
    assert city_rows[2][3] == city.select(*AREAS[:3], *KEYS[:4]).n_unique()


def test_town_by_gender_age_and_household_type_has_as_many_rows_as_in_the_paper(city_loss):
    assert city_loss[0] == pytest.approx(PAPER_LOSS_ROWS, rel=0.03)


@pytest.mark.parametrize("value", PAPER_LOSS)
def test_information_loss_is_distributed_as_in_the_paper(city_loss, value):
    assert city_loss[1][value] == pytest.approx(PAPER_LOSS[value], abs=1.5)


def test_losses_that_the_paper_hardly_has_are_as_rare_here(city_loss):
    assert sum(share for value, share in city_loss[1].items() if value not in PAPER_LOSS) < 0.1


def test_another_seed_gives_another_city_that_is_about_as_full(city):
    other = census(seed=2011)
    assert not other.equals(city)
    other_store = finest(other)
    for ours, paper in zip(rows(other_store), PAPER_ROWS, strict=True):
        assert ours == pytest.approx(paper, rel=0.05)
    total, shares = loss(other_store)
    assert total == pytest.approx(PAPER_LOSS_ROWS, rel=0.05)
    assert {value: shares[value] for value in PAPER_LOSS} == pytest.approx(PAPER_LOSS, abs=2)


# --- people who could live together


def test_marital_status_is_not_asked_below_fifteen(city):
    not_asked = city.group_by("age").agg((pl.col("mar") == 9).mean().alias("share")).sort("age")["share"]
    assert not_asked[:2].to_list() == [1.0, 1.0]
    assert 0 < not_asked[2] < 1  # 11 to 15
    assert not_asked[3:].sum() == 0


def test_nobody_has_a_degree_too_early(city):
    youngest = dict(city.group_by("edu").agg(pl.col("age").min()).iter_rows())
    assert youngest[2] == 2
    assert youngest[3] == 3
    assert youngest[6] == 4
    assert youngest[7] >= 5
    assert youngest[8] >= 6
    assert set(city.filter(pl.col("age") == 1)["edu"]) == {1}


@pytest.mark.parametrize("htype", [11, 19, 24])
def test_households_of_couples_have_as_many_men_as_women_in_every_area(city, htype):
    couples = city.filter(pl.col("htype") == htype)
    assert couples.group_by("OA").agg((pl.col("gender") * 2 - 3).sum())["gender"].abs().sum() == 0
    assert couples["mar"].eq(2).mean() > 0.99  # editing may change one in a thousand


def test_couples_are_of_similar_age_and_live_in_the_same_area(city):
    couples = city.filter(pl.col("htype") == 11)
    men, women = couples[::2], couples[1::2]
    assert set(men["gender"]) == {1}
    assert set(women["gender"]) == {2}
    assert men["OA"].equals(women["OA"])
    assert (men["age"] - women["age"]).abs().le(2).mean() > 0.95


def test_the_last_household_is_whole():
    for n in range(50, 90):
        people = census(n, seed=3).filter(pl.col("htype").is_in([11, 19, 24]))
        assert people["gender"].eq(1).sum() == people["gender"].eq(2).sum()


@pytest.mark.parametrize(
    "trait",
    [
        pl.col("htype") == 21,
        pl.col("edu").is_in([6, 7, 8]),
        pl.col("age") > 12,
    ],
    ids=["couples with children", "university", "over sixty"],
)
def test_areas_differ_by_more_than_chance(city, trait):
    by_area = city.group_by("OA").agg(trait.mean().alias("share"), pl.len().alias("n"))
    share = city.select(trait.mean()).item()
    chance = (share * (1 - share) / by_area["n"]).mean()
    assert by_area["share"].var() > 2 * chance


# --- the same everywhere


def test_default_census_is_the_published_one(city):
    digest = hashlib.sha256(city.write_csv().encode()).hexdigest()
    assert digest == "15a719d5d58230ead216d9d34372320342ea8b18052426def32c766b801aee85"


def test_census_does_not_depend_on_the_number_of_threads():
    script = "from ilba.datasets import census; print(census(20_000).hash_rows().sum())"
    sums = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"POLARS_MAX_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "3")
    }
    assert len(sums) == 1


def test_importing_the_generator_generates_nothing():
    script = "import sys, ilba.datasets; sys.exit('ilba.datasets.households' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 3_000), seed=st.integers(0, 2**70))
def test_any_number_of_persons_gives_exactly_that_many_known_codes(n, seed):
    people = census(n, seed)
    assert people.height == n
    for key, known in CATEGORIES.items():
        assert set(people[key]) <= known
    codes = census_codes()
    assert set(people["OA"]) <= set(codes.filter(pl.col("variable") == "OA")["code"])


@pytest.mark.parametrize("n", [0, -1, 2.5, "many", None, True, float("nan")])
def test_wrong_size_is_refused_with_what_was_given(n):
    with pytest.raises(ValueError, match=r"^n=.* give a whole number, 1 or more\.$") as problem:
        census(n)
    assert repr(n) in str(problem.value)


@pytest.mark.parametrize("seed", [-1, 0.5, "x", None, False])
def test_wrong_seed_is_refused_with_what_was_given(seed):
    with pytest.raises(ValueError, match=r"^seed=.* give a whole number, 0 or more\.$") as problem:
        census(10, seed)
    assert repr(seed) in str(problem.value)


@pytest.mark.parametrize("scale", [0, 1.5, "2"])
def test_wrong_scale_is_refused_before_anything_is_written(tmp_path, scale):
    with pytest.raises(ValueError, match=r"^scale="):
        census(10, scale=scale)
    with pytest.raises(ValueError, match=r"^scale="):
        census_parts(tmp_path / "new", scale=scale, n=10)
    assert not (tmp_path / "new").exists()


# --- many cities


def test_parts_hold_the_same_rows_as_the_frame(tmp_path):
    folder = census_parts(tmp_path / "deep" / "parts", scale=3, n=2_000, seed=7)
    assert folder == tmp_path / "deep" / "parts"
    parts = sorted(folder.iterdir())
    assert [part.name for part in parts] == ["city-01.parquet", "city-02.parquet", "city-03.parquet"]
    assert pl.concat([pl.read_parquet(part) for part in parts]).equals(census(2_000, 7, scale=3))
    assert pl.read_parquet(parts[0]).equals(census(2_000, 7))


def test_cities_differ_and_their_codes_are_nested_under_their_own():
    cities = census(2_000, scale=3).partition_by("LA1")
    assert [city["LA1"][0] for city in cities] == ["01", "02", "03"]
    assert not cities[0].drop(AREAS).equals(cities[1].drop(AREAS))
    for city in cities:
        for coarse, fine in pairwise(AREAS):
            assert city.select(pl.col(fine).str.starts_with(pl.col(coarse)).all()).item()


def test_a_hundred_cities_have_codes_of_one_width():
    cities = census(1, scale=100)
    assert cities["LA1"].to_list() == [f"{number:03d}" for number in range(1, 101)]
    assert set(cities["OA"].str.len_chars()) == {9}


def test_parts_are_replaced_but_not_mixed_with_other_files(tmp_path):
    census_parts(tmp_path, scale=3, n=50, seed=1)
    census_parts(tmp_path, scale=3, n=50, seed=2)
    assert pl.read_parquet(tmp_path / "*.parquet").equals(census(50, 2, scale=3))
    with pytest.raises(ValueError, match=r"already has city-03\.parquet"):
        census_parts(tmp_path, scale=2, n=50)
    assert pl.read_parquet(tmp_path / "*.parquet").height == 150


def test_parts_do_not_go_into_a_file(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match="is a file; give the name of a folder"):
        census_parts(tmp_path / "file", scale=1, n=5)
    assert (tmp_path / "file").read_text() == "kept"


# --- the code list


def test_code_list_names_every_variable_and_every_code_in_two_languages(city):
    codes = census_codes()
    assert codes.columns == ["variable", "code", "label_en", "label_ko", "parent"]
    assert set(codes.dtypes) == {pl.String}
    assert codes.select(pl.col("label_en", "label_ko").null_count()).row(0) == (0, 0)
    assert codes.select("variable", "code").is_duplicated().sum() == 0
    assert codes.filter(pl.col("code").is_null())["variable"].to_list() == [*AREAS, *CATEGORIES]
    for column in city.columns:
        listed = codes.filter(pl.col("variable") == column)["code"].drop_nulls()
        assert set(listed) == set(city[column].cast(pl.String))


def test_korean_labels_are_korean_and_english_ones_are_not():
    codes = census_codes()
    hangul = r"\p{Hangul}"
    assert codes["label_ko"].str.contains(hangul).all()
    assert not codes["label_en"].str.contains(hangul).any()


def test_code_list_gives_each_area_its_parent_and_a_name_of_its_own():
    codes = census_codes()
    for coarse, fine in pairwise(AREAS):
        above = set(codes.filter(pl.col("variable") == coarse)["code"].drop_nulls())
        areas = codes.filter(pl.col("variable") == fine, pl.col("code").is_not_null())
        assert set(areas["parent"]) == above
        assert areas.select(pl.col("code").str.starts_with(pl.col("parent")).all()).item()
        assert areas["label_en"].is_unique().all()
        assert areas["label_ko"].is_unique().all()
    assert codes.filter(~pl.col("variable").is_in(AREAS[1:]))["parent"].is_null().all()


@pytest.mark.parametrize(
    ("area", "code"),
    [("OA", "01040704"), ("OA", "01040237"), ("OA", "01040648"), ("OA", "01051246"), ("LA3", "010310")],
)
def test_areas_printed_in_the_paper_are_in_the_code_list(area, code):
    assert census_codes().filter(pl.col("variable") == area, pl.col("code") == code).height == 1


# --- the map

Ring = list[list[float]]


def ring_of(feature: dict) -> Ring:
    assert feature["geometry"]["type"] == "Polygon"
    (ring,) = feature["geometry"]["coordinates"]
    return ring


def signed_area(ring: Ring) -> float:
    """Positive when the ring runs counter-clockwise; in units of a millionth of a degree squared."""
    x0, y0 = ring[0]
    flat = [(round((x - x0) * 1e6), round((y - y0) * 1e6)) for x, y in ring]
    return sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairwise(flat)) / 2


@pytest.fixture(scope="module", params=AREAS)
def level(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def tiles() -> dict[str, Ring]:
    return {feature["id"]: ring_of(feature) for feature in census_geometry("OA")["features"]}


def test_map_has_every_area_of_the_code_list_with_its_names(level):
    listed = census_codes().filter(pl.col("variable") == level).drop_nulls("code")
    expected = {
        code: {"code": code, "name_en": english, "name_ko": korean}
        for code, english, korean in listed.select("code", "label_en", "label_ko").iter_rows()
    }
    collection = census_geometry(level)
    assert collection["type"] == "FeatureCollection"
    assert {feature["id"]: feature["properties"] for feature in collection["features"]} == expected
    assert len(collection["features"]) == len(expected)
    assert json.loads(json.dumps(collection)) == collection


def test_outlines_are_closed_simple_and_counter_clockwise(level):
    for feature in census_geometry(level)["features"]:
        ring = ring_of(feature)
        assert ring[0] == ring[-1]
        assert len({tuple(corner) for corner in ring}) == len(ring) - 1
        assert signed_area(ring) > 0


def test_an_outline_holds_exactly_the_tiles_of_its_area(level, tiles):
    """One ring without a hole, made of sides of its tiles, around as much area: they are in one piece."""
    width = {"LA1": 2, "LA2": 4, "LA3": 6, "OA": 8}[level]
    for feature in census_geometry(level)["features"]:
        members = [ring for code, ring in tiles.items() if code[:width] == feature["id"]]
        assert signed_area(ring_of(feature)) == sum(signed_area(ring) for ring in members)
        sides = {(tuple(a), tuple(b)) for ring in members for a, b in pairwise(ring)}
        outline = ring_of(feature)
        assert {(tuple(a), tuple(b)) for a, b in pairwise(outline)} <= sides


def test_tiles_are_equal_hexagons_that_do_not_overlap(tiles):
    shapes = {
        tuple(sorted((round((x - ring[0][0]) * 1e6), round((y - ring[0][1]) * 1e6)) for x, y in ring[1:]))
        for ring in tiles.values()
    }
    assert len(shapes) == 1
    # Two hexagons of a grid that overlap are the same one and would walk the same side in the same direction.
    sides = Counter((tuple(a), tuple(b)) for ring in tiles.values() for a, b in pairwise(ring))
    assert max(sides.values()) == 1


def test_city_is_round_and_near_its_place_on_the_globe():
    ring = ring_of(census_geometry("LA1")["features"][0])
    west, east = min(x for x, _ in ring), max(x for x, _ in ring)
    south, north = min(y for _, y in ring), max(y for _, y in ring)
    assert 126.9 < west < east < 127.1
    assert 36.4 < south < north < 36.6
    box = (east - west) * (north - south) * 1e12
    assert signed_area(ring) / box == pytest.approx(3.1416 / 4, rel=0.03)


def test_levels_of_the_map_go_by_name_or_number():
    for number, name in enumerate(AREAS, start=1):
        assert census_geometry(number) == census_geometry(name)


@pytest.mark.parametrize("wrong", [0, 5, "la3", "LA4", None, 1.0, True])
def test_unknown_level_of_the_map_is_refused_with_the_known_ones(wrong):
    with pytest.raises(ValueError, match="its levels are 1 LA1, 2 LA2, 3 LA3, 4 OA") as problem:
        census_geometry(wrong)
    assert repr(wrong) in str(problem.value)
