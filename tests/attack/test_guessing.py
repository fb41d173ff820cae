"""Bets on the tables of the field's methods: chances that are chances, Bayes by hand, beliefs that hold."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import nbinom

import ilba
from ilba import methods
from ilba.attack import posterior
from ilba.attack.attackers import Known
from ilba.attack.field import MethodTables
from ilba.attack.guessing import Guessing, _reach, measured, proven_by_insider
from ilba.attack.published import PublishedRows, Truth
from ilba.design.tables import wanted_tables
from ilba.methods.lab import method_of
from ilba.methods.method import FAR, Shown
from support.stores import ZERO

ONE = np.ones(1, dtype=np.int64)


@pytest.fixture(scope="module")
def census(secret):
    people = ilba.datasets.census(3000)
    return ilba.build(people, ["LA2", "LA3"], ["gender", "age"], secret=secret)


@pytest.mark.parametrize(
    "method",
    [
        methods.CellKey(D=2, V=1.0),
        methods.CellKey(D=5, V=3.0, js=2, pstay=0.5),
        methods.Rounding(3),
        methods.Rounding(5, "conventional"),
        methods.SmallCountRounding(5),
        methods.Noise(1.0),
        methods.Noise(2.0, "gaussian"),
    ],
    ids=str,
)
def test_the_chances_of_all_numbers_of_a_count_add_up_to_one(method):
    value = np.arange(400)
    for count in (0, 1, 2, 4, 5, 7, 40):
        said = method.chance(value, np.full_like(value, count), np.ones_like(value), 1)
        if getattr(method, "kind", "") == "conventional":  # numbers that are never published are not asked for
            said = said[value % 5 == 0]
        assert said.sum() == pytest.approx(1, abs=1e-6), count


def test_blanks_of_cell_keys_have_the_chance_to_fall_below_the_threshold():
    method = methods.CellKey(D=2, V=1.0, threshold=3)
    count = np.arange(8)
    value = np.arange(12)
    shown = [method.chance(value, np.full_like(value, one), np.ones_like(value), 1)[3:].sum() for one in count]
    assert method.blank_chance(count, 5) == pytest.approx(1 - np.array(shown), abs=1e-9)


def test_where_a_blank_may_hide_a_large_count_its_chance_is_left_open():
    assert methods.Suppression(kind="primary").blank_chance(np.array([0, 1, 4, 5]), 5).tolist() == [0, 1, 1, 0]
    open_ended = methods.Suppression().blank_chance(np.array([0, 1, 4, 5]), 5)
    assert open_ended[:3].tolist() == [0, 1, 1]
    assert np.isnan(open_ended[3])


def test_an_insider_believes_what_bayes_says(secret):
    """Two cells and their sum, rounded to 3: the chances of the first are those of the two numbers it is in."""
    counts = pl.DataFrame({"town": ["a", "b"], "N": [2, 7]})
    finest = ilba.FinestTable.from_counts(counts, ["town"], [], secret=secret)
    method = methods.Rounding(3)
    made = MethodTables.made_by(method, finest, wanted_tables(finest.design))
    guessing = Guessing(made, Known.of(made), np.arange(2))
    found = guessing.insider()
    shown, whole = made.tables[(1,)].value[0], made.tables[(0,)].value[0]
    prior = np.exp(guessing._informed()[0])
    count = guessing.grid[0]
    by_hand = prior * np.maximum(1 - np.abs(shown - count) / 3, 0) * np.maximum(1 - np.abs(whole - 7 - count) / 3, 0)
    expected = by_hand / by_hand.sum()
    for place, one in enumerate(count):
        if one < 5:
            assert found.chance[0, one] == pytest.approx(expected[place], abs=1e-9)
    possible = count[expected > 0]
    proven = proven_by_insider(made)
    assert proven.packed.tolist() == [0], "the other count is not small"
    assert (proven.low[0], proven.high[0]) == (possible.min(), possible.max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["rounding:3", "rounding:5", "cell-key:D=2,V=1", "cell-key:D=5,V=3,js=2,threshold=4", "noise:12",
     "suppression", "small-count-rounding:5"],
)  # fmt: skip
def test_beliefs_hold_against_the_truth_bin_by_bin(census, name):
    report = ilba.risk(census, ["outsider", "insider"], method=name)
    rows = {row["attacker"]: row for row in report.rows.iter_rows(named=True)}
    assert rows["outsider"]["likely"] is not None
    assert rows["insider"]["likely"] is not None
    if rows["outsider"]["likely"] > 30:
        assert rows["outsider"]["likely_right"] > 0.93
    assert rows["insider"]["proven"] >= rows["outsider"]["proven"]
    bins = report.calibration.filter(pl.col("event") == "1..K-1", pl.col("cells") >= 30)
    assert bins.height
    for row in bins.filter(pl.col("attacker") == "outsider").iter_rows(named=True):
        chance = 3 * (row["said"] * (1 - row["said"]) / row["cells"]) ** 0.5
        assert row["said"] == pytest.approx(row["true"], abs=0.16 + chance), row


def test_noise_that_is_fitted_tells_no_chances_and_the_report_says_so(census):
    report = ilba.risk(census, ["outsider", "insider"], method="noise:epsilon=1,fit=true", keys=["gender"])
    assert report.rows["likely"].to_list() == [None, None]
    assert any("fitted to each other" in note for note in report.notes)


def test_where_the_common_refinement_is_not_published_the_largest_table_takes_its_place(census):
    wanted = ["LA3.gender", "LA3.age", "LA2", "LA3"]
    made = MethodTables.made_by(method_of("rounding:3"), census, wanted_tables(census.design, wanted))
    view = measured(made)
    assert view.lattice.base in made.tables
    assert view.number == 4
    assert set(view.tables) == {(2, 0, 1), (1, 0, 0), (2, 0, 0)}
    report = ilba.risk(made, ["proof", "outsider", "neighbour", "insider"])
    assert report.row("outsider")["likely"] is not None
    # Proofs are about the finest cells, and from all tables.
    assert report.rows["small"].n_unique() == 1
    assert report.row("outsider")["proven"] == report.row("proof")["proven"]
    assert report.row("insider")["proven"] == proven_by_insider(made).proven(5).sum()
    assert report.undecided.columns == ["LA2", "LA3", "gender", "age"], "cells without a belief of their own"
    # Where nothing is small, a table that adds up from another one still does not take its place.
    full = _shown_by(methods.Rounding(3), [0], to=3)
    rows = {}
    for node in [(0, 0), (0, 1), (1, 0)]:
        one = full.tables[node]
        rows[node] = one._replace(truth=one.truth._replace(sum_large=np.full(len(one.value), 50)))
    sparse = MethodTables(full.codes, full.method, rows, full.shown, full.base)
    assert measured(sparse).lattice.base == (0, 1)
    assert set(measured(sparse).tables) == {(0, 0), (0, 1)}
    assert any("LA3.age" in note for note in report.notes)


COUNTS = [2, 7, 0, 1, 12, 3, 0, 4, 6, 0, 3, 2]
"""four towns by three values of x"""
CELLS = {(0, 0): lambda _: 0, (0, 1): lambda cell: cell % 3, (1, 0): lambda cell: cell // 3, (1, 1): lambda cell: cell}


def _shown_by(method, moved, blank=(), invented=None, to=1):
    """Tables whose numbers are written down here: how far each count moved, which are blank, what empty cells got."""
    labels = [(town, x) for town in "abcd" for x in range(3)]
    frame = pl.DataFrame(labels, schema=["town", "x"], orient="row").with_columns(N=pl.Series(COUNTS))
    finest = ilba.FinestTable.from_counts(frame, ["town"], ["x"], 5, secret=ZERO, cells="grid")
    tables, shown = {}, {}
    for node, above in CELLS.items():
        true = np.bincount([above(cell) for cell in range(12)], COUNTS).astype(np.int64)
        packed = np.flatnonzero(true)
        value = np.maximum(true[packed] + np.resize(moved, len(packed)), 0) // to * to
        hidden = np.isin(packed, blank) if node == (1, 1) else np.zeros(len(packed), bool)
        value = np.where(hidden, 0, value)
        nothing = np.zeros(len(packed), np.int64)
        truth = Truth(nothing, nothing, np.where(true < 5, true, 0)[packed], np.where(true < 5, 0, true)[packed])
        tables[node] = PublishedRows(packed, value, None, None, truth)
        new = (invented or {}).get(node, {})
        extra = np.array(list(new.values()), np.int64), np.array(list(new), np.int64)
        shown[node] = Shown(value, hidden if len(blank) else None, *extra)
    return MethodTables(finest.codes, method, tables, shown, None)


def _with_base(made):
    """The same tables, with the rows of their common refinement."""
    return MethodTables(made.codes, made.method, made.tables, made.shown, made.tables[(1, 1)])


SHOWN = {
    "rounded": lambda: _shown_by(methods.Rounding(3), [0, 2, 2, 0, 2], to=3),
    "noise": lambda: _shown_by(methods.Noise(3.0), [1, -1, 2, 0], invented={(1, 1): {9: 4, 2: 3}}),
    "primary": lambda: _shown_by(methods.Suppression(kind="primary"), [0], [0, 3, 5, 7, 10, 11]),
    "further": lambda: _shown_by(methods.Suppression(), [0], [0, 1, 3, 5, 7, 10, 11]),
    "absent": lambda: _shown_by(methods.CellKey(D=2, V=1.0, threshold=3), [1, 0, -1, 2], [0, 3, 11]),
    "additive": lambda: _shown_by(methods.SmallCountRounding(5), [0]),
}


def _guessing(name):
    made = SHOWN[name]()
    return Guessing(made, Known.of(made) if made.bounded and name != "additive" else None, np.arange(4))


class ByHand:
    """The same beliefs, cell by cell and count by count."""

    def __init__(self, guessing):
        self.guessing, self.made = guessing, guessing.published
        self.cells = guessing.packed.tolist()
        self.reach = _reach(self.made)
        self.ends = dict.fromkeys(self.cells, (0, FAR))
        if guessing.known is not None:
            ends = zip(guessing.known.low.tolist(), guessing.known.high.tolist(), strict=True)
            self.ends = dict(zip(self.cells, ends, strict=True))
        first, last = {}, {}
        for cell in self.cells:
            value, blank, _ = self.read((1, 1), cell)
            begin, end = (0, 30) if blank else (max(value - self.reach, 0), value + self.reach)
            low, high = self.ends[cell]
            first[cell] = max(begin, low)
            last[cell] = max(min(end, high), first[cell])
        wide = max(6, *(last[cell] - first[cell] + 1 for cell in self.cells))
        self.window = {cell: np.arange(first[cell], first[cell] + wide) for cell in self.cells}

    def read(self, node, cell):
        """The number of a cell of a table, whether it is blank, and its finest cells."""
        rows, shown, place = self.made.tables[node], self.made.shown[node], CELLS[node](cell)
        size = 12 // len({CELLS[node](one) for one in range(12)})
        at = np.flatnonzero(rows.packed == place)
        if not len(at):
            extra = dict(zip(shown.places.tolist(), shown.invented.tolist(), strict=True))
            return extra.get(place, 0), self.made.method.absent_blank, size
        blank = shown.blank is not None and bool(shown.blank[at[0]])
        return int(rows.value[at[0]]), blank, size

    def said(self, node, cell, count):
        """The logarithm of the chance of what a table shows, for each count of its cell."""
        value, blank, size = self.read(node, cell)
        some_blank = any(self.read(node, one)[1] for one in self.cells)
        chance = [self.made.method.chance(np.array([value]), np.array([one]), np.array([size]), 4)[0] for one in count]
        hidden = self.made.method.blank_chance(np.asarray(count), 5)
        further = self.guessing._further if np.isnan(hidden).any() else 0.0
        if blank:
            chance = np.where(np.isnan(hidden), further, hidden)
        elif np.isnan(hidden).any() and some_blank:
            chance = np.array(chance) * (1 - np.where(np.isnan(hidden), further, hidden))
        return np.log(np.maximum(chance, 1e-300))

    def own(self, cell):
        low, high = self.ends[cell]
        count = self.window[cell]
        return np.where((count >= low) & (count <= high), self.said((1, 1), cell, count), -np.inf)

    def prior(self, cell):
        fitted = self.guessing.fitted
        mean, r = fitted.expected[cell % 3, cell // 3], fitted.spread
        return nbinom.logpmf(self.window[cell], r, r / (r + mean))

    def sums(self, node, cell):
        """The mean and the variance of the count behind a number."""
        value, blank, size = self.read(node, cell)
        count = np.arange(max(value - self.reach, 0), value + self.reach + 1)
        chance = self.made.method.chance(np.full_like(count, value), count, np.full_like(count, size), 4)
        mean = (chance * count).sum() / chance.sum()
        variance = (chance * (count - mean) ** 2).sum() / chance.sum()
        return mean, 1e12 if blank or chance[-1] > 0.2 * chance.max() else variance

    def outsider(self, rounds):
        log = {cell: self.prior(cell) + self.own(cell) for cell in self.cells}
        told = {(node, cell): (0.0, 0.0) for node in CELLS for cell in self.cells}

        def moments(log, count):
            p = np.exp(log - log.max())
            p = p / p.sum()
            return (p * count).sum(), (p * count**2).sum() - (p * count).sum() ** 2

        for _ in range(rounds):
            for node in self.made.tables:
                if node == (1, 1):
                    continue
                rest = {}
                for cell in self.cells:
                    precise, pull = told[node, cell]
                    count = self.window[cell]
                    rest[cell] = log[cell] - (pull * count - precise * count**2 / 2)
                about = {cell: moments(rest[cell], self.window[cell]) for cell in self.cells}
                for cell in self.cells:
                    others = [one for one in self.cells if CELLS[node](one) == CELLS[node](cell) and one != cell]
                    mean, variance = self.sums(node, cell)
                    wide = max(variance + sum(about[one][1] for one in others), 0.05)
                    precise, pull = told[node, cell]
                    new = 0.5 / wide, 0.5 / wide * (mean - sum(about[one][0] for one in others))
                    told[node, cell] = (precise + new[0]) / 2, (pull + new[1]) / 2
                    count = self.window[cell]
                    log[cell] = rest[cell] + told[node, cell][1] * count - told[node, cell][0] * count**2 / 2
        return log

    def chances(self, log):
        """The chances of 0..4 and of more, and the mean of the latter."""
        found = {}
        for cell, own in log.items():
            p = np.exp(own - own.max())
            p, count = p / p.sum(), self.window[cell]
            chance = np.array([p[count == v].sum() for v in range(5)] + [p[count >= 5].sum()])
            found[cell] = chance, (p * count)[count >= 5].sum() / max(chance[5], 1e-12)
        return found


@pytest.mark.long
@pytest.mark.parametrize("name", SHOWN)
def test_an_outsider_believes_what_counting_cell_by_cell_says(name):
    guessing = _guessing(name)
    hand = ByHand(guessing)
    found = guessing.outsider(rounds=3)
    assert found.counts.tolist() == [COUNTS[cell] for cell in found.packed]
    for place, (cell, (chance, heavy)) in enumerate(hand.chances(hand.outsider(3)).items()):
        assert found.packed[place] == cell
        assert found.chance[place] == pytest.approx(chance, abs=1e-7), cell
        assert found.heavy[place] == pytest.approx(max(heavy, 5) if chance[5] > 1e-6 else found.heavy[place], rel=1e-3)


@pytest.mark.parametrize("name", ["rounded", "noise", "primary", "absent"])
def test_an_insider_believes_what_counting_cell_by_cell_says(name):
    guessing = _guessing(name)
    hand = ByHand(guessing)
    found, prior = guessing.insider(), guessing._informed()
    for place, cell in enumerate(hand.cells):
        log, count = prior[place] + hand.own(cell), hand.window[cell]
        fits = np.isfinite(hand.own(cell)) if guessing.known is None else np.isfinite(log)
        for node in [(0, 0), (0, 1), (1, 0)]:
            beside = sum(COUNTS[one] for one in range(12) if CELLS[node](one) == CELLS[node](cell)) - COUNTS[cell]
            said = hand.said(node, cell, beside + count)
            log, fits = log + said, fits & (said > np.log(1e-300))
        log = np.where(fits, log, -np.inf)
        ((chance, _),) = hand.chances({cell: log}).values()
        assert found.chance[place] == pytest.approx(chance, abs=1e-9), cell


@pytest.mark.parametrize("name", ["rounded", "primary", "further", "absent"])
@pytest.mark.parametrize("tables", [[(0, 0), (0, 1), (1, 0), (1, 1)], [(0, 1), (1, 0)]])
def test_an_insider_who_lacks_one_cell_proves_from_all_tables_what_trying_every_count_proves(name, tables):
    """Also where the common refinement of the tables is not published, as in the second case."""
    made = _with_base(SHOWN[name]())
    view = MethodTables(made.codes, made.method, {n: made.tables[n] for n in tables}, made.shown, made.base, 4)
    hand, found = ByHand(_guessing(name)), proven_by_insider(view)
    assert found.packed.tolist() == [cell for cell in range(12) if 0 < COUNTS[cell] < 5]
    least, most = view.method.blank_range(5)
    for place, cell in enumerate(found.packed.tolist()):
        possible = []
        for count in range(60):
            fits = []
            for node in tables:
                beside = sum(COUNTS[one] for one in range(12) if CELLS[node](one) == CELLS[node](cell)) - COUNTS[cell]
                value, blank, size = (np.array([one]) for one in hand.read(node, cell))
                told = np.array([beside + count])
                fits.append(least <= told[0] <= most if blank[0] else view.method.chance(value, told, size, 4)[0] > 0)
            possible += [count] if all(fits) else []
        assert COUNTS[cell] in possible
        ends = possible[0], possible[-1]
        if ends[1] < 59:  # else there is no limit
            assert (found.low[place], found.high[place]) == ends
        else:
            assert (found.low[place], found.high[place] > 59) == (ends[0], True)


@pytest.mark.parametrize(
    ("method", "reach"),
    [
        (methods.Rounding(3), 2),
        (methods.Rounding(7), 6),
        (methods.Suppression(), 2),  # a number that is shown is the count
        (methods.CellKey(D=7, V=3.0), 7),
        (methods.Noise(1.0, fit=True), 5),  # states no chances
    ],
)
def test_counts_lie_as_far_from_a_number_as_the_method_moves_them(method, reach):
    made = _shown_by(method, [0], to=getattr(method, "base", 1))
    assert _reach(made) == reach
    assert Guessing.cells_to_follow(made) == 1_500_000 // (2 * reach + 1)


def test_noise_reaches_as_far_as_a_millionth_of_its_largest_chance():
    for method in (methods.Noise(3.0), methods.Noise(60.0)):
        far = np.arange(300)
        said = method.chance(np.full(300, 1000), 1000 - far, np.ones(300, np.int64), 4)
        assert _reach(_shown_by(method, [0])) == max(far[said > 1e-6 * said[0]].max(), 5)


def test_noise_that_spreads_too_far_is_not_measured_and_says_why():
    guessing = Guessing(_shown_by(methods.Noise(0.1), [0]), None, np.arange(4))
    assert guessing.outsider() is None
    assert guessing.insider() is None
    assert "spreads so far" in guessing.why_not
    guessing = Guessing(_shown_by(methods.Noise(1.0, fit=True), [0]), None, np.arange(4))
    assert guessing.outsider() is None
    assert guessing.fitted.spread == 1
    assert "fitted to each other" in guessing.why_not


def _mean_behind(made, value, blank):
    """The mean count behind numbers: the shares of counts are estimated by expectation and maximisation."""
    method, reach = made.method, _reach(made)
    most = 4 * reach
    counts, ones = np.arange(most + reach + 1), np.ones(most + reach + 1, np.int64)
    likely = [method.chance(ones * number, counts, ones, 4) for number in range(most + 1)]
    hidden = method.blank_chance(counts, 5)
    likely = np.array([*likely, np.where(np.isnan(hidden), 0.3, hidden)])
    seen = [most + 1 if hides else number for number, hides in zip(value, blank, strict=True)]
    share = np.full(len(counts), 1 / len(counts))
    for _ in range(60):
        new = np.zeros(len(counts))
        for number in seen:
            if number <= most or number == most + 1:
                new += likely[number] * share / (likely[number] * share).sum()
        share = np.maximum(new / new.sum(), 1e-12)
    mean = [(row * share * counts).sum() / max((row * share).sum(), 1e-300) for row in likely]
    last = max(most - reach, 1) - 1
    return [
        mean[-1] if hides else mean[number] if number <= last else number
        for number, hides in zip(value, blank, strict=True)
    ]


@pytest.mark.parametrize("name", ["rounded", "noise", "primary", "further", "absent"])
def test_the_mean_count_behind_a_number_is_estimated_from_all_numbers_of_the_table(name):
    guessing = _guessing(name)
    made, hand = guessing.published, ByHand(guessing)
    for node in CELLS:
        one_each = {CELLS[node](cell): cell for cell in range(12)}
        read = [hand.read(node, one_each[place])[:2] for place in sorted(one_each)]
        areas = 4 if node[0] else 1
        shown = made.dense(node, 0, areas, made.tables[node].value)
        found = guessing._middles(node, shown)
        value, blank = zip(*read, strict=True)
        if all(number <= 4 * hand.reach for number, hides in read if not hides):
            assert found.reshape(-1, areas).T.ravel() == pytest.approx(_mean_behind(made, value, blank), rel=1e-6)
        else:
            far = [place for place, number in enumerate(value) if number > 4 * hand.reach]
            assert found.reshape(-1, areas).T.ravel()[far].tolist() == [value[place] for place in far]


@pytest.mark.parametrize("name", ["rounded", "noise", "further"])
def test_the_prior_has_the_spread_that_makes_the_numbers_likeliest(name):
    guessing = _guessing(name)
    hand, fitted = ByHand(guessing), guessing.fitted
    assert fitted.expected == pytest.approx(
        posterior.expected_counts(guessing.published, np.arange(4), guessing._middles)
    )

    def score(r):
        total = 0.0
        for cell in hand.cells:
            value, blank, size = hand.read((1, 1), cell)
            count, mean = hand.window[cell], fitted.expected[cell % 3, cell // 3]
            same = np.ones_like(count)
            said = 1.0 if blank else guessing.published.method.chance(value * same, count, size * same, 4)
            total += np.log((nbinom.pmf(count, r, r / (r + mean)) * said).sum())
        return total

    assert fitted.spread == pytest.approx(max(np.geomspace(0.3, 100, 14), key=score))


def test_counts_that_are_blank_without_need_are_estimated_from_the_blanks():
    guessing = _guessing("further")
    fitted, blanks, seen = guessing.fitted, 7, 2
    sure = 0.0
    for cell in guessing.packed.tolist():
        mean, r = fitted.expected[cell % 3, cell // 3], fitted.spread
        sure += nbinom.pmf(np.arange(1, 5), r, r / (r + mean)).sum()
    further = max(blanks - sure, 0.05 * blanks)
    assert guessing._further == pytest.approx(further / (further + seen))
    half = Guessing(guessing.published, guessing.known, np.arange(2))
    assert half._scale == 2


def test_an_insider_knows_the_spread_of_the_counts_and_the_size_of_the_errors():
    guessing = _guessing("additive")
    counts, r = np.array(COUNTS), np.geomspace(0.1, 100, 16)
    mean = guessing.fitted.means(guessing.packed)
    tried = [(more, one) for more in (0.0, 1e-3, 1e-2, 5e-2) for one in r]

    def score(one):
        return nbinom.logpmf(counts, one[1], one[1] / (one[1] + mean + one[0])).sum()

    more, best = max(tried, key=score)
    prior = nbinom.logpmf(guessing.grid, best, best / (best + mean[:, None] + more))
    assert guessing._informed() == pytest.approx(prior)
    errors = [np.array([0, 1, -2, 0, 3, 1, 0, 0, -1, 2, 0, 1]), np.zeros(12, np.int64)]
    log = np.log(np.random.default_rng(5).dirichlet(np.ones(guessing.wide), 12))
    cost = np.zeros(guessing.grid.shape)
    for error, size in zip(errors, (21 / 12, 0.25), strict=True):
        for cell in range(12):
            cost[cell] += (error[cell] + counts[cell] - guessing.grid[cell]) ** 2 / size

    def likely(scale):
        chance = np.exp(log - cost / (2 * scale))
        chance = chance / chance.sum(axis=1, keepdims=True)
        place = np.clip(counts - guessing.start, 0, guessing.wide - 1)
        return np.log(np.maximum(chance[np.arange(12), place], 1e-12)).sum()

    scale = max(np.geomspace(0.5, 3000, 16), key=likely)
    assert guessing._unlikely(log, errors) == pytest.approx((cost - cost.min(axis=1, keepdims=True)) / (2 * scale))


def test_a_sample_of_areas_hears_the_tables_of_its_areas_alone():
    made = SHOWN["rounded"]()
    known = Known.of(made)
    assert Guessing(made, known, np.arange(4))._messengers() == [(0, 0), (0, 1), (1, 0)]
    some = Guessing(made, known, np.array([1, 3]))
    assert some._messengers() == [(1, 0)]
    assert set((some.packed // 3).tolist()) == {1, 3}
    loud = Guessing(SHOWN["noise"](), None, np.array([1, 3]))
    assert loud.packed.tolist() == [3, 4, 5, 9, 10, 11]
