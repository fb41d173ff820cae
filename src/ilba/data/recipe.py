"""The recipe: how columns are cleaned before they become labels.

A step is a function of the values of a column. So it runs once for each different value, not for each record: polars or
Spark gives the values with their numbers of records, and joins the results. This is fast, and gives the number of
records that each step changed.
"""

from __future__ import annotations

import copy
import graphlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from msgspec import Meta, Struct, field

from ilba.data.csvfiles import other_separator
from ilba.data.letters import CASES, Case, as_listed, in_case, name_in, spelled_in
from ilba.data.missing import spells_missing
from ilba.data.plain import checked
from ilba.data.reading import Reading, scan
from ilba.design.design import COUNT
from ilba.errors import InputError, listing, nearest, some

Path_: TypeAlias = str | os.PathLike[str]
Whole: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
_TEXT = "\0text"


class Lookup(Struct, frozen=True):
    """A file with a column of old codes and a column of new codes."""

    file: Annotated[str, Meta(min_length=1)]
    source: Annotated[str, Meta(description="the column of old codes; by default the first")] = field(
        default="", name="from"
    )
    to: Annotated[str, Meta(description="the column of new codes; by default the second")] = ""
    sheet: str = ""
    encoding: str = ""
    separator: str = ""
    header: Annotated[int, Meta(ge=0, le=1000, description="the line with the column names")] = 0
    notes: Annotated[Literal["", "drop"], Meta(description="drop: leave out titles, footnotes, repeated names")] = ""
    pad: Annotated[Whole | None, Meta(description="add leading zeros to the old codes up to this length")] = None
    pad_to: Annotated[Whole | None, Meta(description="add leading zeros to the new codes up to this length")] = None

    @property
    def reading(self) -> Reading:
        """How the file is read."""
        return Reading(self.encoding, self.separator, self.sheet, self.header, self.notes)


class ColumnRecipe(Struct, frozen=True):
    """The steps for a column, in this order."""

    source: Annotated[str, Meta(description="the source column; by default the one of the same name")] = field(
        default="", name="from"
    )
    trim: Annotated[bool | None, Meta(description="drop blanks around values")] = None
    missing: Annotated[list[str], Meta(description="spellings of a missing value in this column")] = []
    case: Annotated[Literal["", Case], Meta(description="one case for all letters; -tr: Turkish and Azeri")] = ""
    replace: Annotated[dict[str, str], Meta(description="texts inside values and their replacements")] = {}
    split: Annotated[str, Meta(description="the text between the parts of a value")] = ""
    part: Annotated[int | None, Meta(description="with split: which part, 1 is the first")] = None
    date: Annotated[
        str | list[str],
        Meta(description="how dates are written, such as %d.%m.%Y, or several forms; they become 2026-07-01"),
    ] = ""
    take: Annotated[
        Literal["", "year", "quarter", "month"], Meta(description="with date: only this part of the date")
    ] = ""
    age_on: Annotated[
        str, Meta(description="with date: the age in years on this day, such as 2026-07-01 or {wave}-12-31")
    ] = ""
    pad: Annotated[Whole | None, Meta(description="add leading zeros up to this length")] = None
    prefix: Annotated[Whole | None, Meta(description="keep this many first letters")] = None
    bands: Annotated[str, Meta(description="bands of numbers: 0-4,5-9,...,85+")] = ""
    width: Annotated[Whole | None, Meta(description="bands of numbers by their width, from 0")] = None
    top: Annotated[Whole | None, Meta(description="with width: the start of the last band, which is open")] = None
    recode: Annotated[str | Lookup | None, Meta(description="a file of two columns: old value, new value")] = None
    unmatched: Annotated[
        Literal["stop", "keep", "missing"], Meta(description="what happens to values without a band or recode")
    ] = "stop"


class Change(NamedTuple):
    """How many records a step changed, or `where` and `without` left out (confidential)."""

    column: str
    step: str
    records: int

    @property
    def does(self) -> str:
        """What the step does with the records, in words."""
        return "leaves out" if self.step in ("where", "without") else "changes"


