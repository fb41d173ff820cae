"""The numbers of a store, a cube or a release, in a form that is kept beside the files of each version."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

import ilba
from ilba.output.export import export
from ilba.release import Release


def rows_of(frame: pl.DataFrame) -> dict[str, object]:
    return {"columns": frame.columns, "rows": [list(row) for row in frame.rows()]}


def numbers_of_audit(report: ilba.AuditReport) -> dict[str, object]:
    counts = ("cells_small", "cells_disclosed", "cells_exact", "cells_certified", "cells_undecided")
    return {name: getattr(report, name) for name in counts}


def numbers_of_store(path: Path) -> dict[str, object]:
    """What a store says, a table of each kind, a cell, one area by itself, and the audit."""
    finest = ilba.open_store(path)
    levels = (0, "region", "town")
    return {
        "design": finest.design.to_json(),
        "method": finest.method,
        "fingerprint": finest.fingerprint,
        "labels": rows_of(finest.labels),
        "chosen": finest.chosen.to_json() if finest.chosen else None,
        "frame": rows_of(finest.frame),
        "tables": {str(level): rows_of(finest.table(level, ["sex"]).detail) for level in levels},
        "cell": finest.cell("town", ["sex"], ["01", "0102"], ["f"]),
        "within": rows_of(ilba.open_store(path, within="02").frame),
        "audit": numbers_of_audit(ilba.audit(finest, finest.method, max_keys=1)),
    }


def numbers_of_cube(path: Path) -> dict[str, object]:
    """Every table of a cube folder."""
    return {file.stem: rows_of(pl.read_parquet(file)) for file in sorted(path.glob("*.parquet"))}


def numbers_of_release(path: Path) -> dict[str, object]:
    """What a release holds, and what is made of it."""
    release = Release(path)
    release.verify()
    name = next(iter(release.tables))
    return {
        "title": release.manifest["title"],
        "method": release.manifest["method"],
        "bound": release.manifest.get("bound"),
        "additive": release.additive,
        "tables": {name: rows_of(release.table(name)) for name in release.tables},
        "codes": rows_of(release.codes),
        "maps": {column: release.geometry(column) for column in release.design.columns},
        "lists": [rows_of(one.labels) for one in release.code_lists().lists],
        "audit": numbers_of_audit(ilba.audit(release)),
        "json-stat": {"table": name, "value": exported(release, name)},
    }


def exported(release: Release, name: str) -> list[int]:
    target = release.path.with_name("exported.json")
    try:
        export(release, name, "json-stat", target)
        return json.loads(target.read_text(encoding="utf-8"))["value"]
    finally:
        target.unlink(missing_ok=True)
