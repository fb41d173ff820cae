"""A small population, its variables, and the way in which tests publish it."""

from __future__ import annotations

import numpy as np
import polars as pl

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
