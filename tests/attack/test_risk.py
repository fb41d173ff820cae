"""Named attackers: each knows what its sentence says, what it proves is true, and what it believes is checked."""

from __future__ import annotations

import itertools
import json
import stat
import warnings

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError, Insider, PublishedTables, Register
from ilba.attack.attackers import (
    Known,
    errors_within,
    everything_but_one,
    everything_but_some,
    exact_rows,
    insider_beliefs,
    propagated,
    small_cells,
)
from ilba.attack.field import MethodTables
from ilba.attack.guessing import Guessing, proven_by_insider
from ilba.attack.insiders import everybody_but
from ilba.attack.intervals import AttackerView, Brought, Intervals, at, open_cells
from ilba.attack.masknumbers import MaskNumbers
from ilba.attack.posterior import beliefs, prior, sampled_areas
from ilba.design.tables import wanted_tables
from ilba.methods.lab import method_of
from ilba.output import korean
from support.people import HKEY, KEY, population
from support.stores import toy


@pytest.fixture(scope="module")
def people():
    return population(900)


@pytest.fixture(scope="module")
def town(people, secret):
    """Three towns by sex and age, small enough for every attacker."""
    return ilba.build(people, ["region", "town"], ["sex", "age"], secret=secret, cells="grid")


@pytest.fixture(scope="module")
def measured(town):
    return ilba.risk(town)


def _counted(people, columns):
    return people.group_by(columns).agg(N=pl.len())


def test_every_attacker_has_a_row_with_a_sentence(measured):
    names = measured.rows["attacker"].to_list()
    assert names == ["proof", "outsider", "outsider, coarse tables", "neighbour", "insider", "attribute"]
    assert measured.rows["knows"].null_count() == 0
    assert "insider: knows the true count of every finest cell except one." in str(measured)


def test_what_is_proven_is_what_the_audit_proves(town, measured):
    report = ilba.audit(town, explanations=0)
    row = measured.row("proof")
    assert (row["small"], row["proven"], row["exactly"]) == (
        report.cells_small,
        report.cells_disclosed,
        report.cells_exact,
    )
    assert row["proven"] + row["certified"] + row["undecided"] == row["small"]
    assert measured.row("outsider")["proven"] == report.cells_disclosed
    assert measured.worst


def test_who_knows_more_proves_no_less(measured):
    proven = {row["attacker"]: row["proven"] for row in measured.rows.iter_rows(named=True)}
    assert proven["proof"] <= proven["neighbour"] <= measured.row("proof")["small"]
    assert proven["proof"] <= proven["insider"] <= measured.row("proof")["small"]


def test_beliefs_are_held_against_the_truth_by_bins(measured):
    bins = measured.calibration.filter(pl.col("attacker") == "outsider", pl.col("event") == "1..K-1")
    assert bins.height >= 2
    assert bins["said"].is_between(0, 1).all()
    assert bins["true"].is_between(0, 1).all()
    sure = measured.row("outsider")
    assert sure["likely"] >= sure["proven"]
    assert 0.9 <= sure["likely_right"] <= 1
    assert measured.cells["small"].is_sorted(descending=True)
    assert measured.cells.columns == ["region", "town", "sex", "age", "small", "one"]


def test_a_register_proves_more_than_nobody_knows(town, people, measured):
    register = Register({"town.sex": _counted(people, ["region", "town", "sex"])})
    row = ilba.risk(town, register).row("register town.sex")
    assert row["proven"] >= measured.row("proof")["proven"]
    assert row["knows"] == "has exact counts of town.sex from elsewhere"
    everything = Register({"town.sex.age": _counted(people, ["region", "town", "sex", "age"])})
    row = ilba.risk(town, everything).row("register town.sex.age")
    assert row["proven"] == row["exactly"] == row["small"]


def test_a_register_on_controlled_tables_proves_true_things_alone(town, people, secret):
    controlled = town.controlled(secret=secret)
    register = Register({"town.sex": _counted(people, ["region", "town", "sex"])})
    published = PublishedTables.of(controlled, "controlled")
    known = Known.of(published, Brought(exact_rows(published, register)))
    true = np.zeros(len(known.packed), np.int64)
    rows = published.base
    place = np.searchsorted(rows.packed, known.packed).clip(max=len(rows.packed) - 1)
    found = rows.packed[place] == known.packed
    true[found] = (rows.truth.sum_small)[place[found]]
    assert (known.low <= true).all()
    assert (true <= known.high).all()
    assert known.proven.sum() > 0
    assert ilba.risk(controlled, "proof").row("proof")["proven"] == 0


