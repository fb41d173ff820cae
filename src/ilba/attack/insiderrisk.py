"""What insiders prove and believe: the rows of a risk report for attackers who know every count except some."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np

from ilba.attack import attackers as named
from ilba.attack.attackers import Insider, Insight, Known
from ilba.attack.field import MethodTables
from ilba.attack.guessing import proven_by_insider
from ilba.attack.insiders import Missing, everybody_but
from ilba.attack.intervals import AttackerView, Brought, at
from ilba.attack.lattice import table_of
from ilba.attack.masknumbers import MaskNumbers
from ilba.attack.measuring import Measuring
from ilba.attack.published import PublishedTables
from ilba.attack.scoring import Believed
from ilba.design.design import Selection
from ilba.design.tables import planned_tables
from ilba.errors import IlbaError, InputError
from ilba.methods.controlled.search import declared_bound, working_bound
from ilba.release.recognising import is_later
from ilba.secret.secret import Secret


class InsiderRisk:
    """Measures insiders, and adds their rows to the report."""

    def __init__(self, work: Measuring) -> None:
        self.work, self.published = work, work.published

    def measure(self, one: Insider) -> None:
        """Add the rows of one insider."""
        view, K = self.published, self.published.K
        if self.work.guessing is not None and one.unknown is None and one.cells == 1:
            if self.work.guessing.published.base is None or self.work.guessing.published.base.truth is None:
                raise InputError(named.NEEDS_TRUTH)
            assert isinstance(view, MethodTables)  # noqa: S101 - told to the type checker
            proves = partial(proven_by_insider, view)
            self.work.row(one.name, one.knows, **self.work.bets(self.work.guessing.insider(), one.name, proves))
            return
        if not view.split:
            self.work.row(one.name, one.knows)
            self.work.unmeasured(one.name)
            return
        bound = self._insider_bound(one)
        if one.unknown is not None:
            self._missing(one, bound)
            return
        if one.cells > 1:
            found = self._found_by(one, view, bound)
            tried, proven = len(found.packed), found.proven(K)
            share = float(proven.mean()) if tried else 0.0
            exactly = proven & (found.low == found.high)
            counted = {"small": tried, "proven": int(proven.sum()), "exactly": int(exactly.sum())}
            self.work.row(one.name, one.knows, bound=bound, **counted)
            self.work.notes.append(f"{one.name}: {tried:,} small cells were tried, {share:.1%} proven by propagation.")
            return
        found = self._insight(view, bound)
        proven = found.proven(K)
        exactly = proven & (found.low == found.high)
        self.work.row(
            one.name, one.knows, proven=int(proven.sum()), exactly=int(exactly.sum()),
            certified=int((~proven).sum()), undecided=0, bound=bound, **self._guesses(one.name),
        )  # fmt: skip
        seen = AttackerView(view, Brought(bound=bound))
        for level in sorted({node[0] for node in view.tables}):
            own = [node for node in view.tables if node[0] == level and node != view.lattice.base]
            if own:
                where = f"tables of {view.codes.lists[0].columns[level - 1]}" if level else "tables of the whole"
                self.work.add_detail(one.name, f"{where} alone", named.everything_but_one(seen, own))
        self._tell_numbers(one.name)
        self._lottery(one, bound)

    def _found_by(self, one: Insider, view: PublishedTables, bound: int | None) -> Insight:
        """What an insider proves by a bound."""
        if one.unknown is not None:
            return self._lacking(view, bound, one.unknown).insight
        if one.cells > 1:
            return named.everything_but_some(AttackerView(view, Brought(bound=bound)), one.cells)
        return self._insight(view, bound)

    def _insight(self, view: PublishedTables, bound: int | None) -> Insight:
        """What an insider who lacks one cell proves by a bound, and by the numbers of masks where they are usual."""
        found = named.everything_but_one(AttackerView(view, Brought(bound=bound)))
        numbers = MaskNumbers.of(view)
        if numbers is None:
            return found
        packed, _, masked = named.small_cells(view)
        return numbers.narrowed(found, at(packed, masked, found.packed) == view.K)

    def _tell_numbers(self, name: str) -> None:
        """Say what the numbers of masks alone prove, or that they are not the usual ones."""
        if self.numbers is not None:
            alone = self._insight(self.published, None)
            proven = alone.proven(self.published.K)
            exactly = int((proven & (alone.low == alone.high)).sum())
            self.work.add_detail(name, "numbers of masks alone", alone)
            self.work.notes.append(
                f"{name}: controlled SCA masks x of every K cells with the count x to K, as nearly as possible. "
                f"Everybody knows this rule. Counting the masks of all other cells proves {int(proven.sum()):,} "
                f"cells, {exactly:,} of them exactly."
            )
        elif self.published.policy.name == "controlled":
            self.work.notes.append(
                f"{name}: the numbers of masks are not those of the public rule of controlled SCA here, so nothing is "
                f"concluded from them."
            )

    @cached_property
    def numbers(self) -> MaskNumbers | None:
        """The numbers of masks of the published tables, where the rule of controlled SCA fixes them."""
        return MaskNumbers.of(self.published)

    def _missing(self, one: Insider, bound: int | None) -> None:
        """Measure an insider who lacks n people, on the small cells whose people are all missing."""
        assert one.unknown is not None  # noqa: S101 - asked before
        found = self._lacking(self.published, bound, one.unknown)
        proven = found.insight.proven(self.published.K)
        exactly = proven & (found.insight.low == found.insight.high)
        tried, certified = len(proven), int((found.certified & ~proven).sum())
        self.work.row(
            one.name, one.knows, small=tried, proven=int(proven.sum()), exactly=int(exactly.sum()),
            certified=certified, undecided=tried - int(proven.sum()) - certified, bound=bound,
        )  # fmt: skip
        how = "in closed form, and complete" if one.unknown == 1 else "by intervals and by other worlds"
        who = "person is" if one.unknown == 1 else "people are all"
        self.work.notes.append(
            f"{one.name}: asked about {tried:,} small cells whose {who} missing, {how}. Cells with a known person are "
            f"left out: the insider knows them without any release."
        )
        self._lottery(one, bound)

    def _lacking(self, view: PublishedTables, bound: int | None, unknown: int) -> Missing:
        known = Known.of(view, Brought(bound=bound))
        counts = at(self.work.true.packed, self.work.true.counts, known.packed)
        return everybody_but(known, counts, unknown, numbers=MaskNumbers.of(view))

    def _guesses(self, name: str) -> dict[str, Any]:
        """The insider's beliefs about the one unknown cell, from the errors of the sums around it."""
        if self.published.policy.scheme != "sums":
            self.work.notes.append(
                f"{name}: what is likely is measured for sums of masks alone, here only what is proven."
            )
            return {}
        known, areas = self.work.known, self.work.areas
        inside = np.isin(known.packed // self.work.true.width, areas)
        tables = None
        if len(areas) < self.work.true.areas:
            tables = [node for node in self.published.lattice.nodes if node[0] == self.published.lattice.base[0]]
        packed = known.packed[inside]
        counts = at(self.work.true.packed, self.work.true.counts, packed)
        cells = packed, known.low[inside], known.high[inside]
        log = self.work.fitted().log(packed, self.published.K)
        numbers, base = self.numbers, self.published.base
        fits = None
        if numbers is not None and base is not None:
            fits = numbers.fitting(counts, at(base.packed, base.value, packed) == self.published.K)
        chance = named.insider_beliefs(self.published, cells, counts, log, tables, fits)
        believed = Believed(self.work.true, packed, chance, counts, areas)
        self.work.bins += believed.calibration(name)
        return believed.figures()

    def _insider_bound(self, one: Insider) -> int | None:
        """The bound on errors of controlled sums that an insider knows."""
        name = one.name
        if self.published.policy.scheme != "sums":
            return None
        if self.work.bound is not None:
            return self.work.bound
        if self.work.noise:
            self.work.notes.append(
                f"{name}: no bound of errors is assumed. With noise in the target ({self.work.noise:.0%} of the small "
                f"cells) a sum of n small cells may lie up to n beyond the usual bound."
            )
            return None
        if self.published.policy.name != "controlled":
            return None
        usual, largest = self._public_bounds(self.published)
        relied = self._bound_held(self.published)
        if relied is None:
            self.work.notes.append(
                f"{name}: no bound is stated, and neither the usual one of {usual} nor {largest} holds here: none is "
                f"used."
            )
        elif self._keeps_masks:
            self.work.notes.append(
                f"{name}: masks of earlier publications are kept here, so errors may be of any size, and nobody "
                f"outside knows whether {relied} holds. It holds here and is used, so the share is more than an "
                f"insider can be sure of. With a larger bound the share would be smaller."
            )
        elif relied == usual:
            certain = int(self._found_by(one, self.published, largest).proven(self.published.K).sum())
            self.work.notes.append(
                f"{name}: no bound is stated, but the usual one of {usual} is known to everybody and holds here. It "
                f"holds with 19 of 20 secrets; with {largest}, the largest one that masks are chosen for, {certain:,} "
                f"cells are proven."
            )
            if one == Insider(secrets=one.secrets):
                self.work.notes.append(
                    f"{name}: what is likely uses no bound, so it may be less than what is proven with one."
                )
        else:
            self.work.notes.append(
                f"{name}: no bound is stated, and the usual one of {usual} does not hold here. The largest one that "
                f"masks are chosen for, {largest}, is known to everybody and holds: it is used."
            )
        return relied

    def _public_bounds(self, published: PublishedTables) -> tuple[int, int]:
        """The bounds of a first publication that everybody knows: the usual one, and the largest for any secret."""
        K, work = published.K, (self.work.small or 0) * len(published.tables)
        return working_bound(K, work), declared_bound(K)

    def _bound_held(self, published: PublishedTables) -> int | None:
        """The bound on which an insider relies: the first that holds; a given one leaves no other."""
        bounds = self._public_bounds(published) if self.work.given is None else (self.work.given,)
        return next((bound for bound in bounds if named.errors_within(published, bound)), None)

    @cached_property
    def _keeps_masks(self) -> bool:
        """Whether masks of earlier publications are kept: then no bound is public, and no other secret can be used."""
        with suppress(IlbaError):  # no secret or ledger that can be read
            return self.work.store is not None and is_later(self.work.store)
        return False

    def _lottery(self, one: Insider, bound: int | None) -> None:
        """Repeat with other secrets, because a few national counts decide how much an insider can prove."""
        if (
            bound is None
            or self.work.store is None
            or self.published.policy.name != "controlled"
            or not self.work.small
        ):
            return
        if self._keeps_masks:
            return
        shares, coarse, relied = [], [], set[int]()
        tables = _selections(self.published)
        planned = self.work.store.chosen.tables if self.work.store.chosen else "all"
        chosen_for = planned_tables(self.published.design, planned, tables)
        top = min(node[0] for node in self.published.tables)
        for number in range(one.secrets):
            secret = Secret.from_text("ilba-secret-1:" + f"{17 * (number + 1):02x}" * 32)
            masked = self.work.store.with_threshold(self.published.K, secret).controlled(chosen_for, secret=secret)
            other = PublishedTables.of(masked, "controlled", tables)
            bound = self._bound_held(other)
            if bound is None:
                continue
            relied.add(bound)
            if one.unknown is not None:
                proven = self._found_by(one, other, bound).proven(self.published.K)
                shares.append(float(proven.mean()) if len(proven) else 0.0)
                continue
            shares.append(float(self._insight(other, bound).proven(self.published.K).sum()) / self.work.small)
            seen = AttackerView(other, Brought(bound=bound))
            own = [node for node in other.tables if node[0] == top and node != other.lattice.base]
            found = named.everything_but_one(seen, own).proven(self.published.K) if own else np.zeros(1, dtype=bool)
            coarse.append(float(found.sum()) / self.work.small)
            self.work.detail.append(
                {"attacker": one.name, "what": f"with another secret, {number + 1} of {one.secrets}",
                 "small": self.work.small, "proven": round(shares[-1] * self.work.small)}
            )  # fmt: skip
        if shares:
            bounds = " or ".join(map(str, sorted(relied)))
            alone = f"; from the coarsest tables alone {min(coarse):.1%} to {max(coarse):.1%}" if coarse else ""
            self.work.notes.append(
                f"{one.name}: with {len(shares)} other secrets between {min(shares):.1%} and {max(shares):.1%} of the "
                f"small cells would be proven, relying on errors of at most {bounds}{alone}. It depends on which "
                f"coarse counts happen to lie at the bound."
            )


def _selections(published: PublishedTables) -> list[Selection]:
    return [table_of(published.design, node) for node in published.tables]
