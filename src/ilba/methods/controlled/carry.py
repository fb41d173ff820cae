"""What is carried from block to block, and the final result.

The errors of the surrounding areas and of the classes of counts are carried. Each block of a round sees a share of
them. What the blocks add is taken in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.methods.controlled.block import NEAR_ENOUGH, Before, Done, Share
from ilba.methods.controlled.kernels import mixed
from ilba.methods.controlled.plan import MaskBlock, Node
from ilba.methods.controlled.search import Control, Rules
from ilba.methods.controlled.sets import Errors

IntArray: TypeAlias = npt.NDArray[np.int64]

TINY = 3
"""A class of up to this many times K cells is too small to have the same number of masks with every secret."""


class Carry:
    """The errors so far, from the first block to the last."""

    def __init__(
        self, blocks: Sequence[MaskBlock], rules: Rules, sizes: IntArray, tiny: IntArray, numbers: IntArray
    ) -> None:
        self.rules = rules
        self.interrupted = False
        self._last = len(blocks) - 1
        self._sizes = sizes
        self._aims = _aims(sizes, rules.K, tiny, numbers)
        self._classes = np.zeros(rules.K - 1, dtype=np.int64)
        self._errors: dict[Node, Errors] = {}
        self._left: dict[Node, int] = {}
        for block in blocks:
            for one in block.carried:
                self._left[one.node] = self._left.get(one.node, 0) + 1
        self._taken = 0
        self._over = self._reached = self._kept = 0

    def before(self, turn: Sequence[MaskBlock]) -> list[Before]:
        """What each block of a round sees."""
        around = [[one.node for one in block.carried] for block in turn]
        befores = []
        for number, nodes in enumerate(around):
            shares = tuple(
                Share(
                    self._errors.setdefault(node, Errors()),
                    sum(node in others for others in around[:number]),
                    sum(node in others for others in around),
                )
                for node in nodes
            )
            classes = (self._classes + number) // len(turn)
            is_last = self._taken + len(turn) == self._last + 1 and len(turn) == 1
            befores.append(Before(shares, classes, *((self._aims, self._sizes) if is_last else ())))
        return befores

    def take(self, block: MaskBlock, done: Done) -> None:
        """Add the errors that a block leaves."""
        for one, (names, errors, times) in zip(block.carried, done.errors, strict=True):
            self._errors[one.node].add(names, errors, times)
            self._left[one.node] -= 1
            if not self._left[one.node]:
                self._count(*self._errors.pop(one.node).over(self.rules.bound))
        self._classes = self._classes + done.classes
        self._count(done.over, done.reached)
        self._kept += done.kept
        self._taken += 1
        self.interrupted |= done.interrupted

    def _count(self, over: int, reached: int) -> None:
        self._over += over
        self._reached = max(self._reached, reached)

    def control(self, tables: int, cells: int) -> Control:
        """What came out."""
        for errors in self._errors.values():  # after an interruption
            self._count(*errors.over(self.rules.bound))
        return Control(
            tables, cells, self.rules.bound, self._reached, self._over, self._kept, interrupted=self.interrupted
        )


def _aims(sizes: IntArray, K: int, tiny: IntArray, numbers: IntArray) -> IntArray:
    """The error of each class if a share x/K of its cells is masked to K, as nearly as its size allows.

    In a tiny class the nearest number would fix the masks of some cells. There a keyed chance rounds up or down, so
    that the expected number is exact.
    """
    aims = np.zeros(len(sizes), dtype=np.int64)
    for x, size in enumerate(sizes.tolist(), 1):
        masks, rest = divmod(x * size, K)
        up = 2 * rest > K
        if size and (size <= TINY * K or 2 * rest == K):
            up = int(mixed(numbers[tiny == x].astype(np.uint64).sum(dtype=np.uint64))) % K < rest
        aims[x - 1] = K * (masks + up) - x * size
    return aims


def may_have(x: IntArray, size: IntArray, masks: IntArray, K: int) -> npt.NDArray[np.bool_]:
    """Whether a class of so many cells with the count x may get this number of masks of K.

    The rule is public. It is broken only where the bound leaves no other way.

    >>> may_have(np.array([2, 2, 2]), np.array([50, 50, 10]), np.array([20, 21, 4]), 5).tolist()
    [True, False, True]
    """
    error = np.abs(K * masks - x * size)
    up_or_down = (size <= TINY * K) | (2 * (x * size % K) == K)
    found: npt.NDArray[np.bool_] = (NEAR_ENOUGH * error <= size) | (2 * error <= K) | (up_or_down & (error < K))
    return found
