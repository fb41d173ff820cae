"""What an insider concludes from the numbers of masks: controlled SCA masks x/K of the cells with the count x to K.

The rule is public and fixes the number nearly. An insider who knows the other cells of each count counts their masks,
and sees with which counts of the missing cell every number fits. The rule gives way to the bound, so it is used only
where it holds. Everything here is confidential.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.attackers import Insight, small_cells
from ilba.attack.published import PublishedTables
from ilba.methods.controlled.carry import may_have

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Moves: TypeAlias = list[tuple[int, int]]


class MaskNumbers(NamedTuple):
    """The number of finest cells of each true count, and how many of them are masked to K.

    Parameters
    ----------
    size, masks : array of int
        For each count 0..K. Only 1..K-1 matter.
    """

    size: IntArray
    masks: IntArray

    @classmethod
    def of(cls, view: PublishedTables) -> MaskNumbers | None:
        """The numbers of a published finest table; None without the rule, or where a number breaks it."""
        if view.policy.name != "controlled" or not view.split:
            return None
        _, counts, masked = small_cells(view)
        size = np.bincount(counts, minlength=view.K + 1).astype(np.int64)
        masks = np.bincount(counts[masked == view.K], minlength=view.K + 1).astype(np.int64)
        return cls(size, masks) if _keep(size[:, None], masks[:, None]).all() else None

    @property
    def K(self) -> int:
        """The threshold."""
        return len(self.size) - 1

    def fitting(self, counts: IntArray, at_k: BoolArray) -> BoolArray:
        """For each cell, whether every number fits with a count of 0..K, if all other cells are known.

        Parameters
        ----------
        counts, at_k : array
            The true count of each cell, and whether it is masked to K.
        """
        found = np.stack([self._after([(a, x)], [], 0) for a in range(self.K + 1) for x in range(self.K + 1)])
        table: BoolArray = np.moveaxis(found.reshape(self.K + 1, self.K + 1, 2), 2, 1)
        return table[np.minimum(counts, self.K), at_k.astype(np.int64)]

    def narrowed(self, insight: Insight, at_k: BoolArray) -> Insight:
        """What an insider who lacks one cell proves who also counts the masks."""
        values = np.arange(self.K + 1)
        fits = self.fitting(insight.counts, at_k)
        fits &= (insight.low[:, None] <= values) & (values <= insight.high[:, None])
        low, high = fits.argmax(axis=1), self.K - fits[:, ::-1].argmax(axis=1)
        some = fits.any(axis=1)
        return insight._replace(low=np.where(some, low, insight.low), high=np.where(some, high, insight.high))

    def moving(self, people: int) -> BoolArray:
        """Whether all people of a cell with so many may be in another cell.

        By the mask of their cell, the other cell's count and its mask.
        """
        found: BoolArray = np.zeros((2, self.K + 1, 2), dtype=bool)
        for count in range(self.K + 1 - people):
            for mask in (0, 1):
                found[:, count, mask] = self._after([(people, 0)], [(count, count + people)], mask)
        return found

    def _after(self, own: Moves, other: Moves, mask: int) -> BoolArray:
        """Whether every number fits after these changes of a cell with the mask 0 or K, and of another one."""
        size, masks = np.stack([self.size] * 2, axis=1), np.stack([self.masks] * 2, axis=1)
        for changes, up in ((own, np.array([0, 1])), (other, np.full(2, mask))):
            for before, after in changes:
                size[before] -= 1
                masks[before] -= up
                size[after] += 1
                masks[after] += up
        return _keep(size, masks)


def _keep(size: IntArray, masks: IntArray) -> BoolArray:
    """Whether every count 1..K-1 has a number of masks that the rule allows."""
    K = len(size) - 1
    x = np.arange(1, K)[:, None]
    return np.asarray(may_have(x, size[1:K], masks[1:K], K).all(axis=0), dtype=bool)
