"""Releases that the page shows, a server for them, and somebody with a browser."""

from __future__ import annotations

import polars as pl
import pytest

import ilba
from ilba import Secret
from support.browsing import AREAS, MARKUP, Visitor
from support.people import HKEY, ILBA, KEY, population
from support.serving import serving


@pytest.fixture(scope="session")
def census(tmp_path_factory):
    codes = ilba.datasets.census_codes().with_columns(
        pl.when((pl.col("variable") == "mar") & (pl.col("code") == "2"))
        .then(pl.lit(MARKUP))
        .otherwise(pl.col("label_en"))
        .alias("label_en")
    )
    finest = ilba.build(ilba.datasets.census(20_000), AREAS, ["gender", "age", "mar"], secret=Secret(bytes(range(32))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ilba.attack.audit.BUDGET", 0)  # the page shows nothing of the audit, which takes 20 s
        return finest.release(
            tmp_path_factory.mktemp("page") / "census",
            max_keys=2,
            title="Census of Hanul City",
            source="Synthetic census",
            labels=codes,
            geometry={column: ilba.datasets.census_geometry(column) for column in AREAS},
            ledger=False,
            **ILBA,
        )


@pytest.fixture(scope="session")
def others(tmp_path_factory):
    """A release whose tables add up, with no map and codes that hold commas; and one on a grid."""
    home, secret = tmp_path_factory.mktemp("others"), Secret(bytes(range(32)))
    finest = ilba.build(population(), HKEY, KEY, secret=secret)
    towns = finest.release(home / "towns", method="controlled", title="Towns", max_keys=2, ledger=False)
    rows = [(f"1kmN{n // 10}E{e // 10}", f"100mN{n}E{e}") for n in range(4700, 4720) for e in range(1490, 1505)]
    cells = pl.DataFrame(rows * 8, schema=["g1km", "g100m"], orient="row").with_columns(kind=pl.lit("home"))
    grid = ilba.build(cells, ["g1km", "g100m"], ["kind"], secret=secret).release(
        home / "grid", title="Grid", ledger=False, **ILBA
    )
    return towns, grid


@pytest.fixture(scope="session")
def waves(tmp_path_factory):
    """Three waves of one population, with a unit, a licence and French texts."""
    home, found = tmp_path_factory.mktemp("waves"), []
    for seed, wave in enumerate(("2016", "2021", "2026")):
        told = {"population": "hanul", "wave": wave, "unit": "persons"}
        people = ilba.datasets.census(6000, seed=seed)
        finest = ilba.build(people, AREAS[1:3], ["gender", "age"], secret=Secret(bytes(range(32))), **told)
        found.append(
            finest.release(
                home / f"w{wave}",
                title=f"People of Hanul {wave}",
                source="Synthetic census",
                licence="CC BY 4.0",
                labels=ilba.datasets.census_codes(),
                geometry={column: ilba.datasets.census_geometry(column) for column in AREAS[1:3]},
                texts={"fr": {"title": f"Habitants de Hanul {wave}", "unit": "personnes"}},
                ledger=False,
            )
        )
    return found


@pytest.fixture(scope="session")
def over_time(waves):
    with serving(*(release.path for release in waves), options=("--no-access-log",)) as running:
        yield running.address.rstrip("/")


COMMUNES = {
    "Cœur-de-Brume-sur-Vallon": 2900,
    "Crécy": 3000,
    "L'Hôpital-Saint-Éloi-le-Vieux": 2880,
    "Mont-Âpre": 2980,
    "Saint-Jean-de-la-Montagne": 1990,
    "Val-d'Argent": 2400,
    "Www-Wwwwwwwwwwwwwwwwww": 2000,
    "서울특별시강남구역삼동이라는긴이름": 2770,
}


@pytest.fixture(scope="session")
def brume(tmp_path_factory):
    """Two waves of eight areas, most with long names. Two have the same ages, but for 20 people of the youngest."""
    home, found = tmp_path_factory.mktemp("brume"), []
    codes = pl.DataFrame({"variable": "commune", "code": list(map(str, range(8))), "label_en": list(COMMUNES)})
    for wave in ("2021", "2026"):
        ages = [(str(i), n) for i, size in enumerate(COMMUNES.values()) for n in range(3000 - size, 3000)]
        rows = [(commune, "fm"[n % 2], str(n // 300)) for commune, n in ages]
        people = pl.DataFrame(rows, schema=["commune", "sex", "age"], orient="row")
        told = {"population": "brume", "wave": wave, "unit": "persons"}
        finest = ilba.build(people, ["commune"], ["sex", "age"], secret=Secret(bytes(range(32))), **told)
        found.append(finest.release(home / f"w{wave}", title="Brume", labels=codes, method="controlled", ledger=False))
    return found


@pytest.fixture
def communes(browser, brume):
    with serving(*(release.path for release in brume), options=("--no-access-log",)) as running:
        visitor = Visitor(browser, running.address.rstrip("/"))
        yield visitor
        visitor.close()


@pytest.fixture
def reader(browser, over_time):
    visitor = Visitor(browser, over_time)
    yield visitor
    visitor.close()


@pytest.fixture(scope="session")
def hebrew(tmp_path_factory):
    """A release with labels in a language that is written from right to left."""
    codes = pl.DataFrame(
        {
            "variable": ["region", "sex", "sex", "sex"],
            "code": [None, None, "f", "m"],
            "label_en": ["Region", "Sex", "Women", "Men"],
            "label_he": ["אזור", "מין", "נשים", "גברים"],
        }
    )
    finest = ilba.build(population(), HKEY[:2], ["sex"], secret=Secret(bytes(range(32))))
    folder = tmp_path_factory.mktemp("hebrew") / "people"
    return finest.release(folder, title="People", labels=codes, texts={"he": {"title": "תושבים"}}, ledger=False, **ILBA)


@pytest.fixture(scope="session")
def server(census, others):
    with serving(*(release.path for release in (census, *others)), options=("--no-access-log",)) as running:
        yield running.address.rstrip("/")


@pytest.fixture
def visitor(browser, server):
    visitor = Visitor(browser, server)
    yield visitor
    visitor.close()
