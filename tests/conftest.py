"""What many tests share: a fixed key, a small population, and the team's reference data where it is at hand."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ilba import Secret

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("ILBA_SHARED", ROOT.parent / "shared"))
GOLDEN = ROOT / "tests" / "data" / "golden"
"""outputs of the R package that are part of the repository"""


@pytest.fixture(autouse=True)
def _no_key_from_outside(monkeypatch):
    monkeypatch.delenv("ILBA_SECRET", raising=False)


@pytest.fixture(scope="session")
def shared() -> Path:
    if not (SHARED / "golden").is_dir():
        pytest.skip("the reference data is not here; set ILBA_SHARED to its folder")
    return SHARED


def golden_bytes(file: Path) -> bytes:
    """What R wrote to a file: in the repository it is compressed, in the shared folder it is not."""
    packed = file.with_name(f"{file.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else file.read_bytes()


@pytest.fixture(scope="session")
def secret() -> Secret:
    return Secret(bytes(range(32)))


def population(n: int = 3000, seed: int = 1) -> pl.DataFrame:
    """People in 2 regions, 6 towns and 18 blocks, with codes as text and one key as whole numbers."""
    rng = np.random.default_rng(seed)
    block = np.minimum(rng.geometric(0.15, n) - 1, 17)
    return pl.DataFrame(
        {
            "region": [f"{b // 9 + 1:02}" for b in block],
            "town": [f"{b // 9 + 1:02}{b // 3 % 3 + 1:02}" for b in block],
            "block": [f"{b // 9 + 1:02}{b // 3 % 3 + 1:02}{b % 3 + 1:02}" for b in block],
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(1, 13, n),
            "job": rng.choice(["none", "공무원", 'the "other", job'], n, p=[0.9, 0.08, 0.02]),
        }
    )


ILBA = {"method": "ilba", "accept_risk": True}
"""how tests publish iLBA tables that no audit finds safe"""

HKEY = ["region", "town", "block"]
KEY = ["sex", "age", "job"]


@pytest.fixture(scope="session")
def people() -> pl.DataFrame:
    return population()


@pytest.fixture(scope="session")
def finest(people, secret):
    import ilba

    return ilba.build(people, HKEY, KEY, secret=secret)


@pytest.fixture(autouse=True)
def _nothing_is_published_yet(request):
    """A finest table remembers what was published from it; tests that share one must not."""
    if "finest" in request.fixturenames:
        finest = request.getfixturevalue("finest")
        finest._memory = finest.place = None


@pytest.fixture(scope="session")
def audited(finest):
    """The audit of all tables of `finest`."""
    import ilba

    return ilba.audit(finest)


@pytest.fixture(scope="module")
def browser():
    """Chromium, as the distribution has it."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        say = "pages are tested in Chromium, which is not here: apt-get install chromium"
        pytest.fail(say) if os.environ.get("CI") else pytest.skip(say)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()