class Recipe:
    """The steps that clean columns before they become labels.

    Parameters
    ----------
    columns : dict
        For each new column its steps: `trim`, `case`, `pad`, `bands`, `recode` and so on. The page on reading data
        lists them.
    trim : bool, default True
        Drop blanks around all values.
    missing : sequence of str, default ()
        Spellings of a missing value in every column, such as "NA".
    where : dict, optional
        Count only records with these values: a mapping from a column of the data to its values.
    without : dict, optional
        Do not count records with these values, such as a line of totals: {"town": ["Total"]}.
    decimal : {".", ","}, optional
        How numbers are written. With ",", a dot before three digits separates thousands. Left out, it is ".", and a
        column of bands in which each dot stands before three digits is refused: nobody knows what 2.611 is.
    folder : path, default "."
        The folder of the files that the recipe names.

    Raises
    ------
    InputError
        A step is not known, or contradicts another.

    Examples
    --------
    >>> import polars as pl
    >>> recipe = Recipe({"age": {"width": 10, "top": 80}, "sex": {"case": "lower"}})
    >>> recipe.applied(pl.DataFrame({"sex": ["F", " f"], "age": ["7", "93"], "N": [1, 1]}), ["sex", "age"]).rows()
    [('f', '00-09'), ('f', '80+')]
    """

    def __init__(
        self,
        columns: Mapping[str, Any] | None = None,
        *,
        trim: bool = True,
        missing: Sequence[str] = (),
        where: Mapping[str, Sequence[str]] | None = None,
        without: Mapping[str, Sequence[str]] | None = None,
        decimal: str = "",
        folder: Path_ = ".",
    ) -> None:
        self.trim, self.missing, self.decimal, self.folder = trim, tuple(missing), decimal, Path(folder)
        self.where = {column: [str(one) for one in values] for column, values in (where or {}).items()}
        self.without = {column: [str(one) for one in values] for column, values in (without or {}).items()}
        self.columns = {
            name: given if isinstance(given, ColumnRecipe) else checked(given, ColumnRecipe, f"recipe.{name}")
            for name, given in (columns or {}).items()
        }
        if decimal not in ("", ".", ","):
            raise InputError(f"decimal={decimal!r} is not known. It is '.' or ','.")
        for name, entry in self.columns.items():
            _check(name, entry)
        self._order = self._ordered()
        self._lookups: dict[str, pl.DataFrame] = {}
        self._above: dict[str, set[str]] = {}  # for each level from a file of a hierarchy its codes above the finest
        self.changes: list[Change] = []
        """how many records each step changed, after a build (confidential)"""
        self.old: dict[str, str] = {}
        """for columns of ages, after a build: dates of birth that make an age over 120 (confidential)"""

    @classmethod
    def of(cls, given: Recipe | Mapping[str, Any] | None) -> Recipe | None:
        """A recipe from the argument of a user: itself, or the steps of each column."""
        return given if given is None or isinstance(given, Recipe) else cls(given)

    def know(self, column: str, known: pl.DataFrame) -> None:
        """Use these old and new codes of a recode instead of its file."""
        self._lookups[column] = pl.DataFrame({_TEXT: known.to_series(0), "to": known.to_series(1)})

    def climb(self, column: str, levels: Sequence[str], paths: pl.DataFrame, said: str) -> None:
        """Make the levels above a column from paths of codes: one column per level, the finest last."""
        if paths.width == 1 and levels:
            raise InputError(
                f"{said} has no code below another. In a .hrc file write '@' before a code for each level above it, "
                f"not blanks or other signs."
            )
        if paths.width != len(levels) + 1:
            raise InputError(
                f"{said} has {some(paths.width - 1, 'level')} above the finest, and {len(levels)} "
                f"{'is' if len(levels) == 1 else 'are'} named ({listing(levels) or 'none'}). Name each level before "
                f"{column!r}, from coarse to fine: {','.join([*(f'level{n}' for n in range(1, paths.width)), column])}."
            )
        finest = self.renamed(paths.to_series(-1), column)
        above = set(paths.drop(paths.columns[-1]).unpivot()["value"]) - set(finest)
        self._above = {**self._above, **dict.fromkeys(levels, above)}
        for place, level in enumerate(levels):
            self.columns[level] = ColumnRecipe(source=column, recode=said)
            self.know(level, pl.DataFrame({"from": finest, "to": paths.to_series(place)}))
        self._order = self._ordered()

    def renamed(self, codes: pl.Series, column: str) -> pl.Series:
        """The codes of a list or map as a column has them, if its recode keeps values that it does not name.

        A code is renamed if no other listed one gets the same new code, this one is not listed, and no value becomes
        the old one.
        """
        entry = self.columns.get(column)
        if entry is None or entry.recode is None or entry.unmatched != "keep":
            return codes
        known, listed = self._lookup(column, entry), codes.drop_nulls().unique().implode()
        old, new = known[_TEXT], known["to"]
        known = known.filter(old.is_in(listed) & ~old.is_in(new.implode()) & ~new.is_in(listed))
        known = known.filter(~pl.col("to").is_duplicated())
        return codes.replace(known[_TEXT], known["to"])

    def of_every_record(self) -> Recipe:
        """The same recipe for all records; its changes are recorded here."""
        same = copy.copy(self)
        same.where, same.without = {}, {}
        return same

    @property
    def asks(self) -> list[str]:
        """The columns of the data that decide which records are counted."""
        return list(dict.fromkeys([*self.where, *self.without]))

    def _ordered(self) -> list[str]:
        """The columns, each after its source column."""
        before = {name: {e.source} & (set(self.columns) - {name}) for name, e in self.columns.items()}
        try:
            return list(graphlib.TopologicalSorter(before).static_order())
        except graphlib.CycleError as problem:
            names = listing(problem.args[1])
            raise InputError(f"recipe: {names} are made from each other. Name a column of the data.") from None

    def made_from(self, column: str) -> str:
        """The column of the data that a column is made from."""
        seen = column
        while seen in self.columns:
            source = self.columns[seen].source or seen
            if source == seen:
                break
            seen = source
        return seen

    def needs(self, columns: Sequence[str]) -> list[str]:
        """The columns of the data that some columns are made from, each once."""
        return list(dict.fromkeys(self.made_from(column) for column in columns))

    def names(self, there: Sequence[str]) -> list[str]:
        """The columns after the recipe, for data with these columns."""
        return [*there, *(name for name in self.columns if name not in there)]

    def check_sources(self, there: Sequence[str], said: str) -> None:
        """Refuse a recipe that names columns which the data does not have."""
        for name in [*self.columns, *self.asks]:
            source = self.made_from(name)
            if source not in there and name in self._above:
                raise InputError(
                    f"{self.columns[name].recode!r} has the levels above {source!r}, which {said} does not have. Name "
                    f"the column of the data with its finest codes (--hrc COLUMN=FILE), also as the last level of the "
                    f"hierarchy (--hkey).{nearest(source, there)} The columns are {listing(there, 30)}."
                )
            if source not in there:
                raise InputError(
                    f"recipe.{name} is made from {source!r}, which {said} does not have."
                    f"{other_separator(there) or nearest(source, there)} Its columns are {listing(there, 30)}."
                )

    def declared_bands(self) -> dict[str, list[tuple[str, str]]]:
        """Give the codes and labels of bands. They are declared, also those that do not occur.

        Returns
        -------
        dict
            For each column of bands a list of code and label.
        """
        return {
            name: [(b.code, b.label) for b in _bands(entry)] for name, entry in self.columns.items() if _bands(entry)
        }

    # --- doing it

    def applied(self, values: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        """Make the columns from different values of the data with their numbers of records.

        The order of rows stays. `changes` records the changes of each step.
        """
        number = values[COUNT]
        made: dict[str, pl.Series] = {}
        for name in [*self._order, *columns]:
            if name not in made and (name in columns or any(self._is_on_the_way(name, one) for one in columns)):
                entry = self.columns.get(name, ColumnRecipe())
                source = entry.source if entry.source in made else self.made_from(name)
                own = made.get(source) if source != name else None
                made[name] = self._made(name, entry, own, values[self.made_from(name)], number)
        return pl.DataFrame([made[name].alias(name) for name in columns])

    def _is_on_the_way(self, name: str, column: str) -> bool:
        while column in self.columns:
            source = self.columns[column].source
            if not source or source == column:
                return False
            if source == name:
                return True
            column = source
        return False

    def _made(
        self, name: str, entry: ColumnRecipe, own: pl.Series | None, found: pl.Series, number: pl.Series
    ) -> pl.Series:
        """One column, step by step, from another one of the recipe or as it is found in the data.

        A column that no step changes stays as it is, with its type.
        """
        column = found if own is None else own
        spelled = texts = as_text(column)
        if spelled is None or texts is None:
            return column
        decimal = self.decimal if not found.dtype.is_numeric() else "."  # of texts; numbers have a point
        for step, does in self._steps(name, entry, own is None, as_text(found), decimal):
            after = does(texts)
            changed = int(number.filter(after.ne_missing(texts)).sum())
            note = Change(name, step, changed)
            if changed and not any(one[:2] == note[:2] for one in self.changes):
                self.changes.append(note)
            if step == "date" and entry.age_on:
                old = texts.filter(after.cast(pl.Int64) > _OLDEST)
                if len(old) and name not in self.old:
                    self.old[name] = _examples(old).rpartition(" ")[0]
            texts = after
        return column if texts.equals(spelled) else texts

    def _steps(
        self, name: str, entry: ColumnRecipe, raw: bool, found: pl.Series | None, decimal: str
    ) -> list[tuple[str, Callable[[pl.Series], pl.Series]]]:
        steps: list[tuple[str, Callable[[pl.Series], pl.Series]]] = []
        if (self.trim if entry.trim is None else entry.trim) and raw:
            steps.append(("trim", _trimmed))
        spellings = [*entry.missing, *(self.missing if raw else ())]
        if spellings:
            steps.append(("missing", lambda texts: texts.set(spelled_in(texts, spellings), None)))
        if case := entry.case:
            steps.append(("case", lambda texts: in_case(texts, case)))
        if entry.replace:
            steps.append(("replace", lambda texts: _replaced(texts, entry.replace)))
        if entry.split:
            steps.append(("split", lambda texts: _split(name, texts, entry.split, entry.part or 1)))
        if entry.date:
            steps.append(("date", lambda texts: _dated(name, texts, entry)))
        if pad := entry.pad:
            steps.append(("pad", lambda texts: texts.str.zfill(pad)))
        if prefix := entry.prefix:
            steps.append(("prefix", lambda texts: texts.str.head(prefix)))
        if bands := _bands(entry):
            steps.append(("bands", lambda texts: _banded(name, texts, bands, decimal, entry.unmatched)))
        if entry.recode is not None:
            steps.append(("recode", lambda texts: self._recoded(name, texts, entry, found)))
        return steps

    def _recoded(self, name: str, texts: pl.Series, entry: ColumnRecipe, found: pl.Series | None) -> pl.Series:
        known = self._lookup(name, entry)
        shortest = known[_TEXT].str.len_chars().min()
        is_after = entry.unmatched == "keep" or _bands(entry)  # else a padded value is shorter than all old codes
        if entry.pad and isinstance(shortest, int) and entry.pad < shortest and not is_after:
            raise InputError(
                f"recipe.{name}: pad = {entry.pad} adds zeros before the recode, and each old code of its file is "
                f"longer. To add zeros to the new codes write recode = {{.., pad_to = {entry.pad}}} instead."
            )
        listed = as_listed(texts, known[_TEXT])
        joined = pl.DataFrame({_TEXT: listed}).join(known, on=_TEXT, how="left", maintain_order="left")
        lost = joined["to"].is_null() & texts.is_not_null() & ~listed.is_in(known[_TEXT].implode())
        if lost.any() and entry.unmatched == "stop":
            file = entry.recode if isinstance(entry.recode, str) else entry.recode.file  # type: ignore[union-attr]
            strange = texts.filter(lost)
            shown = strange if found is None else _without_zeros(strange, found.filter(lost))
            hint = _alike(strange, known[_TEXT]) or _absent(shown)
            if name in self._above:
                raise InputError(_not_finest(entry.source, file, shown, hint, self._above[name]))
            raise InputError(
                f"recipe.{name}: {_examples(shown)} not in {file!r}.{hint} "
                f"Add what is missing there, or write unmatched = 'keep' or 'missing' in the recipe."
            )
        kept = joined["to"] if entry.unmatched != "keep" else joined["to"].zip_with(~lost, texts)
        return kept.rename(texts.name)

    def _lookup(self, name: str, entry: ColumnRecipe) -> pl.DataFrame:
        """The old codes of a recode file, each once, with their new codes."""
        if name in self._lookups:
            return self._lookups[name]
        given = entry.recode
        assert given is not None  # noqa: S101 - called only if there is one
        recode = Lookup(given) if isinstance(given, str) else given
        frame = scan(self.folder / recode.file, None, recode.reading).collect()
        if frame.width < 2:
            raise InputError(f"recipe.{name}: {recode.file!r} has one column. Write two: old value, new value.")
        chosen = []
        for name_of, place in ((recode.source, 0), (recode.to, 1)):
            wanted = name_in(name_of, frame.columns)
            if wanted and wanted not in frame.columns:
                raise InputError(
                    f"recipe.{name}: {recode.file!r} has no column {wanted!r}.{nearest(wanted, frame.columns)} "
                    f"It has {listing(frame.columns)}."
                )
            chosen.append(wanted or frame.columns[place])
        known = pl.DataFrame({_TEXT: as_text(frame[chosen[0]]), "to": as_text(frame[chosen[1]])})
        known = known.with_columns(pl.all().str.strip_chars()).drop_nulls(_TEXT)
        for codes, pad in ((_TEXT, recode.pad), ("to", recode.pad_to)):
            known = known.with_columns(pl.col(codes).str.zfill(pad)) if pad else known
        if entry.source not in ("", name):  # the list of another column
            known = known.with_columns(self.renamed(known[_TEXT], entry.source))
        known = known.unique(maintain_order=True)
        twice = known.filter(pl.col(_TEXT).is_duplicated())[_TEXT].unique(maintain_order=True)
        if len(twice):
            raise InputError(
                f"recipe.{name}: {recode.file!r} has two new values for {listing(twice, 6)}. Keep one of them."
            )
        self._lookups[name] = known
        return known


# --- the steps

_OLDEST = 120
"""an age in years that nearly nobody reaches"""
THOUSANDS = r"^[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?$"
"""numbers in which each dot stands before three digits"""
_POINTED = r"^[-+]?(\d+\.\d*|\.\d+)$"
"""numbers with one dot"""


class Band(NamedTuple):
    """A band of numbers, in units of its last decimal place; its codes sort like numbers."""

    low: int
    high: int | None
    code: str
    label: str
    places: int = 0


def _check(name: str, entry: ColumnRecipe) -> None:
    for extra, needed in (("take", "date"), ("age_on", "date"), ("part", "split"), ("top", "width")):
        if getattr(entry, extra) and not getattr(entry, needed):
            raise InputError(f"recipe.{name} has {extra} without {needed}. Add {needed}, or leave {extra} out.")
    if entry.take and entry.age_on:
        raise InputError(f"recipe.{name} has take and age_on. Leave one of them out.")
    if entry.bands and entry.width:
        raise InputError(f"recipe.{name} has bands and width. Leave one of them out.")
    if entry.width and not entry.top:
        raise InputError(f"recipe.{name} has width without top, the start of the last band: width = 5, top = 85.")
    _bands(entry, name)


def _bands(entry: ColumnRecipe, name: str = "") -> list[Band]:
    if entry.width and entry.top:
        lows = list(range(0, entry.top, entry.width))
        return _named([*((low, min(low + entry.width, entry.top) - 1) for low in lows), (entry.top, None)])
    places = max(map(len, re.findall(r"\d\.(\d{1,3})", entry.bands)), default=0)
    return _named(_spelled_bands(name, entry.bands, places), places) if entry.bands else []


def _spelled_bands(name: str, text: str, places: int) -> list[tuple[int, int | None]]:
    """`0-4,5-9,...,85+` as numbers; three points continue the two bands before them up to the next band."""
    found: list[tuple[int, int | None]] = []
    parts = [part.strip() for part in text.split(",")]
    for place, part in enumerate(parts):
        if part in ("...", "…"):
            follows = _band(name, parts[place + 1], places) if place + 1 < len(parts) else None
            if follows is None or not found or found[-1][1] is None:
                raise InputError(f"recipe.{name}: three points go between two bands, as in 0-4,5-9,...,85+.")
            low, high = found[-1]
            width = high - low + 1  # type: ignore[operator]  # it was checked above
            while (low := low + width) < follows[0]:
                found.append((low, min(low + width, follows[0]) - 1))
            continue
        found.append(_band(name, part, places))
    for (_, high), (low, _) in itertools.pairwise(found):
        if high is None or low != high + 1:
            raise InputError(
                f"recipe.{name}: the bands {text!r} have a gap, overlap, or are not in order. Write 0-4,5-9 or "
                f"0-1.4,1.5-2.4 (1.4 includes 1.49)."
            )
    return found


def _band(name: str, part: str, places: int) -> tuple[int, int | None]:
    spelled = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)(?:\s*[-\u2013]\s*(\d{1,9}(?:\.\d{1,3})?)|(\+))?", part)
    if not spelled:
        raise InputError(f"recipe.{name}: {part!r} is not a band. Write 0-4, 7 or 85+, separated by commas.")
    unit, last = 10**places, spelled[2] or spelled[1]
    after = round((float(last) + 10.0 ** -len(last.partition(".")[2])) * unit)  # 0-4 includes 4.9
    return round(float(spelled[1]) * unit), None if spelled[3] else after - 1


