"""Upper and lower case, blanks, and which spellings differ only by them.

Turkish and Azeri have two letters i: I is the capital of ı, and İ of i. No text says which language it is in, so a
person declares their case ("lower-tr"), and spellings that differ only by such letters are found alike.

Words in capitals often have no accents: ΑΡΡΕΝ is Άρρεν. Other words differ by an accent, such as Peña and Pena, so it
is only left out beside such capitals, or where all values are in one case: nobody sees which were capitals.

Unicode spells é as one letter (NFC) or as e and an accent (NFD, as some Macs write). A label of the records stays as it
is, because masks belong to labels; code lists, recodes, names and spellings of missing values match it in any form.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, TypeAlias, get_args

import polars as pl

Form: TypeAlias = Literal["", "NFC", "NFD"]
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
    """Fold a text: two that differ only by case, blanks or the form of Unicode have the same. All letters i are one.

    >>> {folded(one) for one in ("KADIN", "Kadın", "kadin")}, folded("EVLİ") == folded("evli")
    ({'kadin'}, True)
    >>> folded("two  or\\u00a0more ") == folded("two or more")
    True
    """
    return unicodedata.normalize("NFC", one_blank(text).casefold().replace(f"i{_DOT}", "i").replace("ı", "i"))


def folding(texts: Iterable[str]) -> Callable[[str], str]:
    """How the values of a column are folded: as `folded`, and without the accents that capitals lost.

    >>> [len({*map(folding(two), two)}) for two in (["Άρρεν", "ΑΡΡΕΝ"], ["Peña", "Pena"], ["άρρεν", "αρρεν"])]
    [1, 2, 1]
    """
    texts = set(texts)
    in_one_case = any(all(text == change(text) for text in texts) for change in (str.lower, str.upper))
    capitals = {text for text in texts if re.sub("[σς]", "Σ", text).isupper()}
    bare = {folded(text) for text in capitals if text == unaccented(text)}
    found = {folded(text) for text in (texts if in_one_case else texts - capitals)}
    plain = {key: unaccented(key) for key in found}
    lost = {key: short for key, short in plain.items() if in_one_case or short in bare}
    return lambda text: lost.get(folded(text), folded(text))


def unaccented(text: str) -> str:
    """Leave out the accents of letters that have capitals: elsewhere they are letters, such as those of か and が."""
    kept: list[str] = []
    for letter in unicodedata.normalize("NFD", text):
        if not (kept and unicodedata.category(letter) == "Mn" and kept[-1].lower() != kept[-1].upper()):
            kept.append(letter)
    return unicodedata.normalize("NFC", "".join(kept))


def one_spelling(texts: Iterable[str]) -> dict[str, str]:
    """The texts that differ from another one only by accents or a final sigma, and that one: it has the accents.

    >>> one_spelling(["αρρεν", "άρρεν", "θήλυ"])
    {'αρρεν': 'άρρεν'}
    """
    groups: dict[str, set[str]] = {}
    for text in texts:
        groups.setdefault(unaccented(text).replace("ς", "σ"), set()).add(text)
    becomes: dict[str, str] = {}
    for plain, group in groups.items():
        best = max(group, key=lambda text: (_accents(text, plain), unicodedata.is_normalized("NFC", text), text))
        becomes |= dict.fromkeys(sorted(group - {best}), best)
    return becomes


def _accents(text: str, plain: str) -> tuple[int, bool]:
    """How many accents a text has, and whether sigmas at its end are final."""
    return len(unicodedata.normalize("NFD", text)) - len(plain), not text.endswith("σ")


def form_of(texts: pl.Series, known: pl.Series) -> Form:
    """The form of Unicode in which most of the texts are known; empty if it is the one that they have."""
    if _is_ascii(texts):
        return ""
    forms: tuple[Form, ...] = ("", "NFC", "NFD")
    return max(forms, key=lambda form: int(in_form(texts, form).is_in(known.implode()).sum()))


def in_form(texts: pl.Series, form: Form) -> pl.Series:
    """Texts in a form of Unicode; as they are if it is empty."""
    return texts.str.normalize(form) if form else texts


def as_listed(texts: pl.Series, listed: pl.Series) -> pl.Series:
    """Texts as a list spells them, where only the form of Unicode differs.

    >>> as_listed(pl.Series(["e\\u0301", "b"]), pl.Series(["\\u00e9"])).str.len_chars().to_list()
    [1, 1]
    """
    if _is_ascii(texts):
        return texts
    by_form = {unicodedata.normalize("NFC", one): one for one in listed.drop_nulls()}
    strange = texts.filter(~texts.is_in(listed.implode())).drop_nulls().unique()
    same = {one: by_form.get(unicodedata.normalize("NFC", one), one) for one in strange}
    return texts.replace(same) if same else texts


def spelled_in(texts: pl.Series, words: Iterable[str]) -> pl.Series:
    """Whether texts are among words in any form of Unicode; a missing text is not.

    >>> spelled_in(pl.Series(["e\\u0301", "e", None]), ["\\u00e9"]).to_list()
    [True, False, False]
    """
    known = [unicodedata.normalize("NFC", word) for word in words]
    return texts.str.normalize("NFC").is_in(known).fill_null(False)


def forms(words: Iterable[str]) -> list[str]:
    """Words as they are, composed and decomposed.

    >>> [len(word) for word in forms(["\u00e9", "a"])]
    [1, 2, 1]
    """
    composed, decomposed = (partial(unicodedata.normalize, form) for form in ("NFC", "NFD"))
    return list(dict.fromkeys(form for one in words for form in (one, composed(one), decomposed(one))))


def name_in(wanted: str, there: Iterable[str]) -> str:
    """The name among those that are there, in any form of Unicode; the wanted one if it is not among them."""
    return as_listed(pl.Series([wanted]), pl.Series(there, dtype=pl.String)).item()  # type: ignore[no-any-return]


def _is_ascii(texts: pl.Series) -> bool:
    return bool((texts.str.len_bytes() == texts.str.len_chars()).all())


def shown(text: str) -> str:
    """A value in quotes; nobody sees that its letters are spelled in parts.

    >>> shown("\\u00e9").isascii(), shown("e\\u0301").endswith("' (decomposed Unicode, NFD)")
    (False, True)
    """
    return repr(text) + ("" if unicodedata.is_normalized("NFC", text) else " (decomposed Unicode, NFD)")


def folded_in(texts: pl.Expr) -> pl.Expr:
    """The same for each text of a column, but for letters that are two in capitals, such as ß."""
    texts = texts.str.strip_chars().str.replace_all(r"\s+", " ")
    texts = texts.str.to_lowercase().str.replace_all(f"i{_DOT}", "i", literal=True).str.replace_all("ı", "i")
    return texts.str.normalize("NFC")


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
