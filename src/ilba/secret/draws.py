"""The draws of packed cells: `secret.draws` at the speed that a census needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CodeList, CodeLists
from ilba.secret.secret import Secret, count_words, drawn, label_words, tagged

IntArray: TypeAlias = npt.NDArray[np.int64]


class CellDraws:
    """The draws of packed cells, as `secret.draws` defines them.

    The words of a cell can be grouped in any way, because XOR is associative. So the words of neighbouring dimensions
    are joined into one table while it stays small: a census needs two look-ups per cell instead of nine.
    """

    def __init__(self, secret: Secret, codes: CodeLists, below: int | None = None) -> None:
        self._secret = secret
        self._cell_index = codes.finest
        self._counts = count_words(secret, range(below or codes.design.threshold))
        self._tables: list[tuple[int, int, npt.NDArray[np.uint64]]] = []
        words = [self._words(listed) for listed in codes.lists]
        for word in self._cell_index.words:
            last = len(word)
            while last:
                first = last - 1
                table = words[word[first]]
                while first and len(table) * len(words[word[first - 1]]) <= 2**16:
                    first -= 1
                    table = (words[word[first]][:, None, :] ^ table[None, :, :]).reshape(-1, 2)
                self._tables.append((word[first], word[last - 1], table))
                last = first

    def _words(self, listed: CodeList) -> npt.NDArray[np.uint64]:
        joined = np.zeros((len(listed), 2), dtype=np.uint64)
        for level, column in enumerate(listed.columns, 1):
            names = listed.named(level, np.arange(listed.size(level)))[-1].to_list()
            joined ^= label_words(self._secret, column, names)[listed.nodes[level]]
        return joined

    def __call__(self, packed: Sequence[IntArray], count: IntArray) -> IntArray:
        """The draws of cells whose counts are below K."""
        return drawn(self._secret, self._block(packed, count))

    def tags(self, packed: Sequence[IntArray], count: IntArray) -> npt.NDArray[np.uint64]:
        """The tags of cells whose counts are below K: a 64-bit number for each cell and count."""
        return tagged(self._secret, self._block(packed, count))

    def any_tags(self, packed: Sequence[IntArray], count: IntArray) -> npt.NDArray[np.uint64]:
        """The tags of cells with counts of any size."""
        return tagged(self._secret, self._of_any(packed, count))

    def any_count(self, packed: Sequence[IntArray], count: IntArray) -> IntArray:
        """The draws of cells with counts of any size."""
        return drawn(self._secret, self._of_any(packed, count))

    def _of_any(self, packed: Sequence[IntArray], count: IntArray) -> npt.NDArray[np.uint64]:
        every, place = np.unique(count, return_inverse=True)
        return self._joined(packed, count_words(self._secret, every.tolist())[place])

    def _block(self, packed: Sequence[IntArray], count: IntArray) -> npt.NDArray[np.uint64]:
        return self._joined(packed, self._counts[count])

    def _joined(self, packed: Sequence[IntArray], block: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        for first, last, table in self._tables:
            block ^= table[self._cell_index.block(packed, first, last)]
        return block
