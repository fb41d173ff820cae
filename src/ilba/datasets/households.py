"""The people of the synthetic census: households first, then the persons who live in them.

A city is drawn in five steps: the differences between areas, the households, the persons in each, their education,
and editing as in a census office. Shares, ages and education are plausible, not taken from any
source; they are set so that the tables of the default census have as many cells as those of the paper's census.

Every choice compares a draw with a table. Tables that come from `exp` or a sum are rounded, because processors may
differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ilba.datasets.schooling import education

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Mixture = tuple[tuple[float, float, float], ...]
"""Ages as a mixture of normals: (share, mean, standard deviation), ..."""

MALE, FEMALE = 1, 2
SINGLE, MARRIED, WIDOWED, DIVORCED, NOT_ASKED = 1, 2, 3, 4, 9

# Households of each type, roughly per thousand. 99 has the households without a generation type: persons who live
# alone or with someone unrelated.
HOUSEHOLDS = {
    11: 151.0, 12: 0.8, 13: 1.6, 14: 22.0, 15: 2.6, 19: 0.96,
    21: 294.0, 22: 25.0, 23: 85.0, 24: 2.6, 25: 7.1, 26: 8.6, 27: 1.9, 28: 2.9, 29: 18.4,
    31: 16.0, 32: 1.9, 33: 29.5, 39: 14.7,
    41: 0.51,
    99: 349.0,
}  # fmt: skip
HTYPES = np.array(list(HOUSEHOLDS))
HOUSEHOLDS_PER_PERSON = 0.411067  # nearly 2% more than needed: a household of the shares above has 2.48 persons

# How much areas differ (standard deviations): size of an OA (log), household types (log; LA2, LA3, OA), age
# of the adults in years (LA3, OA); then the shares of the variance of education due to LA3, OA and household.
OA_SIZE = 0.35
TYPE_TILT = (0.10, 0.25, 0.30)
OLDER = (1.7, 3.2)
LEARNED_LA3, LEARNED_OA, LEARNED_HOME = 0.065, 0.10, 0.25

YOUNGEST_PARENT = 17
MARRIED_APART = 0.40  # of adults at home without a partner, neither single nor widowed: married
EDITED_BELOW = 2.6  # editing concerns combinations of fewer persons in a million
EDITED_SHARE = 0.76


@dataclass(frozen=True)
class People:
    """One entry per person, in the codes of the census; `oa` is the position of the area in the layout."""

    oa: Ints
    gender: Ints
    age: Ints
    edu: Ints
    mar: Ints
    htype: Ints


def people(n: int, rng: np.random.Generator, la2_of_la3: Ints, la3_of_oa: Ints) -> People:
    """Draw `n` persons in whole households; the two arrays give the parent of each LA3 and each OA."""
    areas = _draw_areas(rng, la2_of_la3, la3_of_oa)
    # Some more than needed, because households stay complete; if they are too few, the next round has more.
    households = int(HOUSEHOLDS_PER_PERSON * n) + 200
    while True:
        oa = np.searchsorted(areas.size, rng.random(households), side="right")
        kind = _draw_kinds(rng, areas.kinds, oa)
        homes = _Homes(rng, areas.older[oa])
        for code, move_in in MOVE_IN.items():
            move_in(homes, np.flatnonzero(HTYPES[kind] == code))
        home, gender, years, mar = homes.persons()
        chosen = _whole_households(home, households, n)
        if chosen is not None:
            break
        households *= 2
    home, gender, years, mar = home[chosen], gender[chosen], years[chosen], mar[chosen]
    latent = areas.learned[oa[home]]
    latent += np.sqrt(LEARNED_HOME) * rng.standard_normal(households)[home]
    latent += np.sqrt(1 - LEARNED_LA3 - LEARNED_OA - LEARNED_HOME) * rng.standard_normal(n)
    age = _age_code(years)
    edu = education(rng, latent, gender, years, age, HTYPES[kind[home]] == 99)
    mar = np.where(years < 15, NOT_ASKED, mar)
    _edit(rng, gender, age, edu, mar, kind[home])
    return People(oa[home], gender, age, edu, mar, HTYPES[kind[home]])


@dataclass(frozen=True)
class _Areas:
    size: Floats  # cumulative shares of the households
    kinds: Floats  # per OA, cumulative shares of the household types
    older: Floats  # years added to the ages of adults
    learned: Floats  # part of the education latent


def _draw_areas(rng: np.random.Generator, la2_of_la3: Ints, la3_of_oa: Ints) -> _Areas:
    la2_of_oa = la2_of_la3[la3_of_oa]

    def effects(parts: int, *columns: int) -> Floats:
        """Standardised, so that areas differ equally for every seed."""
        z = rng.standard_normal((parts, *columns))
        return np.asarray((z - z.mean(axis=0)) / z.std(axis=0))

    la2, la3, oa = len(set(la2_of_la3.tolist())), len(la2_of_la3), len(la3_of_oa)
    size = np.exp(OA_SIZE * np.clip(effects(oa), -2.5, 2.5))
    tilt = TYPE_TILT[0] * effects(la2, len(HTYPES))[la2_of_oa]
    tilt += TYPE_TILT[1] * effects(la3, len(HTYPES))[la3_of_oa]
    tilt += TYPE_TILT[2] * effects(oa, len(HTYPES))
    kinds = np.array(list(HOUSEHOLDS.values())) * np.exp(tilt)
    older = OLDER[0] * effects(la3)[la3_of_oa] + OLDER[1] * effects(oa)
    learned = np.sqrt(LEARNED_LA3) * effects(la3)[la3_of_oa] + np.sqrt(LEARNED_OA) * effects(oa)
    return _Areas(_cumulative_shares(size), _cumulative_shares(kinds), older.round(9), learned.round(9))


def _cumulative_shares(weights: Floats) -> Floats:
    """Along the last axis, without the closing 1: a draw's class is the number of shares at or below it."""
    total = weights.cumsum(axis=-1)
    return np.asarray((total[..., :-1] / total[..., -1:]).round(9))


