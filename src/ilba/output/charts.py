"""Charts and maps of public tables (labels and N_masked), with Altair. They may be published."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ilba.data.shapes import with_code
from ilba.design.design import MASKED, Design
from ilba.errors import InputError, listing, some, suggesting
from ilba.output.drawing import PALETTE, Chart, Path_, finished, load_altair
from ilba.output.wording import Labels, check_language, languages
from ilba.output.wording import words as words_of

if TYPE_CHECKING:
    pass

_ZERO = "#EDEDED"
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
        GeoJSON, a dictionary or a file, such as `release.geometry("LA3")`. Each feature has its code as `id`, or as
        the property `code` or that of the column.
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
    features = shapes_by_code(geometry, axis.column)
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


@dataclass(frozen=True)
class _Axis:
    """A variable of a chart: its codes and labels in the order of the codes."""

    field: str
    column: str
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
    return _Axis(field, columns[-1], words.variable(columns[-1]), codes, labels), [joined[field], joined["\0code"]]


def _rows(alt: Any, table: _Drawn) -> Any:
    # Given inline, because Altair refuses frames of more than 5,000 rows.
    return alt.InlineData(values=table.rows.drop("\0code", strict=False).to_dicts())


def shapes_by_code(geometry: Mapping[str, Any] | Path_, column: str = "code") -> dict[str, Mapping[str, Any]]:
    """The features of a GeoJSON by their codes; `column` is that of the areas, if it is known."""
    given: Any = geometry
    if isinstance(geometry, str | os.PathLike):
        try:
            given = json.loads(Path(geometry).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"the geometry {os.fspath(geometry)!r} cannot be read as GeoJSON.") from None
    if not isinstance(given, Mapping) or not isinstance(given.get("features"), list):
        raise InputError("the geometry is not a GeoJSON FeatureCollection.")
    found: dict[str, Mapping[str, Any]] = {}
    for feature in (with_code(feature, column) for feature in given["features"]):
        properties = feature.get("properties") or {}
        code = feature.get("id", properties.get("code"))
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
