"""What the folder of a release tells beyond its counts. Current releases tell nothing; older ones may."""

from __future__ import annotations

import polars as pl

from ilba.cells.codes import label_type
from ilba.errors import some
from ilba.release.reading import Release


def leaks(release: Release) -> list[str]:
    """Sentences about what may depend on the truth in a release folder, apart from the counts."""
    manifest = release.manifest
    origins = manifest.get("origins", {}).get("codes")
    found = []
    types: dict[str, pl.DataType] = {}
    shown: dict[str, pl.Series] = {}
    for name, table in release.tables.items():
        if not table.columns:
            continue
        rows = release.table(name)
        number = pl.col(rows.columns[-1])
        published = rows.filter((number > 0) | number.is_null())  # a blank says that somebody is there
        for column in table.columns:
            codes = published[column].cast(pl.String).drop_nulls().unique()
            shown[column] = pl.concat([shown[column], codes]).unique() if column in shown else codes
            types[column] = rows.schema[column]
    for column, codes in shown.items():
        listed = release.codes.filter(pl.col("variable") == column)["code"].drop_nulls()
        silent = listed.filter(~listed.is_in(codes.implode())) if len(codes) else listed
        if len(silent) and origins is None:
            found.append(
                f"{some(len(silent), 'code')} of {column!r} stand in the code list but in no published count. Unless "
                f"the list was declared before the data was seen, each tells that somebody is there."
            )
        elif len(silent) and origins.get(column) != "declared":
            found.append(f"{column!r} has {some(len(silent), 'code')} without a published count that nobody declared.")
        if label_type(pl.concat([listed.rename("code"), codes.rename("code")])) != types[column]:
            found.append(f"the type of the column {column!r} does not follow from its published codes.")
    if "bound" in manifest and manifest["format"] < 2:
        found.append("a bound is stated that was not checked for every table.")
    return found
