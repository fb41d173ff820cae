"""What a ledger says about one population, and what may be published about it next. Confidential.

The rule is one mask per cell and count, for ever. It makes many publications as safe as one. The chapter refuses what
would break the rule, and knows every published mask. `recognising` finds the chapter of some counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.design.design import Design, Selection
from ilba.errors import Advice, Conflict, InputError, Notice, UnsafeRelease, listing, notice, some
from ilba.release import bookmarks
from ilba.release.ledger import Ledger, Publication, moved_by
from ilba.release.net import Net
from ilba.release.turnover import turned_over
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable, KnownMasks
from ilba.tables.words import MaskCode

Way: TypeAlias = tuple[str, int, str]
IntArray: TypeAlias = npt.NDArray[np.int64]

COMPARED = "Comparing the publications can reveal small counts, so nothing was published."


@dataclass
class Chapter:
    """The publications of one population, during the making of the next one.

    Parameters
    ----------
    ledger
        The ledger, held for writing; None for a trial.
    secret
        The secret under which masks are kept.
    name
        The population.
    wave
        The wave of the current data.
    data
        The keyed checksum of the current data.
    place
        The store of the data, if it is in a file.
    """

    ledger: Ledger | None
    secret: Secret | None = None
    name: str = ""
    wave: str = ""
    data: str = ""
    place: Path | None = None
    net: Net | None = None
    conflicts: list[str] = field(default_factory=list)
    """why these counts cannot be of this population"""
    _accepted: bool = False
    _other_masks: bool = False
    _declares: float | None = None
    """a budget to enter with the publication"""

    @property
    def publications(self) -> list[Publication]:
        """The earlier publications of this population."""
        return [] if self.ledger is None else [one for one in self.ledger.publications if one.population == self.name]

    def of_same_data(self) -> list[Publication]:
        """The publications of the same true counts."""
        return [one for one in self.publications if one.data == self.data]

    @property
    def earlier(self) -> list[Publication]:
        """The publications of other counts of these people, before the first one of these counts."""
        own = min((one.number for one in self.of_same_data()), default=None)
        return [one for one in self.publications if own is None or one.number < own]

    def _is_same(self, data: str, wave: str) -> bool:
        """Whether something is about this count of the people: the same true counts, or the wave of the same name."""
        return data == self.data or (wave == self.wave != "")

    # --- conflicts

    def beside(self) -> tuple[list[Publication], list[Publication]]:
        """What readers can compare with the next publication: what its wave shows now, and what the series shows.

        A publication that differs from one of these in secret, K, method, parameters or columns is a conflict, which
        is accepted once. A wave shows what was published of it; a correction takes the place of what it had by these
        columns. The series begins with the last new wave that was published despite a conflict, so this changes the
        way of all later waves. A publication of the past changes no way: it stands beside the others, so the next wave
        asks. The same counts in the same way are the same numbers again: of these, one is enough, and where their wave
        showed them, the series does not matter.
        """
        before = [one for one in self.publications if not one.sums] or self.publications
        waves = dict[str, str]()  # of each data
        shown = dict[str, list[Publication]]()
        series: list[Publication] = []
        for one in before:
            wave = one.wave or waves.get(one.data, one.data)
            if wave not in shown and one.accepted_conflict and not one.adopted:
                series = []
            here = shown.setdefault(wave, [])
            if one.data not in waves and not one.adopted:
                gone = [other.number for other in here if {*other.columns} == {*one.columns}]
                if gone:
                    here[:], series = ([two for two in those if two.number not in gone] for those in (here, series))
            if (one.data, one.way) not in {(other.data, other.way) for other in here}:
                here.append(one)
                series.append(one)
            waves.setdefault(one.data, wave)
        own = self.wave or waves.get(self.data, self.data)
        same = [one for one in before if one.data == self.data]
        if again := [one for one in same if (one.wave or waves[one.data]) == own]:
            return again, []
        return [*same, *shown.get(own, [])], series

    def _unlike(self, is_like: Callable[[Publication], bool], is_out: bool = False) -> list[Publication]:
        """The publications of `beside` that are unlike the next one.

        One that is alike is enough among those of the same counts, and for a publication of the past (`is_out`).
        """
        count, series = self.beside()
        if is_out:
            compared = count or series
            return [] if any(map(is_like, compared)) else compared
        same = [one for one in count if one.data == self.data]
        others = [one for one in count if one.data != self.data]
        unlike = [one for one in [*series, *others] if not is_like(one)]
        return unlike if any(map(is_like, same)) else [*unlike, *same]

    @property
    def _is_new(self) -> bool:
        """Whether this is a new wave."""
        count, _ = self.beside()
        return not any(self.wave in ("", one.wave) for one in count)

    def otherwise(self, way: Way, is_out: bool = False) -> Publication | None:
        """The last publication of `beside` whose way is another one, if that is a conflict; first of this wave."""
        return next(reversed(self._unlike(lambda one: one.way == way, is_out)), None)

    def shows_others(self, finest: AnyFinestTable, way: Way) -> bool:
        """Whether these people were published in this way, but with other masks or record keys than in this table."""
        if finest.by is not None and finest.by.joint:
            return False  # nothing but making all its tables would tell
        same = [one for one in self.of_same_data() if one.way == way]
        if same or not finest.remembers:
            return bool(same) and not any(_has_masks_of(one, finest) for one in same)
        return self.known(finest, way[0], finest.move).differing > 0

    def check(
        self,
        finest: AnyFinestTable,
        way: Way,
        accepted: str | None,
        wanted: Sequence[Selection] = (),
        numbers: str | None = None,
        is_out: bool = False,
    ) -> None:
        """Refuse a publication that would undo the protection of an earlier one about the same people, unless accepted.

        `numbers` is a checksum of the numbers of the wanted tables, for a method that chooses them jointly. `is_out` is
        a publication of the past: it shows the masks of the table, also where the ledger has others.
        """
        reasons = [*self.conflicts, *self._of_way(way, is_out)]
        reasons += self._of_numbers(finest, way, wanted, numbers)
        reasons += self._of_design(finest.design, is_out)
        if secrets := self._other_secrets(finest, is_out):
            reasons.append(
                f"{self._called} was published under another secret (fingerprint {listing(secrets)}). {COMPARED} "
                f"{self._advice(lambda one: self._secrets.get(one.data), 'secrets', 'Give that secret.')}"
            )
        if not reasons and self.publications and finest.remembers:
            reasons += self._of_masks(finest, way, is_out)
        self._refuse(reasons, accepted, finest, way, is_out)

    def accepted(self) -> tuple[bool, list[str]]:
        """Whether this wave was published despite a conflict, and the other waves that were."""
        despite = [one for one in self.publications if one.accepted_conflict]
        others = [one for one in despite if not self._is_same(one.data, one.wave)]
        return len(others) < len(despite), list(dict.fromkeys(one.wave or one.date[:10] for one in others))

    def has_other_data(self, design: Design) -> bool:
        """Whether other true counts were published under this wave: a mistake, or a correction."""
        same = [one for one in self.publications if one.wave == self.wave != "" and not one.withdrawn]
        same = [one for one in same if {*one.columns} == {*design.columns}]
        return bool(same) and all(one.data != self.data for one in same)

    def doubts(self, design: Design, way: Way) -> list[str]:
        """What a person should check because earlier waves are otherwise: the order of keys, missing values, codes."""
        found = []
        waves = [one for one in self.publications if one.way == way and not one.withdrawn and one.wave]
        alike = [one for one in waves if one.wave != self.wave != "" and {*one.columns} == {*design.columns}]
        before = [column for column in alike[-1].columns if column in design.keys] if alike else []
        if before and before != list(design.keys):
            found.append(
                f"wave {alike[-1].wave!r} of {self._called} has its keys in another order, so the two waves cannot be "
                f"exported or served as one series. Write keys = {json.dumps(before, ensure_ascii=False)} in "
                f"publication.toml, or build with key= (--key {','.join(before)})."
            )
        nets = [Net.from_json(entry["net"]) for entry in self.entries]
        if missing := [] if self.net is None else self.net.newly_missing(nets):
            found.append(
                f"{_have(missing)} missing values as a category, and no earlier publication of {self._called} has them "
                f"there. If a line of totals or notes brings them, leave it out by a value that only it has: without = "
                f"{{COLUMN = [VALUE]}} under [recipe] of publication.toml. If records with missing values were left "
                f'out then, leave them out again: missing = "drop" under [source] of publication.toml, '
                f"missing='drop' (--missing drop) of build. It leaves out every record with a missing value in any "
                f"used column."
            )
        return found + self._turned_over(design)

    def no_longer_missing(self, design: Design) -> list[str]:
        """What a person should check where missing values are dropped: the last publication had them as a category."""
        same = [one for one in self.publications if not one.sums and {*one.columns} == {*design.columns}]
        nets = {entry["data"]: Net.from_json(entry["net"]) for entry in self.entries}
        if self.net is None or self.secret is None or not same or same[-1].data not in nets:
            return []
        gone = self.net.no_longer_missing(nets[same[-1].data], self.secret)
        if not gone:
            return []
        return [
            f"{_have(gone)} no missing values now, and the last publication of {self._called} has them as a category. "
            f'missing = "drop" leaves out every record with a missing value in any used column, also people who were '
            f'counted then. If records have missing values, count them as before: missing = "category" under '
            f"[source] of publication.toml."
        ]

    def _turned_over(self, design: Design) -> list[str]:
        """Columns in which codes came and others went, so that the same areas may have other codes."""
        same = [one for one in self.publications if not one.sums and {*one.columns} == {*design.columns}]
        nets = {entry["data"]: Net.from_json(entry["net"]) for entry in self.entries}
        same = [one for one in same if one.data in nets]
        if self.net is None or self.secret is None or not same:
            return []
        nets[same[-1].data] = nets.pop(same[-1].data)
        return turned_over(self.net, list(nets.values()), same[-1], design.columns, self.secret)

    @property
    def _secrets(self) -> dict[str, str]:
        """The fingerprint of the secret of each published data, where the ledger has it."""
        return {entry["data"]: entry["fingerprint"] for entry in self.entries if entry["fingerprint"]}

    def _other_secrets(self, finest: AnyFinestTable, is_out: bool = False) -> list[str]:
        """The fingerprints of the secrets of earlier publications, if the masks of this table have another one."""
        if (own := finest.fingerprint) is None:
            return []
        of = self._secrets
        return list({of[one.data]: 0 for one in self._unlike(lambda one: of.get(one.data, own) == own, is_out)})

    def _advice(self, of: Callable[[Publication], object], what: str, as_before: str) -> str:
        """What to do about a difference: as before, unless the publications that readers compare differ in it, too."""
        count, series = self.beside()
        if len({of(one) for one in (*count, *series)} - {None}) < 2:
            return as_before
        so = "choose, and accept the conflict once" if self._is_new else "leave this wave as it was published"
        return f"Earlier publications have different {what}: {so}."

    def _of_way(self, way: Way, is_out: bool) -> list[str]:
        """Whether these people were published with another K, and whether by another method."""
        method, K, rest = way
        unlike = self._unlike(lambda one: one.way == way, is_out)
        reasons = []
        if others := {one.threshold: one for one in unlike if one.threshold != K}:
            was = listing([f"K={other} ({_when(one)})" for other, one in others.items()])
            first = next(iter(others))
            as_before = f"Build again with mask_thr={first} (--mask-thr {first})."
            reasons.append(
                f"{self._called} was published with {was}, and this store has K={K}. {COMPARED} "
                f"{self._advice(lambda one: one.threshold, 'K', as_before)}"
            )
        if ways := {one.way: one for one in unlike if (one.method, one.way[2]) != (method, rest)}:
            told = [
                f"method={one.method!r}, K={one.threshold} and "
                + (f"parameters {one.parameters}" if one.parameters else f"cells={one.cells!r}")
                + f" ({_when(one)})"
                for one in ways.values()
            ]
            now = f" and parameters {rest}" if "=" in rest else f" and cells={rest!r}" if rest else ""
            only = next(iter(ways))
            is_next = not any(self._is_same(one.data, one.wave) or one.way != only for one in self.publications)
            is_safer = is_next and (only[:2], method) == (("ilba", K), "controlled")
            or_so = ", or accept the conflict: controlled keeps the masks of unchanged counts" if is_safer else ""
            as_before = f"Publish as before{or_so}."
            joint = [one.method for one in ways.values() if one.joint and not self._is_same(one.data, one.wave)]
            if joint:
                as_before = (
                    f"A further wave by {joint[0]} has a conflict, too. One by controlled, or by a method that draws "
                    f"for each cell, has it only once: accept it."
                )
            advice = self._advice(lambda one: (one.method, one.way[2]), "methods", as_before)
            reasons.append(
                f"{self._called} was published with {', and with '.join(told)}, and this is method={method!r}{now}. "
                f"{COMPARED} {advice}"
            )
        return reasons

    def _of_numbers(
        self, finest: AnyFinestTable, way: Way, wanted: Sequence[Selection], numbers: str | None
    ) -> list[str]:
        """Whether these people were published by the same method, but with other numbers."""
        by, before = finest.by, [one for one in self.publications if one.way == way]
        same = [one for one in before if one.data == self.data]
        if by is None or by.spends is not None:
            return []
        tables = tuple(sorted(table.name for table in wanted))
        if by.joint and any(one.tables != tables for one in same):
            return [
                f"{self._called} was published by {by.name} with other tables, and what it publishes of a table "
                f"depends on the others. {COMPARED} Publish the same tables."
            ]
        shown = [one for one in same if one.wave == self.wave] or same
        if shown and all(one.masks == numbers if numbers else _has_masks_of(one, finest) for one in shown):
            return []
        others = [one for one in before if (one.data, one.wave) != (self.data, self.wave)]
        if by.joint and others:
            what = "blanks" if by.blanks else "numbers"
            return [
                f"{self._called} was published by {by.name} ({_named(others)}), which chooses all {what} together, so "
                f"unchanged counts can get other {what} now. {COMPARED} Each later wave and correction has this "
                f"conflict. Accept it each time, or once with another method that keeps numbers of unchanged counts "
                f"from then on: controlled, or one that draws for each cell, such as cell-key or rounding."
            ]
        if same:
            what = "record keys" if by.keyed else "numbers"
            return [
                f"{self._called} was published with other {what}. {COMPARED} "
                + (
                    "Build again with the record keys that were published."
                    if by.keyed
                    else f"{by.name} does not give the same numbers again: publish a copy of the release."
                )
            ]
        return []

    def _of_masks(self, finest: AnyFinestTable, way: Way, is_out: bool) -> list[str]:
        """Whether counts were published with other masks. Past publications of another wave are only told of it."""
        other = f"{self._called} was published with other masks"
        if not (finest.chosen or is_out):  # it shows the masks of the ledger
            first = self._first(way[0], way[1])
            if first is None or any(_has_masks_of(first, one) for one in (finest, self.as_published(finest))):
                return []
            return [f"{other}. {COMPARED} Publish from the store that has them: R's full_tb.rds, if R published them."]
        differing = self.known(finest, way[0], finest.move).differing
        if not differing:
            return []
        self._other_masks = True
        if finest.chosen:
            return [
                f"{other}. {COMPARED} Publish from the store as it was built: the ledger gives it the masks that were "
                f"published."
            ]
        before = [one for one in self.publications if one.way == way and not one.sums]
        if any(one.data == self.data or one.wave == self.wave for one in before):
            return [f"{other} for the same wave. {COMPARED} If this is another year, name it: wave= (--wave)."]
        notice(
            f"{some(differing, 'small count')} had another mask in {_named(before)} (confidential). Readers who know "
            f"that such a count did not change can tell that it is small. Later publications keep the masks that were "
            f"entered first, so the latest wave is best entered first. If another one was, and nothing was published "
            f"with this ledger yet, remove the ledger and enter the latest wave first."
        )
        return []

    # --- the budget

    @property
    def budget(self) -> float | None:
        """The epsilon declared for this population."""
        return None if self.ledger is None else self.ledger.budgets.get(self.name)

    def spend(self, epsilon: float, declared: float | None, wanted: Sequence[Selection], numbers: str | None) -> None:
        """Refuse noise beyond the budget of the population. The same numbers again cost nothing."""
        if self.ledger is None:
            notice(f"this is a trial: nobody adds up its epsilon of {epsilon:g}.")
            return
        known = self.budget
        if known is None and declared is None:
            raise InputError(
                "noise is published within a budget: the epsilon that everything about these people may add up to. "
                "Declare it once, before the data is looked at: budget= (--budget)."
            )
        if known is not None and declared not in (None, known):
            raise UnsafeRelease(
                f"the budget of {self._called} was declared as {known:g}, and a promise is not changed afterwards. "
                f"Leave budget= (--budget) out."
            )
        budget = known if known is not None else float(declared or 0)
        spent = self.ledger.spent.get(self.name, 0.0)
        is_known = any(one.masks == numbers and one.epsilon == epsilon for one in self.of_same_data())
        if not is_known and spent + epsilon > budget * (1 + 1e-12):
            raise UnsafeRelease(
                f"an epsilon of {epsilon:g} goes beyond the budget of {self._called}: {spent:g} of {budget:g} is "
                f"spent. Nothing was published. Publish with an epsilon of at most {max(budget - spent, 0):g}."
            )
        self._declares = budget if known is None else None

    def _of_design(self, design: Design, is_out: bool) -> list[str]:
        """Whether these people were published by other columns."""
        now = frozenset(design.columns)
        unlike = self._unlike(lambda one: one.sums or frozenset(one.columns) == now, is_out)
        if not unlike:
            return []
        others = [sorted(columns) for columns in dict.fromkeys(frozenset(one.columns) for one in unlike)]
        if finer := [columns for columns in others if now < {*columns}]:
            was = f"with more columns ({listing(finer[0])})"
            as_before = (
                "Its tables are sums of that finer table: publish from the finer store, or this one with from_ledger= "
                "(--from-ledger) and the path of the finer store."
            )
        else:
            was = f"by other columns ({'; '.join(listing(columns) for columns in others)})"
            renamed = "publish with from_ledger= (--from-ledger) and the path of the earlier store."
            if not any(one.method == "controlled" for one in self.publications):  # its tables alone are sums of masks
                renamed = "build with the earlier names and groups."
            as_before = (
                f"A finer or crossing design cannot be made safe afterwards. Publish tables of the earlier design; "
                f"where a column was only renamed or regrouped, {renamed}"
            )
        advice = self._advice(lambda one: frozenset(one.columns), "columns", as_before)
        return [f"{self._called} was published {was}. {COMPARED} {advice}"]

    def _refuse(
        self, reasons: Sequence[str], accepted: str | None, finest: AnyFinestTable, way: Way, is_out: bool
    ) -> None:
        if self.ledger is None:
            return
        if not reasons:
            if accepted is not None:
                raise InputError(f"accept_conflict={accepted!r}: there is no conflict to be accepted. Leave it out.")
            return
        asked = [self.ledger.tip["digest"], self.name, self.data, *reasons, *map(str, way), *finest.design.columns]
        name = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:10]
        if accepted != name:
            self._tell_proven(finest if is_out else self._planned(finest, way), would=True)
            used = f" {accepted!r} was for another conflict, or was used, perhaps by a run that was killed."
            stale = "" if accepted is None else used
            more = [reason.replace(f" {COMPARED}", "") for reason in reasons[1:]]
            also = ", and later waves in the same way" if self._is_new and self.publications and not is_out else ""
            raise Conflict(
                f"{' Also, '.join([reasons[0], *more])}{stale} To publish anyway{also}: accept_conflict={name!r} "
                f"(--accept-conflict {name}). That is recorded.",
                name,
            )
        self._accepted = True
        self.ledger.append("conflict", population=self.name, accepted=name, reasons=list(reasons))

    @property
    def _called(self) -> str:
        return f"the population {self.name!r}"

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What the ledger has of this population, by data."""
        return [] if self.ledger is None else self.ledger.populations.get(self.name, [])

    # --- masks

    def scope(self, method: str, code: MaskCode) -> str:
        """The name under which masks are kept."""
        return f"{self.name} {method} {code.K}" + (f" move {code.move}" if code.move else "")

    def move(self, K: int) -> int:
        """How far large counts may move: as in the last publication by jointly chosen masks that readers compare."""
        count, series = self.beside()
        before = [*self.publications, *series, *count]
        return next((one.move for one in reversed(before) if one.way[:2] == ("controlled", K)), 0)

    def known(self, finest: AnyFinestTable, method: str, move: int = 0) -> KnownMasks:
        """The published masks of a table, independent of its current masks."""
        return self._known(finest, method, MaskCode(finest.design.threshold, move))

    def _known(self, finest: AnyFinestTable, method: str, code: MaskCode, until: int | None = None) -> KnownMasks:
        first = self._first(method, code.K) if until is None else None
        if first is not None and _has_masks_of(first, finest) and (own := finest.own_masks()) is not None:
            return own  # where another wave was entered before with other masks, these are still the published ones
        parts = [] if self.ledger is None else self.ledger.parts(self.scope(method, code), until)
        return finest.known_masks(self._base, self._purpose(method, code), parts, code)

    def _first(self, method: str, K: int) -> Publication | None:
        """The first publication of the same true counts, if it is by iLBA: its masks are those of its store."""
        same = [one for one in self.of_same_data() if one.way[:2] == (method, K) and not one.sums]
        return same[0] if same and method == "ilba" else None

    def drawn(self, finest: AnyFinestTable, until: int | None = None) -> KnownMasks | None:
        """The masks behind iLBA tables with the same K, which jointly chosen ones keep; None without such tables.

        `until` is the number of the last publication that counts.
        """
        K = finest.design.threshold
        ways = {one.way[:2] for one in self.publications if until is None or one.number <= until}
        return self._known(finest, "ilba", MaskCode(K), until) if ("ilba", K) in ways else None

    def fixed(self, finest: AnyFinestTable, move: int, until: int | None = None) -> KnownMasks | None:
        """The masks that a joint choice keeps: those of earlier choices, else those behind iLBA tables; None if none.

        `until` is the number of the last publication by iLBA that counts.
        """
        drawn = self.drawn(finest, until)
        if self.choice("controlled", finest.design.threshold, move) is None:
            return drawn
        known = self.known(finest, "controlled", move)
        return known if drawn is None or not known.unknown else finest.either(known, drawn)

    def keeps_masks(self, finest: AnyFinestTable) -> bool:
        """Whether earlier publications left masks of this table; other columns have other masks."""
        K = finest.design.threshold
        before = [one for one in self.earlier if one.has_masks and one.threshold == K]
        last = max((one.number for one in before), default=0)
        codes = {(one.method, MaskCode(K, one.move)) for one in before}
        return any(self._known(finest, *code, last).unknown < self._known(finest, *code, 0).unknown for code in codes)

    def as_published(self, finest: AnyFinestTable) -> AnyFinestTable:
        """The table with its published masks in place of its own."""
        if not finest.remembers:
            return finest
        known = self.known(finest, finest.method, finest.move)
        return finest.with_masks(known, finest.chosen) if known.differing else finest

    def keep_masks(self, finest: AnyFinestTable) -> None:
        """Keep the masks of a table that is about to be published. A published mask never changes."""
        if self.ledger is None:
            return
        method, code = finest.method, MaskCode(finest.design.threshold, finest.move)
        if self._accepted:
            self._tell_proven(finest)
        if not finest.remembers:  # secret, labels and counts decide its numbers, so there is no mask to remember
            return
        known = self._known(finest, method, code)
        told = {} if finest.chosen is None else {"choice": finest.chosen.to_json()}
        purpose = self._purpose(method, code)
        self.ledger.keep_masks(
            self.scope(method, code),
            lambda folder: finest.write_masks(folder, self._base, purpose, known, code),
            population=self.name, **told,
        )  # fmt: skip

    def _planned(self, finest: AnyFinestTable, way: Way) -> AnyFinestTable:
        """The table with the published masks that it would keep; masks that are not chosen yet are as drawn."""
        if finest.chosen or way[0] != "controlled":
            return finest if finest.chosen else self.as_published(finest)
        fixed = self.fixed(finest, moved_by(way[0], way[2]))
        return finest if fixed is None else finest.with_masks(fixed, None)

    def _tell_proven(self, finest: AnyFinestTable, would: bool = False) -> None:
        """Say what a conflict discloses, if the finest tables of this and of earlier publications are known.

        `would` is before it is accepted, when not all masks are chosen yet.
        """
        columns = frozenset(finest.design.columns)
        before = [one for one in self.publications if one.has_masks and finest.remembers]
        before = [one for one in before if frozenset(one.columns) == columns and not one.sums]
        lacking = {one.masks for one in before if one.other_masks}
        others = [one for one in before if one.masks in lacking]
        before = [one for one in before if one not in others]
        codes = {(one.method, MaskCode(one.threshold, one.move)) for one in before}
        kept = None if self.ledger is None else len(self.ledger.entries)
        found = [finest.proven_beside(code, self._known(finest, method, code, kept)) for method, code in codes]
        proven = max((number for number in found if number is not None), default=None)
        # Cells with other labels, another name or another secret are not found.
        if proven is None or self.conflicts or self._other_secrets(finest):
            if not would:
                so = "." if finest.by is not None else ": audit them together."
                notice(
                    f"how many small counts this publication proves together with {_named(self.publications)} "
                    f"cannot be told here{so}"
                )
        else:
            same = any(self._is_same(one.data, one.wave) for one in before)
            more = ": audit them together." if same else " where counts did not change."
            if others:
                more += f" So may {_named(others)}, whose masks are not all kept."
            proves = "would prove about" if would else "proves"
            notice(
                f"compared with {_named(before)}, the finest table {proves} {some(proven, 'small count')} "
                f"(confidential). Coarser tables may prove more{more}",
                Advice if would else Notice,  # the refusal is the error
            )

    @property
    def _base(self) -> Secret:
        return self.secret or Secret(bytes(32))  # a trial keeps nothing

    def _purpose(self, method: str, code: MaskCode) -> str:
        return f"ledger masks {self.scope(method, code)}"

    def choice(self, method: str, K: int, move: int = 0) -> Mapping[str, Any] | None:
        """How the masks were chosen: the last entry of the ledger about it."""
        scope = self.scope(method, MaskCode(K, move))
        entries = [] if self.ledger is None else self.ledger.entries
        found = [e["choice"] for e in entries if e["kind"] == "masks" and e["scope"] == scope and "choice" in e]
        return found[-1] if found else None

    def kept(self, finest: AnyFinestTable, move: int) -> dict[str, Any]:
        """The options of a choice of masks that keeps those of earlier publications; none if there are none.

        Masks of iLBA tables of the same data are not kept: they leave nothing to choose, and a comparison asks what
        could be published in their place.
        """
        until = max((one.number for one in self.earlier), default=0) if self.of_same_data() else None
        fixed = self.fixed(finest, move, until)
        if fixed is None:
            return {}
        before = self.choice("controlled", finest.design.threshold, move)
        return {"previous": fixed, "move": move} | ({"noise": float(before.get("noise", 0))} if before else {})

    # --- bounds

    def check_bound(self) -> None:
        """Refuse to state a bound if this would disclose something about the truth."""
        if self.ledger is None:
            return
        if any(entry["kind"] == "bound" and entry["population"] == self.name for entry in self.ledger.entries):
            raise UnsafeRelease(
                "an earlier requested bound did not hold. Stating another one now would disclose that: publish "
                "without a stated bound."
            )
        if any(one.data != self.data for one in self.publications):
            raise UnsafeRelease(
                "an earlier wave of this population was published. A later wave states no bound: whether it is "
                "held would disclose changes. Publish without a stated bound."
            )

    def bar_bound(self, bound: int) -> None:
        """Remember that a bound did not hold."""
        if self.ledger is not None:
            self._describe()
            self.ledger.append("bound", population=self.name, bound=bound)

    # --- publishing

    @contextlib.contextmanager
    def publishing(self, place: Path, checksum: str, told: Mapping[str, Any]) -> Iterator[None]:
        """Enter a publication; its folder is put in place inside this block."""
        if self.ledger is None:
            yield
            return
        self._describe()
        if self._declares is not None:
            self.ledger.append("budget", population=self.name, epsilon=self._declares)
        with self.ledger.publishing(place, checksum, **self._told(told)):
            yield
        self.note_beside()

    def enter(self, told: Mapping[str, Any], place: str = "", checksum: str = "") -> None:
        """Enter a publication without a release folder of ours: a single table, or an earlier publication."""
        if self.ledger is not None:
            self._describe()
            self.ledger.append("publication", place=place, checksum=checksum, **self._told(told))
            self.note_beside()

    def entered(self, told: Mapping[str, Any], checksum: str = "") -> Publication | None:
        """The publication that the ledger has already, if `enter` would enter the same again."""
        if self.ledger is None:
            return None
        plain = {"parameters": "", **self._told(told), "checksum": checksum}
        plain |= {name: tuple(plain[name]) for name in ("columns", "tables")}
        same = ("population", "wave", "data", "method", "threshold", "cells", "parameters", "masks", "checksum")
        for one in self.ledger.publications:
            if not one.withdrawn and all(getattr(one, name) == plain[name] for name in (*same, "columns", "tables")):
                return one
        return None

    def _told(self, told: Mapping[str, Any]) -> dict[str, Any]:
        conflict = {"accepted_conflict": True} if self._accepted else {}
        lacking = {"other_masks": True} if self._other_masks else {}
        return {"population": self.name, "wave": self.wave, "data": self.data, **told, **conflict, **lacking}

    def _describe(self) -> None:
        """Keep the sketches of the data of the population, once for each data."""
        assert self.ledger is not None  # noqa: S101 - asked only where there is one
        if self.net is not None and self.data not in {entry["data"] for entry in self.entries}:
            fingerprint = None if self.secret is None else self.secret.fingerprint
            self.ledger.append(
                "population", population=self.name, wave=self.wave, data=self.data, fingerprint=fingerprint,
                net=self.net.to_json(),
            )  # fmt: skip

    def note_beside(self) -> None:
        """Write the state of the ledger beside store and secret, so that an older copy of the ledger is noticed."""
        if self.ledger is not None:
            bookmarks.write(self.ledger, self.secret, self.place, self.name)


def _has_masks_of(one: Publication, finest: AnyFinestTable) -> bool:
    """Whether a publication of these counts shows the masks or the record keys of a table."""
    return {*one.columns} == {*finest.design.columns} and one.masks == finest.marks(one.columns)[1]


def _have(columns: Sequence[str]) -> str:
    """Some columns with their verb."""
    return f"{listing(columns)} {'has' if len(columns) == 1 else 'have'}"


def _when(one: Publication) -> str:
    """Wave and day of a publication."""
    return f"wave {one.wave!r}, {one.date[:10]}" if one.wave else one.date[:10]


def _named(publications: Sequence[Publication]) -> str:
    """Which publications are meant: their waves, otherwise their numbers in the ledger."""
    called = (f"wave {one.wave!r}" if one.wave else f"publication {one.number}" for one in reversed(publications))
    return listing(dict.fromkeys(called), 4)
