"""The folder in which a release is made, and the release that is already there.

A release that takes the place of another must not undo it: comparing two sets of masks of the same people reveals small
counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ilba.design.design import MASKED, Design
from ilba.errors import InputError, StoreError, UnsafeRelease, listing
from ilba.files import writable_folder
from ilba.release.chapter import Chapter
from ilba.release.folder import Declared
from ilba.release.reading import CODES, MANIFEST, Path_, Release

if TYPE_CHECKING:
    from ilba.methods.method import Method


def way(method: str, design: Design, by: Method | None = None, move: int = 0) -> tuple[str, int, str]:
    """What decides a masked count, apart from the secret and the data."""
    if by is not None:
        return method, design.threshold, parameters_of(by) or design.cells
    if move and method == "controlled":
        return method, design.threshold, spelled({"move": move})
    return method, design.threshold, "" if method == "controlled" else design.cells


def parameters_of(by: Method) -> str:
    """The parameters of a method that must not change, in one line; empty for a method that spends a budget."""
    return "" if by.spends is not None else spelled(by.parameters)


def spelled(parameters: Mapping[str, Any]) -> str:
    """The parameters of a method in one line."""
    return ",".join(f"{name}={value}" for name, value in parameters.items())


def free_folder(path: Path_) -> Path:
    """The folder for a release: new, empty, or holding a release and nothing else."""
    target = Path(os.path.realpath(path))
    writable_folder(target)
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not (target / MANIFEST).exists())):
        raise InputError(
            f"{os.fspath(path)!r} exists and is not a release; this would destroy it. Choose another name."
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
    """Whether a path in a folder is that of a release file."""
    kinds = (("tables", ".parquet"), ("geometry", ".geojson"))
    return str(file) in (MANIFEST, CODES) or (str(file.parent), file.suffix) in kinds


def _before(target: Path) -> Release | None:
    try:
        return Release(target)
    except StoreError:
        return None


def refuse_another(target: Path, now: tuple[str, int, str], design: Design, by: Method | None) -> None:
    """Refuse to follow a release of the same columns by another method, K or reading."""
    before = _before(target)
    if before is None or before.design.columns != design.columns:
        return
    told = before.manifest["method"]
    is_budgeted = by is not None and by.spends is not None and by.name == told  # epsilons add up, so they may differ
    parameters = "" if is_budgeted else spelled(before.manifest.get("parameters", {}))
    if told == "controlled":  # noise changes no published mask: the ledger keeps each
        parameters = spelled({"move": before.move}) if before.move else ""
    if (told, before.design.threshold, parameters or way(told, before.design)[2]) != now:
        raise UnsafeRelease(
            f"the release at {str(target)!r} shows the same columns by another method, K or reading (method={told!r}, "
            f"K={before.design.threshold}, cells={before.design.cells!r}). Where it shows the same people, comparing "
            f"the two would reveal small counts, so nothing was published. Publish as before; where these are other "
            f"people, choose another folder."
        )


def refuse_other_masks(target: Path, made: Path, now: Declared, chapter: Chapter) -> None:
    """Refuse other masks for the people of the existing release, if no ledger carries its masks over."""
    before = _before(target)
    if before is None or now.method != "controlled" or chapter.publications:
        return
    names = {table.name for table in now.wanted}
    common = [name for name in before.tables if name in names]
    if not common or set(before.tables) == names or before.manifest["method"] != "controlled":
        return
    name = max(common, key=lambda name: before.tables[name].rows)
    table = before.tables[name]
    try:
        old = before.table(name).cast(dict.fromkeys(table.columns, pl.String))
    except (StoreError, OSError, pl.exceptions.PolarsError):
        return
    new = pl.read_parquet(made / table.file, glob=False).cast(dict.fromkeys(table.columns, pl.String))
    if not table.columns:
        return
    both = old.join(new, on=list(table.columns), how="inner", nulls_equal=True)
    same = int((both[MASKED] == both[f"{MASKED}_right"]).sum())
    if both.height and 2 * same >= both.height and not same == old.height == new.height:
        raise UnsafeRelease(
            f"the release at {str(target)!r} shows other tables of the same data with other masks: most counts of "
            f"{name!r} are equal, some are not. Comparing the two would reveal small counts: nothing was published. "
            f"Publish with the ledger that it was published with (ledger=), or enter it into this one first: "
            f"ilba ledger adopt {target} --store STORE"
        )
