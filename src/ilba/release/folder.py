"""The files of a release, made from published rows and declarations alone. This module never sees the truth.

Columns are typed and sorted by the declared code list and the published codes. A public code list holds the declared
codes and those with a published count. Any other code would tell that somebody has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from ilba.cells.codes import CodeLists, label_type
from ilba.data.codelists import listed_paths
from ilba.design.design import MASKED, Design, Origins, Selection, file_name
from ilba.design.population import Population
from ilba.errors import Advice, InputError, Notice, listing, notice, some
from ilba.release.manifest import FORMAT, dump
from ilba.release.reading import CODES, MANIFEST, digest
from ilba.tables.engine import AnyFinestTable
from ilba.tables.table import write_pieces

Rows: TypeAlias = Literal["nonzero", "grid"]

_MOST_ROWS = 50_000_000
_PIECE = 2**20  # rows of a table that are sorted together
# With rows per group fixed, the bytes of a table do not depend on the pieces in which it was made.
_PARQUET: Any = {"compression": "zstd", "row_group_size": 2**17}


@dataclass(frozen=True)
class Declared:
    """Everything public besides the masked counts: what a person declared, and the time."""

    design: Design
    wanted: tuple[Selection, ...]
    method: str
    rows: Rows
    title: str
    description: str
    source: str
    licence: str
    texts: Mapping[str, Mapping[str, str]]
    """title, description, source, unit and note in further languages"""
    population: Population
    given: pl.DataFrame
    """the declared code list; empty if there is none"""
    maps: Mapping[str, Any]
    origins: Origins
    bound: int | None
    sums: bool
    """whether all counts are sums of the published counts of a finer table"""
    created: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """the public parameters of the method"""
    additive: bool = False
    """whether published sums hold, as the method says"""
    blanks: bool = False
    """whether rows without a number stand for blanks"""
    absent_blank: bool = False
    """whether a combination without a row is also blank, not 0"""

    @staticmethod
    def file(selection: Selection) -> str:
        """The file of a table in the folder."""
        return f"tables/{file_name(selection.name)}.parquet"


def declared_type(given: pl.DataFrame, column: str, codes: pl.Series) -> Any:
    """The type of a public column, from its declared and published codes together."""
    declared = given.filter(pl.col("variable") == column)["code"]
    return label_type(pl.concat([declared.cast(pl.String), codes.cast(pl.String).rename("code")]))


def fill(
    folder: Path, tables: Iterable[tuple[Selection, Iterator[pl.DataFrame]]], declared: Declared
) -> dict[str, pl.Series]:
    """Write all files of a release; return the codes with a published count of each column in a table."""
    design = declared.design
    (folder / "tables").mkdir()
    seen = _Seen(design)
    for selection, parts in tables:
        write_pieces(seen.noting(parts), folder / declared.file(selection), **_PARQUET)
    shown = seen.codes()
    kinds = {column: declared_type(declared.given, column, codes) for column, codes in shown.items()}
    for selection in declared.wanted:
        _settle(folder / declared.file(selection), selection, kinds)
    codes = _code_list(design, seen.lists(kinds), declared.given)
    codes.write_csv(folder / CODES)
    if declared.rows == "grid":
        for selection in declared.wanted:
            _complete(design, selection, codes, seen, kinds, folder / declared.file(selection), declared)
    charted = []
    for column, shape in declared.maps.items():
        (folder / "geometry").mkdir(exist_ok=True)
        file = folder / "geometry" / f"{file_name(design.select(column).name)}.geojson"
        file.write_text(json.dumps(shape, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        charted.append({"column": column, "file": f"geometry/{file.name}", "sha256": digest(file)})
    manifest = _manifest(folder, declared, charted)
    (folder / MANIFEST).write_text(dump(manifest), encoding="utf-8")
    return shown


def shown_codes(finest: AnyFinestTable, wanted: Sequence[Selection]) -> dict[str, pl.Series]:
    """The codes with a published count of each column in a table, without writing the tables."""
    seen = _Seen(finest.design)
    for _, parts in finest.public_rows(wanted):
        for _ in seen.noting(parts):
            pass
    return seen.codes()


def _manifest(folder: Path, declared: Declared, charted: list[dict[str, str]]) -> dict[str, Any]:
    from ilba import __version__

    listed = set(declared.given.drop_nulls("code")["variable"])
    lists = {column: "declared" if column in listed else "published" for column in declared.design.columns}
    return {
        "format": FORMAT,
        "title": declared.title,
        "description": declared.description,
        "source": declared.source,
        **({"licence": declared.licence} if declared.licence else {}),
        **({"texts": declared.texts} if declared.texts else {}),
        **({"population": declared.population.to_json()} if declared.population != Population() else {}),
        "method": declared.method,
        **({"parameters": dict(declared.parameters)} if declared.parameters else {}),
        **declared.design.to_json(),
        "rows": declared.rows,
        "absent": None if declared.absent_blank else 0,
        **({"blanks": True} if declared.blanks else {}),
        "additive": declared.additive,
        **({} if declared.bound is None else {"bound": declared.bound}),
        **({"sums": True} if declared.sums else {}),
        "origins": {"hierarchies": "declared", "keys": declared.origins.keys, "codes": lists},
        "tables": [_entry(declared, selection, folder) for selection in declared.wanted],
        "codes": {"file": CODES, "sha256": digest(folder / CODES)},
        "geometry": charted,
        "software": f"ilba {__version__}",
        "created": declared.created,
    }


def _entry(declared: Declared, selection: Selection, folder: Path) -> dict[str, Any]:
    file = folder / declared.file(selection)
    rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    return {
        "name": selection.name,
        "file": declared.file(selection),
        "levels": selection.by_name,
        "keys": list(selection.keys),
        "columns": list(selection.columns),
        "rows": rows,
        "sha256": digest(file),
    }


class _Seen:
    """The labels in published tables, by dimension, as text."""

    def __init__(self, design: Design) -> None:
        self._columns = CodeLists.dimensions(design)
        self._found: list[dict[int, pl.DataFrame]] = [{} for _ in self._columns]

    def noting(self, parts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for part in parts:
            for columns, found in zip(self._columns, self._found, strict=True):
                there = [column for column in columns if column in part.columns]
                if there:
                    # Rows are sorted, so most rows have the area of the row before.
                    here = part.lazy().select(there)
                    new = pl.any_horizontal(pl.col(one).ne_missing(pl.col(one).shift()) for one in there)
                    labels = here.filter(new | (pl.int_range(pl.len()) == 0)).unique().collect().cast(pl.String)
                    before = found.get(len(there))
                    found[len(there)] = labels if before is None else pl.concat([before, labels]).unique()
            yield part

    def codes(self) -> dict[str, pl.Series]:
        """The codes of each column in a table."""
        return {
            column: pl.concat([frame[column] for frame in found.values() if column in frame]).drop_nulls().unique()
            for columns, found in zip(self._columns, self._found, strict=True)
            for column in columns
            if any(column in frame for frame in found.values())
        }

    def lists(self, kinds: Mapping[str, Any]) -> list[pl.DataFrame]:
        """The paths seen in each dimension, coarser ones with nulls below; empty if there are none."""
        merged = []
        for columns, found in zip(self._columns, self._found, strict=True):
            whole = pl.concat([pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), *found.values()], how="diagonal")
            types: Any = {column: kinds.get(column, pl.String) for column in columns}
            merged.append(whole.unique().cast(types).sort(columns))
        return merged

    def paths(self, place: int, columns: Sequence[str]) -> pl.DataFrame:
        """The paths of a dimension seen down to these columns; here null is a missing label."""
        deep = [frame.select(columns) for depth, frame in self._found[place].items() if depth >= len(columns)]
        return pl.concat(deep).unique()


def _settle(file: Path, selection: Selection, kinds: Mapping[str, Any]) -> None:
    """Give a table the types and the order of the published codes, if the source had others."""
    schema = pl.scan_parquet(file, glob=False).collect_schema()
    others: Any = {column: kinds[column] for column in selection.columns if schema[column] != kinds[column]}
    if others:
        settled = file.with_suffix(".settled")
        write_pieces(_sorted(file, selection, others), settled, **_PARQUET)
        settled.replace(file)


def _sorted(file: Path, selection: Selection, others: Any) -> Iterator[pl.DataFrame]:
    """A table in other types, sorted anew, piece by piece.

    Rows that agree in the columns before the first changed type are already adjacent, and are only sorted among
    themselves. If the first column changes its type, the table is one piece.
    """
    columns = list(selection.columns)
    settled = columns[: min(columns.index(column) for column in others)]
    rows = pl.scan_parquet(file, glob=False)
    height = rows.select(pl.len()).collect().item()
    left = rows.head(0).collect()
    for first in range(0, max(height, 1), _PIECE if settled else max(height, 1)):
        piece = pl.concat([left, rows.slice(first, _PIECE if settled else height).collect()])
        ends = len(piece)
        if first + _PIECE < height and settled:
            last = piece.select(pl.struct(settled).rle_id()).to_series()
            ends = int(last.search_sorted(last[-1], "left"))
        left = piece[ends:]
        if ends or not height:
            yield piece[:ends].cast(others).sort(columns)


def _code_list(design: Design, lists: Sequence[pl.DataFrame], given: pl.DataFrame) -> pl.DataFrame:
    """The published code list: the agency's codes, then other codes in the tables."""
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
    added = unknown.select(
        "variable", "code", pl.col("code").alias("label_en"), pl.lit(None, pl.String).alias("label_ko"), "parent"
    )
    names = [hierarchy.name for hierarchy in design.hierarchies]
    order = {name: place for place, name in enumerate(dict.fromkeys([*design.columns, *names]))}
    return pl.concat([given, added], how="diagonal").sort(pl.col("variable").replace_strict(order), maintain_order=True)


