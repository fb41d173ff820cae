"""Run the service: one process, or several that share an address. A worker that dies is replaced."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import itertools
import logging
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from uvicorn.config import LOGGING_CONFIG
from uvicorn.supervisors import Multiprocess

from ilba.errors import Advice, InputError, WriteError, notice
from ilba.output.series import apart
from ilba.release.examining import differing
from ilba.secret.secret import ENVIRONMENT as SECRET
from ilba.service.answers import Settings, rehearse
from ilba.service.app import ENVIRONMENT, environment
from ilba.service.catalog import Catalog
from ilba.service.connection import Connection, Limits

_MOST_FILES = 65_536
_LOGGED = 500  # letters of an address in a line of the access log


def run(
    releases: Sequence[str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    settings: Settings | None = None,
    limits: Limits | None = None,
    access_log: bool = True,
    ready: Callable[[str, Catalog], object] | None = None,
) -> None:
    """Serve release folders until the process is stopped; `ready` gets the address and the releases."""
    paths = [str(Path(release).absolute()) for release in releases]
    forget_secret()
    # A release that cannot be served is refused here, before an address is taken.
    catalog = Catalog([Path(release) for release in releases], rehearse)
    _tell_of_differing(catalog)
    for text in apart(served.release for served in catalog.releases if not served.members):
        notice(text, Advice)
    listening = _listening(host, port)
    _allow_files()
    os.environ[ENVIRONMENT] = environment(paths, settings or Settings(), limits or Limits())
    config = uvicorn.Config(
        "ilba.service.app:from_environment",
        http=Connection,
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
        ready(f"http://{name}:{listening.getsockname()[1]}/", catalog)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the normal end
        if workers > 1:
            Multiprocess(config, sockets=[listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])


def _tell_of_differing(catalog: Catalog) -> None:
    """Warn if two releases of one population and wave show different counts, because readers would compare them."""
    for one, other in itertools.combinations(catalog.releases, 2):
        text = differing(one.release, other.release)
        if text:
            notice(text)


def forget_secret() -> None:
    """Remove the secret from the environment of this process and of all that it starts. The service needs none.

    The system shows the initial text of the environment, so that text is overwritten as well.
    """
    value = os.environ.get(SECRET)
    if value is None:
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not every system has this library
        getenv = ctypes.CDLL(None).getenv
        getenv.restype, getenv.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        place = getenv(os.fsencode(SECRET))
        if place:
            ctypes.memset(place, 0, len(os.fsencode(value)))
    del os.environ[SECRET]


def _allow_files() -> None:
    """Raise the limit of open connections and files of this process and its workers to the system's maximum."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # not every system has this limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _MOST_FILES)), hard))


def _logging() -> dict[str, object]:
    """Uvicorn's logging, with our own lines and shortened addresses."""
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
        listening.listen(2048)  # from here on requests queue up, even while a worker is replaced
        listening.set_inheritable(True)
    except socket.gaierror:
        raise InputError(f"host={host!r} is not an address of this machine.") from None
    except OSError as problem:
        raise WriteError(f"cannot listen at {host}:{port}: {problem.strerror}. Choose another --port.") from None
    return listening
