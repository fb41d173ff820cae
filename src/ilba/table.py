"""One masked table, with what the methodologist may see of it and what the public may."""

from __future__ import annotations

import os
from functools import cached_property

import numpy as np
import polars as pl

from ilba.design import MASKED, Design, Selection
from ilba.errors import WriteError
from ilba.files import replacing
from ilba.masking import loss_shares


class Table:
    """Counts at one level by some keys, masked by iLBA. Confidential: `public()` is what may leave the house."""

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

    def write_csv(self, path: str | os.PathLike[str], *, public: bool = False) -> None:
        """Write `frame`, or with `public` only what the public may see, as CSV with quoted labels."""
        _write_csv(self.public() if public else self.frame, path)

    def write_loss(self, path: str | os.PathLike[str]) -> None:
        """Write `loss` as CSV."""
        _write_csv(self.loss, path)

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


def _write_csv(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Text quoted, numbers bare and as short as R writes them, a missing label as NA."""
    with replacing(path) as temporary:
        try:
            frame.write_csv(temporary, quote_style="non_numeric", null_value="NA", float_scientific=False)
        except pl.exceptions.PolarsError as problem:
            raise WriteError(f"could not write {os.fspath(path)!r}: {problem}") from None
