"""What the tests of releases share."""

from __future__ import annotations

import pytest

from ilba import Secret


@pytest.fixture
def agency(tmp_path, monkeypatch):
    """A folder with a secret in a file, and so with a ledger beside it."""
    monkeypatch.delenv("ILBA_LEDGER")
    Secret(bytes(range(32))).to_file(tmp_path / "agency.secret")
    return tmp_path
