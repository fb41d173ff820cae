"""Running the service: one process, or several that share an address. A worker that dies is replaced."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from uvicorn.supervisors import Multiprocess

from ilba.errors import InputError, WriteError
from ilba.service.answers import Settings
from ilba.service.app import ENVIRONMENT, environment
from ilba.service.shelf import Shelf


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
    shelf = Shelf(paths)  # a release that cannot be served is refused here, before an address is taken
    listening = _listening(host, port)
    os.environ[ENVIRONMENT] = environment(paths, settings or Settings())
    config = uvicorn.Config(
        "ilba.service.app:from_environment",
        factory=True,
        workers=workers,
        log_level="info" if access_log else "warning",
        access_log=access_log,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=80_000,
    )
    if ready:
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listening.getsockname()[1]}/", shelf)
    if workers > 1:
        Multiprocess(config, sockets=[listening]).run()
    else:
        uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.set_inheritable(True)
    except socket.gaierror:
        raise InputError(f"host={host!r} is not an address of this machine.") from None
    except OSError as problem:
        raise WriteError(f"cannot listen at {host}:{port}: {problem.strerror}. Choose another --port.") from None
    return listening
