"""One connection: how long a client may take, how much it may send, and how many connections are allowed.

No server that we checked has all of these limits. Granian has a deadline for heads, but none for bodies or for answers
that nobody reads. Hypercorn has one between two reads, which a byte now and then satisfies. Uvicorn has none. At their
caps on connections they let everybody wait, or refuse existing clients.

So this module extends uvicorn's protocol; no other module knows uvicorn's internals. asyncio or the parser calls the
overridden functions; pyproject.toml names the tested versions of uvicorn.

Everything here runs on the event loop and takes almost no time.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_QUERY = 60_000  # letters of an address
MOST_BODY = 2_000_000  # bytes
_MOST_HEAD = 100_000  # bytes before the body: the address and the headers
_MOST_SENT = 2 * MOST_BODY + _MOST_HEAD  # bytes of one request, even after a refusal
_MOST_WAITING = 20  # requests of one connection that wait for an earlier answer
_PARSED = 65_535  # letters of an address that the parser accepts
_SPARE = 100  # connections above the cap that get an answer; any more are closed
_UNHURRIED = 2.0  # at the cap, a connection without a whole request for this many seconds gives way


@dataclass(frozen=True)
class Limits:
    """The operator's limits for connections."""

    timeout: float = (
        20.0  # seconds for the head of a request, for its body, for the work, and for taking 64 KB of an answer
    )
    max_connections: int = 1000  # per worker


class Connection(HttpToolsProtocol):
    """A connection with a deadline for every wait: for a head, a body, and a client that reads its answer."""

    _limits: Limits
    _is_over = False  # above the cap
    _since = 0.0  # start of the wait for a request
    _received = 0  # bytes of the request
    _in_head = True  # waiting for a head, perhaps before its first byte
    _is_begun = False
    _in_body = False
    _answers = 0
    _deadline: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or mark it as one too many."""
        self._limits = self.app_state.get("limits", Limits())
        there = len(self.connections)
        super().connection_made(transport)
        if there >= self._limits.max_connections and not self._made_room():
            self._is_over = True
            if there >= self._limits.max_connections + _SPARE:
                transport.abort()
                return
        self._await_head()

    def _made_room(self) -> bool:
        """Close the connection that has waited longest for a request, if it waited long enough."""
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        waiting = [one for one in others if one._is_waiting]
        oldest = min(waiting, key=lambda one: one._since, default=None)
        if oldest is None or time.monotonic() - oldest._since < _UNHURRIED:
            return False
        oldest.transport.abort()
        return True

    @property
    def _is_waiting(self) -> bool:
        """Whether there is nothing to answer: the connection is idle, or the head of its request is incomplete."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return self._in_head and is_answered and not self.transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all deadlines."""
        self._end(self._deadline)
        self._end(self._taking)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, up to the limit of a request."""
        self._received += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Bytes that arrive with the end of the head may be body, so the size is only checked when more head follows.
        if self._in_head and self._received > _MOST_HEAD:
            self._refuse(400, "The head of the request is too large.")
        elif self._received > _MOST_SENT:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= _MOST_WAITING:
            self.transport.abort()
            raise ValueError("too many requests without waiting for an answer")  # stops the parser
        super().on_message_begin()
        self._await_head()
        self._is_begun = True

    def on_headers_complete(self) -> None:
        """The head is complete; the body has its own deadline."""
        self._in_head, self._in_body = False, True
        self._await(self._late_body)
        if len(self.url) > _PARSED:  # the parser would drop the connection; a cut address gets a proper refusal
            path, _, query = self.url.partition(b"?")
            self.url = path[:1000] + b"?" + query[: MOST_QUERY + 1].ljust(MOST_QUERY + 1, b"-")
        if self._is_over:
            self.app = _unavailable
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_body = False
        self._end(self._deadline)
        super().on_message_complete()
        if self.cycle.response_complete:
            self._await_head()

    def on_response_complete(self) -> None:
        """The answer was sent; now the client has to read it."""
        super().on_response_complete()
        self._answers += 1
        if self.transport.get_write_buffer_size():
            self._await_taking()
        if not self._in_body and self.cycle.response_complete and not self.transport.is_closing():
            self._await_head()

    def pause_writing(self) -> None:
        """The client reads its answer more slowly than it is sent."""
        super().pause_writing()
        self._await_taking()

    def resume_writing(self) -> None:
        """The client has read the waiting bytes."""
        self._end(self._taking)
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an unused connection, even if its client reads nothing any more."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def _end(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()

    def _await(self, late: Callable[[], None]) -> None:
        self._end(self._deadline)
        self._deadline = self.loop.call_later(self._limits.timeout, late)

    def _await_head(self) -> None:
        self._in_head, self._in_body, self._is_begun = True, False, False
        self._received, self._since = 0, time.monotonic()
        self._await(self._late_head)

    def _late_head(self) -> None:
        if self._is_begun and (self.cycle is None or self.cycle.response_complete):
            self._refuse(408, f"The head of the request took longer than {self._limits.timeout:g} seconds.")
        else:
            self.transport.abort()

    def _late_body(self) -> None:
        if self.cycle.response_started:
            self.transport.abort()
        else:
            self._refuse(408, f"The body of the request took longer than {self._limits.timeout:g} seconds.")

    def _refuse(self, status: int, said: str) -> None:
        """Send a last answer, for a client that reads it at once."""
        body = _problem(status, said)
        if self.cycle is not None:
            self.cycle.disconnected = True  # the application sends nothing else
        self.transport.write(_head(status, body) + body)
        self.transport.close() if not self.transport.get_write_buffer_size() else self.transport.abort()

    def _await_taking(self) -> None:
        self._end(self._taking)
        self._taking = self.loop.call_later(self._limits.timeout, self._late_taking, self._answers)

    def _late_taking(self, answers: int) -> None:
        if self.transport.get_write_buffer_size() and answers == self._answers:
            self.transport.abort()


_TITLES = {400: "Bad request", 408: "Too slow", 503: "Too busy"}


def _problem(status: int, said: str) -> bytes:
    told = {"type": "about:blank", "title": _TITLES[status], "status": status, "detail": said, "instance": ""}
    return json.dumps(told).encode()


def _head(status: int, body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} {_TITLES[status]}", *(f"{name}: {value}" for name, value in _said(body).items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _said(body: bytes) -> dict[str, str]:
    return {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "retry-after": "1",
        "access-control-allow-origin": "*",
        "x-content-type-options": "nosniff",
        "connection": "close",
    }


async def _unavailable(scope: Any, receive: Any, send: Any) -> None:
    """The answer to connections above the cap."""
    body = _problem(503, "There are too many connections to this service. Try again in a moment.")
    headers = [(name.encode(), value.encode()) for name, value in _said(body).items()]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
