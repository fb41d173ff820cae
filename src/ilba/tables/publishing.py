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
        path : path
            The folder. A release that stands there is replaced in one step; anything else is left alone.
        method : {"controlled", "ilba"}, optional
            "controlled", the default: masks are chosen jointly, and tables are plain sums of them. "ilba": the tables
            are audited first and published if the audit finds them safe, else only with `accept_risk`.
        tables : str or iterable of str, default "all"
            "all", cut down by `levels`, `keys` and `max_keys`; or names of tables such as "LA3.gender", or selections.
        levels : iterable of int, str or dict, optional
            Only tables at these levels, each given as in `table`. Left out, all levels, 0 included.
        keys : str or sequence of str, optional
            Only tables by subsets of these keys. Left out, of all keys.
        max_keys : int, optional
            At most so many keys in a table. Left out, any number.
        rows : {"nonzero", "grid"}, default "nonzero"
            "nonzero" leaves out rows that are 0; "grid" writes the complete grid. Either way a row tells nothing.
        title : str, default "Frequency tables"
            The title of the release, for people.
        description : str, default ""
            What the release is about, for people.
        source : str, default ""
            Where the data comes from, for people.
        labels : path or frame, optional
            The declared code list: a csv or json file or a frame of variable, code, label_en, label_ko, parent. Left
            out, the one that the store was built with.
        geometry : dict, optional
            GeoJSON for area columns, such as {"LA3": "towns.geojson"}; features carry the code as `id`.
        bound : int, optional
            How far a count may lie from the truth when masks are chosen. Left out, floor(K/2) + K, or 2K for large
            designs. It is confidential and never stands in the release.
        stated_bound : int, optional
            A bound to be stated in the release, fixed before the data was seen. It is checked for every published
            table; where it does not hold nothing is published, and no bound can be stated later.
        secret : Secret or path, optional
            The secret of the store, where it is neither in memory, in ILBA_SECRET nor beside the store.
        masks : path, optional
            Where the chosen masks are kept. Left out, beside the store.
        require_safe : bool, default False
            Publish only what is certified or what the audit finds safe. It goes without saying unless `accept_risk`.
        accept_risk : bool, default False
            Publish iLBA tables that the audit does not find safe, or that are too many to be audited.
        audit : path, optional
            Write the report of the audit here (confidential).
        progress : callable, optional
            Called with how many tables were written, and of how many; each is written twice.

        Returns
        -------
        Release
            The release, opened.

        Raises
        ------
        UnsafeRelease
            The release would give counts away. Nothing was published.
        SecretError
            Masks have to be chosen, and their secret is not at hand.
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
        """Give the finest table from which this one table may be published by itself, by the rules of `release`.

        With masks that were published from this store before, it is the table with those masks.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order in which its columns are to stand.
        accept_risk : bool, default False
            Allow an iLBA table that the audit does not find safe.
        remember : bool, default True
            Record that the table is about to be published. Without it one only looks.

        Returns
        -------
        FinestTable or SparkFinestTable
            A finest table whose `table(level, key)` may be published.

        Raises
        ------
        UnsafeRelease
            The table would give counts away.
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
