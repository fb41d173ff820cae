"""The columns of a file: their kinds, spellings of missing values, values that are nearly the same. Confidential.

Everything is found from the different values of a column and their numbers of records.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import polars as pl

from ilba.data.letters import (
    Case,
    blanks_replaced,
    folded_in,
    folding,
    in_case,
    lower_case,
    one_blank,
    one_spelling,
    shown,
)
from ilba.data.missing import SHORT, spells_missing
from ilba.data.recipe import THOUSANDS, dates_in
from ilba.errors import listing, some

Kind: TypeAlias = Literal[
    "age", "category", "code", "constant", "date", "decimal", "empty", "identifier", "number", "text", "weight"
]
TOTALS = frozenset(
    [
        *("total", "totals", "grand total", "insgesamt", "gesamt", "summe", "ensemble", "totaal", "totale", "razem"),
        *("suma", "ogółem", "celkem", "yhteensä", "summa", "i alt", "всего", "итого", "합계", "총계", "合計", "総数"),
        *("gesamtergebnis", "total général", "total general", "total geral", "totale generale", "totale complessivo"),
        *("eindtotaal", "suma końcowa", "celkový součet", "totalsumma", "总计", "総計", "총합계"),
        *("toplam", "genel toplam", "tổng", "tổng cộng", "tổng số", "tong cong", "tong so"),
        *("összesen", "összes", "mindösszesen", "végösszeg", "spolu", "celkový súčet", "skupaj", "skupna vsota"),
        *("ukupno", "sveukupno", "svega", "укупно", "свега", "вкупно", "общо", "всичко", "усього", "всього", "разом"),
        *("загальний підсумок", "общий итог", "барлығы", "kokku", "iš viso", "viso", "kopā", "pavisam", "σύνολο"),
        *("γενικό σύνολο", "totalt", "sum", "samtals", "guztira", "gjithsej"),
        *("iomlán", "cyfanswm", "jumlah", "jumlah besar", "cəmi", "ჯამი", "სულ", "ընդամենը", 'סה"כ', "סה״כ"),
        *("المجموع", "الإجمالي", "الاجمالي", "المجموع الكلي", "جمع", "جمع کل", "کل", "कुल", "कुल योग", "รวม"),
        *("รวมทั้งสิ้น", "รวมทั้งหมด", "合计", "總計"),
    ]
)
"""names of a line of totals, folded"""
_AGES = re.compile(
    r"(^|[^a-z])(age|ages|alter|edad|âge|ålder|leeftijd|wiek|et[aà]|idade|yaş)([^a-z]|$)|나이|연령", re.IGNORECASE
)
AREAS = re.compile(
    r"(^|[^a-z])(area|region|town|city|county|district|municipality|province|state|parish|ward|place|geo\w*|nuts\w*|lau\w*|la\d)"
    r"([^a-z]|$)|gemeinde|kreis|^ags$|bundesland|ortsteil|commune|canton|depart|insee|gemeente|wijk|buurt|comune|provinc"
    r"|municipi|gmina|powiat|kommun|kunta|maakunta|il[cç]e|mahalle|시도|시군구|읍면동|행정|지역",
    re.IGNORECASE,
)
"""names of area columns"""
_WEIGHTS = re.compile(r"weight|wgt|gewicht|pondera|peso|가중", re.IGNORECASE)
_IDENTIFIERS = re.compile(r"(^|_)(id|uuid|pid|hid|ssn|nr|number|num|key)$|^id|주민|번호", re.IGNORECASE)
_DATES = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y", "%d/%m/%y"),
    *("%Y.%m.%d.", "%Y.%m.%d", "%d.%m.%Y."),  # with blanks after the dots, too
)
_MONTH_FIRST = ("%m/%d/%Y", "%m/%d/%y")
"""only alone: beside %d/%m/%Y nobody knows what 01/02/2026 is"""
_MOMENT = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}"
"""how a day with a time of day begins"""
_MEN = re.compile("masc|male|man|män|maen|mand|mies|mees|muž|muš|moš|męż")
"""how words for men begin that begin with m"""
_MOST_CATEGORIES = 100
_NO_AGE = r"^(-\d+|9{3,}|\D{1,20})$"
"""how an age column spells that there is no age"""
_OPEN = r"^\d{2,3}\+$"
"""an open band of ages, such as 85+"""
_OFTEN = 10
"""the fewest records with such a spelling; a rarer one may be a slip that tells of somebody"""


@dataclass(frozen=True)
class ColumnFacts:
    """The facts of a column. Confidential."""

    name: str
    kind: Kind
    values: int
    """the number of different values without blanks around them; missing values do not count"""
    records: int
    missing: int
    """records without a value, also with a spelling of a missing value"""
    spellings: tuple[str, ...] = ()
    """usual spellings of a missing value other than an empty field"""
    has_empty: bool = False
    """whether some fields are empty"""
    no_age: tuple[str, ...] = ()
    """of an age column: further values that are no age, such as 999"""
    blanks: int = 0
    """records with blanks around the value"""
    alike: tuple[tuple[str, ...], ...] = ()
    """values that are nearly the same: blanks, case, accents, leading zeros, abbreviations"""
    pad: int = 0
    """the length at which leading zeros make values equal"""
    case: Literal["", Case] = ""
    """the case that makes values equal"""
    replace: Mapping[str, str] = field(default_factory=dict)
    """runs of blanks inside values and the blank that makes values equal"""
    date: str | list[str] = ""
    """how dates are written, or several forms"""
    comma: bool = False
    """whether numbers have a decimal comma"""
    thousands: bool = False
    """whether each dot stands before three digits, so that nobody knows whether it separates thousands or decimals"""
    totals: tuple[str, ...] = ()
    """values that look like a line of totals"""
    spoilt: tuple[str, ...] = ()
    """values that a spreadsheet wrote as large numbers, where most values are codes of digits"""
    label: str = ""
    """the label of the column in a file of SPSS, Stata or SAS"""
    recode: Mapping[str, str] = field(default_factory=dict)
    """other spellings and abbreviations, and the words for them"""

    @property
    def is_hollow(self) -> bool:
        """Whether nearly all fields are empty, as where merged cells keep a value only in their first line."""
        return self.kind != "empty" and self.missing > 0.9 * self.records

    @property
    def is_key(self) -> bool:
        """Whether it looks like a key."""
        return self.kind in ("category", "age") and self.values > 1 and not self.is_hollow

    def to_json(self, K: int) -> dict[str, Any]:
        """As plain values; small numbers of records are hidden."""
        plain: dict[str, Any] = {"name": self.name, "kind": self.kind, "values": self.values}
        plain |= {"missing": few(self.missing, K), "missing_spellings": [*self.spellings, *self.no_age]}
        return plain | {
            "blanks": few(self.blanks, K), "alike": [list(group) for group in self.alike], "pad": self.pad or None,
            "date": self.date or None, "label": self.label or None, "totals": list(self.totals),
        }  # fmt: skip

    def remarks(self, K: int, *, is_part: bool = False) -> list[str]:
        """Remarks on the column, in words."""
        said, among = [], " among those read" if is_part else ""
        if self.missing:
            spellings = [*self.spellings, *self.no_age]
            empty = "empty, or " if self.has_empty else ""
            spelled = f" ({empty}spelled {listing(map(repr, spellings), 5)})" if spellings else ""
            said.append(f"{few_text(self.missing, K)} missing{among}{spelled}")
        if self.kind == "identifier" and (again := self.records - self.missing - self.values):
            said.append(f"repeats in {few_text(again, K)} records{among}")
        if self.is_hollow:
            said.append("nearly empty: if cells are merged, fill in each line")
        if self.alike:
            first = sorted(self.alike, key=lambda group: len({text.strip() for text in group}) == 1)
            groups = ("/".join(map(shown, _differing(group)[:4])) for group in first)
            said.append(f"nearly the same: {listing(groups, 3)}")
        elif self.blanks:
            said.append(f"blanks around values in {few_text(self.blanks, K)} records{among}")
        if self.totals:
            said.append(f"{listing(map(repr, self.totals))} looks like a line of totals")
        if self.spoilt:
            which = some(len(self.spoilt), "value") if self.kind == "identifier" else listing(map(repr, self.spoilt), 3)
            said.append(f"spoilt by a spreadsheet: {which}")
        if self.pad:
            said.append(f"leading zeros up to {self.pad} letters make values equal")
        if self.date:
            said.append(f"written as {self.date if isinstance(self.date, str) else listing(self.date)}")
        if self.comma:
            said.append("decimal comma")
        if self.thousands:
            said.append("thousands or decimals? For bands write decimal = ',' or '.' under [source]")
        if self.label:
            said.append(f"called {self.label!r}")
        return said


def _differing(group: Iterable[str]) -> list[str]:
    """Spellings, first those that differ by more than blanks around them.

    >>> _differing(["F", "F ", " F", "f"])
    ['F', 'f', 'F ', ' F']
    """
    first: dict[str, str] = {}
    again = [text for text in group if first.setdefault(text.strip(), text) != text]
    return [*first.values(), *again]


def few(number: int, K: int) -> str | int:
    """A number of records; hidden below K."""
    return number if number == 0 or number >= K else f"<{K}"


def few_text(number: int, K: int) -> str:
    """The same as text.

    >>> few_text(1234, 5), few_text(4, 5)
    ('1,234', '<5')
    """
    told = few(number, K)
    return told if isinstance(told, str) else f"{told:,}"


def facts_of(column: pl.Series, label: str = "") -> ColumnFacts:
    """Find the facts of a column of text."""
    counted = column.value_counts(name="records").rename({column.name: "value"})
    trimmed = counted.with_columns(pl.col("value").str.strip_chars().alias("trimmed"))
    is_missing = pl.col("trimmed").is_null() | (pl.col("trimmed") == "") | spells_missing(pl.col("trimmed"))
    others = trimmed.filter(~is_missing & ~pl.col("trimmed").is_in(list(SHORT)))["trimmed"].unique()
    if 2 * int(others.str.contains(r"^[A-Z]{2}$").sum()) <= len(others):  # else NR is Nauru, and ND North Dakota
        is_missing |= pl.col("trimmed").is_in(list(SHORT))
    absent = trimmed.filter(is_missing)
    is_total = folded_in(pl.col("trimmed")).is_in(list(TOTALS))
    there = trimmed.filter(~is_missing)
    sums = there.filter(is_total)
    if sums.height < there.height and int(sums["records"].sum()) <= 0.05 * len(column):
        there = there.filter(~is_total)
    else:  # a category called so
        sums = sums.clear()
    spellings = tuple(sorted(one for one in absent["trimmed"].drop_nulls().unique() if one))
    blanks = int(there.filter(pl.col("value") != pl.col("trimmed"))["records"].sum())
    values = there.group_by("trimmed").agg(pl.col("records").sum()).sort("trimmed")
    records, missing = len(column), int(absent["records"].sum())
    odd = _no_ages(column.name, values)
    missing += int(odd["records"].sum())
    values = values.join(odd, on="trimmed", how="anti", maintain_order="left")
    kind, date, comma = _kind(column.name, values["trimmed"], records - missing)
    common: dict[str, Any] = {
        "missing": missing,
        "spellings": spellings,
        "has_empty": bool((absent["trimmed"].fill_null("") == "").any()),
        "no_age": tuple(odd["trimmed"]),
        "blanks": blanks,
        "date": date,
        "comma": comma,
        "thousands": not comma and not date and _has_thousands(values["trimmed"]),
        "totals": tuple(sorted(sums["trimmed"].unique())),
        "spoilt": () if kind == "weight" else spoilt(values["trimmed"]),
    }
    facts = ColumnFacts(column.name, kind, values.height, records, label=label, **common)
    if kind not in ("category", "code", "number", "text") or values.height > 20_000 or kind == "text":
        return facts
    groups, different, pad, case, recode = _alike(there)
    common["replace"] = blanks_replaced(there["trimmed"])
    if kind == "number" and different <= _MOST_CATEGORIES and pad:
        kind = "category"
    return ColumnFacts(
        column.name, kind, different, records, alike=groups, pad=pad, case=case, label=label, recode=recode, **common
    )


def last_total(frame: pl.DataFrame, columns: Sequence[ColumnFacts]) -> dict[str, tuple[str, ...]]:
    """The word of a line of totals in any language, with its column; empty if the last record is a person.

    Such a record has a single word, no category or code that another record has, and none in two columns or more.
    Among identifiers, which are not shown, the word is the only value without digits.
    """
    if frame.height < 20:
        return {}
    row = {name: (text or "").strip() for name, text in frame.row(-1, named=True).items()}
    last = {one.name: row[one.name] for one in columns if row[one.name] not in ("", *one.spellings)}
    described = {one.name for one in columns if one.kind in ("age", "category", "code", "constant", "text")}
    words = [name for name, text in last.items() if not re.search(r"\d", text) and re.search(r"[^\W_]", text)]
    if len(words) != 1 or len(described - last.keys()) < 2:
        return {}
    others = frame.head(-1).select(pl.col(*last).str.strip_chars())
    if any(last[name] in others[name] for name in described & last.keys()):
        return {}
    (word,) = words
    is_alone = word in described or others[word].str.contains(r"\d").all()
    return {word: (last[word],)} if is_alone else {}


def spoilt(values: pl.Series) -> tuple[str, ...]:
    """The values that a spreadsheet wrote as large numbers, where most values are codes of digits.

    >>> spoilt(pl.Series(["210080001", "2,1008E+08", "210080003"]))
    ('2,1008E+08',)
    """
    is_large = values.str.contains(r"^\d([.,]\d+)?[eE]\+\d{2,3}$")
    is_code = values.str.contains(r"^\d+$")
    return tuple(values.filter(is_large)) if 2 * int(is_code.sum()) > len(values) else ()


def as_codes(facts: ColumnFacts) -> ColumnFacts:
    """The facts of a column whose values are codes, whatever they look like."""
    kind: Kind = "category" if facts.values <= _MOST_CATEGORIES else "code"
    return replace(facts, kind=kind, date="", comma=False)


def _kind(name: str, values: pl.Series, records: int) -> tuple[Kind, str | list[str], bool]:
    """The kind of the values, the forms of dates, and whether numbers have a decimal comma."""
    different = len(values)
    if not different:
        return "empty", "", False
    if different == 1:
        return "constant", "", False
    if _AGES.search(name):  # a last band, such as 85+, among ages in years
        values = values.filter(~values.str.contains(_OPEN))
    if len(values) < different - 1:  # several: the ages are in groups already
        return "category", "", False
    whole = bool(values.str.contains(r"^-?\d{1,18}$").all())
    grouped = values.str.contains(THOUSANDS)  # 1.530,55
    comma = bool(values.str.contains(r"\d,\d+$").any()) and bool(
        (values.str.contains(r"^-?\d+(,\d+)?$") | grouped).all()
    )
    decimal = not whole and (comma or bool(values.str.contains(r"^-?\d*[.,]?\d+([eE][-+]?\d+)?$").all()))
    if decimal and not _WEIGHTS.search(name) and values.str.contains(r"^0\d").any():  # a code, such as 01.1
        decimal = False
    mostly_unique = different > 0.5 * records and records >= 20
    date = "" if whole and not _looks_compact(values) else _date_of(values)
    if date:
        return "date", date, False
    if values.str.contains(_MOMENT).all() and not values.str.contains(r"[ T]00:00(:00(\.0+)?)?$").all():
        return "date", "", False
    if mostly_unique and (not decimal or _IDENTIFIERS.search(name)) and not (whole and _AGES.search(name)):
        return "identifier", "", False
    if decimal:
        return ("weight" if _WEIGHTS.search(name) else "age" if _AGES.search(name) else "decimal"), "", comma
    if whole and not values.str.contains(r"^0\d").any():
        return _number(name, values.cast(pl.Int64), different), "", False
    if different <= _MOST_CATEGORIES:
        return "category", "", False
    return ("code" if values.str.contains(r"^[\w.\-]{1,20}$").all() else "text"), "", False


def _has_thousands(values: pl.Series) -> bool:
    """Whether values are numbers in which each dot stands before three digits, and some have one."""
    dotted = values.str.contains(THOUSANDS)
    return bool(dotted.any() and (dotted | values.str.contains(r"^-?\d+$")).all())


def _number(name: str, numbers: pl.Series, different: int) -> Kind:
    low, high = int(numbers.min()), int(numbers.max())  # type: ignore[arg-type]
    if _WEIGHTS.search(name):
        return "weight"
    called = different > 20 and _AGES.search(name)
    if 0 <= low <= high <= 125 and (called or (low <= 20 and high >= 60 and different >= 60)):
        return "age"
    if different <= _MOST_CATEGORIES:
        return "category"
    return "code" if len(numbers.cast(pl.String).str.len_chars().unique()) <= 2 and low >= 100 else "number"


def _no_ages(name: str, values: pl.DataFrame) -> pl.DataFrame:
    """The one or two frequent values of an age column that are no age, such as 999; empty if it is no such column."""
    years = pl.col("trimmed").cast(pl.Int64, strict=False) <= 125
    is_age = pl.col("trimmed").str.contains(_OPEN) | (pl.col("trimmed").str.contains(r"^\d{1,3}$") & years)
    ages, others = values.filter(is_age), values.filter(~is_age)
    if (
        _AGES.search(name)
        and others.height in (1, 2)
        and bool(((others["records"] >= _OFTEN) & others["trimmed"].str.contains(_NO_AGE)).all())
        and _kind(name, ages["trimmed"], int(ages["records"].sum()))[0] == "age"
    ):
        return others
    return others.clear()


def _looks_compact(values: pl.Series) -> bool:
    return bool(values.str.contains(r"^(19|20)\d{2}(0[1-9]|1[0-2])([0-2]\d|3[01])$").all())


def _date_of(values: pl.Series) -> str | list[str]:
    """The form of dates, or up to three forms, the most frequent first; at most 2 % of the values fit none."""
    all_of, enough = values, 0.02 * len(values)
    forms: list[str] = []
    while len(forms) < 3:
        left = {form: values.filter(dates_in(values, form).is_null()) for form in _DATES}
        best = min(_DATES, key=lambda form: len(left[form]))
        if len(left[best]) == len(values):
            break
        forms.append(best)
        values = left[best]
        if len(values) <= enough:
            return forms if len(forms) > 1 else best
    return next((form for form in _MONTH_FIRST if dates_in(all_of, form).null_count() <= enough), "")


def _alike(
    there: pl.DataFrame,
) -> tuple[tuple[tuple[str, ...], ...], int, int, Literal["", Case], dict[str, str]]:
    """Groups of values that are nearly the same; how many values differ; the width of codes; case; abbreviations."""
    texts = there["trimmed"].to_list()
    pad = _padded({*texts})
    folded, groups = folding(texts), defaultdict[str, set[str]](set)
    for raw, text in there.select("value", "trimmed").iter_rows():
        groups[folded(text).zfill(pad)].add(raw)
    case = lower_case(there["trimmed"])
    spelled = _spelled(groups.values(), case)
    words = in_case(there["trimmed"], case).unique().sort()
    short = _abbreviations(word for word in words if word not in spelled)
    for word, letters in short.items():
        groups[folded(letters)] |= groups.pop(folded(word), set())
    same = (len({unicodedata.normalize("NFC", one_blank(text)) for text in group}) == 1 for group in groups.values())
    used: Literal["", Case] = "" if pad or all(same) else case
    spelled = spelled if used else _spelled(groups.values(), "")
    recode = {text: short.get(word, word) for text, word in spelled.items()} | short
    found = tuple(sorted(tuple(sorted(group)) for group in groups.values() if len(group) > 1))
    return found, len(groups), pad, used, recode


def _padded(texts: set[str]) -> int:
    """The length at which leading zeros make codes of digits equal, or as long as those that begin with zeros; else 0.

    >>> _padded({"1", "01", "12"}), _padded({"01", "2", "12"}), _padded({"0", "2", "12"}), _padded({"01", "011", "12"})
    (2, 2, 0, 0)
    """
    longest = max(map(len, texts), default=0)
    if not all(map(str.isdecimal, texts)) or {len(text) for text in texts} == {longest}:
        return 0
    zeros = {len(text) for text in texts if text.startswith("0") and len(text) > 1}
    is_lost = zeros == {longest} or len({text.zfill(longest) for text in texts}) < len(texts)
    return longest if is_lost else 0


def _spelled(groups: Iterable[set[str]], case: Literal["", Case]) -> dict[str, str]:
    """For values that one case leaves apart, because of accents, one spelling."""
    found: dict[str, str] = {}
    for group in groups:
        if len(group) > 1 and not all(map(str.isascii, group)):
            texts = pl.Series(map(one_blank, group), dtype=pl.String)
            found |= one_spelling(in_case(texts, case) if case else texts)
    return found


def _first_letters(codes: set[str], words: list[str]) -> dict[str, str]:
    """Words with the codes that are certainly their first letters."""
    found = {}
    for word in words:
        fitting = [one for one in codes if word.startswith(one)]
        if len(fitting) == 1 and sum(other.startswith(fitting[0]) for other in words) == 1:
            found[word] = fitting[0]
    if len(found) == 1 and len(words) > 1 and codes - set(found.values()):  # both others may be of another language
        return {}
    return {word: code for word, code in found.items() if not (code == "m" and "h" in codes and _MEN.match(word))}


def _abbreviations(values: Iterable[str]) -> dict[str, str]:
    """Words with their first letters, such as female and f, and shortened words with a dot, such as fem.

    A word has only one form of first letters, and a shortened word stands for only one value. First letters that may
    stand for another value are left alone: beside h, m is a woman (mulher, mujer) and not masculino.
    """
    values = list(values)
    short = [value for value in values if len(value) <= 2 and value.isalpha()]
    words = [value for value in values if len(value) > 2 and value.isalpha()]
    dots = [value for value in values if value.endswith(".") and value[:-1].isalpha()]
    pairs = _first_letters({*short, *(one[:-1] for one in dots if len(one) <= 3)}, words)
    found = {word: letters for word, letters in pairs.items() if letters in short}
    for dotted in dots:
        meant = {found.get(one, one) for one in (*short, *words) if one.startswith(dotted[:-1])}
        if len(dotted) <= 3:
            meant = {dotted[:-1]} & set(short) or {word for word, letters in pairs.items() if letters == dotted[:-1]}
        if len(meant) == 1:
            found[dotted] = meant.pop()
    return found
