"""How the codes of the data match the declared code lists and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ilba.data.codelists import as_spelled
from ilba.data.recipe import matching_case
from ilba.errors import InputError, listing, some
from ilba.publication.codelists import DeclaredLists
from ilba.tables.engine import AnyFinestTable


@dataclass(frozen=True)
class Matched:
    """How the codes of a column match its code list or map (confidential)."""

    column: str
    what: str
    """"the code list" or "the map" """
    file: str
    found: int
    without: tuple[str, ...]
    """codes of the data that it does not have"""
    extra: int
    """its codes that the data does not have"""
    strays: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """levels of the same hierarchy, with the codes among these that the data has there"""
    orphans: tuple[str, ...] = ()
    """parents in the code list that are no codes of the level above"""
    others: tuple[str, ...] = ()
    """variables of the code list that are no columns here"""

    def __str__(self) -> str:
        text = f"{self.column}: {self.what} {self.file} has {some(self.found, 'code')} of the data"
        if self.without:
            text += f", and not {listing(self.without, 5)}"
        text += f"; {some(self.extra, 'code')} more" if self.extra else ""
        text += (
            f", with parents that are no codes of the level above: {listing(self.orphans, 5)}" if self.orphans else ""
        )
        text += "".join(f", with codes of {level}: {listing(codes, 5)}" for level, codes in self.strays)
        more = f"; it also has variables that are no columns here: {listing(self.others, 5)}"
        return text + more * bool(self.others)


def matched(lists: DeclaredLists, maps: Mapping[str, Any], finest: AnyFinestTable) -> list[Matched]:
    """How code lists and maps match the data; one that matches nothing is refused."""
    codes = {
        name: set(frame[name].cast(pl.String).drop_nulls())
        for listed, used in zip(finest.codes.lists, finest.occurring(), strict=True)
        for frame in [listed.labels[used]]
        for name in frame.columns
    }
    labels = as_spelled(lists.labels, finest.codes)
    found = _of_variables(lists, codes, finest, labels)
    for column, entry in lists.said.codes.items():
        listed = set(labels.filter(pl.col("variable") == column)["code"].drop_nulls())
        match = _match(lists, column, "the code list", entry.file, codes[column], listed)
        own = {level: codes[level] - codes[column] for level in lists.levels(column) if level != column}
        here = {level: _strays(listed, others, codes[column], entry.pad) for level, others in own.items()}
        _require_zeros(lists, labels, column, codes)
        for level, strays in here.items():
            if 2 * len(strays) > len(own[level]):
                raise InputError(_of_all_levels(lists, column, entry.file, level, strays))
        strange = tuple((level, strays) for level, strays in here.items() if strays)
        found.append(replace(match, strays=strange, orphans=_orphans(lists, labels, column, codes)))
    for column, shape in maps.items():
        drawn = {str(one["id"]) for one in shape["features"]}
        found.append(_match(lists, column, "the map", lists.said.maps[column].file, codes[column], drawn))
    return found


def _of_variables(
    lists: DeclaredLists, codes: Mapping[str, set[str]], finest: AnyFinestTable, labels: pl.DataFrame
) -> list[Matched]:
    """How the files of `lists` match the data, for each of their variables that has codes.

    A code may be listed in another file. Only a column of which no file has a code of the data is refused.
    """
    spelled = {name: as_spelled(frame, finest.codes) for name, frame in lists.whole.items()}
    listed = {name: frame.drop_nulls("code").filter(pl.col("code") != "") for name, frame in spelled.items()}
    found = []
    for name, frame in listed.items():
        others = tuple(lists.strange(frame))
        for column in (one for one in frame["variable"].unique(maintain_order=True) if one in codes):
            own = set(frame.filter(pl.col("variable") == column)["code"])
            every = own.union(*(one.filter(pl.col("variable") == column)["code"] for one in listed.values()))
            if column in lists.said.codes:
                every |= set(labels.filter(pl.col("variable") == column)["code"].drop_nulls())
            match = _match(lists, column, "the code list", name, codes[column], every)
            found.append(replace(match, found=len(codes[column] & own), extra=len(own - codes[column]), others=others))
            others = ()
    return found


def _match(lists: DeclaredLists, column: str, what: str, file: str, codes: set[str], listed: set[str]) -> Matched:
    common = codes & listed
    if not common:
        entry = lists.recipe.columns.get(column)
        is_recoded = entry is not None and entry.recode is not None
        hint = _hint(codes, listed, column, is_recoded=is_recoded, is_whole=file in lists.whole)
        raise InputError(
            f"{what} {file!r} has no code of {column!r}: the data has {listing(sorted(codes), 3)}, {what} has "
            f"{listing(sorted(listed), 3)}.{hint}"
        )
    return Matched(column, what, file, len(common), tuple(sorted(codes - listed)), len(listed - codes))


def _orphans(lists: DeclaredLists, labels: pl.DataFrame, column: str, codes: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The declared parents of a code list that are no codes of the level above; refused if all are."""
    entry, above = lists.said.codes[column], lists.levels_above(column)
    if not entry.parent or not above:
        return ()
    upper = above[-1]
    rows = labels.filter(pl.col("variable").is_in([column, upper]))
    parents = set(rows.filter(pl.col("variable") == column)["parent"].drop_nulls()) - {""}
    known = codes[upper] | set(rows.filter(pl.col("variable") == upper)["code"].drop_nulls())
    if parents and not parents & known:
        shown = f"it has {listing(sorted(parents), 3)}, and {upper!r} has {listing(sorted(known), 3)}"
        plain = {one.lstrip("0") for one in known}
        width = max(map(len, known))
        cure = f"Name the column with the codes of {upper!r}, or leave parent out."
        if any(one.lstrip("0") in plain for one in parents):
            cure = f"It lost leading zeros. Declare the code list of {upper!r}, too, so that they are known: codes."
            cure += f"{upper} = {{file = {entry.file!r}, code = {entry.parent!r}, pad = {width}}}."
        raise InputError(
            f"codes.{column}: no parent in {entry.parent!r} of {entry.file!r} is a code of {upper!r}: {shown}. {cure}"
        )
    return tuple(sorted(parents - known))


