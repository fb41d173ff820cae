"""The synthetic census of the paper (section 3.1): a city of a million, its code list and its map.

numpy and polars are imported when a function needs them: importing this package stays light.
"""

from __future__ import annotations

import csv
import operator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from ilba.datasets.areas import OAS_PER_LA3, area_codes, outlines
from ilba.errors import InputError
from ilba.files import replacing

if TYPE_CHECKING:
    import os

    import polars as pl

LEVELS = ("LA1", "LA2", "LA3", "OA")
_CODES = files(__package__) / "census_codes.csv"


def census(n: SupportsIndex = 1_000_000, seed: SupportsIndex = 2010, *, scale: SupportsIndex = 1) -> pl.DataFrame:
    """Make a synthetic census of `n` persons, one row each: four nested areas and five categorical variables.

    The same `n` and `seed` give the same rows on every machine.

    Parameters
    ----------
    n : int, default 1_000_000
        The number of persons of a city.
    seed : int, default 2010
        Another seed gives another city.
    scale : int, default 1
        The number of cities of `n` persons each, one after the other.

    Returns
    -------
    polars.DataFrame
        The persons. Nobody in it is real.

    Examples
    --------
    >>> people = census(10_000)
    >>> people.shape
    (10000, 9)
    >>> people.columns
    ['LA1', 'LA2', 'LA3', 'OA', 'gender', 'age', 'edu', 'mar', 'htype']
    """
    import polars as pl

    size, start, cities = _whole(n, "n", 1), _whole(seed, "seed", 0), _whole(scale, "scale", 1)
    return pl.concat([_city(size, start, number, _city_code(number, cities)) for number in range(1, cities + 1)])


def census_parts(
    folder: str | os.PathLike[str],
    scale: SupportsIndex = 50,
    n: SupportsIndex = 1_000_000,
    seed: SupportsIndex = 2010,
) -> Path:
    """Write `scale` cities of `n` persons each to a folder, one Parquet file per city.

    Together the files hold `census(n, seed, scale=scale)`, with one city at a time in memory. A file appears
    under its name only when it is complete; files of an earlier call are replaced.

    Parameters
    ----------
    folder : path
        The folder; it is made if it does not exist.
    scale : int, default 50
        The number of cities.
    n : int, default 1_000_000
        The number of persons of a city.
    seed : int, default 2010
        Another seed gives other cities.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        The folder is a file, or has Parquet files of other cities.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(part.name for part in census_parts(folder, scale=2, n=100).iterdir())
    ['city-01.parquet', 'city-02.parquet']
    """
    size, start, cities = _whole(n, "n", 1), _whole(seed, "seed", 0), _whole(scale, "scale", 1)
    home = Path(folder)
    if home.exists() and not home.is_dir():
        raise InputError(f"folder={str(home)!r} is a file; give the name of a folder.")
    home.mkdir(parents=True, exist_ok=True)
    parts = {number: f"city-{_city_code(number, cities)}.parquet" for number in range(1, cities + 1)}
    # A reader of the folder reads all its Parquet files, so another file would become part of the census.
    strays = sorted({path.name for path in home.glob("*.parquet")} - set(parts.values()))
    if strays:
        raise InputError(
            f"folder={str(home)!r} already has {strays[0]}, which is not one of these {cities} cities; "
            "give an empty or new folder."
        )
    for number, name in parts.items():
        # Nobody is real, so everybody may read it. No reference is kept, because the next city needs the memory.
        with replacing(home / name, mode=0o644, instead_of=b"PAR1") as unfinished:
            _city(size, start, number, _city_code(number, cities)).write_parquet(unfinished)
    return home


def census_codes() -> pl.DataFrame:
    """Read the code list of the census in English and Korean, as text; areas are those of city 01.

    Returns
    -------
    polars.DataFrame
        Columns `variable`, `code`, `label_en`, `label_ko` and `parent`, the code of the area that holds this one.
        The row of a variable without a code names the variable itself.

    Examples
    --------
    >>> census_codes().row(0, named=True)
    {'variable': 'LA1', 'code': None, 'label_en': 'City', 'label_ko': '시', 'parent': None}
    """
    import polars as pl

    return pl.read_csv(_CODES.read_bytes(), infer_schema=False)


def census_geometry(level: str | SupportsIndex) -> dict[str, Any]:
    """Draw the map of a level of areas of city 01 as GeoJSON.

    Each output area is a hexagon; the outline of any other area is the union of its hexagons.

    Parameters
    ----------
    level : str or int
        "LA1", "LA2", "LA3" or "OA", or 1 to 4.

    Returns
    -------
    dict
        A FeatureCollection. Each feature has its code as `id`, and names in English and Korean.

    Examples
    --------
    >>> districts = census_geometry("LA2")
    >>> [feature["properties"]["name_en"] for feature in districts["features"]][:2]
    ['Central district', 'Eastern district']
    """
    rank = _rank(level)
    variable = LEVELS[rank - 1]
    lines = _CODES.read_text(encoding="utf-8").splitlines()
    names = {row["code"]: row for row in csv.DictReader(lines) if row["variable"] == variable}
    features = [
        {
            "type": "Feature",
            "id": code,
            "properties": {
                "code": code,
                "name_en": names[code]["label_en"],
                "name_ko": names[code]["label_ko"],
            },
            "geometry": {"type": "Polygon", "coordinates": [[list(corner) for corner in ring]]},
        }
        for code, ring in outlines(rank).items()
    ]
    return {"type": "FeatureCollection", "features": features}


def _city(n: int, seed: int, number: int, code: str) -> pl.DataFrame:
    """One city. Its number is part of the seed, so cities differ, and city 1 is the census itself."""
    import numpy as np
    import polars as pl

    from ilba.datasets.households import people

    la2_of_la3 = np.repeat(np.arange(len(OAS_PER_LA3)), [len(towns) for towns in OAS_PER_LA3])
    blocks = [count for towns in OAS_PER_LA3 for count in towns]
    la3_of_oa = np.repeat(np.arange(len(blocks)), blocks)
    rng = np.random.Generator(np.random.PCG64([seed, number]))
    persons = people(n, rng, la2_of_la3, la3_of_oa)
    areas = pl.DataFrame(area_codes(code), schema=LEVELS, orient="row")
    keys = {
        "gender": persons.gender,
        "age": persons.age,
        "edu": persons.edu,
        "mar": persons.mar,
        "htype": persons.htype,
    }
    return areas[persons.oa].with_columns(pl.Series(name, codes, pl.Int64) for name, codes in keys.items())


def _city_code(number: int, cities: int) -> str:
    return f"{number:0{max(2, len(str(cities)))}d}"


def _whole(given: SupportsIndex, name: str, least: int) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        number = least - 1
    if number < least or isinstance(given, bool):
        raise InputError(f"{name}={given!r} is not possible here; give a whole number, {least} or more.")
    return number


def _rank(level: str | SupportsIndex) -> int:
    if isinstance(level, str):
        if level in LEVELS:
            return LEVELS.index(level) + 1
    elif not isinstance(level, bool):
        try:
            rank = operator.index(level)
        except TypeError:
            rank = 0
        if 1 <= rank <= len(LEVELS):
            return rank
    raise InputError(f"level={level!r} is not in the census; its levels are 1 LA1, 2 LA2, 3 LA3, 4 OA.")
