"""What methods there are for the same tables, what each costs and what each gives away. Confidential.

The plan and the decision page ask here. A further method is one more line in `METHODS`, a further attacker one more
function in `MEASURES`: each gets the finest table and the tables, and returns what is to be said of the attacker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ilba.attack.audit import audit, cells_to_attack, losses
from ilba.design.design import Selection
from ilba.errors import InputError, SecretError
from ilba.methods.loss import LossSummary, loss_summary
from ilba.progress import Progress, within
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable

METHODS = {"controlled": "controlled", "ilba": "ilba", "sca-sums": "sca-sums"}
"""the methods that are compared, each with the name under which it is audited"""
LIMIT = 3_000_000
"""up to so many cells of all tables methods are compared without being asked to"""


@dataclass(frozen=True)
class Choice:
    """One way to publish the tables (confidential). Shares run from 0 to 1."""

    method: str
    mean_loss: float
    p99_loss: int
    max_loss: int
    within: float
    """the share of counts that are at most K/2 off"""
    provable: float
    """the share of small counts that everybody can prove to be small"""
    is_safe: bool
    adds_up: bool

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Measured:
    """What one attacker learns (confidential)."""

    attacker: str
    share: float
    """of the small counts"""
    text: str


MEASURES: list[Callable[[AnyFinestTable, Sequence[Selection]], Measured]] = []
"""attackers whose success is measured, not proven"""


def can_compare(finest: AnyFinestTable, wanted: Sequence[Selection], limit: int = LIMIT) -> bool:
    """Whether the tables are small enough to compare methods without long work."""
    return cells_to_attack(finest.codes, wanted) <= limit


def choices(
    finest: AnyFinestTable,
    wanted: Sequence[Selection],
    published: AnyFinestTable | None = None,
    *,
    secret: Secret | None = None,
    progress: Progress | None = None,
) -> list[Choice]:
    """Compare the methods. `published` is the table with the masks that were published, where there is one."""
    found = []
    for method in METHODS:
        masked = finest
        if method == "controlled":
            if published is not None and published.method == "controlled":
                masked = published
            else:
                try:
                    masked = finest.controlled(wanted, secret=secret, progress=within(progress, method))
                except (InputError, SecretError):  # its masks came with the counts, or its secret is elsewhere
                    continue
        found.append(_choice(masked, method, wanted, within(progress, method)))
    return found


def _choice(masked: AnyFinestTable, method: str, wanted: Sequence[Selection], progress: Progress | None) -> Choice:
    report = audit(masked, METHODS[method], [table.name for table in wanted], explanations=0, progress=progress)
    K = masked.design.threshold
    loss: LossSummary = loss_summary([losses(report.published)], K)
    adds_up = method in ("controlled", "sca-sums")
    return Choice(method, loss.mean, loss.p99, loss.max, loss.within, report.share or 0.0, report.safe, adds_up)
