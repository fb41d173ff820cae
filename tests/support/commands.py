"""The command line, called as a shell calls it: in this process, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

from ilba.cli import main


def run(*words: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, from its words to its exit code; whatever is no exit of its own is raised."""
    return _checked(called(*words, cwd=cwd), code)


def called(*words: str, cwd: Path, mixed: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, whatever its exit code; with `mixed`, errors are among its output."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    if mixed:
        streams[1] = streams[0]
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        warnings.catch_warnings(),
        mock.patch.object(sys, "argv", ["ilba", *words]),
    ):
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return subprocess.CompletedProcess(words, int(status), out, err)


def run_alone(
    *words: str, cwd: Path, code: int = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, where that is what is tested."""
    command = [sys.executable, "-m", "ilba", *words]
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)
    assert "Traceback" not in done.stderr
    return _checked(done, code)


def _checked(done: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert done.returncode == code, done.stdout + done.stderr
    return done
