"""A walk through every file of a release in search of what must not be there."""

from __future__ import annotations

import json
import stat

import polars as pl

from ilba import Release
from support.people import HKEY, KEY

RAW_SECRET = bytes(range(32))


FORBIDDEN = {"N", "n", "type1", "type2", "loss", "Loss", "true", "count"}


def walk_for_leaks(release: Release) -> None:
    """Fail on any column, value, row, word or byte that a public release must not hold."""
    K = release.manifest["threshold"]
    files = [file for file in release.path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= {".parquet", ".json", ".csv", ".geojson"}
    for file in files:
        content = file.read_bytes()
        assert RAW_SECRET not in content, file
        assert RAW_SECRET.hex().encode() not in content, file
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
    for folder in (release.path, *(one for one in release.path.rglob("*") if one.is_dir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    for table in release.tables.values():
        frame = pl.read_parquet(release.path / table.file)
        assert frame.columns == [*table.columns, "N_masked"]
        assert not FORBIDDEN & set(frame.columns)
        assert frame.filter(pl.col("N_masked").is_between(1, K - 1)).is_empty(), table.name
        assert not table.columns or frame.select(table.columns).is_unique().all()
        assert frame.height == table.rows
        if release.manifest["rows"] == "nonzero":
            assert frame.filter(pl.col("N_masked") == 0).is_empty(), table.name
        else:
            sizes = [frame.select(c).n_unique() for c in grouped(release, table.columns)]
            assert frame.height == (pl.Series(sizes).product() if sizes else 1), table.name
    said = json.dumps(release.manifest)
    for word in ("loss", "bound", "fingerprint", "secret", "true_", "records"):
        assert word not in said.lower().replace('"absent"', "")
    release.verify()


def every_code(people, hkey=HKEY, key=KEY):
    """A code list of all codes of some people, as an agency would declare it."""
    rows = []
    for parent, column in [*zip([None, *hkey], hkey, strict=False), *((None, name) for name in key)]:
        pairs = people.select(column, *([parent] if parent else [])).unique().sort(column)
        rows += [(column, str(pair[0]), pair[1] if parent else None) for pair in pairs.iter_rows()]
    return pl.DataFrame(rows, schema=["variable", "code", "parent"], orient="row")


def grouped(release, columns):
    """The columns of a table by dimension."""
    for hierarchy in release.design.hierarchies:
        there = [c for c in hierarchy.columns if c in columns]
        if there:
            yield there
    yield from ([key] for key in release.design.keys if key in columns)
