"""Usual spellings of a missing value, in the languages that we are sure of."""

from __future__ import annotations

import polars as pl

from ilba.data.letters import folded_in

MISSING = frozenset(
    [
        "NA",
        "N/A",
        "n/a",
        "na",
        "NaN",
        "nan",
        "NULL",
        "null",
        "None",
        "#N/A",
        ".",
        "..",
        "-",
        "--",
        "?",
        "missing",
        "Missing",
        "k.A.",
        "k. A.",
        "n.a.",
        "N.A.",
        "n.d.",
        "N.D.",
        "b.d.",
        "s.d.",
        "S.D.",
        "n.r.",
        "N.R.",
        "n/r",
        "N/R",
        "n/d",
        "N/D",
        "NS/NR",
        "NS/NC",
        "<NA>",
        "#NV",
    ]
)
WORDS = frozenset(
    [
        *("b/d", "brak danych", "nie ustalono", "nie podano", "neuvedeno", "nezjištěno", "keine angabe"),
        *("não informado", "sem informação", "δξ/δα", "s/d", "s/i", "sin datos", "sin dato", "sem dados"),
        *("unknown", "not known", "not stated", "not reported", "no data", "no answer"),
        *("ignorado", "ignorada", "bilinmiyor", "bilinmeyen", "belirtilmemiş"),
    ]
)
"""folded: no data, not stated, not found out, not known"""
SHORT = frozenset(["NR", "ND", "NK"])
"""not reported, no data, not known: missing, unless most values of the column are codes of two capital letters"""


def spells_missing(texts: pl.Expr) -> pl.Expr:
    """Whether texts are usual spellings of a missing value; two capital letters alone are not."""
    return texts.is_in(list(MISSING)) | folded_in(texts).is_in(list(WORDS))