def test_a_register_may_be_a_file(town, people, tmp_path):
    path = tmp_path / "register.csv"
    _counted(people, ["region", "town", "sex"]).write_csv(path)
    frame = Register({"town.sex": _counted(people, ["region", "town", "sex"])})
    from_file = ilba.risk(town, Register({"town.sex": path})).rows
    assert from_file.equals(ilba.risk(town, frame).rows)


@pytest.mark.parametrize("method", ["controlled", "ilba"])
def test_a_register_with_finer_cells_than_the_tables_is_measured_by_the_cells_of_the_tables(people, secret, method):
    finest = ilba.build(people, HKEY, KEY, secret=secret)
    exact = ilba.Register({"town.sex.age": people.group_by("region", "town", "sex", "age").len("N")})
    row = ilba.risk(finest, exact, ["town.age"], method=method).row(exact.name)
    assert row["proven"] == row["exactly"] == row["small"] > 0


def test_a_register_that_is_not_exact_is_refused(town, people):
    wrong = _counted(people, ["region", "town", "sex"]).with_columns(pl.col("N") + 1)
    with pytest.raises(InputError, match="does not agree with the store in"):
        ilba.risk(town, Register({"town.sex": wrong}))
    less = _counted(people, ["region", "town", "sex"]).sort("region", "town", "sex")[:-1]
    with pytest.raises(InputError, match="in 1 cells"):
        ilba.risk(town, Register({"town.sex": less}))
    with pytest.raises(InputError, match="no column N"):
        ilba.risk(town, Register({"town.sex": wrong.drop("N")}))
    with pytest.raises(InputError, match="two rows for the same cell"):
        ilba.risk(town, Register({"town.sex": pl.concat([wrong, wrong])}))


def test_wrong_attackers_are_answered_with_what_to_type(town):
    with pytest.raises(InputError, match="Did you mean 'outsider'"):
        ilba.risk(town, "outsidr")
    with pytest.raises(InputError, match=r"ilba\.Register.*--register LA3"):
        ilba.risk(town, "register")
    with pytest.raises(InputError, match="no attacker was named"):
        ilba.risk(town, [])
    for lacking in (Insider(unknown=0), Insider(cells=0)):
        with pytest.raises(InputError, match="at least one person or one cell"):
            ilba.risk(town, lacking)
    with pytest.raises(InputError, match="people or cells"):
        ilba.risk(town, Insider(unknown=2, cells=2))
    with pytest.raises(InputError, match="not a int"):
        ilba.risk(town, [7])
    with pytest.raises(InputError, match="takes a finest table, a release"):
        ilba.risk(town.frame)


def _shown(published):
    """What is released, with 0 for rows that are not there."""
    areas = published.codes.lists[0].size
    return {
        node: published.dense(node, 0, areas(node[0]), rows.value).tolist() for node, rows in published.tables.items()
    }


def _worlds(finest, method, unknown):
    """All counts of some cells that lead to the same release when every other count is known."""
    K, frame = finest.design.threshold, finest.frame
    options = [range(1, K + 1) if frame["N_masked"][i] == K else range(K) for i in unknown]
    shown = _shown(PublishedTables.of(finest, method))
    for counts in itertools.product(*options):
        new = frame["N"].to_list()
        for i, count in zip(unknown, counts, strict=True):
            new[i] = count
        other = FinestTable.from_counts(
            frame.with_columns(N=pl.Series(new)), ["town"], ["x"], K, cells=finest.design.cells
        )
        if _shown(PublishedTables.of(other, method)) == shown:
            yield counts


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_an_insider_who_lacks_one_cell_proves_what_trying_every_count_proves(cells):
    rng = np.random.default_rng(5)
    decided = 0
    for _ in range(6):
        K = int(rng.choice([3, 5]))
        x = rng.integers(1, K + 2, 4)
        t = np.where(x >= K, x, np.where(rng.random(4) < x / K, K, 0))
        finest = toy(x.tolist(), t.tolist(), K, cells)
        published = PublishedTables.of(finest, "ilba")
        insight = everything_but_one(AttackerView(published, Brought()))
        small = [i for i in range(4) if 0 < x[i] < K]
        assert insight.counts.tolist() == [x[i] for i in small]
        for place, i in enumerate(small):
            fitting = {counts[0] for counts in _worlds(finest, "ilba", [i])}
            proven = all(0 < count < K for count in fitting)
            assert bool(insight.proven(K)[place]) == proven, (x, t, K, i, fitting)
            decided += proven
    assert decided > 0


