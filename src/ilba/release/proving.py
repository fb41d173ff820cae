"""The proof that a release is a function of its masked counts and of what was declared.

The folder is made a second time, from the world in which the masked counts are the truth, and compared byte by byte.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ilba.cells.codes import label_type
from ilba.design.design import MASKED, Selection
from ilba.errors import UnsafeRelease, notice
from ilba.release.folder import Declared, declared_type, fill
from ilba.release.reading import MANIFEST
from ilba.tables.engine import AnyFinestTable


def shown_rows(
    finest: AnyFinestTable, declared: Declared, step: Callable[[], object]
) -> Iterator[tuple[Selection, Iterator[pl.DataFrame]]]:
    """The published rows of each table, with labels in the types of the published codes if already known."""
    if finest.method == "controlled":
        finest = finest.as_truth(lambda column, codes: declared_type(declared.given, column, codes))
    for selection, parts in finest.public_rows(declared.wanted):
        yield selection, parts
        step()


def _shown_again(
    first: Path, declared: Declared, step: Callable[[], object]
) -> Iterator[tuple[Selection, Iterator[pl.DataFrame]]]:
    """The tables of a folder as from another source: in another order, with all labels as text."""
    for selection in reversed(declared.wanted):
        labels = list(selection.columns)
        shown = pl.col(MASKED) > 0
        shown = shown | pl.col(MASKED).is_null() if declared.blanks else shown
        table = pl.read_parquet(first / declared.file(selection), glob=False).filter(shown)
        yield selection, iter([table.cast(dict.fromkeys(labels, pl.String)).sort(labels or MASKED)])
        step()


def prove(first: Path, finest: AnyFinestTable, declared: Declared, step: Callable[[], object]) -> None:
    """Make the folder again without the truth, and compare it byte by byte.

    Sums of masks are made again in the world in which the masked counts are the truth. The tables of other methods
    depend on the truth by design, so everything else is made again from the published tables.
    """
    second = first / "again"
    second.mkdir()
    if finest.method == "controlled":
        tables = shown_rows(_as_truth(finest), declared, step)
    else:
        tables = _shown_again(first, declared, step)
    fill(second, tables, declared)
    ours, theirs = (
        {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
        for folder in (first, second)
    )
    ours = {name: file for name, file in ours.items() if not file.is_relative_to(second)}
    for name in sorted({*ours, *theirs}, key=lambda name: (name == MANIFEST, name)):  # checksums last
        if name not in ours or name not in theirs or not _equal(ours[name], theirs[name]):
            raise UnsafeRelease(
                f"{name!r} depends on more than the masked counts and what was declared, so nothing was published. "
                f"This is a mistake in ilba: please report it."
            )
    shutil.rmtree(second)


def _as_truth(finest: AnyFinestTable) -> AnyFinestTable:
    """The world in which the masked counts are the truth, with labels of other types wherever possible."""
    types = {name: kind for listed in finest.codes.lists for name, kind in listed.labels.schema.items()}
    return finest.as_truth(lambda column, codes: label_type(codes) if types[column] == pl.String else pl.String)


def _equal(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as ours, other.open("rb") as theirs:
        while True:
            a, b = ours.read(2**20), theirs.read(2**20)
            if a != b:
                return False
            if not a:
                return True


def tell_of_lists_from_the_data(finest: AnyFinestTable, declared: Declared, shown: Mapping[str, pl.Series]) -> None:
    """Give a notice for each of `lists_from_the_data`. It is confidential."""
    for found in lists_from_the_data(finest, declared.given, declared.maps, shown):
        notice(found)


def lists_from_the_data(
    finest: AnyFinestTable, given: pl.DataFrame, maps: Mapping[str, Any], shown: Mapping[str, pl.Series]
) -> list[str]:
    """The declared lists and maps that name an area with only zeros in the tables, but no truly empty one, in words.

    Such a list tells that somebody is there.
    """
    lists = {
        column: set(given.filter(pl.col("variable") == column)["code"].drop_nulls()) for column in finest.design.columns
    }
    drawn = {column: _drawn(shape) for column, shape in maps.items()}
    named = [("the code list", lists), ("the map", drawn)]
    silent = [
        (what, column, codes)
        for what, by_column in named
        for column, codes in by_column.items()
        if column in shown and not codes <= set(shown[column])
    ]
    if not silent:
        return []
    occurring: dict[str, set[str]] = {}
    for listed, used in zip(finest.codes.lists, finest.occurring(), strict=True):
        texts = listed.labels[used].cast(pl.String)
        occurring |= {column: set(texts[column].drop_nulls()) for column in texts.columns}
    found = []
    for what, column, codes in silent:
        if codes <= occurring[column]:
            missing = "shape for an area" if what == "the map" else "code"
            found.append(
                f"{what} of {column!r} has a {missing} whose counts are all 0 after masking, and none that is truly "
                f"empty: it looks as if it was made from the data, and tells that somebody is there. Give all that can "
                f"occur, empty ones too (confidential)."
            )
    return found


def _drawn(shape: Mapping[str, Any]) -> set[str]:
    """The areas that a map names, by the id of a shape or by its code. A lake may have neither."""
    named = (
        one.get("id", (one["properties"] if isinstance(one.get("properties"), Mapping) else {}).get("code"))
        for one in shape.get("features", [])
    )
    return {str(area) for area in named if area is not None}
