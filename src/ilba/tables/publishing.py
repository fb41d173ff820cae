"""Publishing as a verb of a finest table, the same wherever its cells are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ilba.design.design import Level, Names
from ilba.errors import suggesting
from ilba.secret.secret import Secret

if TYPE_CHECKING:
    from ilba.release import Release
    from ilba.release.memory import Memory
    from ilba.spark import SparkFinestTable
    from ilba.tables.finest import FinestTable

Path_: TypeAlias = str | os.PathLike[str]


class Publishes:
    """A finest table whose tables can be published."""

    place: Path | None = None
    """the store that this table was read from or saved to; None when it is in no file"""
    _memory: Memory | None = None

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
        stated_bound: int | None = None,
        secret: Secret | Path_ | None = None,
        masks: Path_ | None = None,
        require_safe: bool = False,
        accept_risk: bool = False,
        audit: Path_ | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Release:
        """Publish tables as a release: a folder of labels and masked counts, code lists and a manifest.

        Everything in the folder depends on the masked counts and on what was declared, and on nothing else. Before the
        folder takes its place this is proven: the world in which the masked counts are the truth is published too, and
        both folders must be equal byte by byte.

        Parameters
        ----------
        path
            The folder. A release that stands there is replaced in one step; anything else is left alone.
        method
            "controlled", the default: masks are chosen jointly, and tables are plain sums of them. "ilba": the tables
            are audited first and published if the audit finds them safe, else only with `accept_risk`.
        tables
            "all", or a list of names such as "LA3.gender.age"; `levels`, `keys` and `max_keys` cut "all" down.
        rows
            "nonzero" leaves out rows that are 0; "grid" writes the complete grid. Either way a row tells nothing.
        labels
            The declared code list: a csv or json file or a frame of variable, code, label_en, label_ko, parent.
        geometry
            GeoJSON for area columns, such as {"LA3": "towns.geojson"}; features carry the code as `id`.
        bound
            How far a count may lie from the truth when masks are chosen; left out, floor(K/2) + K, or 2K for large
            designs. It is confidential and never stands in the release.
        stated_bound
            A bound to be stated in the release, fixed before the data was seen. It is checked for every published
            table; where it does not hold nothing is published, and no bound can be stated later.
        secret
            The secret of the store, where it is neither in memory, in ILBA_SECRET nor beside the store.
        masks
            Where the chosen masks are kept; left out, beside the store.
        require_safe
            Publish only what is certified or what the audit finds safe. It goes without saying unless `accept_risk`.
        accept_risk
            Publish iLBA tables that the audit does not find safe, or that are too many to be audited.
        audit
            Write the report of the audit here (confidential).
        progress
            Called with how many tables were written, and of how many; each is written twice.

        Returns
        -------
        Release
            The release, opened.

        Raises
        ------
        UnsafeRelease
            The release would give counts away. Nothing was published.
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
            stated_bound=stated_bound,
            secret=secret,
            masks=masks,
            require_safe=require_safe,
            accept_risk=accept_risk,
            audit=audit,
            memory=self._remembered(),
            progress=progress,
        )

    def publishable(
        self, level: Level = 0, key: Names | None = (), *, accept_risk: bool = False, remember: bool = True
    ) -> Any:
        """The finest table from which this one table may be published by itself, by the rules of `release`.

        With masks that were published from this store it is the table with those masks. `remember` says that the
        table is about to be published; without it one only looks.
        """
        from ilba.release import publishable

        return publishable(
            cast("FinestTable | SparkFinestTable", self),
            level,
            key,
            accept_risk=accept_risk,
            remember=remember,
            memory=self._remembered(),
        )

    def _remembered(self) -> Memory:
        """What was published from this table before."""
        from ilba.release.memory import Memory

        if self.place is not None:
            return Memory.beside(self.place)
        if self._memory is None:
            self._memory = Memory()
        return self._memory