def _placed(counts, missing):
    """Every way to put the missing people back: counts of all cells."""
    known = np.array(counts)
    for cell in missing:
        known[cell] -= 1
    for places in itertools.combinations_with_replacement(range(len(counts)), len(missing)):
        yield known + np.bincount(places, minlength=len(counts))


def _fitting(x, masks, K, cells, method, missing, bound):
    """Those that lead to the same release with the same masks, and with sums within a bound."""
    shown = _shown(PublishedTables.of(toy(x.tolist(), masks.tolist(), K, cells, areas=2), method))
    for counts in _placed(x, missing):
        if (counts[masks > K] != masks[masks > K]).any() or (counts[masks <= K] > K).any():
            continue
        if (counts[masks == K] == 0).any() or (counts[masks == 0] >= K).any():
            continue
        again = PublishedTables.of(toy(counts.tolist(), masks.tolist(), K, cells, areas=2), method)
        if _shown(again) == shown and (bound is None or errors_within(again, bound)):
            yield counts


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ilba", "controlled"])
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_an_insider_who_lacks_people_proves_what_trying_every_place_proves(cells, method):
    rng = np.random.default_rng(11)
    seen = {True: 0, False: 0}
    for _ in range(3):
        K = int(rng.choice([3, 5]))
        x = rng.integers(0, K + 1, 6)
        x[0] = 1
        t = np.where(x >= K, x, np.where(rng.random(6) < x / K, K, 0))
        finest = toy(x.tolist(), t.tolist(), K, cells, areas=2)
        published = PublishedTables.of(finest, method)
        bound = None
        if method == "controlled":
            bound = next(b for b in range(99) if errors_within(published, b))
        known = Known.of(published, Brought(bound=bound))
        counts = np.zeros(len(known.packed), np.int64)
        order = {cell: i for i, cell in enumerate(published.base.packed.tolist())}
        true = published.base.truth.sum_small + published.base.truth.sum_large
        for i, cell in enumerate(known.packed.tolist()):
            counts[i] = true[order[cell]] if cell in order else 0
        found = everybody_but(known, counts, 1)
        assert found.insight.packed.tolist() == [cell for cell in known.packed.tolist() if x[cell] == 1]
        for place, cell in enumerate(found.insight.packed.tolist()):
            fitting = {int(world[cell]) for world in _fitting(x, t, K, cells, method, [cell], bound)}
            assert 1 in fitting
            proven = bool(found.insight.proven(K)[place])
            assert proven == (0 not in fitting), (x, t, K, cell, fitting)
            assert bool(found.certified[place]) == (0 in fitting)
            seen[proven] += 1
        several = everybody_but(known, counts, 2)
        for place, cell in enumerate(several.insight.packed.tolist()):
            if x[cell] != 2:
                continue
            fitting = {int(world[cell]) for world in _fitting(x, t, K, cells, method, [cell, cell], bound)}
            low, high = several.insight.low[place], several.insight.high[place]
            assert low <= min(fitting) <= max(fitting) <= high, (x, t, K, cell, fitting)
            if several.certified[place]:
                assert 0 in fitting
    assert all(seen.values())


def test_the_note_on_the_largest_bound_is_about_the_insider_whom_it_names(town, secret):
    held = town.controlled(secret=secret, bound=7)
    assert errors_within(PublishedTables.of(held, "controlled"), 7)
    named = [Insider(secrets=0), Insider(cells=3, secrets=0), Insider(unknown=1, secrets=0)]
    usual, largest = ilba.risk(held, named), ilba.risk(held, named, bound=13)
    for one in named:
        (note,) = (note for note in usual.notes if note.startswith(f"{one.name}: no bound is stated"))
        assert f"masks are chosen for, {largest.row(one.name)['proven']:,} cells are proven." in note
    assert len({largest.row(one.name)["proven"] for one in named}) > 1
    assert sum("what is likely uses no bound" in note for note in usual.notes) == 1


def test_an_insider_who_lacks_people_has_a_row_and_a_note(town, secret):
    report = ilba.risk(town, [Insider(unknown=1), Insider(unknown=3)])
    one, three = (report.row(f"insider, {who} unknown") for who in ("1 person", "3 people"))
    assert one["small"] == int((town.frame["N"] == 1).sum())
    assert one["proven"] + one["certified"] == one["small"]
    assert one["undecided"] == 0
    assert one["exactly"] == one["proven"]
    assert three["proven"] + three["certified"] + three["undecided"] == three["small"] <= 200
    assert "everybody except one person" in one["knows"]
    assert "in closed form, and complete" in str(report)
    lottery = ilba.risk(town.controlled(secret=secret), Insider(unknown=1, secrets=2), bound=7)
    assert any("other secrets between" in note for note in lottery.notes)


