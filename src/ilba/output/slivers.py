"""The map of slivers: where differencing of two geographies isolates few people. Confidential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from ilba.errors import InputError, listing, nearest, some, suggesting
from ilba.output.charts import flat_shapes, shapes_by_code
from ilba.output.drawing import Chart, Path_, finished, load_altair

_NONE, _EDGE = "#eceff1", "#37474f"


@suggesting
def sliver_map(
    found: pl.DataFrame,
    geometry: Mapping[str, Any] | Path_,
    beside: Mapping[str, Any] | Path_ | None = None,
    *,
    method: str = "",
    title: str = "",
) -> Chart:
    """Draw the areas that belong to a sliver; darker areas differ by fewer people. Confidential.

    Parameters
    ----------
    found : polars.DataFrame
        The result of `ilba.slivers`.
    geometry : dict or path
        GeoJSON of the areas of the first geography. Each feature has its code as `id` or as the property `code`.
    beside : dict or path, optional
        GeoJSON of the other geography, drawn as outlines.
    method : str, default ""
        The label of a method of `ilba.slivers`: draw only the slivers that are proven if both geographies are
        published by this method.
    title : str, default ""
        The title. Left out, it gives the number of slivers.

    Returns
    -------
    altair.Chart
        The map; `charts.save` writes it. Confidential.

    Raises
    ------
    InputError
        The rows have no such method, or an area has no shape.
    MissingExtra
        The extra `charts` is not installed.

    Examples
    --------
    >>> ilba.sliver_map(ilba.slivers(people, "town", "square"), "towns.geojson")  # doctest: +SKIP
    """
    alt = load_altair()
    proven = f"{method} proven"
    if method and proven not in found.columns:
        known = [name.removesuffix(" proven") for name in found.columns if name.endswith(" proven")]
        raise InputError(
            f"these slivers do not have the method {method!r}.{nearest(method, known)} They have "
            f"{listing(known) or 'none: give methods= to ilba.slivers'}."
        )
    rows = found.filter(pl.col(proven)) if method else found
    areas = (
        rows.select(pl.col("set").str.split(" ").alias("code"), "difference")
        .explode("code")
        .group_by("code")
        .agg(slivers=pl.len(), fewest=pl.col("difference").min())
    )
    features = shapes_by_code(geometry)
    lost = [code for code in areas["code"].sort() if code not in features]
    if lost:
        raise InputError(
            f"the geometry has no shape for {some(len(lost), 'area')} of the slivers: {listing(lost, 6)}. It has "
            f"{some(len(features), 'shape')}, such as {listing(features, 3)}."
        )
    others = {} if beside is None else shapes_by_code(beside)
    told = {code: (number, fewest) for code, number, fewest in areas.iter_rows()}
    flat = list(flat_shapes([*features.values(), *others.values()]))
    here = [
        {"type": "Feature", "code": code, "slivers": told.get(code, (0, None))[0],
         "fewest": told.get(code, (0, None))[1], "geometry": shape}
        for code, shape in zip(features, flat, strict=False)
    ]  # fmt: skip
    there = [{"type": "Feature", "geometry": shape} for shape in flat[len(features) :]]
    fewest = alt.Color(
        "fewest",
        type="quantitative",
        scale=alt.Scale(scheme="reds", reverse=True, domainMin=1),
        legend=alt.Legend(title="Fewest people", format="d", tickMinStep=1),
    )
    tips = [
        alt.Tooltip("code", type="nominal", title="area"),
        alt.Tooltip("slivers", type="quantitative"),
        alt.Tooltip("fewest", type="quantitative", title="fewest people"),
    ]
    shown: Any = (
        alt.Chart(_data(alt, here))
        .mark_geoshape(stroke="white", strokeWidth=1)
        .encode(color=alt.condition("datum.slivers > 0", fewest, alt.value(_NONE)), tooltip=tips)
    )
    if there:
        shown += alt.Chart(_data(alt, there)).mark_geoshape(filled=False, stroke=_EDGE, strokeWidth=0.6)
    chart = shown.project(type="identity", reflectY=True).properties(width=560, height=520)
    under = f" that everybody proves under {method}" if method else ""
    words = f"The fewest people by which sets of areas of the two geographies differ{under}. Grey: none."
    name = title or f"{some(rows.height, 'sliver')}{under}"
    return finished(alt, chart, name, [words], confidential=True)


def _data(alt: Any, shapes: list[dict[str, Any]]) -> Any:
    return alt.InlineData(values=shapes, format=alt.JsonDataFormat(type="json"))
