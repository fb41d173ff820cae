"""JSON-stat 2.0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ilba.output.series import time_column
from ilba.output.wording import Dimension, WordedTable


def json_stat(table: WordedTable, whole: bool = True, data: bool = True) -> dict[str, Any]:
    """A table as a JSON-stat 2.0 dataset; without `data` only its description.

    A whole dataset also has a metric dimension, with the one thing that is counted, and the codes above each area. The
    service gives both elsewhere.
    """
    values = _plain(table) if data else []
    measure, column = "measure", table.value_column
    while measure in table.table.columns:
        measure += "_"
    axes: dict[str, Any] = {
        dimension.name: {
            "label": dimension.label,
            "category": {
                "index": {code: place for place, code in enumerate(dimension.codes)},
                "label": dict(zip(dimension.codes, dimension.labels, strict=True)),
            },
            # The parents are not categories of this table, so `child` is not used.
            **({"extension": _parents(dimension)} if whole and len(dimension.columns) > 1 else {}),
        }
        for dimension in table.dimensions
    }
    metric = whole or not axes
    if metric:
        axes[measure] = {
            "label": table.said["count"],
            "category": {
                "index": {column: 0},
                "label": {column: table.value_label},
                "unit": {column: {"base": table.unit, "decimals": table.measure.decimals}},
            },
        }
    geo = [dimension.name for dimension in table.dimensions if dimension.geo]
    time = [dimension.name for dimension in table.dimensions if dimension.name == time_column(table)]
    told = table.release.manifest
    return {
        "version": "2.0",
        "class": "dataset",
        "label": table.title,
        **({"source": table.told("source")} if told["source"] else {}),
        "updated": told["created"],
        "note": [*([table.told("description")] if told["description"] else []), *table.notes(dense=True)],
        "id": list(axes),
        "size": [len(dimension) for dimension in table.dimensions] + [1] * metric,
        "role": {
            **({"time": time} if time else {}),
            **({"geo": geo} if geo else {}),
            **({"metric": [measure]} if metric else {}),
        },
        "dimension": axes,
        "value": values,
        **_status(table, values),
        "extension": {"ilba": {"K": told["threshold"], "lang": table.lang, **table.about, **_measured(table)}},
    }


def _plain(table: WordedTable) -> list[float | int | None]:
    """The numbers of a table as plain values, None for a blank; counts are whole."""
    if table.values.dtype.kind == "i":  # most tables: nothing is blank
        return list(table.values.tolist())
    is_whole = table.measure.decimals == 0
    return [None if value != value else int(value) if is_whole else value for value in table.values.tolist()]


def _status(table: WordedTable, values: Sequence[object]) -> dict[str, Any]:
    """The status of what has no number, in Eurostat's flags: c (confidential) is blank, z did not exist."""
    if not values:
        return {}
    has_blanks, gone = table.release.has_blanks and table.measure.name == "count", table.nonexistent
    found = {str(place): "c" for place, value in enumerate(values) if value is None} if has_blanks else {}
    found |= {str(place): "z" for place in ([] if gone is None else np.flatnonzero(gone).tolist())}
    return {"status": found} if found or has_blanks else {}


def _measured(table: WordedTable) -> dict[str, Any]:
    """The measure of the numbers, if they are not counts."""
    one = table.measure
    if one.name == "count":
        return {}
    return {"measure": one.name, "of": list(one.of), "unit": table.unit, "decimals": one.decimals}


def _parents(dimension: Dimension) -> dict[str, Any]:
    """The levels of a hierarchy and, for each code, the codes above it from the coarsest."""
    above = dimension.paths.select(dimension.columns[:-1]).rows()
    return {
        "levels": list(dimension.columns),
        "above": dict(zip(dimension.codes, (list(path) for path in above), strict=True)),
    }
