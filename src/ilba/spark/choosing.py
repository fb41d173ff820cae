"""Choose masks jointly on Spark: one block is one task, and the driver carries the errors from block to block.

The blocks and rounds are those of the embedded engine, so the masks are too. Nothing of the size of the cells comes to
the driver. It sees the number of small cells of each area, and after each round the errors of the areas around its
blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CodeLists
from ilba.design.design import COUNT, MASKED, Selection
from ilba.design.recordkeys import RECORD_KEY
from ilba.methods.controlled.search import Control, How, rules_of
from ilba.progress import Progress
from ilba.spark.frames import Frame, as_polars, mapped, whole_numbers
from ilba.spark.sessions import pyspark, quiet, watched
from ilba.spark.tasks import SecretSource, Shipped, word_names

if TYPE_CHECKING:
    from ilba.methods.controlled.block import Done
    from ilba.methods.controlled.plan import Layout, MaskBlock

IntArray: TypeAlias = npt.NDArray[np.int64]


def choose_on_spark(
    cells: Frame,
    codes: CodeLists,
    source: SecretSource,
    wanted: Sequence[Selection],
    bound: int | None,
    progress: Progress | None,
    more: tuple[int, How],
) -> tuple[Frame, Control]:
    """The cells with jointly chosen masks, and what was reached. `cells` may have a column `previous`.

    `more` holds what the secret adds to the usual bound, and the options of the choice.
    """
    from ilba.methods.controlled.carry import TINY, Carry
    from ilba.methods.controlled.plan import Layout, rounds

    F = pyspark("sql.functions")
    shipped, layout = Shipped.of(codes), Layout(codes, wanted)
    K = codes.design.threshold
    cells = cells.drop(RECORD_KEY)
    with watched(cells.sparkSession, "choosing masks", progress):
        counted = mapped(cells, whole_numbers(["part", "which", "size"]), "count_small", shipped, layout.along)
        sizes = as_polars(counted.groupBy("part", "which").agg(F.sum("size").alias("size")))
        by_count = _dense(sizes, 1, K)
        classes = by_count[1:]
        small = int(classes.sum())
        rules = rules_of(K, bound, small * len(wanted), *more)
        # A table without small cells is returned unchanged. The proof of safety rests on this line.
        by_area = _dense(sizes, 2 if rules.free and small else 0, len(layout.areas))
        in_order = np.empty_like(by_area)
        in_order[layout.ranks[layout.along]] = by_area
        blocks = layout.blocks(in_order)
        tiny = [int(x) for x in 1 + np.flatnonzero((classes > 0) & (classes <= TINY * K))]
        of_tiny = cells.where(F.col(COUNT).isin(tiny)).select(*word_names(codes.finest), COUNT)
        numbers = mapped(of_tiny, whole_numbers([COUNT, "number"]), "keyed_numbers", shipped, source)
        keyed = as_polars(numbers) if tiny else pl.DataFrame(schema={COUNT: pl.Int64, "number": pl.Int64})
        carry = Carry(blocks, rules, classes, keyed[COUNT].to_numpy(), keyed["number"].to_numpy())
        done = []
        for turn in rounds(blocks):
            befores = dict(zip([one.number for one in turn], zip(turn, carry.before(turn), strict=True), strict=True))
            here = _cells_of(cells, layout, shipped, blocks, turn)

            choose = _task(shipped, source, wanted, befores, rules)
            names = [*word_names(codes.finest), COUNT, MASKED]
            with quiet():
                chosen = here.groupBy("block").applyInArrow(choose, whole_numbers([*names, "part", "block"])).persist()
            left = as_polars(chosen.where("part != 0").drop(*names[1:-2]))
            for block in turn:
                carry.take(block, _done(left.filter(pl.col("block") == block.number), names[0], len(block.carried), K))
            done.append(chosen.where("part = 0").select(*names))
    if not done:
        if rules.move and "previous" in cells.columns:
            kept = F.when(F.col("previous") >= 0, F.col("previous")).otherwise(F.col(MASKED))
            cells = cells.withColumn(MASKED, kept)
        return cells.select(*word_names(codes.finest), COUNT, MASKED), carry.control(len(wanted), small)
    frame = done[0]
    for more in done[1:]:
        frame = frame.unionByName(more)
    return frame, carry.control(len(wanted), small)


def _task(*known: Any) -> Any:
    """The function that a worker runs on the cells of a block."""

    def choose(cells: Any) -> Any:
        from ilba.spark import tasks  # the worker's own module: its caches last from task to task

        shipped, source, wanted, befores, rules = known
        tasks.spare_modules()
        return tasks.choose_block(cells, shipped, source, wanted, befores, rules)

    return choose


def _dense(sizes: pl.DataFrame, part: int, size: int) -> IntArray:
    found = np.zeros(size, dtype=np.int64)
    of = sizes.filter(pl.col("part") == part)
    found[of["which"].to_numpy()] = of["size"].to_numpy()
    return found


def _cells_of(
    cells: Frame, layout: Layout, shipped: Shipped, blocks: Sequence[MaskBlock], turn: Sequence[MaskBlock]
) -> Frame:
    """All cells of the areas of some blocks. An area without small cells belongs to the block before it."""
    F = pyspark("sql.functions")
    begins = np.array([0, *(block.first for block in blocks[1:])])
    number = np.searchsorted(begins, layout.ranks[layout.along], side="right") - 1
    block_of = np.where(np.isin(number, [block.number for block in turn]), number, -1)
    if layout.along == 0:
        # Cells are sorted by the areas of the first hierarchy, so other areas are not read.
        stride, near = layout.codes.finest.stride(0), None
        for block in turn:
            areas = np.flatnonzero(block_of == block.number)
            one = F.col("cell0").between(int(areas[0]) * stride, (int(areas[-1]) + 1) * stride - 1)
            near = one if near is None else near | one
        cells = cells.where(near)
    return mapped(cells, whole_numbers([*cells.columns, "block"]), "with_block", shipped, layout.along, block_of)


def _done(left: pl.DataFrame, name: str, carried: int, K: int) -> Done:
    """What a block leaves, as its task reported it."""
    from ilba.methods.controlled.block import Done

    told = left.filter(pl.col("part") == -1).sort(name)[COUNT].to_numpy()
    errors = []
    for place in range(1, carried + 1):
        part = left.filter(pl.col("part") == place)
        times = part[MASKED].to_numpy().astype(np.int32)
        errors.append((part[name].to_numpy().view(np.uint64), part[COUNT].to_numpy(), times))
    over, reached, kept = (int(number) for number in told[:3])
    none = np.zeros(0, dtype=np.int8)
    return Done(none, tuple(errors), told[3:], over, reached, kept, interrupted=False)
