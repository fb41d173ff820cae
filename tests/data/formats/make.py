"""Write one of everything that this version writes, with its numbers, into a folder of a format's name.

    .venv/bin/python tests/data/formats/make.py tests/data/formats/v2

Run it once for each version of the formats, and never again for that version: later versions have to open these files
as they are. The people are made up and the key is zeros, so nothing in here is a secret.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2]))

import ilba
from ilba import spark as engine
from support.numbers import numbers_of_cube, numbers_of_release, numbers_of_store

HKEY, KEY = ["region", "town"], ["sex", "age"]
LABELS = pl.DataFrame(
    {
        "variable": ["region", "region", "region", "sex", "sex", "sex"],
        "code": [None, "01", "02", None, "f", "m"],
        "label_en": ["Region", "North", "South", "Sex", "Women", "Men"],
        "label_ko": ["지역", "북부", "남부", "성별", "여자", "남자"],
    }
)


def square(code: str, left: int) -> dict[str, object]:
    corners = [[left, 0], [left + 1, 0], [left + 1, 1], [left, 1], [left, 0]]
    return {
        "type": "Feature",
        "id": code,
        "properties": {},
        "geometry": {"type": "Polygon", "coordinates": [corners]},
    }


def people() -> pl.DataFrame:
    rng = np.random.default_rng(7)
    town = rng.choice(6, 400, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05])
    return pl.DataFrame(
        {
            "region": [f"{t // 3 + 1:02}" for t in town],
            "town": [f"{t // 3 + 1:02}{t % 3 + 1:02}" for t in town],
            "sex": rng.choice(["f", "m"], 400),
            "age": rng.integers(1, 7, 400),
        }
    )


def make(home: Path) -> dict[str, object]:
    home.mkdir()
    secret = ilba.Secret.from_text("ilba-secret-1:" + "00" * 32)
    secret.to_file(home / "agency.key")
    stores = {}
    for cells in ("observed", "grid"):
        drawn = ilba.build(people(), HKEY, KEY, secret=secret, cells=cells, labels=LABELS)
        stores[f"ilba-{cells}.parquet"] = drawn
        stores[f"controlled-{cells}.parquet"] = drawn.controlled(secret=secret)
    drawn = stores["ilba-observed.parquet"]
    stores["masks.parquet"] = drawn.controlled(["town.sex.age", "town.sex"], 9, secret=secret)
    for name, finest in stores.items():
        finest.save(home / name)
    drawn.cube(max_keys=1).write(home / "cube")
    chart = {"type": "FeatureCollection", "features": [square("01", 0), square("02", 1)]}
    few = ["town.sex.age", "region.sex", "all"]
    risky = {"method": "ilba", "accept_risk": True}
    drawn.release(home / "release-ilba", title="People", max_keys=2, **risky)
    drawn.release(
        home / "release-labelled", title="Labelled", rows="grid", tables=few, geometry={"region": chart}, **risky
    )
    again = ilba.build(people(), HKEY, KEY, secret=secret, labels=LABELS)  # from this one nothing is published yet
    again.release(home / "release-controlled", stated_bound=20, title="Controlled")
    quiet = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",  # so little data would be one part
    }
    session = engine.session("local[2]", conf=quiet)
    frame = session.createDataFrame(people().rows(), people().columns)
    ilba.build(frame, HKEY, KEY, secret=secret, output_path=home / "spark")
    session.stop()
    return {
        "stores": {name: numbers_of_store(home / name) for name in [*stores, "spark"]},
        "cube": numbers_of_cube(home / "cube"),
        "releases": {path.name: numbers_of_release(path) for path in sorted(home.glob("release-*"))},
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    found = make(folder)
    (folder / "expected.json").write_text(json.dumps(found, ensure_ascii=False) + "\n", encoding="utf-8")
