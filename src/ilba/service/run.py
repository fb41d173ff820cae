"""Running the service: one process, or several that share an address. A worker that dies is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from ilba.errors import InputError, WriteError
from ilba.service.answers import Settings
from ilba.service.app import ENVIRONMENT, MOST_QUERY, environment
from ilba.service.shelf import Shelf

_MOST_HEAD = 100_000  # bytes before the body: the address and the headers
_SLOWEST_HEAD = 20.0  # seconds that they may take to arrive
_PARSED = 65_535  # letters of an address that the parser takes
_LOGGED = 500  # letters of an address in a line of the access log


def run(
    releases: Sequence[str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    settings: Settings | None = None,
    access_log: bool = True,
    ready: Callable[[str, Shelf], object] | None = None,
) -> None:
    """Serve release folders until the process is told to stop; `ready` is called with the address and what is there."""
    paths = [str(Path(release).absolute()) for release in releases]
    shelf = Shelf(
        [Path(release) for release in releases]
    )  # a release that cannot be served is refused here, before an address is taken
    listening = _listening(host, port)
    os.environ[ENVIRONMENT] = environment(paths, settings or Settings())
    config = uvicorn.Config(
        "ilba.service.app:from_environment",
        http=_Bounded,
        ws="none",
        factory=True,
        workers=workers,
        log_config=_logging(),
        log_level="info" if access_log else "warning",
        access_log=access_log,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        backlog=2048,
    )
    if ready:
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listening.getsockname()[1]}/", shelf)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how it is meant to end
        if workers > 1:
            Multiprocess(config, sockets=[listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])


def _logging() -> dict[str, object]:
    """As uvicorn logs, with our own lines, and with addresses that fit on a screen."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"short": {"()": "ilba.service.run._Short"}}
    config["handlers"]["access"]["filters"] = ["short"]
    config["loggers"]["ilba"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return config


class _Short(logging.Filter):
    """Cuts the address in a line of the access log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every line stays."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                f"{one[:_LOGGED]}... ({len(one):,} letters)" if isinstance(one, str) and len(one) > _LOGGED else one
                for one in record.args
            )
        return True


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)  # from here on requests wait in line, also while a worker is replaced
        listening.set_inheritable(True)
    except socket.gaierror:
        raise InputError(f"host={host!r} is not an address of this machine.") from None
    except OSError as problem:
        raise WriteError(f"cannot listen at {host}:{port}: {problem.strerror}. Choose another --port.") from None
    return listening


class _Bounded(HttpToolsProtocol):
    """A connection that waits for a request neither for ever nor for ever more bytes."""

    _received = 0
    _complete = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        # What arrives with the last of the head may be body: it is measured when it is known that there is more of it.
        if not self._complete and self._received > _MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin()

    def on_headers_complete(self) -> None:
        self._complete = True
        self._end()
        if len(self.url) > _PARSED:  # the parser would end the connection; cut like this it is refused in words
            path, _, query = self.url.partition(b"?")
            self.url = path[:1000] + b"?" + query[: MOST_QUERY + 1].ljust(MOST_QUERY + 1, b"-")
        super().on_headers_complete()

    def _begin(self) -> None:
        self._end()
        self._received, self._complete = 0, False
        self._deadline = self.loop.call_later(_SLOWEST_HEAD, self.transport.close)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