def _named(numbers: Sequence[tuple[int, int | None]], places: int = 0) -> list[Band]:
    digits = max(len(str(max(low, high or 0) // 10**places)) for low, high in numbers)

    def text(number: int, digits: int = 1) -> str:
        whole, rest = divmod(number, 10**places)
        return f"{whole:0{digits}d}.{rest:0{places}d}" if places else f"{whole:0{digits}d}"

    named = []
    for low, high in numbers:
        code, label = text(low, digits), text(low)
        if high != low:
            code += "+" if high is None else f"-{text(high, digits)}"
            label += "+" if high is None else f"-{text(high)}"
        named.append(Band(low, high, code, label, places))
    return named


def as_text(column: pl.Series) -> pl.Series | None:
    """The values of a column as texts of labels; None if they cannot be labels."""
    if column.dtype == pl.String:
        return column
    if column.dtype.is_float():
        column = column.fill_nan(None)
        whole = ((column == column.round()) & (column.abs() < 2.0**53)).fill_null(True)
        if bool(whole.all()):
            return column.cast(pl.Int64).cast(pl.String)
    if column.dtype.is_nested() or column.dtype == pl.Object:
        return None
    return column.cast(pl.String)


def _trimmed(texts: pl.Series) -> pl.Series:
    """Values without blanks around; a blank value is missing."""
    trimmed = texts.str.strip_chars()
    return trimmed.set((trimmed == "").fill_null(False), None)


def _replaced(texts: pl.Series, pairs: Mapping[str, str]) -> pl.Series:
    return texts.to_frame().select(pl.col(texts.name).str.replace_many(list(pairs), list(pairs.values()))).to_series()


def _split(name: str, texts: pl.Series, between: str, part: int) -> pl.Series:
    parts = texts.str.split(between).list.get(part - 1, null_on_oob=True)
    lost = parts.is_null() & texts.is_not_null()
    if lost.any():
        raise InputError(f"recipe.{name}: {_examples(texts.filter(lost))} without part {part} between {between!r}.")
    return parts.str.strip_chars()


def dates_in(texts: pl.Series, form: str) -> pl.Series:
    """The dates of texts in one form, else null. `%Y` does not read 26 as the year 26.

    A workbook gives its dates as 2026-07-01 00:00:00, which `%Y-%m-%d` reads, too.
    """
    if form == "%Y-%m-%d":
        texts = texts.str.strip_suffix(" 00:00:00")
    date = pl.col(texts.name).str.to_date(form, strict=False)
    return texts.to_frame().select(pl.when(date.dt.year() >= 1000).then(date)).to_series()


def _dated(name: str, texts: pl.Series, entry: ColumnRecipe) -> pl.Series:
    forms = [entry.date] if isinstance(entry.date, str) else entry.date
    dates = dates_in(texts, forms[0])
    for form in forms[1:]:  # the first form that fits
        dates = dates.zip_with(dates.is_not_null(), dates_in(texts, form))
    lost = dates.is_null() & texts.is_not_null()
    if lost.any():
        raise InputError(
            f"recipe.{name}: {_examples(texts.filter(lost))} not written as "
            f"{listing(map(repr, forms), 6)}. Write the form of your dates, or several: date = ['%d.%m.%Y', "
            f"'%Y-%m-%d']; %y is a year of two digits. Name missing values, and days that do not "
            f"exist, such as 31/02: missing = [..]."
        )
    if entry.age_on:
        try:
            day = pl.Series([entry.age_on]).str.to_date("%Y-%m-%d").item()
        except pl.exceptions.PolarsError:
            raise InputError(f"recipe.{name}: age_on = {entry.age_on!r} is not a day. Write 2026-07-01.") from None
        later = texts.filter(dates > day)
        if len(later) and entry.unmatched == "stop":
            told = f"recipe.{name}: {_examples(later)} after age_on = {entry.age_on!r}"
            if any("%y" in form for form in forms):
                raise InputError(
                    f"{told}: %y reads 69 as 1969, and 68 as 2068. Write years of four digits in the data, and %Y."
                )
            raise InputError(
                f"{told}: people with these dates of birth were not born on that day. Set age_on to the day of these "
                f"records. If the dates are wrong, correct them, or write unmatched = 'missing'."
            )
        frame = pl.DataFrame({"d": dates})
        if entry.unmatched == "missing":
            frame = frame.select(pl.when(pl.col("d") <= day).then("d"))
        month_day = pl.col("d").dt.month().cast(pl.Int64) * 100 + pl.col("d").dt.day()
        age = day.year - pl.col("d").dt.year() - (month_day > day.month * 100 + day.day).cast(pl.Int64)
        return frame.select(age.cast(pl.String)).to_series().rename(texts.name)
    if entry.take == "year":
        return dates.dt.year().cast(pl.String)
    if entry.take == "month":
        return dates.dt.strftime("%Y-%m")
    if entry.take == "quarter":
        return dates.dt.year().cast(pl.String) + "-Q" + dates.dt.quarter().cast(pl.String)
    return dates.dt.strftime("%Y-%m-%d")


def _banded(name: str, texts: pl.Series, bands: Sequence[Band], decimal: str, unmatched: str) -> pl.Series:
    unit = 10 ** bands[0].places
    spelled = {text: str(band.low / unit) for band in bands for text in (band.code, band.label)}
    if bands[-1].high is None:  # 90+ lies in 85+
        opened = texts.filter(texts.str.ends_with("+")).unique()
        spelled |= {text: text[:-1] for text in opened if _is_from(text, bands[-1].low / unit)}
    is_band = texts.is_in(list(spelled)).fill_null(False)  # data that has bands already
    numbers = texts.replace(spelled).zip_with(is_band, _numbers(name, texts, is_band, bands[0].places, decimal))
    values = numbers.cast(pl.Float64, strict=False)
    values = (values * unit).round(6).floor() if unit > 1 else values.floor()  # 2.3 * 100 is a little below 230
    found = np.searchsorted(np.array([band.low for band in bands]), values.fill_null(-1).to_numpy(), side="right") - 1
    last = np.array([np.inf if band.high is None else band.high for band in bands])
    inside = (found >= 0) & (values.fill_null(-1).to_numpy() <= last[found])
    codes = pl.Series([band.code for band in bands]).gather(np.where(inside, found, 0))
    lost = pl.Series(~inside) & texts.is_not_null()
    if lost.any() and unmatched == "stop":
        raise InputError(
            f"recipe.{name}: {_examples(texts.filter(lost))} in no band.{_signs(texts.filter(lost), decimal)} Add a "
            f"band, name a missing value with missing = [..], or write unmatched = 'keep' or 'missing'."
        )
    kept = codes.set(pl.Series(~inside), None)
    return (texts.zip_with(lost, kept) if unmatched == "keep" else kept).rename(texts.name)


def _numbers(name: str, texts: pl.Series, is_band: pl.Series, places: int, decimal: str) -> pl.Series:
    """Texts as numbers with a decimal point. A dot that can be read in two ways is refused."""
    pointed = texts.filter(~is_band & texts.str.contains(_POINTED))
    thousands = pointed.str.contains(THOUSANDS)
    if decimal == ",":
        if not thousands.all():
            raise InputError(
                f"recipe.{name}: {_examples(pointed.filter(~thousands))} not a number with decimal = ',' (under "
                f"[source]): a dot separates thousands there. If this column has decimal points, write "
                f"replace = {{'.' = ','}} in its recipe; if all have, leave decimal out."
            )
        whole = texts.str.contains(THOUSANDS).fill_null(False)
        numbers = texts.str.replace_all(".", "", literal=True).zip_with(whole, texts)
        return numbers.str.replace(",", ".", literal=True)
    if not decimal and len(pointed) and places in (0, 3) and thousands.all():
        raise InputError(
            f"recipe.{name}: {_examples(pointed)} written with a dot before three digits. Does it separate thousands, "
            f"or decimals? For thousands, write decimal = ',' under [source], for decimals, decimal = '.' (in Python, "
            f"Recipe(.., decimal=..)); for this column alone, replace = {{'.' = ''}} removes the dots."
        )
    return texts


def _signs(lost: pl.Series, decimal: str) -> str:
    """Say how numbers with other signs are read: thousands, or decimal commas."""
    said = ""
    for sign in (",", " ", "\u00a0", "\u202f", "'", "\u2019", "."):
        rest = r"([.,]\d+)?" if sign != "." else ""
        if lost.str.contains(rf"^[-+]?[1-9]\d{{0,2}}({re.escape(sign)}\d{{3}})+{rest}$").any():
            said += f' If {sign!r} separates thousands, write replace = {{{json.dumps(sign)} = ""}}.'
    if decimal != "," and lost.str.contains(r"^[-+]?[\d.]+,\d+$").any():
        said += " If numbers have decimal commas, write decimal = ',' under [source]."
    return said


def _is_from(text: str, low: float) -> bool:
    """Whether a text is an open band that begins there or further up."""
    return text[:-1].isdecimal() and int(text[:-1]) >= low


def _examples(lost: pl.Series) -> str:
    different = lost.unique().sort()
    verb = "is" if len(different) == 1 else "are"
    return f"{some(len(different), 'value')} ({listing((repr(one) for one in different), 5)}) {verb}"


def _not_finest(column: str, file: str, lost: pl.Series, hint: str, above: set[str]) -> str:
    """Say why values are no finest codes of a hierarchy: codes of its upper levels, or unknown."""
    upper = lost.filter(lost.is_in(list(above)))
    told, mend = f"not in {file!r}.{hint}", "Add what is missing there"
    if len(upper):
        lost, told = upper, f"above the finest codes of {file!r}."
        mend = f"Give these records a finest code (you may add one below {upper[0]!r} there)"
    return (
        f"{column}: {_examples(lost)} {told} {mend}, or make them missing in a recipe "
        f"({column} = {{missing = [{lost[0]!r}]}})."
    )


def _without_zeros(texts: pl.Series, found: pl.Series) -> pl.Series:
    """Values as they are in the data, where only zeros were added to them."""
    plain = found.str.strip_chars()
    return plain.zip_with(
        (plain.str.strip_chars_start("0") == texts.str.strip_chars_start("0")).fill_null(False), texts
    )


def _absent(lost: pl.Series) -> str:
    """Say how values that spell a missing value are named."""
    spelled = lost.to_frame("x").filter(spells_missing(pl.col("x")))["x"].unique().sort()
    return f" If it is missing there, write missing = {spelled.to_list()} under [recipe]." if len(spelled) else ""


def _alike(lost: pl.Series, known: pl.Series) -> str:
    """Say what makes values and codes match: leading zeros, or the case of letters."""
    texts, codes = set(lost.unique()), set(known)
    widths = {len(code) for code in codes}
    if len(widths) == 1 and (width := widths.pop()) and any(text.zfill(width) in codes for text in texts):
        return f" With leading zeros they match: write pad = {width}."
    longer = {len(text) for text in texts}
    if len(longer) == 1 and (width := longer.pop()) and any(code.zfill(width) in texts for code in codes):
        return f" The file has no leading zeros. Write recode = {{file = .., pad = {width}}}."
    case = matching_case(texts, codes)
    return f" In {case[:5]} case they match: write case = {case!r}." if case else ""


def matching_case(texts: Iterable[str], codes: Iterable[str]) -> str:
    """The case in which most texts are codes; empty if none is."""
    given = pl.Series(list(texts), dtype=pl.String)
    found = {case: int(in_case(given, case).is_in(list(codes)).sum()) for case in CASES}
    best = max(CASES, key=lambda case: found[case])  # of equal ones the first
    return best if found[best] else ""
