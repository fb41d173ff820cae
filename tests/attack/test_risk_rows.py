"""A report of risks, row by row: what the audit proves, what is believed by whom, and what is said where nothing is."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError, Insider, PublishedTables, Register
from ilba.attack import posterior
from ilba.attack.attackers import KNOWS, Known, exact_rows
from ilba.attack.attributes import groups
from ilba.attack.field import MethodTables
from ilba.attack.guessing import Guessing, measured
from ilba.attack.intervals import Brought, Intervals, at
from ilba.attack.measuring import BIN_ROWS, DETAIL, ROWS
from ilba.attack.posterior import coarse_only, prior, sampled_areas
from ilba.attack.scoring import Believed, TrueCells
from ilba.attack.verdict import UNSEEN
from ilba.design.tables import wanted_tables
from ilba.methods.lab import method_of
from support.stores import ZERO, toy

K = 5
COUNTS = [39, 39, 59, 4, 2, 2, 1, 1, 8, 12]
MASKS = [39, 39, 59, 0, 0, 5, 0, 0, 8, 12]
NEEDS_FINEST = "Not measured: the finest table is not among these tables, or its large counts were allowed to move."
AT_LEAST = "At least this is proven: the finest table is not among these tables."
COARSE = "has only coarse tables: the baseline of the outsider"


@pytest.fixture(scope="module")
def towns():
    """Five towns by two values of x."""
    return toy(COUNTS, MASKS, K, "grid", areas=5)


def tables(finest, method, names="all"):
    """Tables as a method publishes them."""
    wanted = wanted_tables(finest.design, names)
    if method in ("ilba", "controlled"):
        return PublishedTables.of(finest, method, wanted)
    return MethodTables.made_by(method_of(method), finest, wanted)


def row(attacker, knows, **values):
    return {**dict.fromkeys(ROWS), "attacker": attacker, "knows": knows, **values}


def proven(known):
    """The numbers of cells that are proven small, and that are known exactly."""
    small = (known.low >= 1) & (known.low <= known.high) & (known.high < K)
    return {"proven": int(small.sum()), "exactly": int((small & (known.low == known.high)).sum())}


def believed(view, known, fitted, areas):
    """What somebody believes who has proven these bounds and takes this for likely before."""
    base = view.lattice.base
    inside = np.isin(known.packed // view.lattice.width(base), areas)
    cells = known.packed[inside], known.low[inside], known.high[inside]
    every = len(areas) == view.codes.lists[0].size(base[0])
    own = None if every else [node for node in known.view.lattice.nodes if node[0] == base[0]]
    left = Intervals.of(known.view, cells, own)
    chance = np.zeros((len(cells[0]), K + 1))
    log = posterior.with_masks(fitted.log(left.packed, K), left.at_k, K)
    for place, said in zip(np.flatnonzero(cells[1] < cells[2]), posterior.beliefs(left, log), strict=True):
        chance[place] = said
    for place, (low, high) in enumerate(zip(*cells[1:], strict=True)):
        if low == high:
            chance[place, min(low, K)] = 1
    return held(view, cells[0], chance, areas)


def held(view, packed, chance, areas):
    true = TrueCells.of(view)
    return Believed(true, packed, chance, at(true.packed, true.counts, packed), areas)


def beside_somebody(view, own, most):
    """By hand: of v people in a cell, each is the neighbour of it."""
    there = np.flatnonzero(own.counts > 0)
    chance = own.chance[there] * [[*range(K), heavy] for heavy in most[there]]
    return held(view, own.packed[there], chance / chance.sum(axis=1, keepdims=True), own.areas)


def names_of_parts(steps):
    return {step.stage.partition(":")[0] for step in steps}


PROOFS = [
    pytest.param([1, 5, 2, 2, 2, 4, 4, 4, 1, 7, 6, 3], [5, 5, 5, 5, 0, 0, 5, 5, 0, 7, 6, 5], "observed", 3, id="some"),
    pytest.param([1, 0, 1, 4, 2, 1, 21, 20, 25], [0, 0, 0, 0, 5, 0, 21, 20, 25], "grid", 3, id="coarser counts alone"),
    pytest.param([4, 6, 4, 0, 0, 6], [0, 6, 5, 0, 0, 6], "grid", 2, id="cells and coarser counts"),
    pytest.param([9, 8, 7, 6], [9, 8, 7, 6], "grid", 2, id="nothing small"),
]


@pytest.mark.parametrize(("counts", "masks", "cells", "areas"), PROOFS)
@pytest.mark.parametrize("method", ["ilba", "rounding:3"])
def test_the_row_the_detail_and_the_notes_of_the_proof_are_those_of_the_audit(counts, masks, cells, areas, method):
    finest = toy(counts, masks, K, cells, areas)
    found, audit = ilba.risk(finest, "proof", method=method), ilba.audit(finest, method)
    (only,) = found.rows.to_dicts()
    assert only == row(
        "proof", KNOWS["proof"], small=audit.cells_small, proven=audit.cells_disclosed, exactly=audit.cells_exact,
        certified=audit.cells_certified, undecided=audit.cells_undecided,
    )  # fmt: skip
    assert found.detail.rows() == [
        ("proof", *line)
        for line in audit.tables.select("table", "small", "disclosed", "exact").iter_rows()
        if line[2] > 0
    ]
    notes = [f"proof: {audit.why_undecided}"] if audit.why_undecided else []
    if audit.aggregates and not audit.cells_disclosed:
        notes.append(f"proof: {audit.aggregates:,} counts of coarser tables are proven small: see `audit`.")
    assert found.notes == notes
    assert found.worst == audit.worst
    assert found.undecided.equals(audit.undecided)
    for frame, schema in ((found.rows, ROWS), (found.calibration, BIN_ROWS), (found.detail, DETAIL)):
        assert dict(frame.schema) == schema


def test_the_proofs_above_are_of_every_kind():
    audits = [ilba.audit(toy(*one.values[:2], K, *one.values[2:]), "ilba") for one in PROOFS]
    assert {(bool(one.cells_disclosed), bool(one.aggregates)) for one in audits} == {
        (True, False), (False, True), (True, True), (False, False)
    }  # fmt: skip
    assert {bool(one.why_undecided) for one in audits} == {True, False}
    assert any(one.cells_undecided for one in audits)


def test_five_proven_cells_are_explained_unless_another_number_is_asked_for():
    finest = toy([1, 2] * 6, [0, 0] * 6, K, "observed", areas=6)
    explained = ilba.audit(finest, "ilba", explanations=99).worst
    assert len(explained) > 6
    assert ilba.risk(finest, "proof").worst == explained[:5]
    assert ilba.risk(finest, "proof", examples=2).worst == explained[:2]
    assert ilba.risk(finest, "proof", examples=0).worst == []


@pytest.mark.long
def test_the_solver_is_asked_for_as_long_as_the_report_is_told_and_not_at_all_by_itself():
    finest = toy([1, 4, 20, 20, 56, 2, 9, 2, 11, 39], [5, 5, 20, 20, 56, 5, 9, 5, 11, 39], K, "grid", areas=5)
    for more in ({}, {"solver_seconds": 20}):
        found, audit = ilba.risk(finest, "proof", **more), ilba.audit(finest, **more)
        assert found.row("proof")["undecided"] == audit.cells_undecided
        assert found.notes == ([f"proof: {audit.why_undecided}"] if audit.why_undecided else [])
    assert not audit.cells_undecided
    assert "the solver was not asked" in ilba.risk(finest, "proof").notes[0]


@pytest.mark.parametrize(
    "counted",
    [
        toy(COUNTS, MASKS, K, "grid", areas=5),
        toy([1, 1, 2, 2, 1, 1, 11, 1] * 20, [0, 3, 3, 0, 0, 0, 11, 0] * 20, 3, "observed", areas=80),
    ],
    ids=["one without a belief", "many alike"],
)
def test_what_is_undecided_comes_in_the_order_of_what_the_outsider_believes(counted):
    found = ilba.risk(counted, ["proof", "outsider"], method="rounding:3")
    left = ilba.audit(counted, "rounding:3", explanations=0).undecided.rows()
    said = {(town, x): tuple(chances) for town, x, *chances in found.cells.iter_rows()}
    ranked = sorted(left, key=lambda cell: -said.get(cell, (0, 0))[0])
    assert found.undecided.columns == ["town", "x", "small", "one"]
    assert found.undecided.rows() == [(*cell, *said.get(cell, (None, None))) for cell in ranked]
    assert ranked != left
    chances = found.undecided["small"]
    assert chances.null_count() or chances.n_unique() < len(chances) > 50


def test_beliefs_about_another_table_rank_nothing(towns):
    found = ilba.risk(towns, ["proof", "outsider"], ["town", "all.x"], method="rounding:3")
    assert found.cells.columns == ["town", "small", "one"]
    assert not found.undecided.is_empty()
    assert found.undecided.equals(ilba.risk(towns, "proof", ["town", "all.x"], method="rounding:3").undecided)


@pytest.mark.parametrize("areas", [5, 2])
@pytest.mark.parametrize("method", ["ilba", "controlled"])
@pytest.mark.parametrize("in_regions", [False, True])
def test_beliefs_are_measured_by_holding_what_follows_from_the_tables_against_the_truth(
    towns, in_regions, method, areas
):
    """For all areas, or for a sample, which hears no coarser table."""
    if in_regions:
        counted = towns.frame.with_columns(region=pl.col("town").cast(pl.Int64) // 2)
        towns = FinestTable.from_counts(counted, ["region", "town"], ["x"], K, cells="grid")
    view = tables(towns, method)
    steps = []
    found = ilba.risk(view, ["outsider", "neighbour"], store=towns, cells=2 * areas, progress=steps.append)
    chosen = sampled_areas(view, 2 * areas)
    assert len(chosen) == areas
    assert found.sample == (None if areas == 5 else (2, 5))
    known, fitted = Known.of(view), prior(view, chosen)
    outsider = believed(view, known, fitted, chosen)
    coarse = held(view, outsider.packed, coarse_only(view, fitted, outsider.packed), chosen)
    neighbour = beside_somebody(view, outsider, np.full(len(outsider.packed), K))
    there = at(TrueCells.of(view).packed, TrueCells.of(view).counts, known.packed) > 0
    occupied = known._replace(low=np.maximum(known.low, 1)[there], high=known.high[there])
    small = sum(0 < n < K for n in COUNTS)
    assert found.rows.to_dicts() == [
        row("outsider", KNOWS["outsider"], small=small, **proven(known), **outsider.figures()),
        row("outsider, coarse tables", COARSE, small=small, **coarse.figures()),
        row("neighbour", KNOWS["neighbour"], small=small, **proven(occupied), **neighbour.figures()),
    ]
    assert found.calibration.to_dicts() == [
        *outsider.calibration("outsider"),
        *coarse.calibration("outsider, coarse tables"),
        *neighbour.calibration("neighbour", people=True),
    ]
    assert found.cells.equals(outsider.frame())
    assert found.notes == []
    assert neighbour.calibration("neighbour", people=True) != neighbour.calibration("neighbour")
    assert names_of_parts(steps) == {"proof", "outsider"}


def test_a_neighbour_believes_the_same_whether_the_outsider_was_measured_before_or_not(towns):
    steps = []
    alone = ilba.risk(towns, "neighbour", progress=steps.append)
    both = ilba.risk(towns, ["outsider", "neighbour"])
    assert alone.rows.equals(both.rows.filter(attacker="neighbour"))
    assert alone.calibration.equals(both.calibration.filter(attacker="neighbour"))
    assert names_of_parts(steps) == {"proof", "neighbour"}


@pytest.mark.parametrize("areas", [5, 2])
@pytest.mark.parametrize("method", ["rounding:3", "noise:2"])
def test_bets_on_the_tables_of_another_method_are_held_against_the_truth(towns, method, areas):
    steps = []
    found = ilba.risk(towns, ["outsider", "neighbour"], method=method, cells=2 * areas, progress=steps.append)
    view = MethodTables.as_released(method_of(method), towns, wanted_tables(towns.design))
    known = Known.of(view) if view.bounded else None
    chosen = sampled_areas(view, 2 * areas)
    guessing = Guessing(view, known, chosen)
    guesses = guessing.outsider()
    outsider = held(view, guesses.packed, guesses.chance, chosen)
    own = coarse_only(view, guessing.fitted, guessing.packed)
    coarse = held(view, guesses.packed, own, chosen)
    neighbour = beside_somebody(view, outsider, guesses.heavy)
    small, nothing = sum(0 < n < K for n in COUNTS), {"proven": 0, "exactly": 0}
    everybody, occupied = nothing, nothing
    if known is not None:
        there = at(TrueCells.of(view).packed, TrueCells.of(view).counts, known.packed) > 0
        everybody = proven(known)
        occupied = proven(known._replace(low=np.maximum(known.low, 1)[there], high=known.high[there]))
    assert found.rows.to_dicts() == [
        row("outsider", KNOWS["outsider"], small=small, **everybody, **outsider.figures()),
        row("outsider, coarse tables", COARSE, small=small, **coarse.figures()),
        row("neighbour", KNOWS["neighbour"], small=small, **occupied, **neighbour.figures()),
    ]
    assert found.calibration.to_dicts() == [
        *outsider.calibration("outsider"),
        *coarse.calibration("outsider, coarse tables"),
        *neighbour.calibration("neighbour", people=True),
    ]
    assert found.cells.equals(outsider.frame())
    assert found.sample == (None if areas == 5 else (2, 5))
    assert found.notes == []
    assert names_of_parts(steps) == ({"proof", "outsider"} if view.bounded else {"outsider"})


def test_noise_that_tells_no_chances_leaves_the_rows_and_says_once_why(towns):
    found = ilba.risk(towns, ["outsider", "neighbour", "insider"], method="noise:epsilon=1,fit=true")
    assert found.rows["attacker"].to_list() == ["outsider", "neighbour", "insider"]
    assert found.rows.select("likely", "likely_right", "likely_share", "alone").null_count().row(0) == (3, 3, 3, 3)
    assert found.calibration.is_empty()
    assert found.cells.is_empty()
    (note,) = found.notes
    assert "fitted to each other" in note
    for name in ("outsider", "neighbour"):
        assert ilba.risk(towns, name, method="noise:epsilon=1,fit=true").notes == [note]


@pytest.mark.parametrize(("width", "fine"), [(8, True), (9, False)])
def test_an_area_may_have_eight_times_the_cells_that_can_be_followed_and_no_more(monkeypatch, width, fine):
    monkeypatch.setattr("ilba.attack.guessing.WORK", 5)  # rounding to 3 moves a count by up to 2: one cell
    finest = toy([1, 7] + [2] * (width - 2), [0, 7] + [0] * (width - 2), K, "grid")
    found = ilba.risk(finest, ["outsider", "neighbour", "insider"], method="rounding:3")
    said = [note for note in found.notes if note.startswith("Probabilities are not measured: one area has too many")]
    assert (len(said), len(found.notes)) == ((0, 0) if fine else (1, 1))
    assert [found.row(name)["likely"] is not None for name in ("outsider", "neighbour", "insider")] == [fine] * 3
    assert (found.sample is None, found.calibration.is_empty()) == (True, not fine)


@pytest.fixture
def narrow(monkeypatch):
    """Let no common refinement be followed, as if it had too many cells."""
    monkeypatch.setattr("ilba.attack.lattice.WIDEST", 0)
    monkeypatch.setattr("ilba.attack.published.WIDEST", 10**6)


def register_of_towns():
    return Register({"town": pl.DataFrame({"town": range(5), "N": [sum(COUNTS[i : i + 2]) for i in range(0, 10, 2)]})})


def test_who_cannot_be_measured_without_the_finest_table_has_an_empty_row_and_a_note(towns):
    found = ilba.risk(towns, ["outsider", "insider", Insider(cells=2)], ["town", "all.x"], method="ilba")
    small = sum(0 < n < K for n in COUNTS)
    named = [("outsider", KNOWS["outsider"]), *((one.name, one.knows) for one in (Insider(), Insider(cells=2)))]
    assert found.rows.to_dicts() == [row(name, knows, small=small) for name, knows in named]
    assert found.notes == [f"{name}: {NEEDS_FINEST}" for name, _ in named]


def test_where_no_finest_cell_is_looked_at_nobody_is_said_to_prove_anything_about_them(towns, narrow):
    register = register_of_towns()
    found = ilba.risk(towns, ["proof", "neighbour", register], ["town", "all.x"], method="ilba")
    audit = ilba.audit(towns, "ilba", ["town", "all.x"], explanations=0)
    assert audit.unseen
    assert found.rows.to_dicts() == [
        row("proof", KNOWS["proof"]),
        row("neighbour", KNOWS["neighbour"]),
        row("register town", "has exact counts of town from elsewhere"),
    ]
    assert found.notes[-2:] == [f"neighbour: {NEEDS_FINEST}", f"register town: Not measured. {UNSEEN}"]


@pytest.mark.parametrize("followed", [True, False])
def test_bets_about_the_largest_table_say_so_and_whether_proofs_are_of_all_tables(towns, request, followed):
    if not followed:
        request.getfixturevalue("narrow")
    names = ["all", "town", "all.x"]
    steps = []
    found = ilba.risk(towns, ["outsider", "neighbour"], names, method="rounding:3", progress=steps.append)
    assert names_of_parts(steps) == {"proof", "outsider"}
    made = MethodTables.as_released(method_of("rounding:3"), towns, wanted_tables(towns.design, names))
    view = measured(made)
    counts = TrueCells.of(view)
    note, *rest = found.notes
    assert rest == [f"neighbour: {AT_LEAST}"]
    assert note.startswith(f"Probabilities are about the {counts.small} small cell")
    assert "of the table 'town', and use only this table and its margins" in note
    assert note.endswith("What is proven is from all tables." if followed else "What is proven is not measured.")
    guesses = Guessing(view, Known.of(view), np.arange(5)).outsider()
    outsider = held(view, guesses.packed, guesses.chance, np.arange(5))
    assert found.row("outsider")["likely_share"] == outsider.figures()["likely_share"]
    assert found.row("outsider")["proven"] == (proven(Known.of(made))["proven"] if followed else None)
    neighbour = found.row("neighbour")
    assert neighbour["likely"] == beside_somebody(view, outsider, guesses.heavy).figures()["likely"]
    assert (neighbour["proven"] is None) is not followed


def test_a_register_has_a_row_and_beliefs_of_its_own(towns):
    view, register, steps = tables(towns, "ilba"), register_of_towns(), []
    found = ilba.risk(towns, register, progress=steps.append)
    known = Known.of(view, Brought(exact_rows(view, register)))
    own = believed(view, known, prior(view, np.arange(5)), np.arange(5))
    (only,) = found.rows.to_dicts()
    knows = "has exact counts of town from elsewhere"
    small = sum(0 < n < K for n in COUNTS)
    assert only == row("register town", knows, small=small, **proven(known), **own.figures())
    assert found.calibration.to_dicts() == own.calibration("register town")
    assert names_of_parts(steps) == {"register town"}


def test_what_a_register_proves_without_the_finest_table_is_called_the_least(towns):
    assert ilba.risk(towns, register_of_towns(), ["town", "all.x"]).notes == [f"register town: {AT_LEAST}"]
    assert ilba.risk(towns, register_of_towns()).notes == []


def test_a_register_of_several_tables_is_checked_table_by_table(towns):
    whole = pl.DataFrame({"town": [i // 2 for i in range(10)], "x": [i % 2 for i in range(10)], "N": COUNTS})
    by_x = whole.group_by("x", maintain_order=True).agg(pl.col("N").sum())
    town = whole.group_by("town", maintain_order=True).agg(pl.col("N").sum())
    right = {"town.x": whole, "all.x": by_x, "town": town}
    for names in ("all", ["town", "all"]):  # a table that is finer than these is not checked, and the others are
        assert ilba.risk(towns, Register(right), names).row("register town.x + all.x + town")["small"] is not None
        wrong = town.with_columns(pl.col("N") + pl.Series([0, 1, 0, 1, 0]))
        with pytest.raises(InputError, match=r"table 'town' does not agree with the store in 2 cells"):
            ilba.risk(towns, Register(right | {"town": wrong}), names)


def test_a_register_that_counts_people_where_nobody_is_is_refused():
    finest = toy([1, 7, 2, 0], [0, 7, 0, 0], K, "grid", areas=2)
    given = pl.DataFrame({"town": [0, 0, 1, 1], "x": [0, 1, 0, 1], "N": [1, 7, 2, 0]})
    told = ilba.risk(finest, Register({"town.x": given})).row("register town.x")
    assert (told["proven"], told["exactly"], told["likely"], told["alone"]) == (2, 2, 2, 1)
    for more in ([0, 0, 0, 3], [0, 0, 1, 2]):
        with pytest.raises(InputError, match=f"in {sum(n > 0 for n in more)} cells"):
            ilba.risk(finest, Register({"town.x": given.with_columns(pl.col("N") + pl.Series(more))}))


def test_the_row_of_the_attributes_counts_the_groups_and_people_of_all_tables(towns, monkeypatch):
    view = tables(towns, "ilba")
    found, (expected, _) = ilba.risk(towns, "attribute"), groups(view)
    assert found.groups.equals(expected)
    (only,) = found.rows.to_dicts()
    small = sum(0 < n < K for n in COUNTS)
    number, people = expected["groups"].sum(), expected["people"].sum()
    assert only == row("attribute", KNOWS["attribute"], small=small, groups=number, people=people)
    assert 0 < number < people
    assert found.notes == []
    monkeypatch.setattr("ilba.attack.attributes.MOST_CELLS", 1)
    without = ilba.risk(towns, "attribute")
    assert (without.row("attribute")["groups"], without.row("attribute")["people"]) == (0, 0)
    assert without.notes == [f"attribute: {len(expected)} tables are too large and were left out."]


def test_groups_are_not_counted_in_a_release_without_its_store(tmp_path):
    towns = toy(COUNTS, MASKS, K, "observed", areas=5)
    release = towns.release(tmp_path / "out", "ilba", accept_risk=True, ledger=False)
    (only,) = ilba.risk(release, "attribute").rows.to_dicts()
    assert only == row("attribute", KNOWS["attribute"])
    assert ilba.risk(release, "attribute").notes == [
        "attribute: groups are counted against the truth, which needs the store."
    ]
    whole = ilba.risk(release, "attribute", store=towns)
    assert whole.groups.equals(ilba.risk(towns, "attribute").groups)


def test_the_report_takes_as_long_as_it_took(towns):
    start = time.perf_counter()
    seconds = ilba.risk(towns, "proof").seconds
    assert 0 < seconds <= time.perf_counter() - start


def test_a_release_is_attacked_with_the_bound_that_it_states(towns, tmp_path):
    counted = towns.with_threshold(K, ZERO)
    release = counted.release(tmp_path / "out", "controlled", stated_bound=9, secret=ZERO, ledger=False)
    assert release.manifest["bound"] == 9
    store = counted.controlled(bound=9, secret=ZERO)
    for more, bound in (({}, 9), ({"bound": 8}, 8)):
        found = ilba.risk(release, Insider(secrets=0), store=store, **more)
        assert found.row("insider")["bound"] == bound
        assert not any("no bound is stated" in note for note in found.notes)


def test_masks_that_were_chosen_stay_and_others_are_chosen_with_their_progress_told(towns):
    counted = towns.with_threshold(K, ZERO)
    made, steps = counted.controlled(["town.x"], secret=ZERO), []
    kept = ilba.risk(made, "proof", method="controlled", progress=steps.append).published
    assert kept.base.value.tolist() == made.frame["N_masked"].to_list()
    assert names_of_parts(steps) == {"proof"}
    steps.clear()
    ilba.risk(counted, "proof", method="controlled", progress=steps.append)
    assert names_of_parts(steps) == {"choosing masks", "proof"}


def test_a_store_is_attacked_by_the_method_that_it_is_published_by(towns):
    counted = towns.with_threshold(K, ZERO).with_method("small-count-rounding:5")
    for more, name in (({}, "small-count-rounding"), ({"method": "ilba"}, "ilba")):
        assert ilba.risk(counted, "proof", **more).published.policy.name == name


def test_a_bound_that_everybody_knows_is_heard_by_the_outsider_too(towns):
    made = towns.with_threshold(K, ZERO).controlled(secret=ZERO)
    view = tables(made, "controlled")
    for bound in (2, 7):
        found = ilba.risk(view, "outsider", bound=bound)
        outsider = believed(view, Known.of(view, Brought(bound=bound)), prior(view, np.arange(5)), np.arange(5))
        assert found.calibration.filter(attacker="outsider").to_dicts() == outsider.calibration("outsider")
    assert not outsider.frame().equals(ilba.risk(view, "outsider", bound=2).cells)


def test_bets_on_a_release_without_its_store_are_about_all_cells_of_the_largest_table(towns, tmp_path):
    counted = towns.with_threshold(K, ZERO).with_method("small-count-rounding:5", secret=ZERO)
    release = counted.release(tmp_path / "out", tables=["all", "town", "all.x"], ledger=False, accept_risk=True)
    found = ilba.risk(release, "outsider")
    assert any(note.startswith("Probabilities are about the cells of the table '") for note in found.notes)
