"""Codes that came and went since an earlier wave: the same areas may have other codes. Confidential.

Masks belong to labels. If an area gets another code, its cells get second masks. A reader who knows that only the code
changed compares both, and a mask that changed without a reason proves a small count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from ilba.design.design import MASKED
from ilba.errors import StoreError, listing
from ilba.release.ledger import Publication, checksum_of
from ilba.release.net import Net, labels_among
from ilba.release.reading import Release
from ilba.secret.secret import Secret

_SHOWN = 3


def turned_over(
    now: Net, before: Sequence[Net], last: Publication, columns: Iterable[str], secret: Secret
) -> list[str]:
    """For each column in which codes came and others went since the last wave, a sentence.

    A code that came has at least K records. A code that went has a published count, if the release of the last wave
    is still in its place: that release also has the names of the codes. Without it, their number is known from the
    ledger, for columns with few enough codes. For others the release alone is compared. It shows no code with fewer
    than K records, so a code that came has at least 2K.
    """
    release, by_ledger, found = _release(last), now.turned_over(before), []
    for column in columns:
        many = {label for label, n in now.records.get(column, {}).items() if label and n >= last.threshold}
        shown = set() if release is None else _shown(release, column)
        if column in by_ledger:
            came, went = by_ledger[column]
            new, old = labels_among(came, column, many, secret), labels_among(went, column, shown, secret)
            gone = len(old) if shown else len(went) - len(labels_among(went, column, [""], secret))
        elif release is None:
            continue
        else:
            grown = {label for label in many if now.records[column][label] >= 2 * last.threshold}
            new, old = grown - shown - _listed(release, column), shown - now.records.get(column, {}).keys()
            gone = len(old)
        if new and gone:
            found.append(_told(column, last, gone, old, new))
    return found


def _told(column: str, last: Publication, gone: int, old: set[str], new: set[str]) -> str:
    wave = f"wave {last.wave!r}" if last.wave else f"publication {last.number}"
    went = f" ({listing(map(repr, sorted(old)), _SHOWN)})" if old else ""
    return (
        f"{column}: {gone:,} {'code' if gone == 1 else 'codes'} of {wave} {'is' if gone == 1 else 'are'} gone{went}, "
        f"{len(new):,} {'is' if len(new) == 1 else 'are'} new ({listing(map(repr, sorted(new)), _SHOWN)}). Where only "
        f"the code changed, cells would get second masks, which can prove small counts. Keep the old code there: "
        f"recode the new one to it in the recipe; the code list may give it the new label. After a merger the old "
        f"codes stay gone, without a recode."
    )


def _release(publication: Publication) -> Release | None:
    """The release of a publication, if it is still in its place."""
    place = Path(publication.place)
    if checksum_of(place) != publication.checksum:
        return None
    try:
        return Release(place)
    except StoreError:
        return None


def _listed(release: Release, column: str) -> set[str]:
    """The codes of a column in the code list of a release: declared, or published in any table."""
    return set(release.codes.filter(pl.col("variable") == column)["code"].drop_nulls().cast(pl.String))


def _shown(release: Release, column: str) -> set[str]:
    """The codes of a column that have a published count, from the smallest table that has the column."""
    tables = [table for table in release.tables.values() if column in table.columns]
    if not tables:
        return set()
    try:
        table = release.table(min(tables, key=lambda one: one.rows).name)
    except StoreError:
        return set()
    return set(table.filter(pl.col(MASKED) > 0)[column].drop_nulls().cast(pl.String))
