"""Charts and maps of tables and of their loss, with Altair.

`bars` and `areas` draw public frames (labels and N_masked) and may be published. `loss` and `risk` are for the
methodologist; they say so, and only their owner can read the files. Files need no network: HTML contains its scripts,
and vl-convert draws SVG and PNG.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from ilba.design.design import MASKED, Design
from ilba.errors import InputError, MissingExtra, listing, nearest, some, suggesting
from ilba.files import PRIVATE, PUBLIC, replacing
from ilba.output.wording import Labels, check_language, languages
from ilba.output.wording import words as words_of

if TYPE_CHECKING:
    from ilba.tables.table import Table

Path_: TypeAlias = str | os.PathLike[str]
Chart: TypeAlias = Any
"""an Altair chart"""

SUFFIXES = (".html", ".svg", ".png")
# Okabe and Ito's colours: people with any kind of colour vision can distinguish them.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7A7A7A")
_FONT = "Helvetica, Arial, 'Noto Sans KR', 'Noto Sans CJK KR', 'Apple SD Gothic Neo', 'Malgun Gothic', sans-serif"
_GREY, _ZERO = "#555555", "#EDEDED"
_MOST_ON_AN_AXIS = 300
_MOST_COLOURS = len(PALETTE)
_MOST_PANELS = 12


@suggesting
def bars(
    frame: Any,
    design: Design | None = None,
    *,
    labels: Any = None,
    lang: str = "en",
    title: str = "",
) -> Chart:
    """Draw a public table of up to three variables as bars, or as a heat map if there are too many bars.

    Parameters
    ----------
    frame : frame
        Labels and N_masked, such as `release.table(name)` or `table.public()`.
    design : Design, optional
        `release.design` or `finest.design`: the hierarchies and K.
    labels : path or frame, optional
        The code list with labels, such as `release.codes`. Left out, codes are shown.
    lang : str, default "en"
        The language of labels and words.
    title : str, default ""
        The title. Left out, one made from the variables of the table.

    Returns
    -------
    altair.Chart
        The chart; `save` writes it.

    Raises
    ------
    InputError
        The table has more than three variables, or too many codes for bars.
    MissingExtra
        The extra `charts` is not installed.
    """
    alt = load_altair()
    table = _drawn(frame, design, labels, lang)
    axes = sorted(table.axes, key=len)  # the smallest becomes colour or panels, the largest the long axis
    if len(axes) > 3:
        raise InputError(
            f"a chart shows up to three variables, and this table has {len(axes)}: "
            f"{listing(axis.label for axis in table.axes)}. Use a table with fewer variables, or filter one of them."
        )
    for axis in axes:
        if len(axis) > _MOST_ON_AN_AXIS:
            raise InputError(
                f"{axis.label!r} has {len(axis):,} codes, too many for bars. Use a coarser level, or a map."
            )
    panel = axes.pop(0) if len(axes) == 3 else None
    if panel is not None and len(panel) > _MOST_PANELS:
        raise InputError(
            f"{panel.label!r} has {len(panel)} codes, too many for panels: at most {_MOST_PANELS}. "
            f"Use a table with fewer variables, or filter one of them."
        )
    chart = alt.Chart(_rows(alt, table))
    count = alt.X(MASKED, type="quantitative", title=table.said["count"], axis=alt.Axis(format=",d", tickMinStep=1))
    tooltip = [
        *(alt.Tooltip(axis.field, type="nominal", title=axis.label) for axis in table.axes),
        alt.Tooltip(MASKED, type="quantitative", title=table.said["count"], format=","),
    ]
    long = axes[-1] if axes else None
    if long is None:
        chart = chart.mark_bar(height=28).encode(x=count, tooltip=tooltip).properties(width=480, height=60)
    elif len(axes) == 1:
        chart = _one(alt, chart, long, count, table.said["count"], tooltip, panel is not None)
    elif len(axes[0]) <= _MOST_COLOURS and len(axes[0]) * len(long) <= _MOST_ON_AN_AXIS:
        chart = _grouped(alt, chart, long, axes[0], count, tooltip, panel is not None)
    else:
        chart = _heat(alt, chart, long, axes[0], table.said["count"], tooltip)
    if panel is not None:
        across = 2 if len(panel) < 5 else 3
        facet = alt.Facet(panel.field, type="nominal", title=None, sort=panel.labels)
        chart = chart.facet(facet, columns=across)
    return finished(
        alt, chart, title or table.title, [table.note + ("" if table.complete else f" {table.said['chart_zero']}")]
    )


def _one(alt: Any, chart: Chart, axis: _Axis, count: Any, said: str, tooltip: Any, small: bool) -> Chart:
    if len(axis) <= 8 and not small and max(map(len, axis.labels)) <= 14:
        upright = alt.Y(MASKED, type="quantitative", title=said, axis=alt.Axis(format=",d", tickMinStep=1))
        x = alt.X(axis.field, type="nominal", sort=axis.labels, title=axis.label, axis=alt.Axis(labelAngle=0))
        return (
            chart.mark_bar(color=PALETTE[0])
            .encode(x=x, y=upright, tooltip=tooltip)
            .properties(width=max(240, 80 * len(axis)), height=300)
        )
    y = _down(alt, axis)
    step = 20 if len(axis) <= 40 else 13
    return (
        chart.mark_bar(color=PALETTE[0])
        .encode(x=count, y=y, tooltip=tooltip)
        .properties(width=260 if small else 480, height=alt.Step(step))
    )


def _grouped(alt: Any, chart: Chart, long: _Axis, colours: _Axis, count: Any, tooltip: Any, small: bool) -> Chart:
    scale = alt.Scale(domain=colours.labels, range=list(PALETTE[: len(colours)]))
    legend = alt.Legend(orient="top", title=colours.label, columns=min(5, len(colours)), labelLimit=220)
    step = max(5, 22 // len(colours)) if len(long) > 12 else 12
    return (
        chart.mark_bar()
        .encode(
            x=count,
            y=_down(alt, long),
            yOffset=alt.YOffset(colours.field, type="nominal", sort=colours.labels),
            color=alt.Color(colours.field, type="nominal", scale=scale, legend=legend, sort=colours.labels),
            tooltip=tooltip,
        )
        .properties(width=280 if small else 480, height=alt.Step(step, **{"for": "offset"}))
    )


def _heat(alt: Any, chart: Chart, long: _Axis, short: _Axis, count: str, tooltip: Any) -> Chart:
    # Many counts are small and few are large: a square root scale shows both.
    scale = alt.Scale(scheme="viridis", reverse=True, type="sqrt", domainMin=0)
    return (
        chart.mark_rect()
        .encode(
            x=alt.X(
                short.field,
                type="nominal",
                sort=short.labels,
                title=short.label,
                axis=alt.Axis(labelAngle=-40, labelLimit=130, labelOverlap=False),
            ),
            y=_down(alt, long),
            color=alt.Color(
                MASKED,
                type="quantitative",
                scale=scale,
                legend=alt.Legend(title=count, format=",d", gradientLength=180),
            ),
            tooltip=tooltip,
        )
        .properties(width=alt.Step(22), height=alt.Step(12 if len(long) > 40 else 18))
    )


def _down(alt: Any, axis: _Axis) -> Any:
    return alt.Y(
        axis.field,
        type="nominal",
        sort=axis.labels,
        title=axis.label,
        axis=alt.Axis(labelLimit=240, maxExtent=320, labelOverlap=False, labelFontSize=12 if len(axis) <= 40 else 10),
    )


@suggesting
def areas(
    frame: Any,
    geometry: Mapping[str, Any] | Path_,
    design: Design | None = None,
    *,
    labels: Any = None,
    lang: str = "en",
    title: str = "",
) -> Chart:
    """Draw a public table of areas as a map; an area without a row is 0.

    Parameters
    ----------
    frame : frame
        Labels of the area and N_masked, such as `release.table(name)` or `table.public()`.
    geometry : dict or path
        GeoJSON, a dictionary or a file, such as `release.geometry("LA3")`. Each feature has its code as `id` or as
        the property `code`.
    design : Design, optional
        `release.design` or `finest.design`: the hierarchies and K.
    labels : path or frame, optional
        The code list with labels, such as `release.codes`. Left out, codes are shown.
    lang : str, default "en"
        The language of labels and words.
    title : str, default ""
        The title. Left out, one made from the variables of the table.

    Returns
    -------
    altair.Chart
        The map; `save` writes it.

    Raises
    ------
    InputError
        The table has other variables besides the area, or an area has no shape.
    MissingExtra
        The extra `charts` is not installed.
    """
    alt = load_altair()
    table = _drawn(frame, design, labels, lang)
    if len(table.axes) != 1:
        raise InputError(
            f"a map shows one variable, the area, and this table has {len(table.axes)}: "
            f"{listing(axis.label for axis in table.axes) or 'none'}. Filter the others and drop their columns."
        )
    axis = table.axes[0]
    features = shapes_by_code(geometry)
    counts = dict(zip(axis.codes, [0] * len(axis), strict=True))
    counts |= dict(zip(table.rows["\0code"].to_list(), table.rows[MASKED].to_list(), strict=True))
    names = dict(zip(axis.codes, axis.labels, strict=True))
    lost = [code for code in counts if code not in features]
    if lost:
        raise InputError(
            f"the geometry has no shape for {some(len(lost), 'area')} of the table: {listing(lost, 6)}. "
            f"It has {some(len(features), 'shape')}, such as {listing(features, 3)}."
        )
    shapes = [
        {
            "type": "Feature",
            "code": code,
            "name": names.get(code) or feature["properties"].get(f"name_{lang}") or code,
            MASKED: counts.get(code, 0),
            "geometry": shape,
        }
        for (code, feature), shape in zip(features.items(), flat_shapes(features.values()), strict=True)
    ]
    data = alt.InlineData(values=shapes, format=alt.JsonDataFormat(type="json"))
    colour = alt.Color(
        MASKED,
        type="quantitative",
        scale=alt.Scale(scheme="viridis", reverse=True, domainMin=0),
        legend=alt.Legend(title=table.said["count"], format=",d", gradientLength=200),
    )
    thin = 1.0 if len(shapes) <= 200 else 0.3
    chart = (
        alt.Chart(data)
        .mark_geoshape(stroke="white", strokeWidth=thin)
        .encode(
            color=alt.condition(f"datum.{MASKED} > 0", colour, alt.value(_ZERO)),
            tooltip=[
                alt.Tooltip("name", type="nominal", title=axis.label),
                alt.Tooltip("code", type="nominal"),
                alt.Tooltip(MASKED, type="quantitative", title=table.said["count"], format=","),
            ],
        )
        .project(type="identity", reflectY=True)
        .properties(width=560, height=520)
    )
    grey = f" {table.said['chart_grey']}" if any(shape[MASKED] == 0 for shape in shapes) else ""
    return finished(alt, chart, title or table.title, [f"{table.note}{grey}"])


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
    written = base.mark_text(dy=-6, fontSize=11, color=_GREY).encode(
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


_NO_ATTACKER = ("method", "K", "bound", "small", "mean_loss", "p99_loss", "max_loss", "exact", "safe")
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


def require() -> None:
    """Raise an error before long work if charts cannot be drawn."""
    load_altair()
    try:
        import vl_convert  # noqa: F401
    except ModuleNotFoundError as problem:
        raise MissingExtra(f"charts need {problem.name}. Type: pip install 'ilba[charts]'") from None


def save(chart: Chart, path: Path_) -> Path:
    """Write a chart as .html, .svg or .png. It needs no network; only its owner can read a confidential one.

    Parameters
    ----------
    chart : altair.Chart
        The chart.
    path : path
        Where to write. The ending determines the format.

    Returns
    -------
    Path
        Where it was written.

    Raises
    ------
    InputError
        The ending is unknown.
    MissingExtra
        The extra `charts` is not installed.
    """
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{os.fspath(path)!r} does not end in {listing(SUFFIXES)}.{nearest(file.suffix, SUFFIXES)} "
            f"The ending determines the format."
        )
    mode = PRIVATE if is_confidential(chart) else PUBLIC
    kind = file.suffix.lower().removeprefix(".")
    with replacing(path, mode, instead_of=b"\x89PNG" if kind == "png" else b"") as temporary:
        if kind == "png":
            image = io.BytesIO()
            _converted(lambda: chart.save(image, format="png", scale_factor=2))
            temporary.write_bytes(image.getvalue())
        else:
            temporary.write_text(svg(chart) if kind == "svg" else html(chart), encoding="utf-8")
    return file


def svg(chart: Chart) -> str:
    """Draw a chart as SVG text.

    Parameters
    ----------
    chart : altair.Chart
        The chart.

    Returns
    -------
    str
        The SVG.
    """
    text = io.StringIO()
    _converted(lambda: chart.save(text, format="svg"))
    return text.getvalue()


def html(chart: Chart) -> str:
    """Draw a chart as a page that contains its scripts.

    Parameters
    ----------
    chart : altair.Chart
        The chart.

    Returns
    -------
    str
        The page.
    """
    made: list[str] = []
    _converted(lambda: made.append(chart.to_html(inline=True, embed_options={"actions": False, "renderer": "svg"})))
    return made[0]


def is_confidential(chart: Chart) -> bool:
    """Whether a chart is confidential; a chart from elsewhere is."""
    about = getattr(chart, "usermeta", None)
    return not (isinstance(about, Mapping) and about.get("confidential") is False)


def _converted(convert: Any) -> None:
    try:
        convert()
    except ImportError as problem:
        raise MissingExtra("saving charts needs vl-convert-python. Type: pip install 'ilba[charts]'") from problem


def load_altair() -> Any:
    """The library that draws."""
    try:
        import altair
    except ModuleNotFoundError as problem:
        raise MissingExtra(f"charts need {problem.name}. Type: pip install 'ilba[charts]'") from None
    return altair


def finished(alt: Any, chart: Chart, title: str, subtitle: Sequence[str], *, confidential: bool = False) -> Chart:
    """The style of all charts."""
    chart = chart.properties(
        title=alt.TitleParams(title, subtitle=list(subtitle), anchor="start", frame="group", offset=12)
    )
    chart.usermeta = {"confidential": confidential}
    return chart.configure(
        font=_FONT,
        background="white",
        padding=16,
        title={"fontSize": 17, "subtitleFontSize": 12, "subtitleColor": _GREY, "subtitlePadding": 6},
        axis={
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titleColor": _GREY,
            "gridColor": "#E6E6E6",
            "domainColor": "#BBBBBB",
            "tickColor": "#BBBBBB",
            "titlePadding": 10,
        },
        legend={"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titleColor": _GREY},
        header={"labelFontSize": 13, "labelFontWeight": "bold"},
        view={"stroke": None},
        bar={"color": PALETTE[0]},
    )


@dataclass(frozen=True)
class _Axis:
    """A variable of a chart: its codes and labels in the order of the codes."""

    field: str
    label: str
    codes: list[str]
    labels: list[str]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True)
class _Drawn:
    """A public frame made ready: a text column per axis, and N_masked."""

    rows: pl.DataFrame
    axes: list[_Axis]
    said: Mapping[str, str]
    note: str

    @property
    def complete(self) -> bool:
        return self.rows.height == math.prod(len(axis) for axis in self.axes)

    @property
    def title(self) -> str:
        words = ", ".join(axis.label for axis in self.axes)
        return f"{self.said['count']}{self.said['chart_by']}{words}" if words else self.said["all"]


def _drawn(frame: Any, design: Design | None, labels: Any, lang: str) -> _Drawn:
    check_language(lang, languages(None if labels is None else pl.DataFrame(labels)))
    table = pl.DataFrame(frame)
    if MASKED not in table.columns:
        raise InputError(f"the frame has no column {MASKED!r}. Give a public table: its labels and {MASKED}.")
    secret = [name for name in ("N", "type1", "type2", "loss") if name in table.columns]
    if secret:
        raise InputError(f"the frame contains {listing(secret)}, which is confidential. Give a public table.")
    words = Labels(None if labels is None else pl.DataFrame(labels), lang)
    there = [column for column in table.columns if column != MASKED]
    dimensions = [[column] for column in there]
    if design is not None:
        unknown = [column for column in there if column not in design.columns]
        if unknown:
            raise InputError(f"{listing(unknown)} is not in the design, whose columns are {listing(design.columns)}.")
        paths = [[column for column in h.columns if column in there] for h in design.hierarchies]
        dimensions = [path for path in paths if path] + [[column] for column in there if column in design.keys]
    said, axes = words_of(lang), []
    rows = table.select(pl.col(MASKED))
    for place, columns in enumerate(dimensions):
        axis, text = _axis(table, columns, words, f"axis{place}")
        axes.append(axis)
        rows = rows.with_columns(text[0], text[1])
    note = said["chart_plain"]
    if design is not None and not table[MASKED].is_between(1, design.threshold - 1).any():  # not so with cell keys
        note = said["chart_note"].format(K=design.threshold)
    return _Drawn(rows, axes, said, note)


def _axis(table: pl.DataFrame, columns: list[str], words: Labels, field: str) -> tuple[_Axis, list[pl.Series]]:
    paths = table.select(columns).unique().sort(columns, nulls_last=True)
    texts = paths.select(pl.col(columns).cast(pl.String)).rows()
    codes = [path[-1] if path[-1] is not None else "NA" for path in texts]
    if len(set(codes)) < len(codes):
        codes = ["/".join("NA" if code is None else code for code in path) for path in texts]
    labels = [words.code(columns[-1], path[-1], path[-2] if len(path) > 1 else None) for path in texts]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({code})" for label, code in zip(labels, codes, strict=True)]
    known = paths.with_columns(pl.Series(field, labels, dtype=pl.String), pl.Series("\0code", codes, dtype=pl.String))
    joined = table.select(columns).join(known, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return _Axis(field, words.variable(columns[-1]), codes, labels), [joined[field], joined["\0code"]]


def _rows(alt: Any, table: _Drawn) -> Any:
    # Given inline, because Altair refuses frames of more than 5,000 rows.
    return alt.InlineData(values=table.rows.drop("\0code", strict=False).to_dicts())


def shapes_by_code(geometry: Mapping[str, Any] | Path_) -> dict[str, Mapping[str, Any]]:
    """The features of a GeoJSON by their codes."""
    given: Any = geometry
    if isinstance(geometry, str | os.PathLike):
        try:
            given = json.loads(Path(geometry).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"the geometry {os.fspath(geometry)!r} cannot be read as GeoJSON.") from None
    if not isinstance(given, Mapping) or not isinstance(given.get("features"), list):
        raise InputError("the geometry is not a GeoJSON FeatureCollection.")
    found: dict[str, Mapping[str, Any]] = {}
    for feature in given["features"]:
        properties = feature.get("properties") or {}
        code = feature.get("id", properties.get("code"))
        if code is None:
            raise InputError("a feature of the geometry has neither an `id` nor a property `code`.")
        found[str(code)] = {**feature, "properties": properties}
    return found


def flat_shapes(features: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Shapes on a plane.

    Degrees are stretched to the right proportions. A globe projection would depend on the direction of each outline,
    and GeoJSON and the drawing library disagree about it.
    """
    shapes = [feature["geometry"] for feature in features]
    corners = [corner for shape in shapes for corner in _corners(shape["coordinates"])]
    degrees = all(abs(x) <= 180 and abs(y) <= 90 for x, y in corners)
    middle = sum(y for _, y in corners) / len(corners) if corners else 0
    wide = math.cos(math.radians(middle)) if degrees else 1

    def stretched(part: Any) -> Any:
        if part and isinstance(part[0], int | float):
            return [round(part[0] * wide, 6), part[1]]
        return [stretched(inner) for inner in part]

    for shape in shapes:
        yield {"type": shape["type"], "coordinates": stretched(shape["coordinates"])}


def _corners(part: Any) -> Iterator[tuple[float, float]]:
    if part and isinstance(part[0], int | float):
        yield part[0], part[1]
    else:
        for inner in part:
            yield from _corners(inner)