def test_an_insider_learns_nothing_from_controlled_sums_without_a_bound(town, secret):
    controlled = town.controlled(secret=secret)
    view = AttackerView(PublishedTables.of(controlled, "controlled"), Brought())
    assert not everything_but_one(view).proven(5).any()


def test_an_insider_who_knows_that_the_bound_is_wide_learns_nothing(town, secret):
    """Whoever states the worked bound plus K - 1 gives no insider a proof."""
    controlled = town.controlled(secret=secret)
    published = PublishedTables.of(controlled, "controlled")
    worked = max(
        int(np.abs(rows.value - rows.truth.sum_small - rows.truth.sum_large).max())
        for node, rows in published.tables.items()
        if node != published.lattice.base
    )
    tight = everything_but_one(AttackerView(published, Brought(bound=worked)))
    wide = everything_but_one(AttackerView(published, Brought(bound=worked + 4)))
    assert tight.proven(5).any()
    assert not wide.proven(5).any()


@pytest.mark.slow
def test_who_lacks_more_proves_no_more(town):
    view = AttackerView(PublishedTables.of(town, "ilba"), Brought())
    one = everything_but_one(view)
    several = everything_but_some(view, 3, cells=60)
    assert len(several.packed) == 60
    own = dict(zip(one.packed.tolist(), one.proven(5).tolist(), strict=True))
    for cell, proven in zip(several.packed.tolist(), several.proven(5).tolist(), strict=True):
        assert own[cell] or not proven
    report = ilba.risk(town, Insider(cells=3))
    assert report.row("insider, 3 cells unknown")["small"] >= 200
    assert "except 3 small ones of an area" in str(report)


def _level_by_level(published, bound=None):
    """What an insider proves from the tables of each level alone, without the finest one."""
    base = published.lattice.base
    for level, what in enumerate(["tables of the whole alone", "tables of region alone", "tables of town alone"]):
        tables = [node for node in published.tables if node[0] == level and node != base]
        found = everything_but_one(AttackerView(published, Brought(bound=bound)), tables)
        proven = found.proven(5)
        yield what, len(proven), int(proven.sum()), int((proven & (found.low == found.high)).sum())


def test_what_an_insider_proves_is_shown_level_by_level(town, measured):
    detail = measured.detail.filter(attacker="insider")
    expected = list(_level_by_level(PublishedTables.of(town, "ilba")))
    assert detail.select("what", "small", "proven", "exactly").rows() == expected
    assert len({row[2] for row in expected}) == 3
    assert any(row[3] < row[2] for row in expected)
    # The finest table alone says nothing more, so its level has no row where nothing else is published.
    only = ilba.risk(town, "insider", ["town.sex.age", "region"]).detail
    assert only["what"].to_list() == ["tables of region alone"]


def test_a_bound_that_is_not_held_proves_nothing_and_the_reached_one_replaces_it(town, secret):
    controlled = town.controlled(secret=secret)
    published = PublishedTables.of(controlled, "controlled")
    reached = next(bound for bound in range(99) if errors_within(published, bound))
    wrong = everything_but_one(AttackerView(published, Brought(bound=2)))
    empty = wrong.low > wrong.high
    assert empty.any()
    assert not wrong.proven(5)[empty].any()
    named = ["neighbour", Insider(secrets=0), Insider(unknown=1, secrets=0)]
    right, relied = (ilba.risk(controlled, named, bound=bound) for bound in (reached, reached - 1))
    assert relied.rows.equals(right.rows)
    said = (
        f"the bound {reached - 1} was not held: errors reach {reached}. Attackers who rely on a bound are measured "
        f"with {reached}."
    )
    assert said in relied.notes
    assert not any("not held" in note for note in right.notes)


def _proven(published, bound):
    """How many cells an insider who lacks one cell proves by a bound and by the numbers of masks."""
    found, numbers = everything_but_one(AttackerView(published, Brought(bound=bound))), MaskNumbers.of(published)
    if numbers is not None:
        packed, _, masked = small_cells(published)
        found = numbers.narrowed(found, at(packed, masked, found.packed) == published.K)
    return int(found.proven(published.K).sum())


