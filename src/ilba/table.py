"""One masked table, with what the methodologist may see of it and what the public may."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from ilba.design import MASKED, Design, Selection
from ilba.errors import InputError, WriteError
from ilba.files import replacing, writable
from ilba.masking import loss_shares

Path_: TypeAlias = str | os.PathLike[str]
_AS_R: Any = {"quote_style": "non_numeric", "null_value": "NA", "float_scientific": False}


class Table:
    """Counts at one level by some keys, masked. Confidential: `public()` is what may leave the house."""

    def __init__(self, design: Design, selection: Selection, detail: pl.DataFrame) -> None:
        self.design = design
        self.selection = selection
        self.detail = detail
        """labels, N, N_masked, type1, type2, loss: all there is to know (confidential)"""

    @property
    def frame(self) -> pl.DataFrame:
        """Labels, N_masked, type1, type2, as the R package writes them (confidential)."""
        return self.detail.select(*self.selection.columns, MASKED, "type1", "type2")

    @cached_property
    def loss(self) -> pl.DataFrame:
        """The distribution of the information loss, masked minus true: Loss, n, perc and a Total row (confidential)."""
        values, n, percent = loss_shares(self.detail["loss"].to_numpy())
        return pl.DataFrame(
            {
                "Loss": [*(str(value) for value in values), "Total"],
                "n": np.append(n, n.sum()),
                "perc": np.append(percent, 100.0),
            }
        )

    def public(self) -> pl.DataFrame:
        """Labels and N_masked, without a row that is 0.

        A listed 0 would say "somebody is here, fewer than K", because a combination that never occurs is not
        listed. Absent means 0.
        """
        return self.detail.filter(pl.col(MASKED) > 0).select(*self.selection.columns, MASKED)

    def write_csv(self, path: Path_, loss_path: Path_ | None = None, *, public: bool = False) -> None:
        """Write `frame` as CSV, or with `public` only what the public may see; and `loss` to a file of its own."""
        if loss_path is not None and writable(path) == writable(loss_path):
            raise InputError("the table and its loss would go to the same file. Give two names.")
        write_csv(self.public() if public else self.frame, path)
        if loss_path is not None:
            self.write_loss(loss_path)

    def write_loss(self, path: Path_) -> None:
        """Write `loss` as CSV."""
        write_csv(self.loss, path)

    @property
    def title(self) -> str:
        """The variables of the table in words."""
        return " x ".join(self.selection.columns) or "Total"

    def __len__(self) -> int:
        return self.detail.height

    def __repr__(self) -> str:
        return f"{self.title} (K={self.design.threshold}, confidential)\n{self.frame}"

    def _repr_html_(self) -> str:
        return f"<p>{self.title} (K={self.design.threshold}, confidential)</p>{self.frame._repr_html_()}"


def csv_text(frame: pl.DataFrame) -> str:
    """A frame as R writes it: text quoted, numbers bare and short, a missing label as NA."""
    text: str = frame.write_csv(**_AS_R)
    return text


def write_csv(frame: pl.DataFrame, path: Path_) -> None:
    """Write a frame as `csv_text` spells it, for its owner alone and in one step."""
    with replacing(path) as temporary:
        try:
            frame.write_csv(temporary, **_AS_R)
        except pl.exceptions.PolarsError as problem:
            raise WriteError(f"could not write {os.fspath(path)!r}: {problem}") from None
