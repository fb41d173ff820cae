"""Open a saved finest table: a store, on either engine, or the R package's own file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ilba.design.design import COUNT, MASKED
from ilba.design.population import Population
from ilba.errors import InputError, StoreError, nearest
from ilba.tables import store
from ilba.tables.engine import Path_
from ilba.tables.finest import FinestTable

if TYPE_CHECKING:
    from ilba.spark import SparkFinestTable


@overload
def open_store(path: Path_, *, within: object = None, spark: None = None) -> FinestTable: ...
@overload
def open_store(path: Path_, *, within: object = None, spark: Any) -> SparkFinestTable: ...
def open_store(path: Path_, *, within: object = None, spark: Any = None) -> FinestTable | SparkFinestTable:
    """Open a store that `build` or `save` wrote: a file, or a folder that was made on Spark.

    Parameters
    ----------
    path : path
        The store. With `spark` also a URL such as s3a://bucket/store.
    within : label, optional
        Open only this area of the top level: for an audit or a choice of masks of a store that is too large for memory.
    spark : SparkSession, optional
        A Spark session; the cells then stay on Spark.

    Returns
    -------
    FinestTable or SparkFinestTable
        The finest table; on Spark if `spark` is given. Confidential.

    Raises
    ------
    StoreError
        There is no such store, it is damaged, or a newer version wrote it.
    InputError
        `within` names no area, or is given together with `spark`.
    """
    if spark is not None:
        from ilba.spark import SparkFinestTable

        if within is not None:
            raise InputError("within opens one area in memory: leave out spark.")
        return SparkFinestTable.open(path, spark)
    about, cells = store.read(path, within)
    finest = FinestTable.of_cells(about, cells)
    finest.place = Path(os.path.realpath(path)) if within is None else None
    return finest


def read_rds(path: Path_, *, population: str = "", wave: str = "") -> FinestTable:
    """Open the R package's own `full_tb.rds`, including its masked counts.

    Parameters
    ----------
    path : path
        The file that R's `save_full_tb` wrote.
    population, wave : str, default ""
        As in `build`: the people, and the name of this count of them.

    Returns
    -------
    FinestTable
        The finest table with R's masks. Confidential.

    Raises
    ------
    StoreError
        There is no such file, or it holds no finest table.
    """
    from ilba.data.rfiles import frame_of, read_r

    file, of_whom = Path(path), Population(population, wave)
    if not file.exists():
        there = (one.name for one in file.parent.iterdir()) if file.parent.is_dir() else ()
        raise StoreError(f"there is no file {str(file)!r}.{nearest(file.name, there)}")
    saved: Any = None
    try:
        saved = read_r(file)
        frame, K = frame_of(saved["full_tb"]), int(saved["mask_thr"].values[0])
        if MASKED not in frame.columns:
            raise InputError(
                "has no N_masked, so there are no masks by R. To draw masks, save full_tb as csv, then in "
                "Python: ilba.FinestTable.from_counts('full_tb.csv', hkey=['LA1', ...], secret='agency.secret')."
            )
        hkey, key = saved["hkey"].texts(), saved["key"].texts()
    except Exception as problem:
        reason = f"Its table {problem}" if isinstance(problem, InputError) else _instead(path, saved)
        raise StoreError(f"{str(file)!r} is not a finest table saved by the R package iLBA. {reason}") from problem
    return FinestTable.from_counts(frame, hkey, key, K).declared_as(of_whom)


def _instead(path: Path_, saved: Any) -> str:
    """What to type for a file of R that is read, but is not what `save_full_tb` wrote."""
    objects = saved if isinstance(saved, dict) else {"": saved}
    for name, value in objects.items():
        names = getattr(value, "names", ())
        if name and "full_tb" in names:
            return f"save() of R wrote it, with other names around it. In R: saveRDS({name}, 'full_tb.rds')."
        if {COUNT, MASKED} <= {*names}:
            return (
                f"It has the counts, but not their hkey and mask_thr. In R, save the whole list of save_full_tb: "
                f"saveRDS(x, 'full_tb.rds'). If only the counts are left, in Python: ilba.FinestTable.from_counts("
                f"{os.fspath(path)!r}, hkey=['LA1', ...], mask_thr=5).save('full_tb.parquet')"
            )
    return "Records are counted by ilba.build (ilba build)."
