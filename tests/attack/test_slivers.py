"""Two geographies that do not nest: every sliver of the reference data is found (folder 09)."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.attack.slivers import slivers


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "outside" / "09_two_geographies"


def test_every_sliver_of_the_small_example_is_found_and_no_other(folder):
    expected = pl.read_csv(folder / "tiny_slivers.csv")
    found = slivers(pl.read_csv(folder / "tiny_cross.csv"), "z1", "z2", threshold=5, most=7)
    ours = found.rename({"set": "z1_set", "areas": "z2_set", "n_one": "n_z1", "n_other": "n_z2"})
    columns = ["z1_set", "side", "z2_set", "n_z1", "n_z2", "difference", "minimal"]
    assert (
        ours.select(columns)
        .sort("difference", "z1_set")
        .equals(expected.select(columns).sort("difference", "z1_set"), null_equal=True)
    )
    assert expected["connected"].all()


def test_every_sliver_of_municipalities_and_squares_is_found(folder):
    expected = pl.read_csv(folder / "people_slivers_K10.csv")
    found = slivers(pl.read_csv(folder / "people_cross.csv"), "municipality", "square", threshold=10, most=4)
    ours = found.select(
        pl.col("set").alias("z1_set"),
        pl.col("set").str.split(" ").list.len().cast(pl.Int64).alias("size"),
        "side",
        "difference",
        pl.col("areas").str.split(" ").list.len().cast(pl.Int64).alias("n_squares"),
    )
    assert ours.sort("z1_set", "side").equals(expected.sort("z1_set", "side"))


@pytest.fixture(scope="module")
def atoms(folder):
    people = pl.read_csv(folder / "people.csv").select("municipality", "square")
    hkey = {"municipality": ["municipality"], "square": ["square"]}
    return ilba.build(people, hkey, [], mask_thr=10, secret=ilba.Secret(bytes(32)))


@pytest.mark.slow
def test_the_pieces_of_both_geographies_give_the_same_slivers_and_say_what_each_method_proves(atoms, folder):
    plain = slivers(pl.read_csv(folder / "people_cross.csv"), "municipality", "square", threshold=10, most=2)
    found = slivers(
        atoms,
        "municipality",
        "square",
        most=2,
        methods=["suppression:max_n=0", "rounding:5", "sca", "controlled"],
        secret=ilba.Secret(bytes(32)),
    )
    assert found.select(plain.columns).equals(plain)
    assert found["suppression max_n=0 proven"].all()  # nothing is blank, so everybody can subtract
    for method in ("rounding base=5", "sca", "controlled"):
        assert not found[f"{method} proven"].any()
        ends = found[method].str.split(" to ").list.eval(pl.element().cast(pl.Int64))
        assert (ends.list.get(0) <= found["difference"]).all()
        assert (found["difference"] <= ends.list.get(1)).all()


def test_methods_need_a_finest_table_and_a_column_its_name(folder):
    cross = pl.read_csv(folder / "tiny_cross.csv")
    with pytest.raises(ilba.InputError, match="finest table"):
        slivers(cross, "z1", "z2", methods=["rounding"])
    with pytest.raises(ilba.InputError, match="no column 'z3'"):
        slivers(cross, "z1", "z3")


def test_a_difference_without_a_limit_is_told_in_words(secret):
    pieces = pl.DataFrame({"town": ["a", "a", "b"], "square": ["x", "y", "y"], "N": [40, 3, 60]})
    both = ilba.FinestTable.from_counts(pieces, {"towns": ["town"], "squares": ["square"]}, [], secret=secret)
    assert set(slivers(both, "town", "square", most=1, methods=["noise:1"])["noise epsilon=1"]) == {"0 or more"}


def _differences(pieces, most):
    """Every sliver of connected sets of towns, by adding up the pieces: difference, and whether none within it is."""
    towns = sorted(set(pieces["town"]))
    of = {town: set(pieces.filter(town=town)["square"]) for town in towns}
    holds = {square: set(pieces.filter(square=square)["town"]) for square in set(pieces["square"])}
    found, least = {}, {"inner": [], "outer": []}
    for size in range(1, most + 1):
        for chosen in map(set, itertools.combinations(towns, size)):
            reached, more = set(), {min(chosen)}
            while more:
                reached |= more
                more = {b for a in reached for s in of[a] for b in holds[s] & chosen} - reached
            if reached != chosen:
                continue
            touched = set().union(*(of[town] for town in chosen))
            inside = {square for square in touched if holds[square] <= chosen}
            n, *others = (
                pieces.filter(pl.col(column).is_in(list(names)))["N"].sum()
                for column, names in (("town", chosen), ("square", inside), ("square", touched))
            )
            for side, difference in (("inner", n - others[0]), ("outer", others[1] - n)):
                if 0 < difference < 5:
                    minimal = not any(known <= chosen for known in least[side])
                    least[side].append(chosen)
                    found[" ".join(sorted(chosen)), side] = difference, minimal
    return found


@pytest.mark.parametrize("seed", range(4))
def test_slivers_of_a_few_pieces_are_those_of_adding_up_and_each_method_tells_true_ranges(seed, secret):
    """Some areas have names of two words."""
    rng = np.random.default_rng(seed)
    pairs = [(f"town {a}", f"square {b}") for a in range(4) for b in range(5) if rng.random() < 0.5]
    pieces = pl.DataFrame(pairs, schema=["town", "square"], orient="row")
    pieces = pieces.with_columns(N=rng.choice([1, 2, 3, 30, 40], len(pairs)))
    both = ilba.FinestTable.from_counts(pieces, {"towns": ["town"], "squares": ["square"]}, [], secret=secret)
    methods = {"suppression:max_n=0": "suppression max_n=0", "rounding:5": "rounding base=5", "ilba": "ilba"}
    told = slivers(both, "town", "square", most=3, methods=[*methods])
    found = {(row["set"], row["side"]): (row["difference"], row["minimal"]) for row in told.to_dicts()}
    assert found == _differences(pieces, 3)
    assert told.drop(pl.selectors.matches("|".join(methods.values()))).equals(slivers(pieces, "town", "square", most=3))
    for label in methods.values():
        low, high = (told[label].str.split(" to ").list.get(end).cast(pl.Int64) for end in (0, 1))
        assert (low <= told["difference"]).all()
        assert (told["difference"] <= high).all()
        assert told[f"{label} proven"].to_list() == ((low >= 1) & (high < 5)).to_list()
    assert told["suppression max_n=0 proven"].all()  # nothing is blank, so everybody can subtract
    wide = slivers(both, "town", "square", most=1, threshold=100)
    assert (wide["difference"] < 100).all()
    assert wide["difference"].max() >= 5


@pytest.mark.parametrize("most", [0, -1, 1.5, True])
def test_a_set_has_at_least_one_area(most):
    people = pl.DataFrame({"town": ["a"], "square": ["x"], "N": [3]})
    with pytest.raises(ilba.InputError, match="most="):
        ilba.slivers(people, "town", "square", most=most)
