"""Releases: the only door to the outside.

A release is a folder of public tables (labels and masked counts), code lists and a manifest. There is no place in it
for a true count, a flag, a loss or a key. It is made beside its name and takes it in one step.

What is published is decided by the masked numbers and by what was fixed beforehand, never by the truth: the code lists
hold the codes that the agency gave and those that stand in a published table. A code whose every count was masked to 0
would otherwise tell that somebody has it.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import polars as pl

from ilba.codes import CodeLists
from ilba.cube import Tables, wanted_tables
from ilba.design import MASKED, Design, Level, Names, Selection, file_name
from ilba.errors import InputError, listing, nearest, notice, some
from ilba.files import making, writable
from ilba.finest import FinestTable
from ilba.labels import listed_paths, read_labels
from ilba.release.manifest import FORMAT, dump
from ilba.release.reading import CODES, MANIFEST, Path_, Release, digest
from ilba.secret import Secret
from ilba.table import write_pieces

if TYPE_CHECKING:
    from ilba.spark import SparkFinestTable

Rows: TypeAlias = Literal["nonzero", "grid"]

_MOST_ROWS = 50_000_000
# With rows per group fixed, the bytes of a table do not depend on the pieces in which it was made.
_PARQUET: Any = {"compression": "zstd", "row_group_size": 2**17}


def release(
    finest: FinestTable | SparkFinestTable,
    path: Path_,
    *,
    method: str | None,
    tables: Tables,
    levels: Iterable[Level] | None,
    keys: Names | None,
    max_keys: int | None,
    rows: Rows,
    title: str,
    description: str,
    source: str,
    labels: Any,
    geometry: Mapping[str, Any] | None,
    bound: int | None,
    secret: Secret | Path_ | None,
    progress: Callable[[int, int], object] | None,
) -> Release:
    """Publish tables of a store: see `FinestTable.release`."""
    if rows not in get_args(Rows):
        raise InputError(f"rows={rows!r} is not known. It is 'nonzero' or 'grid'.")
    target = _free(path)
    design = finest.design
    wanted = wanted_tables(design, tables, levels, keys, max_keys)
    if method not in (None, finest.method):
        if method not in ("ilba", "controlled"):
            raise InputError(f"method={method!r} is not known.{nearest(method, ('ilba', 'controlled'))}")
        if method == "ilba":
            raise InputError("the masks of this store were chosen jointly: its method is 'controlled'.")
    given = finest.labels if labels is None else read_labels(labels, design)
    maps = _maps(geometry, design)
    if method == "controlled" and finest.method != method:
        finest = finest.controlled(wanted, bound, secret=secret)
    if finest.chosen and finest.chosen.bound is not None and not finest.chosen.held:
        # Publishing without the bound that was announced would tell that it could not be held, and so of the truth.
        raise InputError("the bound could not be held on these tables, so nothing was published. Ask for a larger one.")
    _tell_of_another(target, finest)
    with making(target) as temporary:
        (temporary / "tables").mkdir()
        listed, seen = [], _Seen(design)
        for done, table in enumerate(finest.tables(wanted), 1):
            file = temporary / "tables" / f"{file_name(table.selection.name)}.parquet"
            write_pieces(seen.noting(table.public_parts()), file, **_PARQUET)
            listed.append((table.selection, file))
            if progress:
                progress(done, len(wanted))
        by_grid = design.cells == "grid" and finest.method == "ilba"  # then the code lists are part of the method
        lists = [one.labels for one in finest.codes.lists] if by_grid else seen.lists()
        codes = _code_list(design, lists, given)
        codes.write_csv(temporary / CODES)
        if rows == "grid":
            for selection, file in listed:
                _complete(design, selection, codes, finest.codes if by_grid else seen, file)
        entries = [_entry(design, selection, file) for selection, file in sorted(listed, key=_order(wanted))]
        charted = []
        for column, shape in maps.items():
            _tell_of_hidden(column, shape, finest.codes, codes)
            (temporary / "geometry").mkdir(exist_ok=True)
            file = temporary / "geometry" / f"{file_name(design.select(column).name)}.geojson"
            file.write_text(json.dumps(shape, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
            charted.append({"column": column, "file": f"geometry/{file.name}", "sha256": digest(file)})
        from ilba import __version__

        manifest = {
            "format": FORMAT,
            "title": title,
            "description": description,
            "source": source,
            "method": finest.method,
            **design.to_json(),
            "rows": rows,
            "absent": 0,
            "additive": finest.method == "controlled",
            **_fixed_bound(finest),
            "tables": entries,
            "codes": {"file": CODES, "sha256": digest(temporary / CODES)},
            "geometry": charted,
            "software": f"ilba {__version__}",
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        (temporary / MANIFEST).write_text(dump(manifest), encoding="utf-8")
        for file in (temporary, *temporary.rglob("*")):
            file.chmod(0o755 if file.is_dir() else 0o644)
    return Release(target)


def _fixed_bound(finest: FinestTable | SparkFinestTable) -> dict[str, int]:
    """A bound is published only when it was fixed beforehand and held: a reached one would depend on the truth."""
    chosen = finest.chosen
    return {"bound": chosen.bound} if chosen and chosen.bound is not None else {}


def _free(path: Path_) -> Path:
    target = Path(os.path.realpath(path))
    writable(target / MANIFEST) if target.is_dir() else writable(target)
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not (target / MANIFEST).exists())):
        raise InputError(
            f"{os.fspath(path)!r} exists and is not a release, which this would destroy. Choose another name."
        )
    files = (file.relative_to(target) for file in target.rglob("*") if not file.is_dir())
    strange = sorted(str(file) for file in files if not _ours(file))
    if strange:
        raise InputError(
            f"{os.fspath(path)!r} holds {listing(strange, 4)}, which belongs to no release and would be destroyed. "
            f"Move it, or choose another name."
        )
    return target


def _ours(file: Path) -> bool:
    """Whether a file, by its path in a folder, is one that a release has."""
    kinds = (("tables", ".parquet"), ("geometry", ".geojson"))
    return str(file) in (MANIFEST, CODES) or (str(file.parent), file.suffix) in kinds


def _tell_of_another(target: Path, finest: FinestTable | SparkFinestTable) -> None:
    """Say aloud what gives counts away though each release by itself is as it should be."""
    if finest._unsaved_secret is not None:
        notice(
            "the key of these masks is not kept. A release of the same data with another key gives counts away: save "
            "the store, which keeps its key, or give secret= when you build."
        )
    try:
        before = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
        same = (before["method"], before["threshold"]) == (finest.method, finest.design.threshold)
    except (OSError, ValueError, KeyError, TypeError):
        return
    if not same:
        notice(
            f"the release that stood at {str(target)!r} was masked by another method or K. Where it is the same data, "
            f"who has both can take one from the other."
        )


class _Seen:
    """The labels that stand in published tables, per dimension."""

    def __init__(self, design: Design) -> None:
        self._columns = CodeLists.dimensions(design)
        self._found: list[list[pl.DataFrame]] = [[] for _ in self._columns]

    def add(self, public: pl.DataFrame) -> None:
        for columns, found in zip(self._columns, self._found, strict=True):
            there = [column for column in columns if column in public.columns]
            if there:
                labels = public.select(there).unique()
                if found and found[-1].columns == there:  # another piece of the same table
                    labels = pl.concat([found.pop(), labels]).unique()
                found.append(labels)

    def noting(self, parts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for part in parts:
            self.add(part)
            yield part

    def lists(self) -> list[pl.DataFrame]:
        """Per dimension the paths that were seen, coarser ones with nulls below; empty where none was."""
        merged = []
        for columns, found in zip(self._columns, self._found, strict=True):
            kinds: dict[str, Any] = dict.fromkeys(columns, pl.String)
            for frame in found:
                kinds |= frame.schema
            whole = pl.concat([pl.DataFrame(schema=kinds), *found], how="diagonal")
            merged.append(whole.unique().sort(columns))
        return merged

    def paths(self, place: int, columns: Sequence[str]) -> pl.DataFrame:
        """The paths of a dimension that were seen down to these columns; here null is a label that is missing."""
        deep = [frame.select(columns) for frame in self._found[place] if len(frame.columns) >= len(columns)]
        return pl.concat(deep).unique()


def _code_list(design: Design, lists: Sequence[pl.DataFrame], given: pl.DataFrame) -> pl.DataFrame:
    """The published code list: what the agency gave, then what stands in a table and was not in it."""
    rows = []
    for columns, labels in zip(CodeLists.dimensions(design), lists, strict=True):
        for place, column in enumerate(columns):
            parent = pl.col(columns[place - 1]).cast(pl.String) if place else pl.lit(None, pl.String)
            found = labels.select(
                pl.lit(column).alias("variable"), pl.col(column).cast(pl.String).alias("code"), parent=parent
            )
            rows.append(found.drop_nulls("code").unique(maintain_order=True))
    found = pl.concat(rows)
    unknown = found.join(given.drop_nulls("code"), on=["variable", "code"], how="anti", maintain_order="left")
    if given.height and unknown.height:
        first = listing((f"{v} {c}" for v, c, _ in unknown.rows()), 6)
        notice(f"the code list does not name {some(unknown.height, 'code')} of the tables: {first}.")
    added = unknown.select(
        "variable", "code", pl.col("code").alias("label_en"), pl.lit(None, pl.String).alias("label_ko"), "parent"
    )
    names = [hierarchy.name for hierarchy in design.hierarchies]
    order = {name: place for place, name in enumerate(dict.fromkeys([*design.columns, *names]))}
    return pl.concat([given, added]).sort(pl.col("variable").replace_strict(order), maintain_order=True)


def _complete(design: Design, selection: Selection, codes: pl.DataFrame, known: CodeLists | _Seen, file: Path) -> None:
    """Write the complete grid of a table, zeros included: over the published code lists."""
    table = pl.read_parquet(file, glob=False)
    if not selection.columns:
        return
    grid = pl.DataFrame({"": [None]})
    for place, columns in enumerate(CodeLists.dimensions(design)):
        there = [column for column in columns if column in selection.columns]
        if not there:
            continue
        seen = known.paths(place, there) if isinstance(known, _Seen) else known.lists[place].labels.select(there)
        listed = listed_paths(codes, there).cast(table.select(there).schema, strict=False)
        paths = pl.concat([seen, listed]).unique()
        if grid.height * paths.height > _MOST_ROWS:
            raise InputError(
                f"the complete grid of {selection.name!r} has more than {_MOST_ROWS:,} rows. "
                f"Leave rows='grid' out, or release fewer keys."
            )
        grid = grid.join(paths, how="cross")
    full = grid.drop("").join(table, on=list(selection.columns), how="left", nulls_equal=True)
    full = full.with_columns(pl.col(MASKED).fill_null(0)).sort(selection.columns)
    full.write_parquet(file, **_PARQUET)


def _maps(geometry: Mapping[str, Any] | None, design: Design) -> dict[str, Any]:
    """GeoJSON per area column, from dictionaries or files."""
    maps = {}
    columns = [column for hierarchy in design.hierarchies for column in hierarchy.columns]
    for column, given in (geometry or {}).items():
        if column not in columns:
            raise InputError(f"geometry names {column!r}, which is no area column.{nearest(column, columns)}")
        shape = given
        if isinstance(given, str | os.PathLike):
            try:
                shape = json.loads(Path(given).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                raise InputError(f"the geometry {os.fspath(given)!r} cannot be read as GeoJSON.") from None
        if not isinstance(shape, Mapping) or shape.get("type") != "FeatureCollection":
            raise InputError(f"the geometry of {column!r} is not a GeoJSON FeatureCollection.")
        maps[column] = shape
    return maps


def _tell_of_hidden(column: str, shape: Mapping[str, Any], known: CodeLists, codes: pl.DataFrame) -> None:
    """Say so where a map has a shape for an area that the tables keep silent about, and for no empty one."""
    drawn = {str(one.get("id", (one.get("properties") or {}).get("code"))) for one in shape.get("features", [])}
    occupied = {str(code) for one in known.lists if column in one.labels for code in one.labels[column]}
    public = set(codes.filter(variable=column)["code"])
    if public and drawn <= occupied and drawn - public:
        notice(
            f"the map of {column!r} has a shape for an area whose counts are all 0 after masking, and for no empty "
            f"area: it tells that somebody is there. Give a map of all areas, or their code list with labels=."
        )


def _entry(design: Design, selection: Selection, file: Path) -> dict[str, Any]:
    levels = {h.name: level for h, level in zip(design.hierarchies, selection.levels, strict=True)}
    rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    return {
        "name": selection.name,
        "file": f"tables/{file.name}",
        "levels": levels,
        "keys": list(selection.keys),
        "columns": list(selection.columns),
        "rows": rows,
        "sha256": digest(file),
    }


def _order(wanted: Sequence[Selection]) -> Callable[[tuple[Selection, Path]], int]:
    places = {selection: place for place, selection in enumerate(wanted)}
    return lambda one: places[one[0]]
