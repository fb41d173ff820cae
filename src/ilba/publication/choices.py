"""Compare methods on the same tables: loss, disclosure, and what attackers learn. Confidential.

The plan and the decision page use this. To add a method, add a line to `METHODS`; to add an attacker, to `_attackers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from ilba.attack.attackers import Attacker, Insider, Register
from ilba.attack.audit import cells_to_attack
from ilba.attack.risk import risk
from ilba.data.columns import few
from ilba.design.design import COUNT, Selection, shown_name
from ilba.errors import Advice, IlbaError, InputError, MissingExtra, Notice, SecretError, notice, some
from ilba.methods.lab import ILBA, SmallCountRounding, method_of
from ilba.methods.method import Method
from ilba.output.compare import measured_method
from ilba.output.pages import percent
from ilba.progress import Progress, within
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

OWN = ("controlled", "ilba", "sca")
"""the methods of this package"""
FIELD = ("cell-key:D=5,V=3,js=2", "small-count-rounding", "suppression")
"""methods of the field that publish tables of counts, as `method_of` reads them"""
METHODS = (*OWN, *FIELD)
"""the methods that are compared"""
LIMIT = 3_000_000
"""the most cells of all tables for which our methods are compared by default"""
FIELD_LIMIT = 300_000
"""the most cells for which methods of the field are compared, too"""
SUPPRESSION_LIMIT = 100_000_000
"""the most rows of all tables times cells for which suppression is compared: its equations take seconds then"""
_KNOWS = {
    "outsider": "who has only the tables",
    "neighbour": "who knows one member of the cell",
    "insider": "who knows every count but one",
    "attribute": "who knows somebody's group",
    "register": "who has exact counts",
}
"""what each attacker has besides the tables"""
_SAMPLED = 200_000
"""the most finest cells for which probabilities are computed; larger tables are sampled by areas"""


@dataclass(frozen=True)
class Choice:
    """One way to publish the tables (confidential). Shares run from 0 to 1."""

    method: str
    mean_loss: float
    p99_loss: int
    max_loss: int
    within: float
    """the share of counts with a loss of at most K/2"""
    provable: float
    """the share of the small counts of all tables that everybody can prove to be small"""
    is_safe: bool
    adds_up: bool
    blank: float = 0.0
    """the share of counts that are not shown"""
    spec: str = ""
    """the method with its parameters, as `ilba compare --method` takes it"""
    totals: float | None = None
    """the mean loss of totals: of tables of at most one variable; None if there are none"""

    @property
    def found(self) -> str:
        """What is provable, in words: without a certificate it is only what was found."""
        return f"{self.provable:.1%}" + ("" if self.is_safe else " found, not certified")

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Measured:
    """What one attacker learns (confidential). Shares run from 0 to 1; None is not measured."""

    attacker: str
    """"register", "insider", "outsider", "neighbour" or "attribute" """
    tables: tuple[str, ...] = ()
    """the tables of which a register has exact counts"""
    proven: float | None = None
    """the share of small finest cells that are proven to be small"""
    likely: float | None = None
    """the share of small finest cells that the attacker rightly believes small, with a probability above .95"""
    right: float | None = None
    """the share of such beliefs that is right; what is proven is believed, too, unless it rests on a bound"""
    groups: int | None = None
    """groups that show only one value of a variable"""
    people: int | None = None
    """people in these groups, as shown"""
    bound: int | None = None
    """the bound of errors on which the attacker relies"""
    at_least: bool = False
    """whether what is proven is a lower bound"""

    def to_json(self, K: int) -> dict[str, Any]:
        """As plain values; numbers below K are hidden."""
        plain = asdict(self)
        for name in ("groups", "people"):
            if plain[name] is not None:
                plain[name] = few(plain[name], K)
        return plain

    def __str__(self) -> str:
        said = []
        if self.proven is not None:
            relies = "" if self.bound is None else f", relying on errors of at most {self.bound}"
            if self.attacker == "insider" and self.bound is None and not self.proven:
                relies = ", with no bound of errors to rely on"
            least = "at least " if self.at_least and self.proven else ""
            said.append(f"proves {least}{percent(self.proven)} of the small finest cells{relies}")
        if self.likely is not None:
            right = "" if self.right is None else f"; {percent(self.right)} of its guesses are right"
            found = "rightly guesses"
            if self.proven and self.bound is not None:  # what is likely uses no bound
                found = "without relying on it, rightly guesses"
            elif self.proven:
                found = "with guesses"
                right = right and f"; of all it believes, proofs included, {percent(self.right or 0.0)} is right"
            said.append(f"{found} {percent(self.likely)} with more than 95% certainty{right}")
        elif self.proven is not None:
            said.append("guesses not measured")
        if self.groups is not None:
            said.append(f"finds {some(self.groups, 'group')} that show only one value")
        knows = (
            f"who has exact counts of {' and '.join(map(shown_name, self.tables))}"
            if self.tables
            else _KNOWS[self.attacker]
        )
        return f"{self.attacker} ({knows}): {'; '.join(said) or 'not measured: the finest table is not published'}"


def can_compare(finest: AnyFinestTable, wanted: Sequence[Selection], limit: int = LIMIT) -> bool:
    """Whether the tables are small enough to compare methods without long work."""
    return cells_to_attack(finest.codes, wanted) <= limit


def rows_of(finest: AnyFinestTable, wanted: Sequence[Selection]) -> int:
    """The most rows that the tables can have."""
    cells = len(finest)
    sizes = []
    for table in wanted:
        size = 1
        for place in finest.codes.cell_index(table).places:
            size = min(size * place.size, cells)
        sizes.append(size)
    return sum(sizes)


def too_slow(finest: AnyFinestTable, wanted: Sequence[Selection]) -> tuple[str, ...]:
    """The methods of the field that would take long with these tables."""
    if not can_compare(finest, wanted, FIELD_LIMIT):
        return FIELD
    return ("suppression",) if rows_of(finest, wanted) * len(finest) > SUPPRESSION_LIMIT else ()


def masked_by(
    method: str,
    finest: AnyFinestTable,
    planned: Sequence[Selection],
    how: Mapping[str, Any],
    *,
    secret: Secret | None = None,
    progress: Progress | None = None,
) -> AnyFinestTable | None:
    """The finest table as a method would publish it, its masks chosen as `how` says; None if they cannot be."""
    if method != "controlled" or finest.method == "controlled":
        return finest
    try:
        return finest.controlled(planned, **how, secret=secret, progress=within(progress, method))
    except (InputError, SecretError):  # its masks came with the counts, or its secret is elsewhere
        return None


def choices(
    finest: AnyFinestTable,
    wanted: Sequence[Selection],
    published: AnyFinestTable | None = None,
    *,
    by: Method | None = None,
    full: bool = False,
    secret: Secret | None = None,
    progress: Progress | None = None,
) -> list[Choice]:
    """Compare the methods. `published` is the table with the published masks, if there is one.

    `by` is the method of the field that publishes, if there is one. It replaces the compared one of its name.

    Methods of the field are left out if they are too slow (unless `full`), or if they cannot publish these tables.
    """
    held = finest.at_hand()
    if not isinstance(held, FinestTable) or held.method != "ilba":
        return []
    slow = () if full else too_slow(finest, wanted)
    compared = {method.name: method for method in (method_of(name) for name in METHODS if name not in slow)}
    compared["ilba"] = ILBA(held.design.cells)
    if "small-count-rounding" in compared:  # to K, as the masks
        compared["small-count-rounding"] = SmallCountRounding(held.design.threshold)
    if by is not None and slow != FIELD:
        compared[by.name] = by
    found = []
    for name, method in compared.items():
        chosen = published.at_hand() if name == "controlled" and published is not None else None
        masked = chosen if isinstance(chosen, FinestTable) and chosen.method == "controlled" else None
        try:
            row = measured_method(method, held, wanted, masked, secret=secret, progress=within(progress, method.name))
        except IlbaError as problem:  # its masks came with the counts, or it needs an extra that is not installed
            text = f"{method.name} was left out of the comparison: {problem}"
            notice(text, Advice if isinstance(problem, MissingExtra) else Notice)
            continue
        found.append(_choice(method, row))
    return found


def _choice(method: Method, row: Mapping[str, Any]) -> Choice:
    return Choice(
        method.name, row["mean_loss"], row["p99_loss"], row["max_loss"], row["within_half_K"], row["provable_counts"],
        row["safe"], row["adds_up"], row["blank"],
        method.label.replace(" ", ":", 1).replace(" ", ","), row["loss_of_totals"],
    )  # fmt: skip


def measured(
    published: AnyFinestTable, wanted: Sequence[Selection], bound: int | None = None, progress: Progress | None = None
) -> list[Measured]:
    """Measure attackers who guess, or who know more than the tables."""
    names = [table.name for table in wanted]
    attackers = _attackers(published, wanted)
    method = published.by or published.method
    report = risk(
        published, attackers, names, method=method, bound=bound, cells=_SAMPLED, examples=0, progress=progress
    )
    rows = {row["attacker"]: row for row in report.rows.iter_rows(named=True)}
    found = []
    for one in attackers:
        row = rows[one if isinstance(one, str) else one.name]
        small = row["small"]
        proven = None if row["proven"] is None else row["proven"] / small if small else 0.0
        likely = 0.0 if row["likely"] == 0 else row["likely_share"]
        kind = "register" if isinstance(one, Register) else "insider" if isinstance(one, Insider) else one
        tables = tuple(one.tables) if isinstance(one, Register) else ()
        least = kind in ("register", "neighbour") and report.published.may_miss
        learnt = row["likely_right"], row["groups"], row["people"], row["bound"]
        found.append(Measured(kind, tables, proven, likely, *learnt, least))
    return found


def _attackers(published: AnyFinestTable, wanted: Sequence[Selection]) -> list[Attacker]:
    """The measured attackers: with a register, an insider, one who guesses, one who infers attributes."""
    found: list[Attacker] = ["outsider", "neighbour", Insider(secrets=0), "attribute"]
    exact = _register(published, wanted)
    return [exact, *found] if exact else found


def _register(published: AnyFinestTable, wanted: Sequence[Selection]) -> Register | None:
    """Exact counts of the finest areas by the first two keys, of those in the tables, as a register may have them."""
    design = published.design
    used = [key for key in design.keys if any(key in table.keys for table in wanted)]
    keys = used[:2]
    if len(keys) == len(used):  # it would know every cell that the tables tell apart
        keys = keys[:-1]
    if not keys or not isinstance(published, FinestTable):
        return None
    levels = [max(own) for own in zip(*(table.levels for table in wanted), strict=True)]
    finest = {one.name: level for one, level in zip(design.hierarchies, levels, strict=True) if level}
    table = published.table(finest if len(design.hierarchies) > 1 else levels[0], keys)
    exact = table.detail.select(*table.selection.columns, pl.col(COUNT))
    return Register({table.selection.name: exact})
