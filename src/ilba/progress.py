"""Progress of long work, in one form for every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class ProgressStep(NamedTuple):
    """A step of long work. Confidential if it depends on the truth, as the choice of masks does."""

    stage: str
    """what is being done, such as "counting", "choosing masks" or "writing tables" """
    done: int = 0
    """parts of the stage that are done"""
    total: int | None = None
    """parts of the stage in total; None if unknown"""
    detail: str = ""
    """further information for the methodologist"""


Progress: TypeAlias = Callable[[ProgressStep], object]
"""The argument `progress=` of long work: a function that is called with each step."""


def silent(step: ProgressStep) -> None:
    """Ignore a step."""


def within(progress: Progress | None, part: str) -> Progress | None:
    """Report the progress of a part of larger work, with the name of the part before each stage.

    >>> within(print, "K = 3")(ProgressStep("attacking", 1, 2))
    ProgressStep(stage='K = 3: attacking', done=1, total=2, detail='')
    """
    if progress is None:
        return None
    tell = progress
    return lambda step: tell(step._replace(stage=f"{part}: {step.stage}"))