def test_controlled_masks_show_the_lottery_over_secrets(town):
    own = ilba.Secret.from_text("ilba-secret-1:" + "22" * 32)
    controlled = town.with_threshold(5, own).controlled(secret=own)  # no count is further off than 5
    report = ilba.risk(controlled, Insider(secrets=2), bound=6)
    shares, coarse = [], []
    small = report.row("insider")["small"]
    for number, text in enumerate(("11", "22"), 1):
        other = ilba.Secret.from_text("ilba-secret-1:" + text * 32)
        masks = town.with_threshold(5, other).controlled(secret=other)
        published = PublishedTables.of(masks, "controlled")
        proven = _proven(published, 6)
        (row,) = report.detail.filter(what=f"with another secret, {number} of 2").rows(named=True)
        assert (row["small"], row["proven"], row["exactly"]) == (small, proven, None)
        shares.append(proven / small)
        coarse.append(next(_level_by_level(published, 6))[2] / small)
    (note,) = (note for note in report.notes if "other secrets" in note)
    assert f"with 2 other secrets between {min(shares):.1%} and {max(shares):.1%} of the small cells" in note
    assert "would be proven, relying on errors of at most 6; from" in note
    assert "relying on" not in korean.said(note, "ko")
    assert f"from the coarsest tables alone {min(coarse):.1%} to {max(coarse):.1%}" in note
    assert coarse != shares
    # The masks of the first secret do not keep to a bound of 5.
    assert any("with 1 other secrets" in note for note in ilba.risk(controlled, Insider(secrets=2), bound=5).notes)


def test_another_secret_is_measured_with_the_given_bound_where_the_own_masks_reach_more(town):
    own, other = (ilba.Secret.from_text("ilba-secret-1:" + text * 32) for text in ("11", "22"))
    reaching, held = (town.with_threshold(5, one).controlled(secret=one) for one in (own, other))
    assert (reaching.control.reached, held.control.reached) == (6, 5)
    report = ilba.risk(reaching, Insider(secrets=2), bound=5)
    assert report.row("insider")["bound"] == 6
    (row,) = report.detail.filter(what="with another secret, 2 of 2").rows(named=True)
    assert row["proven"] == _proven(PublishedTables.of(held, "controlled"), 5)
    (note,) = (note for note in report.notes if "other secrets" in note)
    assert "with 1 other secrets" in note
    assert "relying on errors of at most 5" in note


@pytest.mark.parametrize(("low", "bound", "proven"), [(2, 7, 1), (4, 13, 1), (5, None, 0)])
def test_an_insider_relies_on_the_first_public_bound_that_holds(low, bound, proven, secret):
    # One cell of 1 is raised to 5, the others of 4 are lowered to 0: their sum is 4 * low - 4 off.
    counts = {"town": ["a"] * (low + 1), "sex": range(low + 1), "N": [1] + [4] * low, "N_masked": [5] + [0] * low}
    finest = ilba.FinestTable.from_counts(pl.DataFrame(counts), hkey=["town"])
    published = PublishedTables.of(finest, "controlled")
    report = ilba.risk(published, Insider(secrets=1), store=finest)
    row = report.row("insider")
    assert (row["bound"], row["proven"]) == (bound, proven)
    holds = {7: "the usual one of 7 is known to everybody and holds", 13: "for, 13, is known to everybody and holds"}
    assert holds.get(bound, "neither the usual one of 7 nor 13 holds here: none is used") in report.notes[0]
    # Another secret is measured with the bound that holds for its own masks, whatever holds here.
    other = [note for note in report.notes if "other secrets between" in note]
    assert len(other) == (bound is not None)


@pytest.fixture
def two_waves(tmp_path, monkeypatch):
    """The stores of two published waves: fifty people left, fifty came."""
    monkeypatch.delenv("ILBA_LEDGER")
    ilba.Secret(bytes(range(32))).to_file(tmp_path / "agency.secret")
    first = ilba.datasets.census(2_000)
    stores = []
    for wave, people in (("1", first), ("2", pl.concat([first.tail(-50), ilba.datasets.census(50, seed=7)]))):
        store = ilba.build(
            people, ["LA1", "LA2"], ["gender", "age"], secret=tmp_path / "agency.secret", population="p", wave=wave
        )
        store.release(tmp_path / wave)
        stores.append(store)
    return stores


def test_after_an_earlier_wave_no_other_secret_is_measured_and_no_bound_is_called_public(two_waves):
    first, later = (ilba.risk(store.published(), Insider(secrets=1)) for store in two_waves)
    assert any("1 other secrets between" in note for note in first.notes)
    assert "is known to everybody and holds" in first.notes[0]
    assert later.row("insider")["bound"] is not None
    assert not any("other secrets" in note or "known to everybody" in note for note in later.notes)
    assert not any("another secret" in what for what in later.detail["what"])
    assert "nobody outside knows whether" in later.notes[0]


