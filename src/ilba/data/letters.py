"""Upper and lower case, blanks, and which spellings differ only by them.

Turkish and Azeri have two letters i: I is the capital of ı, and İ of i. No text says which language it is in, so a
person declares their case ("lower-tr"), and spellings that differ only by such letters are found alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

import polars as pl

Case: TypeAlias = Literal["lower", "upper", "lower-tr", "upper-tr"]
CASES: tuple[Case, ...] = get_args(Case)
_DOT = "\u0307"
"""the dot of İ, where it is a letter of its own"""
_FIRST: dict[Case, dict[str, str]] = {
    "lower": {f"I{_DOT}": "i", "İ": "i"},  # else the dot is kept beside that of i, where nobody sees it
    "upper": {},
    "lower-tr": {f"I{_DOT}": "i", "İ": "i", "I": "ı"},
    "upper-tr": {f"i{_DOT}": "İ", "i": "İ"},
}


def in_case(texts: pl.Series, case: Case) -> pl.Series:
    """Texts in one case; those of Turkish and Azeri end in -tr.

    >>> words = pl.Series(["KADIN", "EVLİ", "Kadın"])
    >>> in_case(words, "lower").to_list(), in_case(words, "lower-tr").to_list()
    (['kadin', 'evli', 'kadın'], ['kadın', 'evli', 'kadın'])
    """
    for letter, becomes in _FIRST[case].items():
        texts = texts.str.replace_all(letter, becomes, literal=True)
    return texts.str.to_lowercase() if case.startswith("lower") else texts.str.to_uppercase()


def lower_case(texts: pl.Series) -> Case:
    """The lower case that leaves the fewest different texts; where both do, the Turkish one if they have ı or İ."""
    plain, turkish = (in_case(texts, case).n_unique() for case in ("lower", "lower-tr"))
    has_letters = bool(texts.str.contains(f"[ıİ]|I{_DOT}").any())
    return "lower-tr" if turkish < plain or (turkish == plain and has_letters) else "lower"


def folded(text: str) -> str:
    """Fold a text: two texts that differ only by case or blanks have the same one. All letters i are one.

    >>> {folded(one) for one in ("KADIN", "Kadın", "kadin")}, folded("EVLİ") == folded("evli")
    ({'kadin'}, True)
    >>> folded("two  or\\u00a0more ") == folded("two or more")
    True
    """
    return one_blank(text).casefold().replace(f"i{_DOT}", "i").replace("ı", "i")


def folded_in(texts: pl.Expr) -> pl.Expr:
    """The same for each text of a column, but for letters that are two in capitals, such as ß."""
    texts = texts.str.strip_chars().str.replace_all(r"\s+", " ")
    return texts.str.to_lowercase().str.replace_all(f"i{_DOT}", "i", literal=True).str.replace_all("ı", "i")


def one_blank(text: str) -> str:
    """Make one blank of each run of blanks, also of no-break ones, and none around the text."""
    return " ".join(text.split())


def blanks_replaced(texts: Iterable[str]) -> dict[str, str]:
    """The runs of blanks inside texts and their replacement, a blank; none if no two texts differ only by them.

    >>> blanks_replaced(["two  or more", "two or more"]), blanks_replaced(["two  or more", "one"])
    ({'  ': ' '}, {})
    """
    texts = {text.strip().casefold() for text in texts}
    if len({one_blank(text) for text in texts}) == len(texts):
        return {}
    runs = {run for text in texts for run in re.findall(r"\s+", text)} - {" "}
    return {run: " " for run in sorted(runs) if not any(other in run for other in runs - {run})}
