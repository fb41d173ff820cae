"""What tables of sums say together if the finest table is not released: about the masks first, then about the counts.

Masks add up exactly in every table, and each is 0 or at least K. So a published 0 means that every finest cell below it
has the mask 0, and a count of at most K-1. Bounds on counts alone do not show this: K-1 for each cell leaves much room.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.bounds import Attack
from ilba.attack.lattice import MANY, Array, Node
from ilba.attack.published import CellBounds, PublishedTables
from ilba.methods.method import FAR

IntArray: TypeAlias = npt.NDArray[np.int64]


class MaskSums(PublishedTables):
    """The same tables as sums of masks. The attack on them bounds the sum of masks of every cell.

    If another method sums numbers that it gives the finest cells, these take the place of masks, and may be any number.
    If an attacker has exact tables from elsewhere, counts that were proven with them bound the masks, too.
    """

    def __init__(self, published: PublishedTables, counts: Attack | None = None) -> None:
        self.__dict__.update(published.__dict__)
        self.gap = self.K if self.method is None else 1
        self._smallest = self.K if self.method is None else self.method.smallest(self.K)
        self._most = min(int(rows.value.sum()) for rows in self.tables.values())
        self._counts = counts
        self._attack = Attack(self).run()
        self._counts = None  # it has served

    def knowledge(self, level: int, first: int, last: int) -> dict[Node, CellBounds]:
        """Bound the masks of each table of a level by itself: a published sum is exact."""
        found, counts = {}, self._counts
        for node in (one for one in self.lattice.nodes if one[0] == level):
            if node in self.tables:
                low = high = self.dense(node, first, last, self.tables[node].value)
                if ((low > 0) & (low < self._smallest)).any():
                    raise self._contradiction(node)
            else:
                low = np.zeros((*self.lattice.shape(node), last - first), np.int64)
                high = np.full_like(low, self._most)
            if counts is not None:
                few, many = (side.reshape(low.shape).astype(np.int64) for side in counts.cells(node, first, last))
                least, most = masks_of(few, many, self._of_finest(node, first, last), self.K, self.move)
                low, high = np.maximum(low, least), np.minimum(high, most)
            found[node] = CellBounds(low, high, None, None, None, None, 0)
        return found

    def counts(self, node: Node, first: int, last: int) -> tuple[Array, Array]:
        """Low and high of the counts of a table in some of its areas, from the bounds on its sums of masks."""
        shape = (*self.lattice.shape(node), last - first)
        low, high = (side.reshape(shape).astype(np.int64) for side in self._attack.cells(node, first, last))
        n = self._of_finest(node, first, last)
        said = None if self.method is None else self.method.behind(low, high, n)
        least, most = behind_sums(low, high, n, self.K, self.move) if said is None else said
        return least, np.full_like(most, FAR) if self.codes.unlisted else most

    def _of_finest(self, node: Node, first: int, last: int) -> Array:
        """The largest possible number of finest cells in each cell of a table."""
        n = self._finest_cells(node, first, last)
        return np.full_like(n, MANY) if self.codes.unlisted else n


def behind_sums(low: IntArray, high: IntArray, n: IntArray, K: int, move: int = 0) -> tuple[IntArray, IntArray]:
    """The smallest and the largest true count behind a sum of the masks of n cells; the sum is between low and high.

    A mask of 0 hides at most K-1, or `move` if that is more. A larger mask hides at most `move`, and adds at most
    K-1+move, or `move` if it is above K+move.

    >>> masks = np.array([0, 5, 6, 10, 11])
    >>> [end.tolist() for end in behind_sums(masks, masks, np.array([1, 1, 1, 2, 2]), K=5)]
    [[0, 1, 6, 2, 7], [4, 5, 6, 14, 15]]
    >>> [end.tolist() for end in behind_sums(np.array([0, 6]), np.array([5, 11]), np.array([1, 2]), K=5)]
    [[0, 2], [5, 15]]
    """
    top = K + move
    least = np.minimum(-(-low // top), n)  # one person behind each mask
    above = np.minimum(n, low // K)  # at most so many cells have a mask above 0
    exactly = low - (top - 1) * above + (K - 1) * (low > above * top)
    same = above == np.minimum(n, high // K)
    least = np.maximum(least, np.where(same, exactly, 0))
    return least, high + max(K - 1, move) * (n - (high > 0)) + move * (high > 0)


def masks_of(low: IntArray, high: IntArray, n: IntArray, K: int, move: int = 0) -> tuple[IntArray, IntArray]:
    """The smallest and the largest sum of the masks of n cells whose true count is between low and high.

    >>> counts = np.array([0, 3, 6, 9, 9])
    >>> [end.tolist() for end in masks_of(counts, counts, np.array([1, 1, 1, 2, 3]), K=5)]
    [[0, 0, 6, 5, 0], [0, 5, 6, 13, 17]]
    """
    hidden = max(K - 1, move)
    least = np.where(low <= n * hidden, 0, np.maximum(K, low - (n - 1) * hidden - move))
    most = np.where(high <= n, high * (K + move), (n - 1) * (K + move) + np.maximum(K, high - n + 1) + move)
    return least, most