def test_a_table_with_other_columns_keeps_no_masks_of_an_earlier_publication(two_waves, tmp_path):
    people = ilba.datasets.census(2_000)
    named = {"secret": tmp_path / "agency.secret", "population": "p", "wave": "1"}
    other = ilba.build(people, ["LA1", "LA2"], ["gender", "mar"], **named)
    report = ilba.risk(other, Insider(secrets=1), method="controlled")
    assert any("1 other secrets between" in note for note in report.notes)
    assert not any("masks of earlier publications" in note for note in report.notes)


def test_an_audit_or_a_risk_of_a_store_says_that_other_masks_were_published(two_waves):
    store = two_waves[1]
    for measure in (
        lambda finest, **more: ilba.audit(finest, **more),
        lambda finest, **more: ilba.risk(finest, "proof", **more),
    ):
        with pytest.warns(ilba.Notice, match=r"method='controlled' and K=5, and .*'ilba'.* finest\.published\(\) has"):
            measure(store)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            measure(store, method="ilba")
            measure(store.published())


def test_with_noise_in_the_target_no_bound_is_assumed(town, secret):
    noisy = town.controlled(secret=secret, noise=0.2)
    report = ilba.risk(noisy, "insider")
    assert report.row("insider")["proven"] == _proven(PublishedTables.of(noisy, "controlled"), None)
    assert report.row("insider")["bound"] is None
    assert any("With noise in the target (20% of the small cells)" in note for note in report.notes)


def test_a_neighbour_proves_whatever_cannot_reach_k():
    finest = toy([1, 0, 2, 4, 6, 3], [0, 0, 0, 5, 6, 0], 5, "grid", areas=2)
    for method in ("ilba", "rounding:2", "rounding:3"):
        if method == "ilba":
            published = PublishedTables.of(finest, method)
        else:
            published = MethodTables.made_by(method_of(method), finest, wanted_tables(finest.design))
        known = Known.of(published)
        true = dict(zip(range(6), [1, 0, 2, 4, 6, 3], strict=True))
        ends = [
            (low, high)
            for cell, low, high in zip(known.packed.tolist(), known.low.tolist(), known.high.tolist(), strict=True)
            if true[cell] > 0 and high < 5
        ]
        row = ilba.risk(finest, "neighbour", method=method).row("neighbour")
        assert (row["small"], row["proven"]) == (4, len(ends))
        assert row["exactly"] == sum(max(low, 1) == high for low, high in ends)
        assert (0, 1) in ends or method != "rounding:2"


def test_an_insider_who_lacks_several_cells_is_asked_about_a_sample():
    finest = toy([1, 2, 7, 3, 1, 4], [0, 0, 7, 5, 0, 5], 5, "grid", areas=2)
    report = ilba.risk(finest, Insider(cells=2))
    found = everything_but_some(AttackerView(PublishedTables.of(finest, "ilba"), Brought()), 2)
    proven = found.proven(5)
    row = report.row("insider, 2 cells unknown")
    assert (row["small"], row["proven"]) == (len(proven), int(proven.sum()))
    assert row["exactly"] == int((proven & (found.low == found.high)).sum())
    assert f"{len(proven)} small cells were tried, {proven.mean():.1%} proven" in str(report)


