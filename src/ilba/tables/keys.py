"""The record keys of cells: another additive part of the finest table, for methods that decide by cell keys.

Keys of a column are added up when the store is built. Without a column, each finest cell gets one keyed draw for its
labels and its count, in place of the sum of the keys of its people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CodeLists
from ilba.design.recordkeys import KEY_RANGE
from ilba.secret.draws import CellDraws
from ilba.secret.secret import Secret

IntArray: TypeAlias = npt.NDArray[np.int64]
PURPOSE = "cell keys"
"""the purpose for which the drawing secret is derived"""


def drawn_keys(secret: Secret, codes: CodeLists, words: Sequence[IntArray], count: IntArray) -> IntArray:
    """One keyed draw for each finest cell and its count, below `KEY_RANGE`."""
    draws = CellDraws(secret.derived(PURPOSE), codes)
    found = np.empty(len(count), dtype=np.int64)
    for first in range(0, len(count), _CHUNK):
        here = slice(first, first + _CHUNK)
        found[here] = draws.any_count([word[here] for word in words], count[here]) % KEY_RANGE
    return found


_CHUNK = 2**20
