"""Charts for the methodologist: loss, risk and attackers. They say that they are confidential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from ilba.errors import InputError, suggesting
from ilba.output.drawing import GREY, PALETTE, Chart, finished, load_altair

if TYPE_CHECKING:
    from ilba.tables.table import Table


@suggesting
def loss(table: Table, title: str = "") -> Chart:
    """Draw the distribution of the information loss of a table: masked minus true. Confidential.

    Parameters
    ----------
    table : Table
        The table.
    title : str, default ""
        The title. Left out, one made from the variables of the table.

    Returns
    -------
    altair.Chart
        The chart. Only its owner can read the file that `save` writes.
    """
    shares = table.loss.head(-1)  # without the Total row
    words = f"Information loss: {table.title}"
    return loss_shares(
        dict(zip(map(int, shares["Loss"]), shares["n"].to_list(), strict=True)), table.design.threshold, title or words
    )


def loss_shares(cells: Mapping[int, int], threshold: int, title: str) -> Chart:
    """Draw the number of cells with each loss. Confidential.

    Parameters
    ----------
    cells : dict of int to int
        The number of cells with each loss, masked minus true.
    threshold : int
        The threshold K. A loss of at most K/2 has its own colour.
    title : str
        The title.

    Returns
    -------
    altair.Chart
        The chart. Only its owner can read the file that `save` writes.
    """
    alt = load_altair()
    near, total = threshold // 2, sum(cells.values())
    reach = max([near + 1, *(abs(loss) for loss in cells)])
    inside, outside = f"at most {near}", "more"
    values = [
        {"loss": value, "n": n, "share": n / total if total else 0, "part": inside if abs(value) <= near else outside}
        for value in range(-reach, reach + 1)
        for n in [cells.get(value, 0)]
    ]
    within = sum(n for value, n in cells.items() if abs(value) <= near) / total if total else 1
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("loss", type="ordinal", title="masked minus true count", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("share", type="quantitative", title="share of cells", axis=alt.Axis(format="%", tickCount=5)),
    )
    drawn = base.mark_bar().encode(
        color=alt.Color(
            "part",
            type="nominal",
            scale=alt.Scale(domain=[inside, outside], range=[PALETTE[0], PALETTE[1]]),
            legend=alt.Legend(title=None, orient="top"),
        ),
        tooltip=[
            alt.Tooltip("loss", type="ordinal"),
            alt.Tooltip("n", type="quantitative", title="cells", format=","),
            alt.Tooltip("share", type="quantitative", format=".2%"),
        ],
    )
    written = base.mark_text(dy=-6, fontSize=11, color=GREY).encode(
        text=alt.Text("share", type="quantitative", format=".1%"),
        opacity=alt.condition("datum.n > 0", alt.value(1), alt.value(0)),
    )
    chart = (drawn + written).properties(width=max(420, 38 * len(values)), height=260)
    said = f"CONFIDENTIAL. {total:,} cells, K={threshold}; {within:.1%} have a loss of at most {near}."
    return finished(alt, chart, title, [said], confidential=True)


@suggesting
def risk(frame: Any, title: str = "Risk and loss") -> Chart:
    """Draw methods as points: mean loss, and the share of small cells that can be proven. Confidential.

    Parameters
    ----------
    frame : frame
        One row per method: `method`, `mean_loss` (mean absolute loss) and `provable` (share of small cells that are
        proven, from 0 to 1). With a column `K`, as in the rows of `ilba.what_if`, the label of a point has both. With
        a column `family`, as in the rows of `ilba.compare`, a line joins the points of a family: one method with
        several parameters.
    title : str, default "Risk and loss"
        The title.

    Returns
    -------
    altair.Chart
        The chart. Only its owner can read the file that `save` writes.

    Raises
    ------
    InputError
        A column is missing, or shares are given in percent.
    """
    alt = load_altair()
    rows = pl.DataFrame(frame, strict=False)  # 0 among fractions is one, too
    for column in ("method", "mean_loss", "provable"):
        if column not in rows.columns:
            raise InputError(f"the frame has no column {column!r}. It needs method, mean_loss and provable.")
    if not rows["provable"].is_between(0, 1).all():
        raise InputError("provable has numbers outside 0..1. It is a share: give 0.25 for 25%.")
    if "K" in rows.columns:
        rows = rows.with_columns(method=pl.format("{} K={}", "method", "K"))
    names = rows["method"].cast(pl.String).to_list()
    far = max([0.0, *rows["mean_loss"].to_list()]) * 1.25 or 1
    high = min(1.0, max([0.05, *rows["provable"].to_list()]) * 1.15)
    wide, tall = 460, 320
    # One method with a large loss would squeeze all others together, so the scale is then a square root.
    bent = len(names) > 2 and far > 6 * max(float(rows["mean_loss"].median() or 0), 0.1)  # type: ignore[arg-type]
    across = (pl.col("mean_loss") / far).sqrt() if bent else pl.col("mean_loss") / far
    spots = rows.select(across * wide, pl.col("provable") / high * tall).rows()
    family = pl.col("family") if "family" in rows.columns else pl.col("method").alias("family")
    rows = rows.select("method", "mean_loss", "provable", family, word=pl.Series(_apart(spots, names)) / tall * high)
    data = alt.InlineData(values=rows.to_dicts())
    base = alt.Chart(data).encode(
        x=alt.X(
            "mean_loss",
            type="quantitative",
            title="mean absolute loss per cell",
            scale=alt.Scale(domain=[0, far], type="sqrt" if bent else "linear"),
        ),
        y=alt.Y(
            "provable",
            type="quantitative",
            title="small cells that can be proven",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, high]),
        ),
    )
    points = base.mark_point(size=140, filled=True, opacity=1).encode(
        color=alt.Color("method", type="nominal", scale=alt.Scale(domain=names, range=list(PALETTE)), legend=None),
        shape=alt.Shape("method", type="nominal", sort=names, legend=None),
        tooltip=["method:N", "mean_loss:Q", alt.Tooltip("provable", type="quantitative", format=".2%")],
    )
    words = base.mark_text(align="left", dx=9, fontSize=13).encode(
        y=alt.Y("word", type="quantitative"), text=alt.Text("method", type="nominal")
    )
    # A word that had to move up hangs on its point by a line.
    lines = base.mark_rule(strokeWidth=1, color="#bbbbbb").encode(y2=alt.Y2("word"))
    curves = base.mark_line(strokeWidth=1, color="#999999").encode(detail=alt.Detail("family", type="nominal"))
    layers = lines + points + words if rows["family"].is_unique().all() else curves + lines + points + words
    chart = layers.properties(width=wide, height=tall)
    return finished(alt, chart, title, ["CONFIDENTIAL. Lower left is better."], confidential=True)


@suggesting
def attackers(frame: Any, title: str = "What attackers learn, and the loss") -> Chart:
    """Draw what each attacker learns against the loss, one chart for each attacker. Confidential.

    Parameters
    ----------
    frame : frame
        The rows of `ilba.what_if`: a point for each, with its method, K and bound as label.
    title : str, default "What attackers learn, and the loss"
        The title.

    Returns
    -------
    altair.Chart
        The chart. Only its owner can read the file that `save` writes.

    Raises
    ------
    InputError
        A column is missing.
    """
    alt = load_altair()
    rows = pl.DataFrame(frame, strict=False)
    for column in ("method", "K", "mean_loss", "provable"):
        if column not in rows.columns:
            raise InputError(f"the frame has no column {column!r}. It takes the rows of ilba.what_if.")
    named = [c for c in rows.columns if c not in _NO_ATTACKER and not c.endswith("_right")]
    chosen = pl.format("{} K={}", "method", "K")
    if {"bound", "max_loss"} <= set(rows.columns):
        chosen = pl.concat_str(chosen, pl.format(" bound {}", bound_reached()).fill_null(""))
    rows = rows.with_columns(chosen=chosen)
    names = rows["chosen"].unique(maintain_order=True).to_list()
    pictures = []
    for name in named:
        own = rows.select("chosen", "mean_loss", learns=pl.col(name).cast(pl.Float64)).drop_nulls()
        if own.is_empty():
            continue
        share = name != "groups"
        said = _ATTACKER_AXES.get(name, f"small cells that {name} proves")
        most = max([0.05 if share else 1.0, *own["learns"].to_list()]) * 1.1
        pictures.append(
            alt.Chart(alt.InlineData(values=own.to_dicts()), title=alt.TitleParams(said, fontSize=13, anchor="start"))
            .mark_point(size=110, filled=True, opacity=1)
            .encode(
                x=alt.X("mean_loss", type="quantitative", title="mean absolute loss", scale=alt.Scale(zero=True)),
                y=alt.Y(
                    "learns",
                    type="quantitative",
                    title=None,
                    axis=alt.Axis(format="%" if share else "~s"),
                    scale=alt.Scale(domain=[0, min(most, 1.0) if share else most]),
                ),
                color=alt.Color(
                    "chosen", type="nominal", title=None, scale=alt.Scale(domain=names, range=list(PALETTE))
                ),
                shape=alt.Shape("chosen", type="nominal", title=None, scale=alt.Scale(domain=names)),
                tooltip=["chosen:N", "mean_loss:Q", "learns:Q"],
            )
            .properties(width=260, height=190)
        )
    chart = alt.concat(*pictures, columns=2)
    return finished(alt, chart, title, ["CONFIDENTIAL. Lower left is better."], confidential=True)


def bound_reached() -> pl.Expr:
    """The bound of each row of `what_if` as text, with the largest loss where the bound was not held.

    >>> pl.DataFrame({"bound": [None, 9, 9], "max_loss": [7, 9, 14]}).select(bound_reached())["bound"].to_list()
    [None, '9', '9 (not held, 14 reached)']
    """
    said = pl.format("{} (not held, {} reached)", "bound", "max_loss")
    return pl.when(pl.col("max_loss") > pl.col("bound")).then(said).otherwise(pl.format("{}", "bound")).alias("bound")


_NO_ATTACKER = (
    "method", "K", "bound", "small", "mean_loss", "p99_loss", "max_loss", "exact", "safe", "insider_bound",
    "provable_counts",
)  # fmt: skip
_ATTACKER_AXES = {
    "provable": "everybody: small cells that are proven",
    "outsider": "outsider: small cells rightly believed small, P > .95",
    "neighbour": "neighbour: small cells that are proven",
    "insider": "insider who knows all but one: proven, by this secret",
    "groups": "attribute: groups shown with one value",
}


def _apart(spots: Sequence[tuple[float, float]], words: Sequence[str]) -> list[float]:
    """The height of each word in pixels: a little above its point, and higher if another word is there."""
    high, across = 16, 7.5
    placed: list[tuple[float, float, float]] = []
    found = [0.0] * len(words)
    for place in sorted(range(len(words)), key=lambda place: spots[place][1]):
        (left, y), right = spots[place], spots[place][0] + across * len(words[place])
        y += 9
        while any(abs(y - at) < high and left < end and start < right for start, end, at in placed):
            y += 1
        placed.append((left, right, y))
        found[place] = y
    return found


def points(rows: pl.DataFrame, measure: str, said: str, title: str, form: str = "~f") -> Chart:
    """Draw a measure of many tables against their size, coloured by level. Confidential.

    Parameters
    ----------
    rows : polars.DataFrame
        A row per table: table, level, cells and the measure.
    measure : str
        The column to draw.
    said : str
        The name of the measure on the axis.
    title : str
        The title.
    form : str, default "~f"
        The format of numbers on the axis, in the notation of d3. With "%" the axis need not begin at 0.

    Returns
    -------
    altair.Chart
        The chart. Only its owner can read the file that `save` writes.
    """
    alt = load_altair()
    levels = rows["level"].unique(maintain_order=True).to_list()
    # Several hierarchies can have more levels than there are colours; then colours repeat.
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(levels))]
    chart = (
        alt.Chart(alt.InlineData(values=rows.select("table", "level", "cells", measure).to_dicts()))
        .mark_circle(size=70, opacity=0.75)
        .encode(
            x=alt.X(
                "cells",
                type="quantitative",
                title="cells of the table",
                scale=alt.Scale(type="log", nice=False, padding=12),
                axis=alt.Axis(format="~s", tickCount=6),
            ),
            y=alt.Y(
                measure,
                type="quantitative",
                title=said,
                axis=alt.Axis(format=form, tickCount=6),
                scale=alt.Scale(zero=form != "%"),
            ),
            color=alt.Color(
                "level",
                type="nominal",
                scale=alt.Scale(domain=levels, range=colours),
                legend=alt.Legend(title="level", orient="top", columns=5),
            ),
            tooltip=["table:N", "level:N", alt.Tooltip("cells", type="quantitative", format=","), f"{measure}:Q"],
        )
        .properties(width=420, height=260)
    )
    return finished(alt, chart, title, ["CONFIDENTIAL. One point per table."], confidential=True)
