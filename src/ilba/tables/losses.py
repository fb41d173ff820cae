"""The losses of tables, counted without making the tables: no labels, and a block of areas at a time. Confidential.

Counts of different areas are independent, so the tables below a level are measured area by area, and memory does not
grow with the number of areas. Coarser tables are summed over the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CodeLists
from ilba.design.design import COUNT, Selection
from ilba.methods.loss import loss_counts
from ilba.methods.moves import BLANK, KeyedMoves
from ilba.tables.rollup import Finest, Sums, released, roll_up, sums_of_tables, together
from ilba.tables.table import Table

IntArray: TypeAlias = npt.NDArray[np.int64]

BLOCK = 2**21
"""the number of finest cells in a block, unless one area of the block level has more"""


@dataclass
class TableLoss:
    """The losses of the counts of one table (confidential)."""

    cells: int = 0
    small: int = 0
    """the number of cells with a true count of at most K"""
    type1: int = 0
    type2: int = 0
    by_loss: dict[int, int] = field(default_factory=dict)
    """the number of cells with each loss, masked minus true"""

    @classmethod
    def of(cls, table: Table) -> TableLoss:
        """Measure a finished table."""
        values, n = loss_counts(table.detail["loss"].drop_nulls().to_numpy())
        K = table.design.threshold
        return cls(
            table.detail.height,
            int((table.detail[COUNT] <= K).sum()),
            int(table.detail["type1"].sum()),
            int(table.detail["type2"].sum()),
            dict(zip(values.tolist(), n.tolist(), strict=True)),
        )

    @property
    def largest(self) -> int:
        """The largest loss of a count."""
        return max(map(abs, self.by_loss), default=0)

    def add(self, codes: CodeLists, sums: Sums, plain: bool, moves: KeyedMoves | None) -> None:
        """Add some cells of the table."""
        masked, flags = released(codes, sums, plain, moves=moves)
        count = sums.count
        loss = (masked - count)[masked != BLANK] if moves is not None and moves.threshold else masked - count
        self.cells += len(sums)
        self.small += int((count <= codes.design.threshold).sum())
        self.type1 += int(flags.type1.sum())
        self.type2 += int(flags.type2.sum())
        least = int(loss.min(initial=0))
        for place, n in enumerate(np.bincount(loss - least).tolist()):
            if n:
                self.by_loss[place + least] = self.by_loss.get(place + least, 0) + n


def losses(
    codes: CodeLists,
    source: Finest,
    wanted: Sequence[Selection],
    plain: bool,
    moves: KeyedMoves | None = None,
    tell: Callable[[int, int], object] = lambda done, total: None,
) -> dict[Selection, TableLoss]:
    """Measure tables; `tell` is called with the number of finished steps and of all steps."""
    cut, ends = blocks(codes, source)
    found = {one: TableLoss() for one in wanted}
    fine = [one for one in wanted if len(ends) == 1 or one.levels[0] >= cut]
    coarse = [one for one in wanted if len(ends) > 1 and one.levels[0] < cut]
    base = codes.design.at((cut - 1, *codes.design.finest.levels[1:]), codes.design.keys)
    done, total = 0, len(ends) * len(fine) + len(coarse)

    def add(selection: Selection, sums: Sums) -> None:
        nonlocal done
        found[selection].add(codes, sums, plain, moves)
        tell(done := done + 1, total)

    common = []
    for first, last in pairwise([0, *ends]):
        block = source.part(first, last)
        for selection, sums in sums_of_tables(codes, block, fine):
            add(selection, sums)
        if coarse:
            common.append(roll_up(codes, block, codes.cell_index(base)))
    if coarse:
        whole = together(common)
        for selection in coarse:
            add(selection, roll_up(codes, whole, codes.cell_index(selection)))
    return found


def blocks(codes: CodeLists, source: Finest) -> tuple[int, list[int]]:
    """The level of the first hierarchy at which finest cells are cut into blocks, and where each block ends.

    It is the coarsest level whose areas are no larger than a block, otherwise the finest.
    """
    areas, rows = codes.lists[0], len(source)
    for level in range(1, areas.depth + 1):
        starts = np.searchsorted(source.packed[0], areas.starts[level] * codes.finest.stride(0))
        if int(np.diff(starts, append=rows).max(initial=0)) <= BLOCK:
            break
    ends: list[int] = [0]
    for here, after in pairwise([*starts[1:].tolist(), rows]):
        if after - ends[-1] > BLOCK and here > ends[-1]:
            ends.append(here)
    return level, [*ends[1:], rows]
