"""How much the long harnesses try."""

from __future__ import annotations

import os
from collections.abc import Sequence

LARGE = int(os.environ.get("ILBA_EXAMPLES", "0")) >= 100
"""whether they try everything that they know, as `ILBA_EXAMPLES=100 make test` asks for"""


def tries(many: int) -> int:
    """So many examples where everything is tried, elsewhere a third of them."""
    return many if LARGE else many // 3


def few(cases: Sequence, kept: int = 1) -> Sequence:
    """All cases where everything is tried, elsewhere the first ones: those that differ in kind come first."""
    return cases if LARGE else cases[:kept]
