"""Warnings about data that is probably wrong: nearly equal codes, names beside their codes. Confidential.

All are found from code lists and small tables, not from records, and give a sentence that says what to type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import polars as pl

from ilba.data.columns import spoilt
from ilba.data.letters import blanks_replaced, folding, in_case, lower_case, one_blank, shown
from ilba.data.microdata import Filtered
from ilba.data.missing import spells_missing
from ilba.design.design import Design, Selection
from ilba.errors import Advice, Notice, listing, notice
from ilba.publication.file import toml, toml_name
from ilba.tables.engine import AnyFinestTable

_MOST = 100_000
"""the most codes of a column that are compared"""


def doubts(finest: AnyFinestTable) -> list[str]:
    """What a person should check before publishing."""
    return [*_alike(finest), *_padded(finest), *_spoilt(finest), *_names(finest), *_empty(finest), *advice(finest)]


def tell_doubts(finest: AnyFinestTable) -> None:
    """Give a notice for each doubt; possible improvements are advice."""
    better = advice(finest)
    for doubt in doubts(finest):
        notice(doubt, Advice if doubt in better else Notice)


def advice(finest: AnyFinestTable) -> list[str]:
    """Nearly all finest cells are small: a column with many values, such as single years, should be grouped."""
    design = finest.design
    ((_, sums),) = finest.sums([design.select(0)])
    records = int((sums.parts.sum_small + sums.parts.sum_large).sum())
    if len(finest) < 200 or records >= 2 * len(finest):
        return []
    lists = finest.codes.lists[len(design.hierarchies) :]
    sizes = {key: len(codes) for key, codes in zip(design.keys, lists, strict=True)}
    widest = max(sizes, key=lambda key: sizes[key], default="")
    cure = ""
    if widest:
        labels = lists[design.keys.index(widest)].labels[widest].cast(pl.String).drop_nulls()
        by = "bands or width" if labels.str.contains(r"^-?\d").all() else "a recode"
        cure = f" {widest} has {sizes[widest]:,} values: group them with {by} in its recipe."
    return [f"a finest cell has fewer than 2 records on average, so nearly all counts are masked.{cure}"]


def unused_keys(design: Design, tables: Iterable[Selection]) -> list[str]:
    """Keys that are in no table: they make finest cells smaller, and nobody sees them."""
    used = {key for table in tables for key in table.keys}
    left = [key for key in design.keys if key not in used]
    if not left:
        return []
    return [
        f"no table has {listing(map(repr, left))}, declared in keys. Publish it by a larger max_keys, or by names or "
        f"keys under [tables] of publication.toml, or leave it out of keys."
    ]


def misspelt(named: Iterable[Filtered]) -> list[str]:
    """Values of `without` that no record has, and values of `where` that are spelled otherwise in the data."""
    found = []
    for (column, step, _), absent, near in named:
        if not absent or not (near or step == "without"):
            continue
        cure = "If the data has such a line, name its value there; else remove it"
        if near:
            entry = toml({column: [*absent, *near]})
            cure = f"It has {listing(map(shown, near), 4)}: write {step} = {entry}"
        found.append(
            f"no record has {listing(map(shown, absent), 4)} in {column}, as {step} names it. {cure} under [recipe] of "
            f"publication.toml."
        )
    return found


def _alike(finest: AnyFinestTable) -> list[str]:
    """Codes of one column that differ only by blanks, case, accents that capitals lost, or leading zeros."""
    found = []
    for codes in finest.codes.lists:
        for column in codes.columns:
            texts = codes.labels[column].drop_nulls().unique().sort().cast(pl.String).to_list()
            if len(texts) > _MOST:
                continue
            folded, groups = folding(texts), defaultdict[str, list[str]](list)
            for text in texts:
                same = folded(text)
                groups[same.lstrip("0") or "0" if same.isdecimal() else same].append(text)
            twice = [group for group in groups.values() if len(group) > 1]
            if twice:
                which = listing(("/".join(map(shown, group[:4])) for group in twice), 3)
                found.append(f"{column} has codes that are nearly the same: {which}. {_cure(column, twice)}")
    return found


def _padded(finest: AnyFinestTable) -> list[str]:
    """Codes that are spellings of a missing value with zeros before them: nobody named these as missing."""
    found = []
    for codes in finest.codes.lists:
        for column in codes.columns:
            texts = codes.labels[column].cast(pl.String).drop_nulls().unique()
            padded = texts.filter(texts.str.starts_with("0")).sort().to_frame("code")
            padded = padded.with_columns(pl.col("code").str.strip_chars_start("0").alias("word"))
            padded = padded.filter(spells_missing(pl.col("word")))
            if padded.height:
                shown, words = listing(map(repr, padded["code"]), 3), padded["word"].to_list()
                found.append(
                    f"{column} has codes that are missing values with leading zeros: {shown}. Write missing = {words} "
                    f"under [recipe] of publication.toml."
                )
    return found


def _spoilt(finest: AnyFinestTable) -> list[str]:
    """Codes that a spreadsheet wrote as large numbers, such as 2,1008E+08 among codes of digits."""
    found = []
    for codes in finest.codes.lists:
        for column in codes.columns:
            if texts := spoilt(codes.labels[column].cast(pl.String).drop_nulls().unique().sort()):
                found.append(
                    f"{column} has codes that a spreadsheet wrote as large numbers: {listing(map(repr, texts), 3)}. "
                    f"Correct them in the file of records."
                )
    return found


def _cure(column: str, twice: list[list[str]]) -> str:
    name = toml_name(column)
    texts = [text.strip() for group in twice for text in group]
    steps: dict[str, Any] = {}
    if all(text.isdecimal() for text in texts):
        steps["pad"] = max(map(len, texts))
    else:
        blank = pl.Series(map(one_blank, texts))
        if blank.n_unique() > len(twice):
            steps["case"] = case = lower_case(blank)
            if in_case(blank, case).n_unique() > len(twice):  # letters were lost before
                turkish = f'{name} = {{case = "lower-tr"}}, which makes ı of I and i of İ, or ' if "-tr" in case else ""
                recode = f'{name} = {{recode = "FILE.csv", unmatched = "keep"}}'
                return (
                    f"If they mean the same, write {turkish}{recode} under [recipe] of publication.toml. The file has "
                    f"two columns: old value, new value."
                )
        if runs := blanks_replaced(texts):
            steps["replace"] = runs
    return f"If they mean the same, write {name} = {toml(steps)} under [recipe] of publication.toml."


def _names(finest: AnyFinestTable) -> list[str]:
    """Keys that are equivalent to an area, such as names beside codes. They make tables larger without information."""
    design = finest.design
    lists = {column: codes for codes in finest.codes.lists for column in codes.columns}
    found = []
    for hierarchy in design.hierarchies:
        for column in hierarchy.columns:
            areas = lists[column].labels[column].n_unique()
            likely = [key for key in design.keys if areas > 2 and lists[key].labels[key].n_unique() == areas]
            for key in likely:
                ((_, sums),) = finest.sums([design.select(column, [key])])
                if len(sums.packed[0]) == areas:
                    found.append(
                        f"{key} and {column} are equivalent, like a name and its code. Remove {key} from the keys; "
                        f"labels come from a code list: {column} = {{file = .., code = .., label.en = ..}} under "
                        f"[codes]."
                    )
    return found


def _empty(finest: AnyFinestTable) -> list[str]:
    """Records that have no value at all: a line of totals or notes is no person."""
    design, codes = finest.design, finest.codes
    is_missing = (listed.labels[column].null_count() for listed in codes.lists for column in listed.columns)
    if codes.unlisted or len(design.columns) < 2 or not all(is_missing):
        return []
    levels = {hierarchy.name: len(hierarchy.columns) for hierarchy in design.hierarchies}
    areas = [None for hierarchy in design.hierarchies for _ in hierarchy.columns]
    _, occurs = finest.lookup(levels, design.keys, areas, [None] * len(design.keys))
    if not occurs:
        return []
    return [
        f"there are records without a value in all of {listing(design.columns, 4)}: perhaps lines of totals or notes. "
        f"Leave them out: without = {{COLUMN = [VALUE]}} under [recipe] of publication.toml, by a value that only "
        f"they have. Or missing = 'drop' under [source] (--missing drop): it leaves out every record with a missing "
        f"value in any of these columns."
    ]
