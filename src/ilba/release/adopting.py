"""Enter publications into a ledger that were made without one: by earlier versions, or by the R package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ilba.data.reading import Reading, scan
from ilba.design.design import MASKED, Design, Selection
from ilba.design.tables import wanted_tables
from ilba.errors import InputError, SecretError, UnsafeRelease, listing, some
from ilba.methods.controlled.search import Chosen
from ilba.release.chapter import Chapter
from ilba.release.ledger import Ledger, Publication
from ilba.release.reading import MANIFEST, Release, digest
from ilba.release.recognising import opened
from ilba.release.replacing import way
from ilba.release.writing import chosen_again, entry_of
from ilba.secret.secret import Secret
from ilba.tables.beside import published_path
from ilba.tables.finest import FinestTable
from ilba.tables.table import Table


def adopt(
    ledger: Ledger,
    releases: Sequence[Release],
    store: FinestTable,
    *,
    masks: FinestTable | None = None,
    tables: Sequence[str] = (),
    secret: Secret | None = None,
    accept_conflict: str | None = None,
    read: Reading | Mapping[str, Any] | None = None,
) -> list[Publication]:
    """Enter publications made from a store, all or none: see `Ledger.adopt`."""
    own = store.own_secret(secret)
    if own is None:
        raise SecretError("masks are kept in a ledger under a secret. Give secret= (--secret), the path of its file.")
    if not releases and not tables:
        raise InputError("name the release folders to be entered, or the tables= (--tables) that were published.")
    for release in releases:
        _check_fit(release, store)
    files = [name for name in tables if Path(name).suffix == ".csv"]
    written = {name: _written(name, store.design, Reading.of(read)) for name in files}
    wanted_here = wanted_tables(store.design, [written[t][0] if t in written else t for t in tables]) if tables else []
    entered = _aside(store.place) if store.place is not None else None
    found: list[Publication | None] = []
    with opened(store, own, ledger, noted=False) as chapter:
        published: list[tuple[Release | None, FinestTable]]
        published = [(release, _as_published(release, store, masks, chapter, own)) for release in releases]
        if tables:
            published.append((None, store if masks is None else _masked_by(masks, store)))
            for file, (table, shown) in written.items():
                _check_written(file, shown, next(iter(published[-1][1].tables([table]))))
        _refuse_differing(published)
        first = published[0][1]
        chapter.check(first, way(first.method, store.design, first.by, first.move), accept_conflict, is_out=True)
        for made, masked in published:
            wanted = wanted_here if made is None else wanted_tables(store.design, list(made.tables))
            told = {**entry_of(masked, wanted, "not audited", False, None), "adopted": True}
            checksum = "" if made is None else digest(made.path / MANIFEST)
            chapter.keep_masks(masked)
            if chapter.entered(told, checksum) is None:
                chapter.enter(told, "" if made is None else str(made.path.resolve()), checksum)
            else:
                chapter.note_beside()  # this may be a ledger that was restored from a copy
            found.append(chapter.entered(told, checksum))
    if entered is not None:
        entered.unlink(missing_ok=True)  # the ledger replaces it
    return [one for one in found if one is not None]


def _refuse_differing(published: Sequence[tuple[Release | None, FinestTable]]) -> None:
    """Refuse publications with different masks for one cell."""
    first = published[0][1]
    for made, masked in published[1:]:
        if (masked.method, masked.marks()[1]) != (first.method, first.marks()[1]):
            called = "what tables= (--tables) names" if made is None else f"the release {str(made.path)!r}"
            raise UnsafeRelease(
                f"{called} shows other masks or another method than the first one that was named. Comparing them "
                f"reveals small counts, and no ledger can mend that. Nothing was entered. Enter first what readers "
                f"rely on most. Then enter the other one alone with accept_conflict= (--accept-conflict) and the ID "
                f"that is printed. Later publications keep the masks that were entered first."
            )


def _aside(place: Path) -> Path | None:
    """The masks file of an earlier version beside a store."""
    note = published_path(place)
    file = note.with_name(note.name.removesuffix(".published.json") + ".masks.parquet")
    return file if file.exists() else None


def _check_fit(release: Release, store: FinestTable) -> None:
    ours, theirs = store.design, release.design
    if set(ours.columns) != set(theirs.columns):
        raise InputError(
            f"the release {str(release.path)!r} has the columns {listing(theirs.columns)}, and the store "
            f"{listing(ours.columns)}. Give the store that it was made from."
        )
    if ours.threshold != theirs.threshold:
        raise InputError(
            f"the release {str(release.path)!r} has K={theirs.threshold}, and the store K={ours.threshold}. Give the "
            f"store that it was made from."
        )


def _as_published(
    release: Release, store: FinestTable, masks: FinestTable | None, chapter: Chapter, secret: Secret
) -> FinestTable:
    """The store with the masks of a release, proven by making its tables again."""
    method = release.manifest["method"]
    finest = release.design.finest.name
    for masked in _candidates(release, store, masks, chapter, secret):
        if masked is not None and masked.method == method and _gives(masked, release):
            return masked
    missing = "the masks file given with masks= (--masks)" if masks is None else "another masks file than this one"
    raise UnsafeRelease(
        f"the masks of the release {str(release.path)!r} cannot be found: the store does not give its numbers, and "
        f"{'it holds no finest table' if finest not in release.tables else 'its finest table is of other counts'}. "
        f"Give the store as it was published (build it again from the same records, with the same wave), or "
        f"{missing}: NAME.masks.parquet beside the store, or R's file."
    )


def _candidates(
    release: Release, store: FinestTable, masks: FinestTable | None, chapter: Chapter, secret: Secret
) -> Iterator[FinestTable | None]:
    """Tables whose masks may be those of a release, one by one."""
    if masks is not None:
        yield _masked_by(masks, store)
        return
    method, finest = release.manifest["method"], release.design.finest.name
    if finest in release.tables:
        first_way = Chosen(tuple(release.tables), None, held=False, way=1)
        yield store.with_masks_shown(release.table(finest), first_way if method == "controlled" else None)
    if store.method == method:
        yield store
    if method == "controlled" and not store.chosen:
        yield chosen_again(store, secret, chapter)


def _masked_by(masks: FinestTable, store: FinestTable) -> FinestTable:
    found = store.with_masks_of(masks)
    if found is None:
        raise InputError(
            "the masks belong to other counts than those of the store. Give the store as it was published."
        )
    return found


def _gives(masked: FinestTable, release: Release) -> bool:
    """Whether a finest table gives the tables of a release."""
    for table in masked.tables(wanted_tables(masked.design, list(release.tables))):
        columns = list(table.selection.columns)
        texts: Any = dict.fromkeys(columns, pl.String)
        ours = pl.concat(table.public_parts()).cast(texts)
        theirs = release.table(table.selection.name).filter(pl.col(MASKED) > 0).cast(texts)
        order = columns or [MASKED]
        if not ours.sort(order).equals(theirs.select(ours.columns).sort(order)):
            return False
    return True


def _written(file: str, design: Design, reading: Reading) -> tuple[Selection, pl.DataFrame]:
    """The table in a csv file of R, and its rows, as text."""
    frame = scan(file, reading=reading).collect()
    columns = [name for name in frame.columns if name not in (MASKED, "type1", "type2")]
    levels = [sum(name in columns for name in hierarchy.columns) for hierarchy in design.hierarchies]
    table = design.at(levels, [key for key in design.keys if key in columns])
    if frame.columns == ["Loss", "n", "perc"]:
        raise InputError(f"{file!r} is R's file of losses, which is no table. Leave it out.")
    if frame.columns[:1] == [""]:
        raise InputError(
            f"{file!r} has R's row names: its first column has no name. Write it without: write.csv(x, 'agg_tb.csv', "
            f"row.names = FALSE)."
        )
    if MASKED not in frame.columns or set(table.columns) != set(columns):
        raise InputError(
            f"{file!r} has the columns {listing(frame.columns)}, and a table of this store has N_masked beside some of "
            f"{listing(design.columns)}. Give the store that it was made from, and the file as R wrote it."
        )
    return table, frame.select(*columns, MASKED)


def _check_written(file: str, shown: pl.DataFrame, table: Table) -> None:
    """Refuse a csv file of R with other counts than the masks give. R writes true and false in capital letters."""
    ours = pl.concat(table.public_parts()).cast(pl.String)
    logical = [name for name in table.selection.columns if set(ours[name].unique()) <= {"true", "false"}]
    shown = shown.with_columns(pl.col(logical).str.to_lowercase())
    theirs = shown.filter(pl.col(MASKED) != "0")
    by_name = f"name the table instead, which is not compared: tables= (--tables {table.selection.name})."
    _refuse_other_labels(file, theirs, table.frame.select(table.selection.columns).cast(pl.String), by_name)
    missing, other = _without(ours, theirs, ours.columns), _without(theirs, ours, ours.columns)
    left_out = _without(missing, shown, table.selection.columns or ours.columns)
    if other.is_empty() and left_out.height == missing.height > 0:
        raise UnsafeRelease(
            f"{file!r} has only {some(theirs.height, 'row')} of the {ours.height:,} that these masks give. The rows "
            f"that it has agree. Nothing was entered. Give the file with all rows, as R wrote it. If only these rows "
            f"were published, or the file is lost, {by_name}"
        )
    if differing := max(missing.height, other.height):
        raise UnsafeRelease(
            f"{file!r} differs from what these masks give in {some(differing, 'row')} of {ours.height:,}. Nothing was "
            f"entered. Give the full_tb.rds that it was made from, as --store or --masks: R draws new masks each time."
        )


def _without(one: pl.DataFrame, other: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The rows of one frame that are not in the other one, by these columns."""
    return one.join(other, on=list(columns), how="anti", nulls_equal=True)


