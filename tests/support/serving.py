"""A real server in a process of its own, for tests that speak HTTP to it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

PLAIN = {"timeout": 60, "verify": False}
"""for a client that speaks plain HTTP alone: to load certificates takes longer than to ask"""


@dataclass
class Server:
    """A running service: its address, its process, and what it has written so far."""

    address: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def client(self, **given) -> httpx.Client:
        return httpx.Client(base_url=f"{self.address}api/v2", **PLAIN, **given)


@contextlib.contextmanager
def serving(
    *folders: Path,
    options: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[Server]:
    """Start `ilba serve` on a free port of the loopback and stop it afterwards."""
    command = [sys.executable, "-m", "ilba", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        [*command, *map(str, folders)],
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
    )
    lines: list[str] = []
    ready = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if " at http" in line:
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(60), "the server did not start"
        found = re.search(r"at (http://\S+/) ", "".join(lines))
        assert found, f"the server did not start: {''.join(lines)}"
        server = Server(found[1], process, lines)
        _wait(server)
        yield server
    finally:
        process.terminate()
        process.wait(30)
        reader.join(10)
        if process.stdout:
            process.stdout.close()


def _wait(server: Server) -> None:
    """Until it answers: the address is taken before the application is loaded, so requests wait in line."""
    with httpx.Client(**PLAIN) as client:
        assert client.get(f"{server.address}health").status_code == 200


def eventually(true: Callable[[], object], seconds: float = 20) -> bool:
    """Whether something comes true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def problem(answer: httpx.Response, status: int) -> str:
    """What an answer says went wrong, in the form of all such answers."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert set(told) == {"type", "title", "status", "detail", "instance"}
    assert told["status"] == status
    return told["detail"]
