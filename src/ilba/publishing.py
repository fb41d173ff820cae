"""Publishing as a verb of a finest table, the same wherever its cells are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ilba.design import Level, Names
from ilba.errors import suggesting
from ilba.secret import Secret

if TYPE_CHECKING:
    from ilba.finest import FinestTable
    from ilba.release import Release
    from ilba.spark import SparkFinestTable

Path_: TypeAlias = str | os.PathLike[str]


class Publishes:
    """A finest table whose tables can be published."""

    @suggesting
    def release(
        self,
        path: Path_,
        method: str | None = None,
        tables: Any = "all",
        *,
        levels: Iterable[Level] | None = None,
        keys: Names | None = None,
        max_keys: int | None = None,
        rows: Literal["nonzero", "grid"] = "nonzero",
        title: str = "Frequency tables",
        description: str = "",
        source: str = "",
        labels: Any = None,
        geometry: Mapping[str, Any] | None = None,
        bound: int | None = None,
        secret: Secret | Path_ | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Release:
        """Publish tables as a release: a folder of labels and masked counts, code lists and a manifest.

        path
            The folder. A release that stands there is replaced in one step; anything else is left alone.
        method
            "ilba", or "controlled" to choose the masks jointly first (`bound` and `secret` as for `controlled`).
        tables
            "all", or a list of names such as "LA3.gender.age"; `levels`, `keys` and `max_keys` cut "all" down.
        rows
            "nonzero" leaves out rows that are 0; "grid" writes the complete grid. Either way a row tells nothing.
        labels
            The agency's code list: a csv or json file or a frame of variable, code, label_en, label_ko, parent.
        geometry
            GeoJSON for area columns, such as {"LA3": "towns.geojson"}; features carry the code as `id`.
        """
        from ilba.release import release

        return release(
            cast("FinestTable | SparkFinestTable", self),
            path,
            method=method,
            tables=tables,
            levels=levels,
            keys=keys,
            max_keys=max_keys,
            rows=rows,
            title=title,
            description=description,
            source=source,
            labels=labels,
            geometry=geometry,
            bound=bound,
            secret=secret,
            progress=progress,
        )