def tell_of_unnamed(given: pl.DataFrame, shown: Mapping[str, pl.Series]) -> None:
    """Give a notice of published codes that the declared list does not name, and of names of variables given as codes.

    A column that the list leaves out altogether shows its codes, which is a choice: then it is advice.
    """
    named = set(given.drop_nulls("code").select("variable", "code").rows())
    unknown = [
        (column, code) for column, codes in shown.items() for code in codes.sort() if (column, code) not in named
    ]
    if named and unknown:
        first = listing((f"{column} {code}" for column, code in unknown), 6)
        codes = some(len(unknown), "code")
        listed = {column for column, _ in named}
        notice(
            f"the code list does not name {codes} of the tables: {first}. Readers see them without a label.",
            Notice if any(column in listed for column, _ in unknown) else Advice,
        )
    titled = set(given.filter(pl.col("code").is_null())["variable"])
    blank = [one for one in shown if (one, "") in named and one not in titled and "" not in shown[one]]
    if blank:
        notice(
            f"the code list has an empty text as a code of {listing(blank)}, so readers see a value without counts. "
            f"If the row names the variable, leave its code missing (None).",
            Advice,
        )


def _complete(
    design: Design,
    selection: Selection,
    codes: pl.DataFrame,
    seen: _Seen,
    kinds: Mapping[str, Any],
    file: Path,
    declared: Declared,
) -> None:
    """Write the complete grid of a table over the published code lists, including zeros or blanks."""
    if not selection.columns:
        return
    table = pl.read_parquet(file, glob=False)
    grid = pl.DataFrame({"": [None]})
    for place, columns in enumerate(CodeLists.dimensions(design)):
        there = [column for column in columns if column in selection.columns]
        if not there:
            continue
        paths = pl.concat([seen.paths(place, there), listed_paths(codes, there)]).unique()
        if grid.height * paths.height > _MOST_ROWS:
            raise InputError(
                f"the complete grid of {selection.name!r} has more than {_MOST_ROWS:,} rows. "
                f"Leave rows='grid' out, or release fewer keys."
            )
        grid = grid.join(paths.cast({column: kinds[column] for column in there}), how="cross")
    marked = table.with_columns(pl.lit(True).alias("\0there"))
    full = grid.drop("").join(marked, on=list(selection.columns), how="left", nulls_equal=True)
    if not declared.absent_blank:
        number = pl.when(pl.col("\0there").is_null()).then(0).otherwise(pl.col(MASKED))
        full = full.with_columns(number.cast(table.schema[MASKED]).alias(MASKED))
    full = full.drop("\0there").sort(selection.columns)
    write_pieces(iter([full]), file, **_PARQUET)
