"""Choose the masks of all cells: block by block, round by round, on all cores.

Import it only when masks are chosen: the loops are compiled, and loading them takes a moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from queue import SimpleQueue
from threading import Event
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CodeLists
from ilba.design.design import Selection
from ilba.errors import notice
from ilba.methods.controlled.block import Before, Cells, Done, Ready, Told, choose_masks
from ilba.methods.controlled.carry import TINY, Carry
from ilba.methods.controlled.free import choose_values
from ilba.methods.controlled.plan import Layout, MaskBlock, rounds
from ilba.methods.controlled.search import Control, How, rules_of
from ilba.progress import Progress, ProgressStep, silent

IntArray: TypeAlias = npt.NDArray[np.int64]


class CellNumbers(Protocol):
    """Gives each cell a keyed number, as `CellDraws` does."""

    def __call__(self, packed: Sequence[IntArray], count: IntArray) -> IntArray:
        """The numbers of cells with counts below K."""

    def any_count(self, packed: Sequence[IntArray], count: IntArray) -> IntArray:
        """The numbers of cells with counts of any size."""


def choose(
    codes: CodeLists,
    words: Sequence[IntArray],
    count: IntArray,
    masked: IntArray,
    numbers: CellNumbers,
    wanted: Sequence[Selection],
    bound: int | None,
    previous: IntArray | None,
    progress: Progress | None,
    extra: int,
    how: How,
) -> tuple[IntArray, Control]:
    """The masked counts of all cells; the masks of the counts 1..K-1 are chosen jointly.

    `masked` holds the keyed SCA draws, `numbers` gives each cell its keyed number, and `previous` holds its masked
    count in the previous wave, or -1. If no bound is given, the secret adds `extra` to the usual bound.
    """
    K = codes.design.threshold
    is_small = (count > 0) & (count < K)
    n_small = int(is_small.sum())
    rules = rules_of(K, bound, n_small * len(wanted), extra, how)
    # A table without small cells is returned unchanged. The proof of safety rests on this line.
    small = np.flatnonzero(is_small) if not rules.free or not n_small else np.flatnonzero(count > 0)
    layout = Layout(codes, wanted)
    area = layout.ranks[layout.along][codes.finest.block(words, layout.along, layout.along)[small]]
    blocks = layout.blocks(np.bincount(area, minlength=len(layout.areas)))
    ends = np.array([block.last for block in blocks])
    place = np.searchsorted(ends, area, side="right").astype(np.int32)
    small = small[np.argsort(place, kind="stable")]
    del area, place
    first = np.cumsum([0, *(block.size for block in blocks)])
    result = masked.copy()
    if rules.move and previous is not None:
        result = np.where(previous >= 0, previous, masked)

    def ready(block: MaskBlock) -> tuple[IntArray, Ready]:
        here = small[first[block.number] : first[block.number + 1]]
        packed = [word[here] for word in words]
        number = (numbers.any_count if rules.free else numbers)(packed, count[here]).astype(np.uint64)
        known = None if previous is None else previous[here]
        if known is not None and not rules.free:
            known = np.where(known < 0, -1, known > 0).astype(np.int8)
        cells = Cells(codes.finest.digits(packed), count[here], number, masked[here] == K, known)
        return here, Ready.of(layout, block, cells)

    def solved(made: tuple[IntArray, Ready], before: Before, told: Told) -> tuple[IntArray, Done]:
        here, block = made
        solve = choose_values if rules.free else choose_masks
        return here, solve(block, before, rules, told)

    sizes = np.bincount(count[is_small], minlength=K)[1:].astype(np.int64)
    tiny = small[np.isin(count[small], 1 + np.flatnonzero((sizes > 0) & (sizes <= TINY * K)))]
    ledger = Carry(blocks, rules, sizes, count[tiny], numbers([word[tiny] for word in words], count[tiny]))
    with _Crew(ready, solved, progress, len(blocks)) as crew:
        for turn, after in pairwise([*rounds(blocks), []]):
            for block, (here, done) in zip(turn, crew.work(turn, ledger.before(turn), after), strict=True):
                result[here] = K * done.up.astype(np.int64) if done.values is None else done.values
                ledger.take(block, done)
            if ledger.interrupted:
                break
    if ledger.interrupted:
        notice(
            "interrupted: these are the best masks so far. The full search would choose others, and publishing "
            "both discloses counts. Let it finish before you publish."
        )
    return result, ledger.control(len(wanted), n_small)


class _Crew:
    """Works on the blocks of a round in parallel, in threads; the loops release the GIL.

    An idle thread prepares the blocks of the next round. The calling thread reports progress and handles an
    interruption.
    """

    def __init__(
        self, ready: Callable[..., Any], solved: Callable[..., Any], progress: Progress | None, blocks: int
    ) -> None:
        self._ready, self._solved, self._tell, self._blocks = ready, solved, progress or silent, blocks
        self._done = 0
        self._pool = ThreadPoolExecutor(max(1, os.cpu_count() or 1))
        self._made: dict[int, Future[Any]] = {}

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def work(self, turn: Sequence[MaskBlock], befores: Sequence[Before], after: Sequence[MaskBlock]) -> list[Any]:
        """The result of each block of a round; `after` holds the blocks of the next round."""
        if len(turn) == 1:
            made = self._made.pop(turn[0].number, None)
            self._prepare(after)
            results = [self._solved(made.result() if made else self._ready(turn[0]), befores[0], self._told)]
        else:
            results = self._together(turn, befores, after)
        self._done += len(turn)
        return results

    def _prepare(self, after: Sequence[MaskBlock]) -> None:
        for block in after:
            self._made[block.number] = self._pool.submit(self._ready, block)

    def _told(self, part: str, over: int, done: int, total: int | None) -> None:
        where = f"{part}: {over:,} over the bound"
        if self._blocks > 1:
            done, total = self._done, self._blocks
            where += f", block {self._done + 1:,} of {self._blocks:,}"
        self._tell(ProgressStep("choosing masks", done, total, where))

    def _together(self, turn: Sequence[MaskBlock], befores: Sequence[Before], after: Sequence[MaskBlock]) -> list[Any]:
        told: SimpleQueue[tuple[str, int, int, int | None] | None] = SimpleQueue()
        stopped = Event()

        def tell(*step: Any) -> None:
            if stopped.is_set():
                raise KeyboardInterrupt
            told.put(step)

        def solve(block: MaskBlock, before: Before, made: Future[Any] | None) -> Any:
            return self._solved(made.result() if made else self._ready(block), before, tell)

        made = [self._made.pop(block.number, None) for block in turn]
        futures = [self._pool.submit(solve, *one) for one in zip(turn, befores, made, strict=True)]
        for future in futures:
            future.add_done_callback(lambda _: told.put(None))
        self._prepare(after)  # they wait until a thread is idle
        del made
        left = len(futures)
        while left:
            try:
                while left:
                    step = told.get()
                    if step is None:
                        left -= 1
                    else:
                        self._told(*step)
            except KeyboardInterrupt:
                stopped.set()
        results = [future.result() for future in futures]
        if stopped.is_set():
            results = [(here, done._replace(interrupted=True)) for here, done in results]
        return results