def _draw_kinds(rng: np.random.Generator, shares: Floats, oa: Ints) -> Ints:
    u = rng.random(len(oa))
    kind = np.zeros(len(oa), np.int8)
    for column in shares.T:
        kind += u >= column[oa]
    return kind


def _whole_households(home: Ints, households: int, n: int) -> Ints | None:
    """Positions of `n` persons in complete households, or None if there are too few.

    Households are in random order, so the first ones are a fair sample; persons who live alone fill the last places.
    """
    size = np.bincount(home, minlength=households)
    end = size.cumsum()
    full = int(np.searchsorted(end, n, side="right"))
    missing = n - (int(end[full - 1]) if full else 0)
    alone = full + np.flatnonzero(size[full:] == 1)[:missing]
    if len(alone) < missing:
        return None
    return np.concatenate([np.arange(n - missing), end[alone] - 1])


def _unpartnered_shares() -> Floats:
    """Sex x completed age -> cumulative shares: single, widowed, divorced; the rest are married but apart."""
    age = np.arange(130)
    shares = []
    for female in (0, 1):
        single = np.where(age < 24, 1, 1 / (1 + np.exp((age - 41 + 2 * female) / 3.5)))
        single[age > 72] = 0
        widowed = (1 - single) * 0.95 / (1 + np.exp(-(age - 66 + 7 * female) / 5.5))
        widowed[age < 32] = 0
        divorced = (1 - single - widowed) * np.where(age > 27, 1 - MARRIED_APART, 1)
        shares.append(np.stack([single, widowed, divorced]).cumsum(axis=0).T)
    return np.stack(shares).round(9)


_UNPARTNERED = _unpartnered_shares()


