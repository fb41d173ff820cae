"""What to do where something is missing that a test needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(say: str) -> NoReturn:
    """Skip the test and say what is missing and how to get it; in continuous integration, fail."""
    if os.environ.get("CI"):
        pytest.fail(say)
    pytest.skip(say)