@pytest.mark.long
def test_the_tables_of_another_method_are_measured_by_bets(town, secret, tmp_path):
    report = ilba.risk(town, ["outsider", "neighbour", "insider"], method="rounding:3")
    assert report.sample is None
    assert not any("refinement" in note for note in report.notes)
    made = MethodTables.published_by(town.with_method("rounding:3"), wanted_tables(town.design))
    known = Known.of(made)
    areas = np.arange(made.codes.lists[0].size(2))
    bets = Guessing(made, known, areas)
    outside = bets.outsider()
    small = outside.chance[:, 1:5].sum(axis=1)
    assert report.cells["small"].to_list() == pytest.approx(sorted(small[small > 0.01], reverse=True))
    for name, found, seen in (("outsider", outside, known), ("insider", bets.insider(), proven_by_insider(made))):
        proven = (seen.low >= 1) & (seen.high < 5)
        exactly = proven & (seen.low == seen.high)
        row = report.row(name)
        assert (row["small"], row["proven"], row["exactly"]) == (
            int(((found.counts > 0) & (found.counts < 5)).sum()),
            int(proven.sum()),
            int(exactly.sum()),
        )
        assert row["likely"] == int((found.chance[:, 1:5].sum(axis=1) > 0.95).sum())
    # A cell of v people has v neighbours, who know that somebody is there.
    weight = outside.chance * np.column_stack([np.tile(np.arange(5), (len(small), 1)), outside.heavy])
    beside = (weight / weight.sum(axis=1, keepdims=True))[outside.counts > 0]
    row = report.row("neighbour")
    assert row["likely"] == int((beside[:, 1:5].sum(axis=1) > 0.95).sum())
    assert row["alone"] == int((beside[:, 1] > 0.95).sum())
    # A sample of areas stands for all of them; proofs are of all of them.
    some = ilba.risk(town, "insider", method="rounding:3", cells=made.lattice.width(made.lattice.base) * 2)
    assert some.sample == (2, len(areas))
    row, whole = some.row("insider"), report.row("insider")
    assert row["exactly"] > 0
    assert (row["proven"], row["exactly"]) == (whole["proven"], whole["exactly"])
    part = Guessing(made, known, sampled_areas(made, made.lattice.width(made.lattice.base) * 2)).insider()
    assert row["likely"] == round((part.chance[:, 1:5].sum(axis=1) > 0.95).sum() * len(areas) / 2)
    # Whoever lacks several cells or people is not measured on such tables.
    for lacking in (Insider(cells=2), Insider(unknown=1)):
        several = ilba.risk(town, lacking, method="rounding:3")
        assert several.row(lacking.name)["proven"] is None
        assert any("Not measured" in note for note in several.notes)
    release = town.with_method("rounding:3").release(tmp_path / "out", ledger=False, accept_risk=True)
    with pytest.raises(InputError, match="Give the store"):
        ilba.risk(release, "insider")


def test_beliefs_of_a_single_aggregate_are_exact():
    """Two cells masked to 0 whose sum is 3..4: by hand."""
    finest = toy([2, 2], [0, 0], 5, "grid")
    published = PublishedTables.of(finest, "ilba")
    known = Known.of(published)
    left = Intervals.of(known.view, open_cells(known.attack))
    assert left.member.shape[0] == 2
    found = beliefs(left, np.zeros((2, 6)), rounds=60)
    assert found.sum(axis=1) == pytest.approx(1)
    assert found[:, 5] == pytest.approx(0)
    assert (found[:, 1:5] > 0).any()


def test_flat_propagation_is_sound(town):
    published = PublishedTables.of(town, "ilba")
    known = Known.of(published)
    raw = known.packed, np.where(known.low > 0, 1, 0), np.where(known.high == 5, 5, 4)
    left = Intervals.of(known.view, raw)
    low, high = propagated(left)
    place = np.searchsorted(known.packed, left.packed)
    assert (low <= known.low[place]).all()
    assert (high >= known.high[place]).all()


@pytest.mark.long
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_a_release_without_its_finest_table_says_what_is_not_measured(people, secret, cells):
    finest = ilba.build(people, HKEY, KEY, secret=secret, cells=cells)
    report = ilba.risk(finest, max_keys=1)
    assert report.row("outsider")["likely"] is None
    assert report.row("proof")["proven"] is not None
    assert sum("Not measured: the finest table is not among" in note for note in report.notes) == 2
    assert "neighbour: At least this is proven: the finest table is not among these tables." in report.notes


def test_groups_are_counted_against_the_rest_of_the_region(people, secret):
    frame = pl.DataFrame(
        {
            "region": ["r"] * 40 + ["q"] * 40,
            "town": ["a"] * 20 + ["b"] * 20 + ["c"] * 20 + ["d"] * 20,
            "faith": ["x"] * 20 + ["y"] * 20 + ["x", "y"] * 20,
        }
    )
    finest = ilba.build(frame, ["region", "town"], ["faith"], secret=secret, cells="grid")
    report = ilba.risk(finest, "attribute")
    (row,) = report.groups.filter(pl.col("table") == "town.faith").to_dicts()
    assert (row["shown_groups"], row["groups"], row["people"]) == (2, 2, 40)
    assert (row["pure"], row["accuracy"]) == (1.0, 1.0)
    assert row["expected"] < 0.1
    assert report.row("attribute")["groups"] >= 2


