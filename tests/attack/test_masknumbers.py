"""The numbers of masks of each count: what an insider concludes from them is what trying every count gives."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import PublishedTables
from ilba.attack.attackers import Insider, Insight, Known, everything_but_one, small_cells
from ilba.attack.insiders import everybody_but
from ilba.attack.intervals import AttackerView, Brought, at
from ilba.attack.masknumbers import MaskNumbers
from ilba.design.tables import wanted_tables
from ilba.methods.controlled.carry import may_have

K = 5


def secret(number):
    return ilba.Secret(bytes([number]) * 32)


def chosen(counts, number, **how):
    """Controlled masks of towns by age."""
    frame = pl.DataFrame(
        {"town": [f"{i % 6}" for i in range(len(counts))], "age": [i // 6 for i in range(len(counts))], "N": counts}
    )
    finest = ilba.FinestTable.from_counts(frame, ["town"], mask_thr=K, secret=secret(number))
    return finest.controlled(secret=secret(number), **how)


@pytest.fixture(scope="module")
def counts():
    return np.random.default_rng(7).choice([1, 2, 3, 4, 5, 9], 300, p=[0.3, 0.2, 0.15, 0.1, 0.05, 0.2]).tolist()


def fits(size, masks):
    """The rule in the words of the docs: the nearest number, or a mean within 0.01; in a tiny class up or down."""
    for x in range(1, K):
        wanted, n, m = x * size[x] / K, size[x], masks[x]
        near = n and abs(K * m / n - x) <= 0.01
        if not (abs(m - wanted) <= 0.5 or near or (n <= 3 * K and abs(m - wanted) < 1)):
            return False
    return True


def by_hand(finest):
    """For each small cell, the counts with which all numbers fit, by trying each."""
    rows = finest.frame.select("N", "N_masked").rows()
    size = [sum(n == x for n, _ in rows) for x in range(K + 1)]
    masks = [sum(n == x and m == K for n, m in rows) for x in range(K + 1)]
    assert fits(size, masks)
    for n, m in rows:
        if not 1 <= n < K:
            continue
        found = []
        for x in range(1, K + 1) if m == K else range(K):
            s, k = list(size), list(masks)
            s[n], k[n] = s[n] - 1, k[n] - (m == K)
            s[x], k[x] = s[x] + 1, k[x] + (m == K)
            if fits(s, k):
                found.append(x)
        yield n, m, found


def by_hand_breaks(finest):
    rows = finest.frame.select("N", "N_masked").rows()
    size = [sum(n == x for n, _ in rows) for x in range(K + 1)]
    return not fits(size, [sum(n == x and m == K for n, m in rows) for x in range(K + 1)])


def narrowed(finest, bound=None):
    published = PublishedTables.of(finest, "controlled")
    found = everything_but_one(AttackerView(published, Brought(bound=bound)))
    packed, _, masked = small_cells(published)
    at_k = masked[np.searchsorted(packed, found.packed)] == K
    return published, MaskNumbers.of(published).narrowed(found, at_k)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_who_counts_the_masks_of_all_other_cells_proves_what_trying_every_count_proves(counts, number):
    finest = chosen(counts, number)
    _, found = narrowed(finest)
    expected = [(n, min(values), max(values)) for n, _, values in by_hand(finest)]
    assert sorted(zip(found.counts.tolist(), found.low.tolist(), found.high.tolist(), strict=True)) == sorted(expected)
    assert (found.low <= found.counts).all()
    assert (found.counts <= found.high).all()
    assert found.proven(K).sum() > 10


def test_no_secret_gives_the_published_numbers_where_the_insider_rules_a_count_out(counts):
    finest = chosen(counts, 1)
    published = MaskNumbers.of(PublishedTables.of(finest, "controlled"))
    rows = finest.frame.select("town", "age", "N", "N_masked").rows()
    place = next(i for i, (n, m, values) in enumerate(by_hand(finest)) if m == K and values == [n])
    town, age, own, _ = [row for row in rows if 1 <= row[2] < K][place]
    here = next(i for i in range(len(counts)) if f"{i % 6}" == town and i // 6 == age)
    tried = 0
    for other, number in itertools.product((x for x in range(1, K + 1) if x != own), range(1, 7)):
        again = chosen([*counts[:here], other, *counts[here + 1 :]], number)
        numbers = MaskNumbers.of(PublishedTables.of(again, "controlled"))
        cell = again.frame.filter(town=town, age=age)["N_masked"].item()
        if numbers is None or cell != K:
            continue
        for x, away in ((own, -1), (other, 1)):  # what the insider sees: all cells but this one
            if x < K:
                numbers.masks[x] -= away
        assert numbers.masks[1:K].tolist() != published.masks[1:K].tolist()
        tried += 1
    assert tried > 4


def test_the_risk_report_counts_masks_with_a_bound_and_without_one(counts):
    finest = chosen(counts, 2)
    report = ilba.risk(finest, Insider(secrets=0), bound=13)
    published, alone = narrowed(finest)
    _, both = narrowed(finest, 13)
    row = report.row("insider")
    assert row["proven"] == int(both.proven(K).sum()) >= int(alone.proven(K).sum())
    assert row["proven"] > int(everything_but_one(AttackerView(published, Brought(bound=13))).proven(K).sum())
    (detail,) = report.detail.filter(what="numbers of masks alone").rows(named=True)
    exactly = int((alone.proven(K) & (alone.low == alone.high)).sum())
    assert (detail["proven"], detail["exactly"]) == (int(alone.proven(K).sum()), exactly)
    (note,) = (note for note in report.notes if "Counting the masks" in note)
    assert f"proves {detail['proven']:,} cells, {detail['exactly']:,} of them exactly" in note
    believed = report.calibration.filter(attacker="insider")
    assert believed.filter(pl.col("said") > 0.999).height


def test_noise_in_the_target_leaves_the_numbers_and_what_they_prove(counts):
    noisy = next(
        one for one in (chosen(counts, number, noise=0.4) for number in range(2, 30)) if not by_hand_breaks(one)
    )
    _, found = narrowed(noisy)
    row = ilba.risk(noisy, Insider(secrets=0)).row("insider")
    assert row["bound"] is None
    assert row["proven"] == int(found.proven(K).sum()) > 10


def test_numbers_that_no_rule_gives_are_not_used(counts):
    towns = {"town": [f"{i}" for i in range(40)], "N": [2] * 40}
    for masks, found in ((16, True), (17, False), (30, False)):
        frame = pl.DataFrame({**towns, "N_masked": [5] * masks + [0] * (40 - masks)})
        finest = ilba.FinestTable.from_counts(frame, ["town"])
        assert (MaskNumbers.of(PublishedTables.of(finest, "controlled")) is not None) is found
        assert MaskNumbers.of(PublishedTables.of(finest, "sca-sums")) is None
    broken = next(one for one in (chosen(counts, number, noise=0.4) for number in range(1, 30)) if by_hand_breaks(one))
    report = ilba.risk(broken, Insider(secrets=0))
    assert report.row("insider")["proven"] == 0
    assert any("not those of the public rule" in note for note in report.notes)
    assert not report.detail.filter(what="numbers of masks alone").height


def test_the_missing_person_is_not_placed_where_the_numbers_of_masks_would_change(counts):
    finest = chosen(counts, 1)
    published = PublishedTables.of(finest, "controlled")
    numbers = MaskNumbers.of(published)
    known = Known.of(published, Brought(bound=None))
    truth = published.base.truth
    own = at(published.base.packed, truth.sum_small + truth.sum_large, known.packed)
    free, counted = everybody_but(known, own, 1), everybody_but(known, own, 1, numbers=numbers)
    rows = finest.frame.select("N", "N_masked").rows()
    size = [sum(n == x for n, _ in rows) for x in range(K + 1)]
    masks = [sum(n == x and m == K for n, m in rows) for x in range(K + 1)]
    others = {(n, m == K) for n, m in rows if n <= K} | {(0, False)}
    for packed, low in zip(counted.insight.packed.tolist(), counted.insight.low.tolist(), strict=True):
        mask = at(published.base.packed, published.base.value, np.array([packed]))[0] == K
        somewhere = False
        for n, m in others:
            if n + 1 > (K if m else K - 1) or mask:  # a cell masked to K is occupied
                continue
            s, k = list(size), list(masks)
            s[1], k[1] = s[1] - 1, k[1] - mask
            s[n], k[n] = s[n] - 1, k[n] - m
            s[n + 1], k[n + 1] = s[n + 1] + 1, k[n + 1] + m
            somewhere |= fits(s, k)
        assert (low == 0) == somewhere
    assert (counted.insight.low >= free.insight.low).all()


@pytest.mark.parametrize(
    ("size", "masks", "fine"),
    [(50, 20, True), (50, 21, False), (1000, 401, True), (1000, 402, True), (1000, 403, False), (10, 5, False),
     (12, 4, True), (12, 5, True), (12, 6, False), (16, 6, True), (16, 7, False), (0, 0, True)],
)  # fmt: skip
def test_the_rule_allows_the_nearest_number_a_near_mean_and_both_numbers_in_a_tiny_class(size, masks, fine):
    found = may_have(np.array([2]), np.array([size]), np.array([masks]), K)
    assert bool(found[0]) is fine


def test_people_may_move_where_every_number_of_masks_stays_one_of_the_rule(counts):
    numbers = MaskNumbers.of(PublishedTables.of(chosen(counts, 1), "controlled"))
    assert not numbers.moving(1).all()
    seen = set()
    for people in range(1, K):
        found = numbers.moving(people)
        assert (found.shape, found.dtype) == ((2, K + 1, 2), bool)
        for own, count, other in itertools.product((0, 1), range(K + 1), (0, 1)):
            size, masks = numbers.size.tolist(), numbers.masks.tolist()
            for before, after, mask in ((people, 0, own), (count, count + people, other)):
                if after <= K:
                    size[before], masks[before] = size[before] - 1, masks[before] - mask
                    size[after], masks[after] = size[after] + 1, masks[after] + mask
            expected = count + people <= K and fits(size, masks)
            assert found[own, count, other] == expected
            seen.add(expected)
    assert seen == {True, False}


def test_a_cell_for_which_no_count_fits_keeps_its_range():
    # Of 41 cells of 4 the rule masks 33. Only one cell of 4 less, without a mask, makes 32 a number of the rule.
    numbers = MaskNumbers(np.array([0, 40, 40, 40, 41, 0]), np.array([0, 8, 16, 24, 32, 0]))
    insight = Insight(np.arange(2), np.array([4, 4]), np.array([1, 0]), np.array([5, 4]))
    found = numbers.narrowed(insight, np.array([True, False]))
    assert (found.low.tolist(), found.high.tolist()) == ([1, 0], [5, 2])


def test_without_the_finest_table_or_with_counts_that_may_move_no_masks_are_counted(counts):
    finest = chosen(counts, 1)
    tables = wanted_tables(finest.design, ["town", "all.age"])
    assert MaskNumbers.of(PublishedTables.of(finest, "controlled", tables)) is None
    assert MaskNumbers.of(PublishedTables.of(chosen(counts, 1, move=1), "controlled")) is None
    towns = pl.DataFrame({"town": [f"{i}" for i in range(80)], "N": [2] * 40 + [3] * 40})
    for masks, found in ((24, True), (20, False)):
        frame = towns.with_columns(N_masked=pl.Series([5] * 16 + [0] * 24 + [5] * masks + [0] * (40 - masks)))
        given = ilba.FinestTable.from_counts(frame, ["town"])
        assert (MaskNumbers.of(PublishedTables.of(given, "controlled")) is not None) is found
