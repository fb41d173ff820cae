"""From microdata to the finest table: check the arguments, count, mask and save."""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, overload

from ilba.cells.codes import CodeLists
from ilba.data.codelists import as_spelled, listed_paths, read_labels
from ilba.data.hierarchies import read_hierarchy
from ilba.data.microdata import Microdata, Missing, is_spark
from ilba.data.reading import Reading, Schema
from ilba.data.recipe import Recipe
from ilba.design.design import Cells, Design, Hierarchy, HKey, Names, Origins, hierarchies_of, names_of
from ilba.design.population import Population
from ilba.errors import InputError, listing, nearest, notice, suggesting
from ilba.files import on_disk, writable
from ilba.progress import Progress, ProgressStep, silent
from ilba.secret.secret import Secret, given_secret
from ilba.tables import store
from ilba.tables.beside import secret_for
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

if TYPE_CHECKING:
    from ilba.spark import SparkFinestTable, SparkMicrodata

Path_: TypeAlias = str | os.PathLike[str]


class _SparkFrame(Protocol):
    """What distinguishes a Spark DataFrame, for the type checker."""

    @property
    def sparkSession(self) -> Any: ...


P = ParamSpec("P")


class _Build(Protocol[P]):
    """The type of `build`: the data alone decide which engine's table it returns."""

    __name__: str

    @overload
    def __call__(self, data: _SparkFrame, *args: P.args, **kwargs: P.kwargs) -> SparkFinestTable: ...
    @overload
    def __call__(self, data: Any, *args: P.args, **kwargs: P.kwargs) -> FinestTable: ...


def _on_either_engine(function: Callable[Concatenate[Any, P], AnyFinestTable]) -> _Build[P]:
    """Tell the type checker which engine's table is returned, without a second copy of the arguments."""
    return function  # type: ignore[return-value]


