"""The compiled loops on cells with bounds drawn at random: they prove what plain loops prove."""

from __future__ import annotations

import numpy as np
import pytest

from ilba.attack.closing import Closing, Families, Rows, Said, _Link

WHOLE, PART = (0,), (1,)


def _drawn(rng, places, wholes):
    """Counts and numbers of occupied cells of parts, those of their wholes, and bounds around all of them."""
    people = np.where(rng.random(len(places)) < 0.5, 0, rng.integers(1, 6, len(places)))
    occupied = np.where(people > 0, rng.integers(1, np.maximum(people, 1) + 1), 0)
    sides = []
    for of_parts in (people, occupied):
        inside = places >= 0
        of_wholes = np.bincount(places[inside], of_parts[inside], minlength=wholes).astype(np.int64)
        true = np.concatenate([of_wholes, of_parts])
        sides += [np.maximum(true - rng.choice([0, 1, 9], len(true)), 0), true + rng.choice([0, 1, 3], len(true))]
    # Many cells are empty as far as anybody knows: at most one of their small cells is occupied.
    empty = (true <= 1) & (rng.random(len(true)) < 0.6)
    sides[0][empty] = sides[2][empty] = 0
    sides[3][empty] = 1
    return sides


def _narrowed(sides, places, wholes, counted):
    """The same bounds after each cell was told everything that the others say, until nothing moves."""
    low, high, least, most = (side.tolist() for side in sides)
    parts = [[wholes + part for part in np.flatnonzero(places == whole).tolist()] for whole in range(wholes)]
    while True:
        before = [*low, *high, *least, *most]
        for cell in range(len(low) if counted else 0):
            most[cell] = min(most[cell], high[cell])
            least[cell] = max(least[cell], int(low[cell] > 0))
            low[cell] = max(low[cell], least[cell])
            high[cell] = high[cell] if most[cell] else 0
        for whole, own in enumerate(parts):
            for lows, highs in ((low, high), (least, most)) if counted and own else ((low, high),) if own else ():
                lows[whole] = max(lows[whole], sum(lows[part] for part in own))
                highs[whole] = min(highs[whole], sum(highs[part] for part in own))
                for part in own:
                    others = [other for other in own if other != part]
                    lows[part] = max(lows[part], lows[whole] - sum(highs[other] for other in others))
                    highs[part] = min(highs[part], highs[whole] - sum(lows[other] for other in others))
        if before == [*low, *high, *least, *most]:
            return [low, high, least, most] if counted else [low, high]


def _told(rows, node, sides):
    area, cell = (place.reshape(-1) for place in np.indices((rows.areas, sides[0].size // rows.areas)))
    rows.hear(node, Said(*sides, *([None] * (5 - len(sides)))), area, cell)


def _found(rows, node):
    return [side.T.reshape(-1).tolist() for side in rows.dense(node, 0, rows.areas)]


@pytest.mark.parametrize("counted", [True, False], ids=["observed", "grid"])
def test_a_cell_and_its_parts_in_the_same_area_bound_each_other(counted):
    rng, wholes, K = np.random.default_rng(1), 150, 5
    places = np.sort(np.concatenate([np.arange(wholes), rng.integers(0, wholes, 2 * wholes)]))
    sides = _drawn(rng, places, wholes)
    expected = _narrowed(sides, places, wholes, counted)
    starts = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=wholes))])
    cells = np.arange(len(sides[0]), dtype=np.uint32)
    runs = np.array([0, wholes]), np.array([0]), np.array([1])
    families = Families([WHOLE, PART], np.array([0, wholes, len(cells)]), cells[:wholes], starts, cells[wholes:], runs)
    closing = Closing(None, [], None, K, counted)
    rows = closing.levels[0] = Rows(families, 1, counted)
    rows.begin(0.0)
    for node, own in ((WHOLE, slice(wholes)), (PART, slice(wholes, None))):
        _told(rows, node, [side[own] for side in sides[: 4 if counted else 2]])
    rows.ready(K)
    closing.run()
    assert not rows.contradicts()
    for side, one, other in zip(expected, _found(rows, WHOLE), _found(rows, PART), strict=True):
        assert one + other == side


@pytest.mark.parametrize("straight", [True, False], ids=["the same tables", "other tables"])
@pytest.mark.parametrize("counted", [True, False], ids=["observed", "grid"])
def test_a_cell_and_its_parts_in_finer_areas_bound_each_other(counted, straight):
    rng, width, areas, K = np.random.default_rng(2), 75, 2, 5
    over = np.array([0, 1, 0, 1, 0])  # the coarser area of each finer one
    place = np.arange(width) if straight else rng.integers(-1, width, width + 20)
    places = np.where(place >= 0, over[:, None] * width + place, -1).reshape(-1)
    sides = _drawn(rng, places, areas * width)
    expected = _narrowed(sides, places, areas * width, counted)
    closing, of = Closing(None, [], None, K, counted), slice(4 if counted else 2)
    none = np.zeros(0, np.uint32), np.zeros(1, np.int64), np.zeros(0, np.uint32)
    runs = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for level, node, size, many in ((0, WHOLE, width, areas), (1, PART, len(place), len(over))):
        rows = closing.levels[level] = Rows(Families([node], np.array([0, size]), *none, runs), many, counted)
        rows.begin(0.0)
        _told(rows, node, [side[areas * width :] if level else side[: areas * width] for side in sides[of]])
        rows.ready(K)
    order = np.argsort(over, kind="stable")
    starts = np.searchsorted(over[order], np.arange(areas + 1))
    has = np.isin(np.arange(width), place)
    closing.links.append(_Link(0, 1, place.astype(np.int32), has, starts, order, over, np.zeros(areas, np.int64)))
    closing.run()
    for side, one, other in zip(
        expected, _found(closing.levels[0], WHOLE), _found(closing.levels[1], PART), strict=True
    ):
        assert one + other == side
