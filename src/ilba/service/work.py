"""Work outside the event loop: in few threads, for a limited time, and only while somebody waits for it.

The threads are in lanes, so that answers that take seconds never delay answers that take milliseconds. A large
spreadsheet takes longest and has its own lane.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias, TypeVar

import anyio
from anyio import from_thread, to_thread
from starlette.types import Receive

Made = TypeVar("Made")
Lane: TypeAlias = Literal["quick", "long", "sheet"]
_THREADS: dict[Lane, int] = {"quick": 4, "long": 2, "sheet": 1}
_PATIENCE = 6  # answers of the other lanes may take this many times longer


class GoneError(Exception):
    """The client has left, so nobody waits for the answer."""


class BusyError(Exception):
    """The answer was not ready in time."""


def still_wanted() -> None:
    """Stop the work of this thread if its client has left or its time is over. Long loops call it regularly."""
    try:
        from_thread.check_cancelled()
    except RuntimeError:  # this thread has no client
        return


class Lanes:
    """Threads for the answers of one service."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lanes: dict[Lane, anyio.CapacityLimiter] = {}

    async def run(self, receive: Receive, work: Callable[[], Made], lane: Lane = "quick") -> Made:
        """The result of `work`. It does not start, or ends at its next `still_wanted`, once nobody waits for it."""
        if not self._lanes:  # lanes need the event loop, which does not exist when the service is made
            self._lanes = {name: anyio.CapacityLimiter(threads) for name, threads in _THREADS.items()}
        seconds = self._seconds * (1 if lane == "quick" else _PATIENCE)
        scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        watch = asyncio.create_task(_watch(receive, scope))
        try:
            with scope:
                return await to_thread.run_sync(work, limiter=self._lanes[lane])
        finally:
            watch.cancel()
        raise BusyError if anyio.current_time() >= scope.deadline else GoneError


class Room:
    """The memory for incoming bodies. If it is full, the slowest body is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[anyio.CancelScope, int] = {}  # oldest first

    @contextlib.contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Room for one body: the yielded function takes more of it. The block may be left early."""
        with anyio.CancelScope() as scope:
            self._held[scope] = 0

            def more(size: int) -> None:
                if scope in self._held:
                    self._held[scope] += size
                while sum(self._held.values()) > self._most:
                    oldest = next(one for one, held in self._held.items() if held)
                    del self._held[oldest]
                    oldest.cancel()

            try:
                yield more
            finally:
                self._held.pop(scope, None)


async def _watch(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