@_on_either_engine
@suggesting
def build(
    data: Any,
    hkey: HKey,
    key: Names | None = None,
    mask_thr: int = 5,
    *,
    secret: Secret | Path_ | None = None,
    cells: Cells = "observed",
    hkey_rank: Sequence[float] | None = None,
    key_thr: int | None = None,
    missing: Missing = "drop",
    missing_values: Sequence[object] = (),
    schema: Schema | None = None,
    read: Reading | Mapping[str, str] | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    hrc: Mapping[str, Path_] | None = None,
    output_path: Path_ | None = None,
    labels: Any = None,
    population: str = "",
    wave: str = "",
    period: str = "",
    unit: str = "",
    record_key: str | None = None,
    progress: Progress | None = None,
) -> AnyFinestTable:
    """Count microdata into the finest table and mask it with SCA.

    Parameters
    ----------
    data : frame or path
        A polars, pandas or pyarrow frame, a DuckDB relation, or a path: csv, csv.gz, parquet, a folder or glob of
        parquet parts, arrow, Excel, and the files of SPSS, Stata, SAS and R. With a Spark DataFrame all work is done
        on Spark.
    hkey : str, sequence of str or dict
        The columns of the hierarchy from coarse to fine, or a mapping from names to columns for several hierarchies.
    key : str or sequence of str, optional
        The categorical variables. By default, all other columns with at most 100 different values.
    mask_thr : int, default 5
        The threshold K, at least 3.
    secret : Secret or path, optional
        A `Secret` or the path of a secret file. By default, ILBA_SECRET, then the secret beside `output_path` or the
        only one in its folder, then a new one.
    cells : {"observed", "grid"}, default "observed"
        Which cells count as small cells of an aggregate: "observed" takes the cells that occur, as the R package does;
        "grid" takes every combination of the code lists, including true zeros, as in the paper.
    hkey_rank : sequence of float, optional
        The rank of each column of `hkey`, if they are not given from coarse to fine.
    key_thr : int, optional
        Leave out keys with more different values than this, including those that `key` names.
    missing : {"drop", "category"}, default "drop"
        "drop" leaves out rows with a missing value and says how many. "category" keeps them.
    missing_values : sequence, default ()
        Labels that stand for a missing value in this data, such as "NA".
    schema : dict, optional
        For csv: columns to be read as whole numbers, such as {"age": "int"}. Everything else is text.
    read : dict, optional
        How a file is written, if it does not say so itself: `encoding` and `separator` of a csv file, `sheet` of a
        workbook.
    recipe : Recipe or dict, optional
        The changes to columns before they become labels: see `ilba.Recipe`. A mapping from columns to steps, such as
        {"age": {"width": 5, "top": 85}, "sex": {"case": "lower"}}.
    hrc : dict, optional
        For the finest column of a hierarchy, the `.hrc` file (tau-ARGUS) with the levels above it, which `hkey` names:
        `hkey=["section", "division", "branch"], hrc={"branch": "nace.hrc"}`.
    output_path : path, optional
        Where to save the store.
    labels : path or frame, optional
        The agency's code list: a csv or json file or a frame of variable, code, label_en, label_ko, parent. Its codes
        belong to the grid even if they do not occur, and releases carry its labels.
    population : str, default ""
        The name of the people, dwellings or firms in the records, such as "census-2026": the same for all data about
        them. All publications about one population count as one.
    wave : str, default ""
        The name of this count of the population, if there are several, such as "2026".
    period : str, default ""
        The reference time of the data, such as "2026-07-01".
    unit : str, default ""
        What one record stands for, such as "persons".
    record_key : str, optional
        The column with the key of each record, for `method="cell-key"`: a whole number from 0 to 255 or from 0 to
        10^8-1, or a number from 0 to 1. The store keeps their sum in each cell. By default, the secret draws one key
        for each finest cell and count on request.
    progress : callable, optional
        Called with each `ProgressStep`.

    Returns
    -------
    FinestTable or SparkFinestTable
        The finest table, saved to `output_path` if given. Confidential.

    Raises
    ------
    InputError
        An argument or the data is not what was expected.
    SecretError
        The given secret cannot be read.

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"town": ["a"] * 9 + ["b"], "sex": ["f", "m", "f", "f", "f", "m", "f", "f", "f", "m"]})
    >>> finest = build(people, hkey=["town"], key=["sex"], secret=Secret.from_text("ilba-secret-1:" + "00" * 32))
    >>> finest.table(level=1, key="sex").public()["N_masked"].to_list()
    [7, 5]
    """
    on_spark = is_spark(data)
    target = _target(data, output_path, on_spark)
    tell = progress or silent
    of_whom = Population(population, wave, period, unit)
    chosen = given_secret(secret)
    if chosen is None and target is not None and (secret := secret_for(target)) is not None:
        chosen = Secret.from_file(secret)

    tell(ProgressStep("reading"))
    if on_spark and (schema is not None or read is not None):
        raise InputError("schema and read go with files; a frame has types already.")
    source: Microdata | SparkMicrodata
    source = (
        _spark().SparkMicrodata(data) if on_spark else Microdata.open(data, schema=schema, reading=Reading.of(read))
    )
    declared = {"population": population or "NAME", "wave": wave or "WAVE"}
    source.refuse_counted(_from_counts(data, output_path, secret, hkey=hkey, key=key, mask_thr=mask_thr, **declared))
    source.follow(_climbing(Recipe.of(recipe), hierarchies_of(hkey, hkey_rank), hrc or {}))
    areas = [column for hierarchy in hierarchies_of(hkey, hkey_rank) for column in hierarchy.columns]
    source.require(areas, "hkey")
    aside = {*areas, record_key}
    keys = names_of("key", key) if key is not None else tuple(c for c in source.columns if c and c not in aside)
    source.require(keys, "key")
    _check_record_key(source, record_key, (*areas, *keys))
    design = Design.of(hkey, keys, mask_thr, cells, hkey_rank)
    origins = Origins("proposed" if key is None else "declared")
    if key is None or key_thr is not None:
        few = _few_categories(source, keys, 100 if key_thr is None else key_thr)
        origins = replace(origins, dropped=tuple(column for column in keys if column not in few))
        design = replace(design, keys=few)

    tell(ProgressStep("counting"))
    given = read_labels(labels, design)
    known = [listed_paths(given, columns) for columns in CodeLists.dimensions(design)]
    if not isinstance(source, Microdata):
        _spark().check_names(design)
        on_workers = source.count(
            design, missing=missing, missing_values=missing_values, known=known, record_key=record_key
        )
        given = as_spelled(given, on_workers.codes)
        finest: AnyFinestTable = _spark().SparkFinestTable.drawn(on_workers, chosen, secret, given, origins)
    else:
        counted = source.count(
            design, missing=missing, missing_values=missing_values, known=known, record_key=record_key
        )
        finest = FinestTable.drawn(counted, chosen, as_spelled(given, counted.codes), origins, progress)
    finest.declared_as(of_whom)
    if target is None:
        finest.keep()
    else:
        finest.save(target, progress)
    return finest


