"""A folder as strangers have it: people in cp1252 with semicolons, towns in a workbook, a map in another projection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import xlsxwriter

REGIONS = {"01": "Nord", "02": "Süd", "05": "Höhe"}
TOWNS = {
    f"{region}{number:03d}": f"{name}ort {number} – Ä" for region, name in REGIONS.items() for number in range(1, 6)
}


def people(records: int = 4000) -> pl.DataFrame:
    """Records with everything that is wrong in records."""
    random = np.random.default_rng(7)
    towns = np.array(list(TOWNS))[random.integers(0, len(TOWNS), records)]
    unpadded = random.random(records) < 0.3
    sex = random.choice(["F", " f", "female", "M", "m", "male"], records, p=[0.3, 0.1, 0.1, 0.3, 0.1, 0.1])
    age = random.integers(0, 100, records).astype(str)
    job = random.choice(["employed", "none", "pupil", "NA", ""], records, p=[0.4, 0.2, 0.3, 0.05, 0.05])
    return pl.DataFrame(
        {
            "person_id": [f"P{number:07d}" for number in random.permutation(records)],
            "AGS": [town.lstrip("0") if short else town for town, short in zip(towns, unpadded, strict=True)],
            "Ort": [TOWNS[town] for town in towns],
            "Geschlecht": sex,
            "Alter": age,
            "Beruf": job,
            "Einkommen": [f"{euros:.2f}".replace(".", ",") for euros in random.lognormal(7, 1, records)],
        }
    )


def write(folder: Path, records: int = 4000, seed_of_map: int = 0) -> Path:
    """Write the folder: people.csv, towns.xlsx and towns.gpkg, none of which fits the others as it is."""
    folder.mkdir(exist_ok=True)
    text = people(records).write_csv(separator=";")
    (folder / "people.csv").write_bytes(text.encode("cp1252"))
    with xlsxwriter.Workbook(folder / "towns.xlsx") as book:
        sheet = book.add_worksheet("Gemeinden")
        sheet.write_row(0, 0, ["Schluessel", "Name", "Kreis"])
        for number, (code, name) in enumerate([*TOWNS.items(), ("02099", "Leerort")], 1):
            sheet.write_row(number, 0, [code, name, code[:2]])
    _map(folder / "towns.gpkg")
    return folder


def _map(file: Path) -> None:
    import pyogrio
    import shapely

    codes = [*TOWNS, "02099"]
    boxes = [
        shapely.box(
            500_000 + 5000 * (i % 4), 5_500_000 + 5000 * (i // 4), 505_000 + 5000 * (i % 4), 5_505_000 + 5000 * (i // 4)
        )
        for i in range(len(codes))
    ]
    pyogrio.raw.write(
        file,
        geometry=shapely.to_wkb(boxes),
        field_data=[np.array(codes, dtype=object), np.array([f"x{i}" for i in range(len(codes))], dtype=object)],
        fields=["gem_key", "gen"],
        geometry_type="Polygon",
        crs="EPSG:25832",
    )
