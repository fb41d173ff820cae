"""Damaged files, small: `python bench/damage.py` does the same at large and prints the table."""

from __future__ import annotations

import sys

import pytest

from support.places import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import damage

pytestmark = pytest.mark.slow


def test_no_damaged_file_gives_another_number_or_a_traceback():
    found, failures = damage.trial(flips=72, cuts=24, structures=60, seed=11)
    assert failures == []
    assert sum(found.values()) == 72 + 24 + 60
    assert {key[:3] for key in found if key[3] == "refused"} >= {
        ("store", "bit", "open"),
        ("masks", "cut", "open"),
        ("manifest", "structure", "serve"),
    }
    assert "wrong" in damage.table(found)