def _from_counts(data: Any, output_path: Path_ | None, secret: Secret | Path_ | None, **given: Any) -> str:
    """The line of Python that does the same with counts. A secret in memory is not told."""
    source = repr(os.fspath(data)) if isinstance(data, str | os.PathLike) else "data"
    place = os.fspath(secret) if isinstance(secret, str | os.PathLike) else "agency.secret"
    told = ", ".join(f"{name}={value!r}" for name, value in {**given, "secret": place}.items() if value is not None)
    target = os.fspath(output_path or "full_tb.parquet")
    return f"ilba.FinestTable.from_counts({source}, {told}).save({target!r})"


def _climbing(recipe: Recipe | None, hierarchies: Sequence[Hierarchy], hrc: Mapping[str, Path_]) -> Recipe | None:
    """The recipe, with the levels from hierarchy files."""
    if not hrc:
        return recipe
    climbing = Recipe() if recipe is None else copy.copy(recipe)
    climbing.columns = dict(climbing.columns)
    for column, file in hrc.items():
        chain = next((one.columns for one in hierarchies if one.columns[-1] == column), None)
        if chain is None:
            finest = [one.columns[-1] for one in hierarchies]
            raise InputError(
                f"hrc names {column!r}, which is not the finest column of a hierarchy.{nearest(column, finest)} "
                f"Name the column with the finest codes of the file, and put it last in hkey: hrc={{{finest[0]!r}: "
                f"{os.fspath(file)!r}}} (--hrc {finest[0]}={os.fspath(file)})."
            )
        climbing.climb(column, chain[:-1], read_hierarchy(file).paths, Path(file).name)
    return climbing


def _check_record_key(source: Microdata | SparkMicrodata, record_key: str | None, columns: Sequence[str]) -> None:
    """Refuse record keys that are missing, or that would be tabulated."""
    if record_key is None:
        return
    if not isinstance(record_key, str):
        raise InputError(f"record_key={record_key!r} is not the name of a column.")
    source.require([record_key], "record_key")
    if record_key in columns:
        raise InputError(f"record_key names {record_key!r}, which is a column of the tables. Leave it out of key.")


def _spark() -> Any:
    """The other engine, loaded only when needed."""
    return importlib.import_module("ilba.spark")


def _target(data: Any, output_path: Path_ | None, on_spark: bool) -> Path | str | None:
    """The checked place of the store: an hour of counting must not end in "no such folder"."""
    if output_path is None:
        return None
    if on_spark:
        place = on_disk(output_path)
        return place if "://" in place else _spark().free_place(place)
    target = writable(output_path, store.ABOUT)
    _refuse_to_replace_data(data, target)
    store.check_name(target)
    return target


def _refuse_to_replace_data(data: Any, target: Path) -> None:
    """Refuse a store that would replace the data, or lie among its parts and be read as one of them."""
    if isinstance(data, str | os.PathLike):
        source = Path(os.path.realpath(data))
        if target == source or (source.is_dir() and target.is_relative_to(source)):
            raise InputError(f"the store {str(target)!r} would lie where the data is. Save it elsewhere.")


def _few_categories(source: Microdata | SparkMicrodata, keys: Sequence[str], most: int) -> tuple[str, ...]:
    """The keys with at most `most` different values; a notice names the others, which are quantities."""
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise InputError(f"key_thr={most!r} is not a whole number of at least 1.")
    sizes = source.categories(keys)
    many = [column for column in keys if sizes[column] > most]
    if many:
        notice(f"left out, because they have more than {most} different values (key_thr): {listing(many)}.")
    return tuple(column for column in keys if column not in many)
