"""The fixtures of many tests: a fixed secret, a small population, and the reference data where it is at hand."""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
from pathlib import Path

import hypothesis
import polars as pl
import pytest

from ilba import Secret
from support.missing import missing
from support.people import HKEY, KEY, population
from support.places import SHARED
from support.size import tries

# No test depends on how fast the machine is.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=tries(100))
hypothesis.settings.load_profile("untimed")


def pytest_collection_finish(session):
    """What is loaded by now stays: the collector need not look at it again after every few objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Where several processes run tests: those that share something costly in one of them, the longest first."""
    from support.lanes import Lanes

    return Lanes(config, log)


def pytest_ignore_collect(collection_path, config):
    """Where only the fast tests run, a file of slow ones is not even loaded."""
    if config.option.markexpr.startswith("not slow") and collection_path.suffix == ".py":
        return True if "\npytestmark = pytest.mark.slow" in collection_path.read_text("utf-8") else None
    return None


@pytest.fixture(autouse=True)
def _no_loop_of_a_browser(request):
    """The browser's event loop counts as running for as long as the browser lives; other tests start their own."""
    running = asyncio._get_running_loop()
    if running is not None and "browser" not in request.fixturenames:
        asyncio._set_running_loop(None)
        yield
        asyncio._set_running_loop(running)
    else:
        yield


@pytest.fixture(autouse=True)
def _no_secret_from_outside(monkeypatch):
    monkeypatch.delenv("ILBA_SECRET", raising=False)


def _with_a_new_ledger(tmp_path_factory):
    folder = tempfile.mkdtemp(
        prefix="ledger", dir=tmp_path_factory.getbasetemp()
    )  # `mktemp` reads all names to number it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ILBA_LEDGER", str(Path(folder) / "agency.ledger"))
        yield


# What one test publishes is nothing to the next one, nor what a module shares to another module.
_a_ledger_for_all = pytest.fixture(_with_a_new_ledger, autouse=True, scope="session")
_a_ledger_for_a_module = pytest.fixture(_with_a_new_ledger, autouse=True, scope="module")
_a_ledger_for_a_test = pytest.fixture(_with_a_new_ledger, autouse=True)


@pytest.fixture(scope="session")
def shared() -> Path:
    if not (SHARED / "golden").is_dir():
        pytest.skip("the reference data is not here; set ILBA_SHARED to its folder")
    return SHARED


@pytest.fixture(scope="session")
def secret() -> Secret:
    return Secret(bytes(range(32)))


@pytest.fixture(scope="session")
def people() -> pl.DataFrame:
    return population()


@pytest.fixture(scope="session")
def finest(people, secret):
    import ilba

    return ilba.build(people, HKEY, KEY, secret=secret)


@pytest.fixture(autouse=True)
def _nothing_is_saved_yet(request):
    """A finest table knows where it was saved; tests that share one must not."""
    yield
    if "finest" in request.fixturenames:
        request.getfixturevalue("finest").place = None


@pytest.fixture(scope="session")
def audited(finest):
    """The audit of all tables of `finest`."""
    import ilba

    return ilba.audit(finest)


@pytest.fixture(scope="session")
def browser():
    """Chromium, as the distribution has it: without its windows, if it has that, for it is quicker."""
    from playwright.sync_api import sync_playwright

    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        missing("pages are tested in Chromium, which is not here: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()