def test_a_release_alone_counts_nothing_against_the_truth(town, tmp_path, secret):
    release = town.controlled(secret=secret).release(tmp_path / "out", ledger=False)
    report = ilba.risk(release, ["proof", "outsider", "neighbour", "attribute"])
    assert report.rows["small"].to_list() == [None] * 5
    assert report.row("outsider")["likely"] is not None
    assert report.row("outsider")["likely_right"] is None
    assert report.calibration.is_empty()
    with pytest.raises(InputError, match="Give the store"):
        ilba.risk(release, "insider", bound=7)


def test_a_sample_of_areas_has_a_sampling_error(town):
    report = ilba.risk(town, ["outsider"], cells=town.codes.finest.grid // 2)
    assert report.sample[0] < report.sample[1]
    assert report.row("outsider")["likely_error"] is not None
    assert f"a sample of {report.sample[0]:,} of {report.sample[1]:,} areas" in str(report)


def test_the_report_is_a_page_json_and_text_for_its_owner_alone(measured, tmp_path):
    path = measured.to_html(tmp_path / "risk.html")
    page = path.read_text()
    assert "CONFIDENTIAL" in page
    assert "outsider" in page
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told = json.loads(measured.to_json())
    assert told["confidential"] is True
    assert [row["attacker"] for row in told["attackers"]] == measured.rows["attacker"].to_list()
    assert "confidential" in repr(measured)
    assert "confidential" in str(measured)


def test_a_region_of_one_area_says_no_more_than_the_mask(people, secret):
    """Its count by all keys is a mask: taken for a count, it would be counted twice."""
    alone = people.with_columns(region=pl.col("town"))
    finest = ilba.build(alone, ["region", "town"], ["sex", "age"], secret=secret, cells="grid")
    names = ["all", "town", "all.sex.age", "town.sex", "town.age", "town.sex.age"]
    areas = np.arange(finest.codes.lists[0].size(2))
    without = prior(PublishedTables.of(finest, "ilba", _tables(finest, names)), areas)
    both = prior(PublishedTables.of(finest, "ilba", _tables(finest, [*names, "region.sex.age"])), areas)
    assert both.expected == pytest.approx(without.expected)
    true = np.zeros_like(both.expected)
    rows = PublishedTables.of(finest, "ilba").base
    true[rows.packed % both.width, rows.packed // both.width] = rows.truth.sum_small + rows.truth.sum_large
    hidden = (true > 0) & (true < 5)
    assert both.expected[hidden].mean() == pytest.approx(true[hidden].mean(), rel=0.5)


def _tables(finest, names):
    return wanted_tables(finest.design, names)


def test_an_insider_on_controlled_sums_believes_what_keeps_errors_small(town, secret):
    controlled = town.controlled(secret=secret)
    view = PublishedTables.of(controlled, "controlled")
    known = Known.of(view)
    rows = view.base
    true = dict(zip(rows.packed.tolist(), (rows.truth.sum_small + rows.truth.sum_large).tolist(), strict=True))
    counts = np.array([true.get(cell, 0) for cell in known.packed.tolist()])
    flat = np.zeros((len(counts), view.K + 1))
    told = insider_beliefs(view, (known.packed, known.low, known.high), counts, flat)
    assert told.sum(axis=1) == pytest.approx(1)
    # What cannot be has no probability: 0 under a mask of K, and K under a mask of 0.
    assert (told[np.arange(len(counts)), np.minimum(counts, view.K)] > 0).all()
    alone = insider_beliefs(view, (known.packed, known.low, known.high), counts, flat, tables=[])
    own = np.arange(len(counts)), np.minimum(counts, view.K)
    assert np.log(told[own]).sum() > np.log(alone[own]).sum()
    report = ilba.risk(controlled, "insider")
    assert report.row("insider")["likely"] is not None
    assert report.calibration["attacker"].unique().to_list() == ["insider"]
    assert "19 of 20 secrets" in str(report)


def test_what_is_undecided_is_ranked_by_what_the_outsider_believes(town):
    report = ilba.risk(town, ["proof", "outsider"])
    assert report.undecided.height == report.row("proof")["undecided"]
    if report.undecided.height:
        believed = report.undecided["small"].drop_nulls().to_list()
        assert believed == sorted(believed, reverse=True)
        assert "because" in str(report)


def test_the_risk_of_controlled_is_that_of_the_masks_a_release_would_choose(secret):
    finest = ilba.build(ilba.datasets.census(600), ["LA1", "LA2"], ["gender", "age"], secret=secret)
    wanted = {"attackers": ["insider"], "method": "controlled"}
    assert ilba.risk(finest, **wanted).rows.equals(ilba.risk(finest.controlled(), **wanted).rows)