def _strays(listed: set[str], others: set[str], own: set[str], pad: int | None) -> tuple[str, ...]:
    """The codes of another level in a list, also those that `pad` made as long as the codes of this one."""
    plain = {one.lstrip("0") for one in others}
    padded = {one for one in listed - own if len(one) == pad and one.startswith("0") and one.lstrip("0") in plain}
    return tuple(sorted(listed & others | padded))


def _require_zeros(lists: DeclaredLists, labels: pl.DataFrame, column: str, codes: Mapping[str, set[str]]) -> None:
    """Refuse a list of all levels whose upper codes lost the zeros that the data has: they would be other areas."""
    for level in lists.levels_above(column) if lists.said.codes[column].parent else ():
        listed = set(labels.filter(pl.col("variable") == level)["code"].drop_nulls())
        plain = {one.lstrip("0") for one in listed - codes[level]}
        lost = {one for one in codes[level] - listed if one.lstrip("0") in plain}
        if lost and level not in lists.said.codes:
            raise InputError(
                f"codes.{column}: {lists.said.codes[column].file!r} has codes of {level!r} without leading zeros: "
                f"{listing(sorted(lost), 5)}. Write recipe.{level} = {{pad = {max(map(len, lost))}}}."
            )


def _of_all_levels(lists: DeclaredLists, column: str, file: str, level: str, strays: Sequence[str]) -> str:
    """Why a code list with the codes of another level is refused, and what to type."""
    finest = lists.levels(column)[-1]
    told = f"codes.{column}: {file!r} also has codes of {level!r}: {listing(strays, 5)}. "
    told += f"They would be published as empty areas of {column!r}. "
    other = lists.said.codes.get(finest)
    if column != finest and other and other.file == file and other.parent:
        told += f"Remove codes.{column}: codes.{finest} has the same list with its parents, and names this level, too."
        return told
    if column != finest:
        told += f"Declare it for {finest!r} instead, where codes of upper levels name these levels: "
        told += f"codes.{finest} = {{file = {file!r}, code = '..', parent = '..'}}. Or keep only the codes of "
        told += f"{column!r} in it."
    elif not lists.said.codes[column].parent:
        told += "Write parent = '..' beside its file, the column of the code one level up, or keep only the codes "
        told += f"of {column!r} in it."
    else:
        told += f"Keep only the codes of {column!r} in it."
    told += f" If {column!r} has these codes, too, name them in a file of variable, code, label_en and parent, at the "
    return told + "top: lists = ['codes.csv']."


def _hint(codes: set[str], listed: set[str], column: str, *, is_recoded: bool, is_whole: bool) -> str:
    """Say what to type so that codes match."""
    widths = {len(code) for code in listed}
    if len(widths) == 1 and any(code.zfill(width) in listed for code in codes for width in widths):
        entry = f"recode = {{.., pad_to = {min(widths)}}}" if is_recoded else f"pad = {min(widths)}"
        return f" With leading zeros they match: write recipe.{column} = {{{'.., ' * is_recoded}{entry}}}."
    longer = {len(code) for code in codes}
    if len(longer) == 1 and any(code.zfill(width) in codes for code in listed for width in longer):
        cure = "write them in it" if is_whole else f"write pad = {next(iter(longer))} beside its file"
        return f" It has no leading zeros: {cure}."
    shorter = {code.lstrip("0") for code in listed}
    if codes & shorter:
        return " The data has no leading zeros. Write pad in the recipe of the column."
    if case := matching_case(codes, listed):
        return f" In {case[:5]} case they match: write recipe.{column} = {{case = {case!r}}}."
    if is_whole:
        return f" Correct the codes of {column!r} in it; `ilba inspect` shows those of the data."
    return " Name another column or property with code = '..'; `ilba inspect` shows what matches."
