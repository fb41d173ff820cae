"""Made-up records and maps with the columns and codes of the tutorials' data, which is not part of the package."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

Path_: TypeAlias = str | os.PathLike[str]
_PROVINCES = ["11", "21", "22", "23", "24", "25", "26", "31", "32", "33", "34", "35", "36", "37", "38", "39"]
_STATES = ["01", "06", "08", "13", "17", "19", "24", "26", "28", "29", "30", "32", "36", "38", "40", "51"]


def stand_ins(folder: Path_, seed: int = 2019) -> Path:
    """Write made-up stand-ins for the data of the tutorials: the same files, columns and codes, other counts.

    Parameters
    ----------
    folder : path
        Where to write: `data/us_acs.parquet`, `data/nl_grid.parquet`, `data/kr_estab.parquet` and three maps in `geo`.
    seed : int, default 2019
        The same seed gives the same records.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> ilba.datasets.stand_ins("stand-ins")  # doctest: +SKIP
    """
    place = Path(folder)
    for name, make in (("us_acs", _survey), ("nl_grid", _dwellings), ("kr_estab", _establishments)):
        (place / "data").mkdir(parents=True, exist_ok=True)
        make(np.random.default_rng(seed)).write_parquet(place / "data" / f"{name}.parquet")
    (place / "geo").mkdir(exist_ok=True)
    for level, codes in (("provinces", _PROVINCES), ("municipalities", _cities()), ("submunicipalities", _zones())):
        text = json.dumps(_topology(level, codes), ensure_ascii=False)
        (place / "geo" / f"kr2018_{level}.topo.json").write_text(text, encoding="utf-8")
    return place


def _picked(random: np.random.Generator, codes: list[str], number: int) -> npt.NDArray[Any]:
    """Codes: the first are common, the last are rare."""
    weights = 1 / np.arange(1, len(codes) + 1)
    return random.choice(np.array(codes), number, p=weights / weights.sum())


def _survey(random: np.random.Generator, number: int = 6_000) -> pl.DataFrame:
    """Respondents with their area and industry."""
    areas = [f"{state}-{100 * part + 8307:05d}" for state in _STATES for part in (1, 2)]
    trades = ["N", *(f"{section}:{100 * section + 10 * part + 7}" for section in range(1, 15) for part in range(6))]
    area, trade = _picked(random, areas, number), _picked(random, trades, number)
    frame = pl.DataFrame({"PUMA": area, "trade": trade, "SEX": _picked(random, ["2", "1"], number)})
    frame = frame.with_columns(
        STATE=pl.col("PUMA").str.head(2),
        INDP_CAT=pl.col("trade").str.split(":").list.first(),
        INDP=pl.col("trade").str.split(":").list.last(),
        MSP=pl.Series(_picked(random, ["1", "6", "4", "3", "5", "2", "N"], number)),
        PWGTP=pl.Series(random.integers(1, 200, number)).cast(pl.String),
    ).drop("trade")
    sure = {"STATE": "06", "PUMA": "06-08507", "INDP_CAT": "10", "INDP": "1017", "SEX": "2", "MSP": "1", "PWGTP": "80"}
    return pl.concat([frame.select(list(sure)), pl.DataFrame([sure] * 9)])


def _dwellings(random: np.random.Generator, number: int = 20_000) -> pl.DataFrame:
    """Dwellings in a few towns and scattered around them."""
    low, high = np.array([149_470, 457_820]), np.array([161_440, 470_110])
    towns = random.integers(low, high, (25, 2))
    spread = random.exponential(700, number)[:, None] * random.normal(size=(number, 2))
    place = np.clip(towns[random.integers(0, len(towns), number)] + spread, low, high).astype(np.int64)
    used = random.lognormal(7.5, 0.5, number)
    fifth = np.searchsorted(np.quantile(used, [0.2, 0.4, 0.6, 0.8]), used) + 1
    return pl.DataFrame(
        {
            "cons_q": fifth.astype(str),
            "unemployed": np.where(random.random(number) < 0.06, "true", "false"),
            "x": place[:, 0],
            "y": place[:, 1],
            "consumption": used,
        }
    )


def _cities() -> list[str]:
    return [f"{province}{number:02d}0" for province in _PROVINCES for number in range(1, 6)]


def _zones() -> list[str]:
    return [f"{city}{number:02d}" for city in _cities() for number in (51, 53)]


def _establishments(random: np.random.Generator, number: int = 30_000) -> pl.DataFrame:
    """Establishments by area and five attributes."""
    zone = _picked(random, _zones(), number)
    ages = ["[40,50)", "[50,60)", "[30,40)", "[60,83]", "[0,30)"]
    frame = pl.DataFrame({"ZONE_CD": zone})
    return frame.select(
        CP_CD=pl.col("ZONE_CD").str.head(2),
        CDW_CD=pl.col("ZONE_CD").str.head(5),
        ZONE_CD=pl.col("ZONE_CD"),
        RPRSNTV_SEXDSTN=pl.Series(_picked(random, ["1", "2"], number)),
        AGE_FACTOR=pl.Series(_picked(random, ages, number)),
        BR_ACT=pl.Series(_picked(random, ["1", "2", "3"], number)),
        BR_JOJIK=pl.Series(_picked(random, ["1", "2", "3"], number)),
        ORG_FORM_CD=pl.Series(_picked(random, ["1", "2", "3", "4"], number)),
    )


def _topology(level: str, codes: list[str]) -> dict[str, Any]:
    """Squares in rows, as TopoJSON: each outline is an arc of steps on a grid of thousandths of a degree."""
    wide = int(np.ceil(np.sqrt(len(codes))))
    side = 3000 // wide
    arcs, areas = [], []
    for number, code in enumerate(codes):
        corner = [side * (number % wide), side * (number // wide)]
        arcs.append([corner, [side, 0], [0, side], [-side, 0], [0, -side]])
        about = {"code": code, "name": f"지역 {code}", "name_eng": f"Area {code}"}
        areas.append({"type": "Polygon", "arcs": [[number]], "properties": about})
    objects = {level: {"type": "GeometryCollection", "geometries": areas}}
    grid = {"scale": [0.001, 0.001], "translate": [126.0, 34.0]}
    return {"type": "Topology", "arcs": arcs, "objects": objects, "transform": grid}
