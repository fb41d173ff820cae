"""Compiled loops: what is known about their cache before they run."""

from __future__ import annotations

import importlib.util
import os

from ilba.methods.controlled.kernels import compiling, is_compiled

LOOP = """
from ilba.methods.controlled.kernels import compiled


@compiled
def doubled(number):
    return 2 * number
"""


def loaded(file):
    """The loop of a file, as a new process has it."""
    found = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.doubled


def test_a_loop_is_compiled_once_for_its_source_and_the_time_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", "")  # beside the source
    file = tmp_path / "loops.py"
    file.write_text(LOOP)
    os.utime(file, (1e9, 1e9))
    loop = loaded(file)
    assert not is_compiled(loop)
    with compiling() as seconds:
        assert loop(4) == 8
    assert len(seconds) == 1
    assert is_compiled(loop)
    again = loaded(file)
    assert is_compiled(again)
    with compiling() as seconds:
        assert again(4) == 8
    assert seconds == []
    os.utime(file, (4e9, 4e9))  # an edited or newly installed source
    assert not is_compiled(loaded(file))
