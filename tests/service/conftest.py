"""Releases and a server that answers from them."""

from __future__ import annotations

import pytest

from support.people import ILBA, LABELS, MAP
from support.serving import serving


@pytest.fixture(scope="session")
def releases(tmp_path_factory, finest):
    """All tables, and two tables only."""
    home = tmp_path_factory.mktemp("releases")
    options = {"labels": LABELS, "ledger": False, **ILBA}
    finest.release(home / "people", title="People", geometry={"region": MAP}, **options)
    finest.release(home / "few", tables=["town.sex.age", "town"], **options)
    return home


@pytest.fixture(scope="session")
def server(releases):
    with serving(
        releases / "people", options=("--max-cells", "400", "--license", "https://example.org/licence")
    ) as one:
        yield one


@pytest.fixture(scope="session")
def client(server):
    with server.client() as one:
        yield one
