"""A small population, its variables, and the way in which tests publish it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import ilba

HKEY = ["region", "town", "block"]
KEY = ["sex", "age", "job"]

ILBA = {"method": "ilba", "accept_risk": True}
"""how tests publish iLBA tables that no audit finds safe"""

LABELS = pl.DataFrame(
    {
        "variable": ["town", "sex", "sex", "sex", "age", "region"],
        "code": [None, None, "f", "m", None, "01"],
        "label_en": ["Town", "Sex", "Women", "Men", "value", "North"],
        "label_ko": ["읍면동", "성별", "여자", "남자", "나이", "북부"],
    }
)
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
MAP = {"type": "FeatureCollection", "features": [{"type": "Feature", "id": "01", "properties": {}, "geometry": SQUARE}]}


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


def reformed(home: Path, declared: bool = True) -> list[ilba.Release]:
    """Two waves of towns; in between, "Old" was dissolved and "New" was made. Each wave has its own code list and map.

    A third town never has people. In the map of 2026 the towns are twice as high, and who has no town has no shape.
    """
    found, secret = [], ilba.Secret(bytes(range(32)))
    for wave, names in (
        ("2025", {"1": "East", "2": "Old", "4": "Empty"}),
        ("2026", {"1": "East", "3": "New", "4": "Empty"}),
    ):
        sizes = {("2025", "1"): 60, ("2025", "2"): 90, ("2026", "1"): 70, ("2026", "3"): 100}
        towns = [town for (of, town), n in sizes.items() if of == wave for _ in range(n)] + [None] * 20
        people = pl.DataFrame({"town": towns, "sex": ["f", "m"] * (len(towns) // 2)})
        codes = pl.DataFrame({"variable": "town", "code": list(names), "label_en": list(names.values())})
        labels = codes if declared else None
        high = int(wave) - 2024
        squares = {
            town: [[[int(town), 0], [int(town) + 1, 0], [int(town) + 1, high], [int(town), high], [int(town), 0]]]
            for town in names
        }
        shapes = [
            {"type": "Feature", "id": town, "properties": {}, "geometry": {"type": "Polygon", "coordinates": ring}}
            for town, ring in squares.items()
        ]
        about = {"secret": secret, "missing": "category", "labels": labels, "population": "reg", "wave": wave}
        finest = ilba.build(people, ["town"], ["sex"], **about)
        maps = {"geometry": {"town": {"type": "FeatureCollection", "features": shapes}}} if declared else {}
        found.append(finest.release(home / wave, "controlled", title="Towns", labels=labels, ledger=False, **maps))
    return found
