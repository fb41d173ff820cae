"""How long work tells how far it is: one shape for every piece of it, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class ProgressStep(NamedTuple):
    """How far a piece of work is. Confidential where it depends on the truth, as the choice of masks does."""

    stage: str
    """what is being done, such as "counting", "choosing masks" or "writing tables" """
    done: int = 0
    """parts of the stage that are done"""
    total: int | None = None
    """parts of the stage in all; None where nobody knows"""
    detail: str = ""
    """what else there is to say of it, for the methodologist"""


Progress: TypeAlias = Callable[[ProgressStep], object]
"""What everything long takes as `progress=`: it is called with each step."""


def silent(step: ProgressStep) -> None:
    """Tell nobody."""


def within(progress: Progress | None, part: str) -> Progress | None:
    """The progress of work that is one part of a larger piece: each stage is told with the name of the part before it.

    >>> within(print, "K = 3")(ProgressStep("attacking", 1, 2))
    ProgressStep(stage='K = 3: attacking', done=1, total=2, detail='')
    """
    if progress is None:
        return None
    tell = progress
    return lambda step: tell(step._replace(stage=f"{part}: {step.stage}"))