class _Homes:
    """Put persons into households; a person has a household, a sex, an age in years and a marital status."""

    def __init__(self, rng: np.random.Generator, older: Floats) -> None:
        self.rng = rng
        self.older = older
        self._entries: list[tuple[Ints, Ints, Floats, Ints]] = []

    def persons(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Household, sex, age and marital status of everyone, household by household."""
        home = np.concatenate([entry[0] for entry in self._entries])
        order = np.argsort(home, kind="stable")
        gender, mar = (np.concatenate([entry[i] for entry in self._entries])[order] for i in (1, 3))
        years = np.concatenate([entry[2] for entry in self._entries])[order]
        return home[order], gender, years, mar

    def enter(self, home: Ints, sex: Ints | int, years: Floats, mar: Ints | int) -> None:
        def column(codes: Ints | int) -> Ints:
            return np.broadcast_to(np.asarray(codes, np.int8), home.shape)

        self._entries.append((home.astype(np.int32), column(sex), years, column(mar)))

    def chance(self, size: int, share: float | Floats) -> Flags:
        return np.asarray(self.rng.random(size) < share)

    def sex(self, size: int, female: float | Floats = 0.48) -> Ints:
        return np.where(self.chance(size, female), FEMALE, MALE).astype(np.int8)

    def noise(self, size: int) -> Floats:
        """Standard normal, but one draw in twenty is 2.3 times as wide, for unusual families."""
        z = self.rng.standard_normal(size)
        z[self.chance(size, 0.05)] *= 2.3
        return z

    def around(self, years: Floats, spread: float, low: float, high: float) -> Floats:
        return np.clip(years + spread * self.noise(len(years)), low, high)

    def ages(self, home: Ints, mixture: Mixture, low: float, high: float, local: float = 1.0) -> Floats:
        """Ages of householders; `local` is the weight of the age difference of the area."""
        share, mean, spread = (np.array(column) for column in zip(*mixture, strict=True))
        part = np.searchsorted((share.cumsum() / share.sum())[:-1], self.rng.random(len(home)), side="right")
        years = mean[part] + local * self.older[home] + spread[part] * self.noise(len(home))
        # Ages outside the limits are reflected, not cut off, so they do not pile up at the limits.
        years = np.where(years < low, 2 * low - years, np.where(years > high, 2 * high - years, years))
        return np.clip(years, low, high)

    def couple(self, home: Ints, mixture: Mixture, low: float, high: float) -> tuple[Floats, Floats]:
        his = self.ages(home, mixture, low + 2, high)
        hers = self.wife(his, low, high)
        self.enter(home, MALE, his, MARRIED)
        self.enter(home, FEMALE, hers, MARRIED)
        return his, hers

    def wife(self, his: Floats, low: float, high: float) -> Floats:
        return np.clip(his - 2.6 - 2.2 * np.clip(self.noise(len(his)), -3, 3), low, high)

    def unpartnered(self, sex: Ints, years: Floats) -> Ints:
        """Marital status of adults who live without a partner."""
        u = self.rng.random(len(years))
        shares = _UNPARTNERED[sex - 1, years.astype(np.int64)]
        rank = (u[:, None] >= shares).sum(axis=1)
        return np.asarray(np.array([SINGLE, WIDOWED, DIVORCED, MARRIED], np.int8)[rank])

    def adult(self, home: Ints, sex: Ints, years: Floats, single_below: float = 33) -> None:
        mar = self.unpartnered(sex, years)
        self.enter(home, sex, years, np.where(years < single_below, SINGLE, mar))

    def child(self, home: Ints, years: Floats, female: float = 0.48) -> None:
        u = self.rng.random(len(home))
        mar = np.full(len(home), SINGLE, np.int8)
        mar[(years > 30) & (u < np.where(years > 40, 0.10, 0.03))] = DIVORCED
        mar[(years > 45) & (u < 0.01)] = WIDOWED
        self.enter(home, self.sex(len(home), female), years, mar)

    def children(
        self,
        home: Ints,
        mother: Floats,
        more: tuple[float, float, float],
        first: float = 28,
        oldest: float = 45,
    ) -> None:
        """A first child, born when the mother was about `first`, then others with the probabilities in `more`."""
        birth = np.clip(first + 3.6 * self.noise(len(home)), 19.5, 41)
        birth = np.minimum(birth, mother - self.rng.random(len(home)))
        years = np.clip(mother - birth, 0, oldest)
        self.child(home, years)
        for share, gap in zip(more, (1.0, 1.2, 1.0), strict=True):
            again = self.chance(len(home), share)
            home, years = home[again], years[again] - 1.2 - self.rng.gamma(2.2, gap, int(again.sum()))
            # Half of the younger children of 28 or more have left home.
            here = (years >= 0) & ((years < 28) | self.chance(len(years), 0.5))
            home, years = home[here], years[here]
            self.child(home, years, female=0.47)

    def sibling(self, home: Ints, of: Floats, spread: float, low: float = 16, high: float = 80) -> None:
        years = self.around(of - 3, spread, low, high)
        sex = self.sex(len(home), 0.5)
        mar = self.unpartnered(sex, years)
        mar[(years < 33) | ((years < 45) & (mar == WIDOWED))] = SINGLE
        self.enter(home, sex, years, mar)

    def one_parent(self, home: Ints, of: Floats, sex: Ints | int) -> None:
        u = self.rng.random(len(home))
        mar = np.where(u < 0.955, WIDOWED, np.where(u < 0.985, DIVORCED, MARRIED))
        self.enter(home, sex, np.maximum(self.around(of + 27, 3.5, 48, 97), of + YOUNGEST_PARENT), mar)

    def both_parents(self, home: Ints, of: Floats, older: float = 28, high: float = 94) -> Floats:
        his = np.maximum(self.around(of + older, 2.8, 50, high), of + YOUNGEST_PARENT)
        hers = np.maximum(self.wife(his - 0.6, 48, high), of + YOUNGEST_PARENT)
        self.enter(home, MALE, his, MARRIED)
        self.enter(home, FEMALE, hers, MARRIED)
        return his


MoveIn = Callable[[_Homes, Ints], None]


def _couple_only(homes: _Homes, home: Ints) -> None:
    homes.couple(home, ((0.25, 31, 3.8), (0.25, 56, 6), (0.5, 66, 7.5)), 20, 94)


def _couple_and_siblings(homes: _Homes, home: Ints) -> None:
    _, hers = homes.couple(home, ((0.7, 31, 4), (0.3, 58, 8)), 22, 85)
    homes.sibling(home, hers, 4)


def _couple_and_relatives(homes: _Homes, home: Ints) -> None:
    _, hers = homes.couple(home, ((0.5, 36, 6), (0.5, 60, 8)), 24, 85)
    homes.sibling(home, hers - 4, 6)


def _siblings(homes: _Homes, home: Ints) -> None:
    years = homes.ages(home, ((0.92, 26, 4.5), (0.08, 48, 4.5)), 18, 80, local=0.3)
    homes.adult(home, homes.sex(len(home), 0.52), years)
    homes.sibling(home, years, 5, low=15)
    third = homes.chance(len(home), 0.18)
    homes.sibling(home[third], years[third], 5, low=15)


def _relatives(homes: _Homes, home: Ints) -> None:
    years = homes.ages(home, ((1, 32, 9),), 18, 80, local=0.3)
    homes.adult(home, homes.sex(len(home), 0.5), years)
    homes.sibling(home, years, 6, low=15)


def _two_couples(homes: _Homes, home: Ints) -> None:
    his, _ = homes.couple(home, ((0.6, 38, 7), (0.4, 62, 7)), 24, 85)
    brother = homes.around(his - 4, 4, 22, 85)
    homes.enter(home, MALE, brother, MARRIED)
    homes.enter(home, FEMALE, homes.wife(brother, 20, 85), MARRIED)


def _couple_and_children(homes: _Homes, home: Ints) -> None:
    _, hers = homes.couple(home, ((0.62, 39, 5.5), (0.38, 52, 5.5)), 21, 80)
    homes.children(home, hers, (0.74, 0.14, 0.06))


def _lone_parent(sex: int, mixture: Mixture, widowed_at: float, mother: float) -> MoveIn:
    age = np.arange(130)
    widowed = np.where(age < 34, 0, 0.9 / (1 + np.exp(-(age - widowed_at) / 5))).round(9)

    def move_in(homes: _Homes, home: Ints) -> None:
        size = len(home)
        years = homes.ages(home, mixture, 23, 92, local=0.5)
        mar = np.where(homes.chance(size, 0.30), MARRIED, DIVORCED)
        mar[(mar == DIVORCED) & (years < 38) & homes.chance(size, 0.06)] = SINGLE
        mar[homes.chance(size, widowed[years.astype(np.int64)])] = WIDOWED
        homes.enter(home, sex, years, mar)
        homes.children(home, years + mother, (0.52, 0.10, 0.03), first=27, oldest=60)

    return move_in


def _couple_and_parents(homes: _Homes, home: Ints) -> None:
    his, _ = homes.couple(home, ((0.6, 36, 5), (0.4, 45, 6)), 23, 62)
    homes.both_parents(home, his)


def _couple_and_one_parent(homes: _Homes, home: Ints) -> None:
    his, _ = homes.couple(home, ((0.4, 37, 5), (0.6, 54, 7)), 23, 70)
    homes.one_parent(home, his, homes.sex(len(home), 0.88))


def _couple_children_and_siblings(homes: _Homes, home: Ints) -> None:
    _, hers = homes.couple(home, ((1, 38, 5),), 23, 60)
    homes.children(home, hers, (0.7, 0.12, 0.05))
    homes.sibling(home, hers, 4)


def _grandchildren(homes: _Homes, home: Ints, grandparent: Floats, two: float) -> None:
    years = np.minimum(homes.around(grandparent - 55, 4.5, 0, 28), grandparent - 2 * YOUNGEST_PARENT)
    homes.child(home, years)
    second = homes.chance(len(home), two)
    homes.child(home[second], homes.around(years[second] - 2.5, 1.2, 0, 28))


def _grandparents(homes: _Homes, home: Ints) -> None:
    his, _ = homes.couple(home, ((1, 65, 6),), 46, 85)
    _grandchildren(homes, home, his, 0.45)


def _one_grandparent(homes: _Homes, home: Ints) -> None:
    years = homes.ages(home, ((1, 69, 7),), 47, 92, local=0)
    u = homes.rng.random(len(home))
    mar = np.where(u < 0.9, WIDOWED, np.where(u < 0.97, DIVORCED, MARRIED))
    homes.enter(home, homes.sex(len(home), 0.9), years, mar)
    _grandchildren(homes, home, years, 0.4)


def _other_two_generations(homes: _Homes, home: Ints) -> None:
    """A householder without a partner and a parent; or brothers and sisters and a child of one of them."""
    years = homes.ages(home, ((1, 44, 9),), 22, 78, local=0.5)
    sex = homes.sex(len(home), 0.45)
    apart = homes.chance(len(home), 0.4) & (years > 27)
    mar = np.where(years < 33, SINGLE, homes.unpartnered(sex, years))
    homes.enter(home, sex, years, np.where(apart, MARRIED, mar))
    parent = homes.chance(len(home), 0.5)
    homes.one_parent(home[parent], years[parent], homes.sex(int(parent.sum()), 0.85))
    third = parent & homes.chance(len(home), 0.4)
    homes.sibling(home[third], years[third], 5, 18, 75)
    homes.sibling(home[~parent], years[~parent], 5, 18, 75)
    child = homes.around(years[~parent] - 29, 5, 0, 40)
    homes.child(home[~parent], np.minimum(child, years[~parent] - YOUNGEST_PARENT))


def _three_generations(parents: str) -> MoveIn:
    def move_in(homes: _Homes, home: Ints) -> None:
        his, hers = homes.couple(home, ((1, 44, 5.5),), 24, 66)
        homes.children(home, hers, (0.78, 0.18, 0.06))
        if parents == "both":
            homes.both_parents(home, his)
        else:
            homes.one_parent(home, his, MALE if parents == "father" else FEMALE)

    return move_in


def _other_three_generations(homes: _Homes, home: Ints) -> None:
    """A parent without a partner at home, the children, and one grandparent or both."""
    years = homes.ages(home, ((1, 42, 6.5),), 24, 65, local=0.5)
    sex = homes.sex(len(home), 0.5)
    mar = np.where(years < 30, SINGLE, homes.unpartnered(sex, years))
    mar[(mar == WIDOWED) & (years < 40)] = DIVORCED
    mar[homes.chance(len(home), 0.35)] = MARRIED
    homes.enter(home, sex, years, mar)
    both = homes.chance(len(home), 0.4)
    homes.both_parents(home[both], years[both])
    homes.one_parent(home[~both], years[~both], homes.sex(int((~both).sum()), 0.8))
    homes.children(home, years - 1, (0.5, 0.10, 0.03))
    aunt = homes.chance(len(home), 0.25)
    homes.sibling(home[aunt], years[aunt], 4, 18, 65)


def _four_generations(homes: _Homes, home: Ints) -> None:
    his, hers = homes.couple(home, ((1, 46, 4.5),), 30, 60)
    homes.children(home, hers, (0.8, 0.2, 0.1))
    grandfather = homes.both_parents(home, his, older=26, high=80)
    homes.enter(home, FEMALE, homes.around(grandfather + 22, 2.5, 76, 98), WIDOWED)


def _alone_or_unrelated(homes: _Homes, home: Ints) -> None:
    mixture = ((0.38, 25, 3.6), (0.30, 40, 8), (0.14, 56, 6.5), (0.18, 73, 7))
    years = homes.ages(home, mixture, 16, 96, local=0.3)
    sex = homes.sex(len(home), np.where(years < 50, 0.42, np.where(years < 62, 0.55, 0.78)))
    homes.adult(home, sex, years, single_below=0)
    shared = homes.chance(len(home), 0.16) & (years < 60)
    other = np.where(homes.chance(int(shared.sum()), 0.8), sex[shared], MALE + FEMALE - sex[shared])
    homes.adult(home[shared], other, homes.around(years[shared], 3.5, 15, 75), single_below=30)


MOVE_IN: dict[int, MoveIn] = {
    11: _couple_only,
    12: _couple_and_siblings,
    13: _couple_and_relatives,
    14: _siblings,
    15: _relatives,
    19: _two_couples,
    21: _couple_and_children,
    22: _lone_parent(MALE, ((0.8, 46, 6.5), (0.2, 66, 8)), widowed_at=60, mother=-3),
    23: _lone_parent(FEMALE, ((0.72, 45, 6.5), (0.28, 65, 8.5)), widowed_at=52, mother=0),
    24: _couple_and_parents,
    25: _couple_and_one_parent,
    26: _couple_children_and_siblings,
    27: _grandparents,
    28: _one_grandparent,
    29: _other_two_generations,
    31: _three_generations("both"),
    32: _three_generations("father"),
    33: _three_generations("mother"),
    39: _other_three_generations,
    41: _four_generations,
    99: _alone_or_unrelated,
}


def _age_code(years: Floats) -> Ints:
    """0-5, 6-10, 11-15, ... 81-85, over 85, as 1 to 18."""
    completed = years.astype(np.int64)
    return np.clip((completed + 4) // 5, 1, 18).astype(np.int8)


def _edit(rng: np.random.Generator, gender: Ints, age: Ints, edu: Ints, mar: Ints, kind: Ints) -> None:
    """Edit very rare combinations as response errors: impute education, then marital status.

    Changes `edu` and `mar` in place. Without it, rare combinations give the coarse tables a quarter more cells than
    those of the paper.
    """
    status = np.array([0, 0, 1, 2, 3, 0, 0, 0, 0, 4])[mar]
    shape = (2, 5, 9, 18, len(HTYPES))
    cell = np.ravel_multi_index((gender - 1, status, edu - 1, age - 1, kind), shape)
    count = np.bincount(cell, minlength=int(np.prod(shape)))
    # Per million persons: in a small sample a combination seen once is not rare.
    per_million = 1_000_000 / len(edu)
    chance = np.clip(EDITED_BELOW + 1 - np.ceil(count * per_million), 0, 1)
    suspect = (rng.random(len(count)) < EDITED_SHARE * chance) & (count > 0)
    kept = np.where(suspect, 0, count).reshape(shape)
    # Small cells of sex x marital status x education are not edited, because an edit must not empty them.
    common = count.reshape(2, 5, 9, -1).sum(axis=3) * per_million >= 40
    # Children are not edited either: those under 15 were not asked, and an imputed answer could contradict that.
    rows = np.flatnonzero(suspect[cell] & (age > 3))
    rows = rows[common[gender[rows] - 1, status[rows], edu[rows] - 1]]
    s, m, a, k = gender[rows] - 1, status[rows], age[rows] - 1, kind[rows]
    without_edu = kept.sum(axis=2)
    m = np.where(without_edu[s, m, a, k] > 0, m, without_edu.argmax(axis=1)[s, a, k])
    known = without_edu[s, m, a, k] > 0
    rows, s, m, a, k = rows[known], s[known], m[known], a[known], k[known]
    edu[rows] = kept.argmax(axis=2)[s, m, a, k] + 1
    mar[rows] = np.array([SINGLE, MARRIED, WIDOWED, DIVORCED, NOT_ASKED])[m]