def _refuse_other_labels(file: str, theirs: pl.DataFrame, ours: pl.DataFrame, by_name: str) -> None:
    """Refuse labels that the store does not have: often codes whose leading zeros were lost."""
    for column in ours.columns:
        known = {label for label in ours[column].unique() if label is not None}
        unknown = sorted({label for label in theirs[column].unique() if label is not None} - known)
        if not unknown:
            continue
        numbers = {label.lstrip("0"): label for label in known if label.isdecimal()}
        why = "Give the full_tb.rds that it was made from, as --store or --masks, and the file as R wrote it."
        if wrong := next((one for one in unknown if one.isdecimal() and one.lstrip("0") in numbers), ""):
            why = (
                f"The store has {numbers[wrong.lstrip('0')]!r} for {wrong!r}: a program read the codes as numbers. "
                f"Give the file as R wrote it, or read its codes as text (colClasses = 'character') before you save it "
                f"again. If that file is lost, {by_name}"
            )
        raise UnsafeRelease(
            f"{file!r} has labels in {column!r} that the store does not have: {listing(unknown, 5)}. Nothing was "
            f"entered. {why}"
        )


def told(found: Sequence[Publication], before: Sequence[Publication] = ()) -> str:
    """What was entered, as a sentence; `before` are the publications that the ledger had."""
    named, known = {one.number for one in found}, {one.number for one in before}
    new = len(named - known)
    if not new:
        return "already entered; nothing was added"
    already = f", {len(named & known)} already entered" if named & known else ""
    return f"{some(new, 'publication')} entered{already}; later publications keep the masks that were entered first"
