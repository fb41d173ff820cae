"""The rows and notes of insiders in a report of risks, and what they would be with other secrets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError, Insider, PublishedTables, Secret
from ilba.attack.attackers import (
    Known,
    errors_within,
    everything_but_one,
    everything_but_some,
    insider_beliefs,
    largest_error,
    small_cells,
)
from ilba.attack.insiders import everybody_but
from ilba.attack.intervals import AttackerView, Brought, at
from ilba.attack.masknumbers import MaskNumbers
from ilba.attack.measuring import ROWS
from ilba.attack.posterior import prior, sampled_areas
from ilba.attack.scoring import Believed, TrueCells
from ilba.design.tables import wanted_tables
from support.stores import ZERO, toy

K = 5
COUNTS = [1, 1, 2, 1, 2, 0, 1, 15, 9, 3, 1, 1, 0, 1, 1]
MASKS = [5, 0, 5, 0, 0, 0, 0, 15, 9, 5, 0, 0, 0, 0, 0]
SMALL = sum(0 < n < K for n in COUNTS)
NO_CHANCES = "insider: what is likely is measured for sums of masks alone, here only what is proven."


def in_towns(counts, masks):
    """Five towns in two regions by three values of x."""
    towns = [town for town in range(5) for _ in range(3)]
    cells = {"region": [(0, 1, 1, 0, 1)[town] for town in towns], "town": towns, "x": [0, 1, 2] * 5}
    frame = pl.DataFrame(cells | {"N": counts, "N_masked": masks})
    return FinestTable.from_counts(frame, ["region", "town"], ["x"], K, cells="grid")


@pytest.fixture(scope="module")
def towns():
    """Cells with masks whose numbers follow the rule of controlled SCA."""
    return in_towns(COUNTS, MASKS)


def row(one, **values):
    return {**dict.fromkeys(ROWS), "attacker": one.name, "knows": one.knows, "small": SMALL, **values}


def counted(found):
    """The numbers of cells that are proven small and known exactly."""
    small = (found.low >= 1) & (found.low <= found.high) & (found.high < K)
    return {"proven": int(small.sum()), "exactly": int((small & (found.low == found.high)).sum())}


def insight(view, bound):
    """What is proven of one cell by a bound, and by the numbers of masks where they follow the rule."""
    found, numbers = everything_but_one(AttackerView(view, Brought(bound=bound))), MaskNumbers.of(view)
    packed, _, masked = small_cells(view)
    return found if numbers is None else numbers.narrowed(found, at(packed, masked, found.packed) == K)


def lacking(view, bound, people):
    known, true = Known.of(view, Brought(bound=bound)), TrueCells.of(view)
    return everybody_but(known, at(true.packed, true.counts, known.packed), people, numbers=MaskNumbers.of(view))


def believed(view, bound, areas):
    """What is believed of the cells of some areas; of a sample, from the tables of its level alone."""
    known, true, base = Known.of(view, Brought(bound=bound)), TrueCells.of(view), view.base
    inside = np.isin(known.packed // true.width, areas)
    packed, low, high = known.packed[inside], known.low[inside], known.high[inside]
    own = None if len(areas) == true.areas else [node for node in view.lattice.nodes if node[0] == 2]
    counts, numbers = at(true.packed, true.counts, packed), MaskNumbers.of(view)
    fits = None if numbers is None else numbers.fitting(counts, at(base.packed, base.value, packed) == K)
    log = prior(view, areas).log(packed, K)
    return Believed(true, packed, insider_beliefs(view, (packed, low, high), counts, log, own, fits), counts, areas)


@pytest.mark.parametrize("areas", [5, 2])
@pytest.mark.parametrize(("method", "bound"), [("ilba", None), ("controlled", 6), ("sca-sums", 6)])
def test_the_rows_of_insiders_count_what_follows_from_all_other_counts(towns, method, bound, areas):
    view = PublishedTables.of(towns, method)
    several, person, people = Insider(cells=2, secrets=0), Insider(unknown=1, secrets=0), Insider(unknown=2, secrets=0)
    named = [Insider(secrets=0), several, person, people]
    found = ilba.risk(view, named, bound=bound, store=towns, cells=3 * areas)
    own, some = insight(view, bound), everything_but_some(AttackerView(view, Brought(bound=bound)), 2)
    chances = believed(view, bound, sampled_areas(view, 3 * areas)) if method != "ilba" else None
    own_row, some_row, *missing_rows = found.rows.to_dicts()
    proven = counted(own)
    said = {} if chances is None else chances.figures()
    assert own_row == row(
        named[0], **proven, certified=SMALL - proven["proven"], undecided=0, bound=bound, **said
    )  # fmt: skip
    assert some_row == row(several, **counted(some), bound=bound) | {"small": len(some.packed)}
    for one, shown in zip((person, people), missing_rows, strict=True):
        other = lacking(view, bound, one.unknown)
        proven = counted(other.insight)
        asked = len(other.insight.packed)
        certified = sum(
            bool(sure) and not (0 < low <= high < K)
            for sure, low, high in zip(other.certified, other.insight.low, other.insight.high, strict=True)
        )
        left = asked - proven["proven"] - certified
        assert shown == row(one, **proven, certified=certified, undecided=left, bound=bound) | {"small": asked}
    assert found.calibration.to_dicts() == ([] if chances is None else chances.calibration("insider"))
    assert (NO_CHANCES in found.notes) is (chances is None)
    assert found.sample == (None if areas == 5 or chances is None else (2, 5))


def test_the_insiders_above_prove_different_things(towns):
    view = PublishedTables.of(towns, "controlled")
    assert largest_error(view) == 6
    alone, bounded = everything_but_one(AttackerView(view, Brought(bound=6))), insight(view, 6)
    numbers = insight(view, None)
    assert 0 < counted(alone)["proven"] < counted(bounded)["proven"] > counted(numbers)["proven"] > 0
    assert 0 < counted(bounded)["exactly"] < counted(bounded)["proven"]


def test_what_an_insider_proves_by_a_bound_is_shown_level_by_level(towns):
    view = PublishedTables.of(towns, "controlled")
    found = ilba.risk(view, Insider(secrets=0), bound=6, store=towns).detail
    expected = []
    for level, where in enumerate(["the whole", "region", "town"]):
        nodes = [node for node in view.tables if node[0] == level and node != view.lattice.base]
        proven = counted(everything_but_one(AttackerView(view, Brought(bound=6)), nodes))
        expected.append(("insider", f"tables of {where} alone", SMALL, *proven.values()))
    assert found.rows()[:3] == expected
    assert any(row[3] for row in expected)


def test_the_notes_of_an_insider_on_controlled_sums_say_how_much_the_numbers_of_masks_prove(towns):
    view = PublishedTables.of(towns, "controlled")
    found = ilba.risk(view, Insider(secrets=0), bound=6, store=towns)
    alone = counted(insight(view, None))
    (note,) = found.notes
    assert note.endswith(f"proves {alone['proven']} cells, {alone['exactly']} of them exactly.")
    assert found.detail.filter(what="numbers of masks alone").to_dicts() == [
        {"attacker": "insider", "what": "numbers of masks alone", "small": SMALL, **alone}
    ]
    assert ilba.risk(PublishedTables.of(towns, "sca-sums"), Insider(secrets=0), bound=6, store=towns).notes == []


def test_whoever_lacks_people_is_asked_about_cells_whose_people_are_all_missing(towns):
    view = PublishedTables.of(towns, "controlled")
    for people, who, how in (
        (1, "person is missing", "in closed form, and complete"),
        (2, "people are all missing", "by intervals and by other worlds"),
    ):
        one = Insider(unknown=people, secrets=0)
        (note,) = ilba.risk(view, one, bound=6, store=towns).notes
        asked = len(lacking(view, 6, people).insight.packed)
        assert note.startswith(f"{one.name}: asked about {asked} small cells whose {who}, {how}. ")


def test_whoever_lacks_people_relies_on_the_bound_and_on_the_numbers_of_masks():
    finest = in_towns([1, 0, 2, 9, 4, 1, 1, 1, 3, 3, 3, 1, 4, 9, 1], [0, 0, 5, 9, 0, 0, 5, 0, 0, 5, 0, 0, 5, 9, 5])
    view = PublishedTables.of(finest, "controlled")
    bound, true = largest_error(view), TrueCells.of(view)
    known = Known.of(view, Brought(bound=bound))
    counts = at(true.packed, true.counts, known.packed)
    for people in (1, 2):
        one = Insider(unknown=people, secrets=0)
        shown = ilba.risk(view, one, bound=bound, store=finest).row(one.name)
        told = []
        ways = lacking(view, bound, people), lacking(view, None, people), everybody_but(known, counts, people)
        for found in ways:
            sure = found.insight.proven(K)
            told.append((int(sure.sum()), int((found.certified & ~sure).sum())))
        assert (shown["proven"], shown["certified"]) == told[0]
        assert told[0] not in told[1:]
    assert shown["undecided"] == shown["small"] - sum(told[0]) > 0


def test_where_nothing_is_small_insiders_prove_nothing_of_nothing():
    finest = toy([9, 8, 7, 6], [9, 8, 7, 6], K, "grid", areas=2)
    found = ilba.risk(finest, Insider(cells=2))
    assert found.notes == ["insider, 2 cells unknown: 0 small cells were tried, 0.0% proven by propagation."]
    assert found.row("insider, 2 cells unknown")["small"] == 0
    for one in (Insider(secrets=1), Insider(unknown=1, secrets=1)):
        found = ilba.risk(PublishedTables.of(finest, "controlled"), one, bound=7, store=finest)
        assert (found.row(one.name)["small"], found.row(one.name)["proven"]) == (0, 0)
        assert not any("other secrets" in note for note in found.notes)


def other_secrets(finest, planned, names, number):
    """The tables with the masks that other secrets choose, one byte repeated: 11, 22, ... in hexadecimal digits."""
    for digit in range(1, number + 1):
        secret = Secret.from_text("ilba-secret-1:" + f"{digit}{digit}" * 32)
        masked = finest.with_threshold(K, secret).controlled(planned, secret=secret)
        yield PublishedTables.of(masked, "controlled", wanted_tables(finest.design, names))


def noted(report):
    return [note for note in report.notes if "other secrets between" in note]


@pytest.mark.parametrize(
    ("planned", "names"),
    [
        ("all", "all"),
        (["town.x", "all.x"], ["town.x", "all.x", "town"]),
        ("all", ["town.x"]),
        ("all", ["town.x", "region", "region.x"]),
    ],
    ids=["all tables", "masks chosen for some", "the finest alone", "none of the whole"],
)
def test_with_other_secrets_an_insider_proves_what_their_masks_let_follow(towns, planned, names):
    finest = towns.with_threshold(K, ZERO)
    store = finest.controlled(planned, secret=ZERO) if planned != "all" else finest
    view = PublishedTables.of(
        finest.controlled(planned, secret=ZERO), "controlled", wanted_tables(finest.design, names)
    )
    bound = max(largest_error(one) for one in (view, *other_secrets(finest, planned, names, 3)))
    found = ilba.risk(view, [Insider(), Insider(unknown=1)], bound=bound, store=store)
    shares, coarse, missing = [], [], []
    top = min(node[0] for node in view.tables)
    for other in other_secrets(finest, planned, names, 3):
        shares.append(counted(insight(other, bound))["proven"] / SMALL)
        nodes = [node for node in other.tables if node[0] == top and node != other.lattice.base]
        seen = AttackerView(other, Brought(bound=bound))
        coarse.append(counted(everything_but_one(seen, nodes))["proven"] / SMALL if nodes else 0)
        some = lacking(other, bound, 1).insight
        missing.append(counted(some)["proven"] / len(some.packed))
    told = "with 3 other secrets between {:.1%} and {:.1%} of the small cells would be proven, relying on errors of "
    told += f"at most {bound}"
    end = " It depends on which coarse counts happen to lie at the bound."
    span = f"; from the coarsest tables alone {min(coarse):.1%} to {max(coarse):.1%}."
    assert noted(found) == [
        "insider: " + told.format(min(shares), max(shares)) + span + end,
        "insider, 1 person unknown: " + told.format(min(missing), max(missing)) + "." + end,
    ]
    others = found.detail.filter(found.detail["what"].str.contains("another secret"))
    assert others.rows() == [
        ("insider", f"with another secret, {number} of 3", SMALL, round(share * SMALL), None)
        for number, share in enumerate(shares, 1)
    ]


def test_a_secret_whose_masks_break_the_bound_is_left_out_of_the_shares(towns):
    finest = towns.with_threshold(K, ZERO)
    others = list(other_secrets(finest, "all", "all", 3))
    errors = [largest_error(one) for one in others]
    bound = min(errors)
    view = PublishedTables.of(finest.controlled(secret=ZERO), "controlled")
    found = ilba.risk(view, Insider(unknown=1), bound=bound, store=finest)
    held = [one for one in others if errors_within(one, bound)]
    assert 0 < len(held) < 3
    (note,) = noted(found)
    assert f"with {len(held)} other secrets" in note


def test_who_lacks_a_person_of_whom_there_is_no_cell_proves_none_with_other_secrets():
    finest = toy([2, 3, 9, 4], [0, 5, 9, 5], K, "grid", areas=2).with_threshold(K, ZERO)
    found = ilba.risk(finest.controlled(secret=ZERO), Insider(unknown=1, secrets=1), bound=13)
    assert found.row("insider, 1 person unknown")["small"] == 0
    (note,) = noted(found)
    assert "with 1 other secrets between 0.0% and 0.0% of the small cells" in note


def test_other_secrets_are_tried_for_controlled_masks_of_a_store_at_hand_alone(towns):
    made = towns.with_threshold(K, ZERO).controlled(secret=ZERO)
    view, sums = PublishedTables.of(made, "controlled"), PublishedTables.of(made, "sca-sums")
    assert len(noted(ilba.risk(view, Insider(secrets=1), store=made))) == 1
    assert noted(ilba.risk(view, Insider(secrets=0), store=made)) == []
    assert noted(ilba.risk(view, Insider(secrets=1))) == []
    assert noted(ilba.risk(sums, Insider(secrets=1), store=made, bound=13)) == []
    assert noted(ilba.risk(PublishedTables.of(made, "ilba"), Insider(secrets=1), store=made)) == []
    assert ilba.risk(sums, Insider(secrets=1), store=made).row("insider")["bound"] is None


def test_the_usual_bound_is_that_of_as_many_small_cells_in_as_many_tables(towns, monkeypatch):
    made = towns.with_threshold(K, ZERO).controlled(secret=ZERO)
    every = SMALL * len(PublishedTables.of(made, "controlled").tables)
    for most, usual in ((every, 7), (every - 1, 9)):
        monkeypatch.setattr("ilba.methods.controlled.search._LARGE", most)
        found = ilba.risk(made, Insider(secrets=0))
        assert found.row("insider")["bound"] == usual
        assert found.notes[0].startswith(f"insider: no bound is stated, but the usual one of {usual} is known to")


def test_an_insider_on_a_release_needs_the_truth_with_a_bound_and_without_one(towns, tmp_path):
    release = towns.with_threshold(K, ZERO).release(tmp_path / "out", "controlled", secret=ZERO, ledger=False)
    for more in ({}, {"bound": 7}):
        with pytest.raises(InputError, match="Give the store"):
            ilba.risk(release, "insider", **more)


@pytest.mark.parametrize("method", ["noise:2", "noise:epsilon=1,fit=true", "rounding:3"])
def test_an_insider_needs_the_truth_also_of_numbers_that_prove_nothing(tmp_path, method):
    people = pl.DataFrame({"town": [0] * 9 + [1] * 3, "x": [0, 1] * 6})
    listed = [("town", "0"), ("town", "1"), ("x", "0"), ("x", "1")]
    codes = pl.DataFrame(listed, schema=["variable", "code"], orient="row").with_columns(label_en="code")
    store = ilba.build(people, ["town"], ["x"], K, secret=ZERO, labels=codes).with_method(method, secret=ZERO)
    release = store.release(tmp_path / "out", ledger=False, accept_risk=True)
    with pytest.raises(InputError, match="Give the store"):
        ilba.risk(release, "insider")


def test_a_secret_that_cannot_be_read_keeps_no_masks(towns, monkeypatch, tmp_path):
    view = PublishedTables.of(towns.with_threshold(K, ZERO).controlled(secret=ZERO), "controlled")
    monkeypatch.setenv("ILBA_SECRET", str(tmp_path / "nowhere"))
    assert len(noted(ilba.risk(view, Insider(secrets=1), store=towns))) == 1
