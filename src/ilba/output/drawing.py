"""How every chart looks and is written: one style, no network, and only the owner reads a confidential one."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ilba.errors import InputError, MissingExtra, listing, nearest
from ilba.files import PRIVATE, PUBLIC, replacing

Path_: TypeAlias = str | os.PathLike[str]
Chart: TypeAlias = Any
"""an Altair chart"""

SUFFIXES = (".html", ".svg", ".png")
# Okabe and Ito's colours: people with any kind of colour vision can distinguish them.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7A7A7A")
_FONT = "Helvetica, Arial, 'Noto Sans KR', 'Noto Sans CJK KR', 'Apple SD Gothic Neo', 'Malgun Gothic', sans-serif"
GREY = "#555555"


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
        title={"fontSize": 17, "subtitleFontSize": 12, "subtitleColor": GREY, "subtitlePadding": 6},
        axis={
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titleColor": GREY,
            "gridColor": "#E6E6E6",
            "domainColor": "#BBBBBB",
            "tickColor": "#BBBBBB",
            "titlePadding": 10,
        },
        legend={"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titleColor": GREY},
        header={"labelFontSize": 13, "labelFontWeight": "bold"},
        view={"stroke": None},
        bar={"color": PALETTE[0]},
    )
