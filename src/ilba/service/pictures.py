"""Pictures that the service draws itself: the pyramid and lines of a place, and the preview of a shared address.

A drawing is SVG. On a page, its colours come from the theme, by class. A preview is a PNG with its own colours. All
text is escaped, so that a label can never become markup.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from ilba.output.series import timeline
from ilba.service.places import Pyramid

WIDE, HIGH = 1200, 630  # the size that social networks show for a shared address
FOOT_LINES = 3  # below a preview
_ROWS = 3  # of letters that would hide each other
_INKS = {
    "paper": "#ffffff",
    "ink": "#1b2530",
    "soft": "#535e69",
    "rule": "#dedbd3",
    "zero": "#ebe9e4",
    "accent": "#0e5566",
    "series-1": "#0e5566",
    "series-2": "#c8692b",
    "ramp-1": "#dcecea",
    "ramp-2": "#b3d6d4",
    "ramp-3": "#84bbbf",
    "ramp-4": "#529aa5",
    "ramp-5": "#267284",
    "ramp-6": "#0b4454",
}
_FONT = "Liberation Sans, Arial, Noto Sans, Noto Sans KR, NanumGothic, DejaVu Sans, sans-serif"
# as in page/words.js
_RIGHT_TO_LEFT = re.compile(r"(ar|arc|ckb|dv|fa|he|iw|ks|ku-arab|nqo|ps|sd|syr|ug|ur|yi)\b", re.IGNORECASE)
Write = Callable[[float], str]


def is_rtl(lang: str) -> bool:
    """Whether a language is read from right to left."""
    return _RIGHT_TO_LEFT.match(lang) is not None


class Drawing:
    """SVG built from shapes; `themed` leaves colours to the style sheet of the page."""

    def __init__(self, themed: bool, lang: str = "en") -> None:
        self._themed = themed
        self._parts: list[str] = []
        self.is_rtl = is_rtl(lang)

    def _ink(self, name: str, what: str = "fill") -> str:
        return f'class="{what}-{name}"' if self._themed else f'{what}="{_INKS[name]}"'

    def bar(self, x: float, y: float, width: float, height: float, ink: str) -> None:
        """A filled rectangle."""
        size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
        self._parts.append(f"<rect {size} {self._ink(ink)}/>")

    def text(
        self, x: float, y: float, text: str, size: int = 14, anchor: str = "start", ink: str = "ink", bold: bool = False
    ) -> None:
        """A line of text; the anchor is where its reading starts."""
        more = ' font-weight="600"' if bold else ""
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
        self._parts.append(f"<text {place}{more} {self._ink(ink)}>{escape(text)}</text>")

    def shape(self, path: str, ink: str) -> None:
        """A filled outline."""
        line = self._ink("paper", "stroke") if not self._themed else ""
        self._parts.append(f'<path d="{path}" {self._ink(ink)} {line} stroke-width="0.6" fill-rule="evenodd"/>')

    def line(self, points: Sequence[tuple[float, float]], ink: str) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" fill="none" {self._ink(ink, "stroke")} stroke-width="3"/>')

    def moved(self, x: float, y: float, inner: Drawing, scale: float = 1) -> None:
        """Another drawing inside this one."""
        parts = "".join(inner._parts)
        self._parts.append(f'<g transform="translate({x:.1f} {y:.1f}) scale({scale:.4f})">{parts}</g>')

    def svg(self, width: float, height: float, title: str) -> str:
        """The whole."""
        font = "" if self._themed else f' width="{width:g}" height="{height:g}" font-family="{_FONT}"'
        # Left and right of a drawing do not depend on the language.
        head = f'viewBox="0 0 {width:g} {height:g}" direction="ltr" role="img" aria-label="{escape(title)}"{font}'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {head}>{"".join(self._parts)}</svg>'


def pyramid(one: Pyramid, most: int, write: Write, themed: bool, lang: str = "en") -> tuple[Drawing, float, float]:
    """Ages as bars that grow to both sides, the oldest on top; the drawing with its width and height."""
    width, each = 560.0, 22.0
    middle = min(200.0, max(104.0, 12 + max((13 * _wide(age) for age in one.ages), default=0)))
    longest = max((len(write(n)) for n in one.counts.ravel().tolist()), default=0)
    room = (width - middle) / 2 - max(54, 7 + 7.2 * longest)
    left, right = (width - middle) / 2, (width + middle) / 2
    drawing = Drawing(themed, lang)
    drawing.text(left - 6, 14, one.sexes[0], 14, "end", bold=True)
    drawing.text(right + 6, 14, one.sexes[1], 14, bold=True)
    rows = list(zip(one.ages, one.counts.tolist(), strict=True))
    for i, (age, (a, b)) in enumerate(reversed(rows)):
        y = 26 + i * each
        wide = [room * n / max(most, 1) for n in (a, b)]
        drawing.bar(left - wide[0], y, wide[0], each - 4, "series-1")
        drawing.bar(right, y, wide[1], each - 4, "series-2")
        drawing.text(width / 2, y + each - 8, _cut(age, 13, middle - 8), 13, "middle")
        drawing.text(left - wide[0] - 5, y + each - 8, write(a), 12, "end", "soft")
        drawing.text(right + wide[1] + 5, y + each - 8, write(b), 12, "start", "soft")
    return drawing, width, 30 + each * len(rows)


def lines(
    times: Sequence[tuple[str, int | None]], most: int, write: Write, themed: bool
) -> tuple[Drawing, float, float]:
    """One line over time, each point with its number; a time without a number has no point."""
    width, left, right, base = 560.0, 40.0, 520.0, 160.0
    drawing, below, above = Drawing(themed), _Room(), _Room()
    places = [left + at * (right - left) for at in timeline([name for name, _ in times])]
    points = [(x, name, n, base - 120 * (n or 0) / max(most, 1)) for x, (name, n) in zip(places, times, strict=True)]
    drawing.bar(left, base, right - left, 1, "rule")
    drawing.line([(x, y) for x, _, n, y in points if n is not None], "series-1")
    lowest, highest = base + 24, 28.0
    for x, name, n, y in reversed(points):  # the newest has the first choice
        at = below.free(x, name, base + 24, 16)
        if at is not None:
            drawing.text(x, at, name, 13, "middle", "soft")
            lowest = max(lowest, at)
        if n is not None:
            drawing.bar(x - 3, y - 3, 6, 6, "series-1")
            at = above.free(x, write(n), y - 12, -16)
            if at is not None:
                drawing.text(x, at, write(n), 13, "middle")
                highest = min(highest, at)
    whole = Drawing(themed)
    whole.moved(0, 28 - highest, drawing)
    return whole, width, lowest - highest + 44


class _Room:
    """Where letters of 13 pixels were written, so that none hide others."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float, float]] = []

    def free(self, x: float, text: str, first: float, step: float) -> float | None:
        """The first of a few heights at which a text around x hides no other, from now on taken."""
        half = 13 * _wide(text) / 2 + 3
        for y in (first + step * row for row in range(_ROWS)):
            if all(abs(x - other) >= half + wide or abs(y - at) >= 15 for other, at, wide in self._taken):
                self._taken.append((x, y, half))
                return y
        return None


def bars(rows: Sequence[tuple[str, float]], write: Write) -> tuple[Drawing, float, float]:
    """Bars with their names and numbers."""
    width, each, left = 560.0, 34.0, 190.0
    most = max([n for _, n in rows] + [1e-9])
    drawing = Drawing(False)
    for i, (name, n) in enumerate(rows):
        y = i * each
        drawing.text(left - 8, y + 20, _cut(name, 16, 200), 16, "end")
        drawing.bar(left, y + 4, (width - left - 90) * n / most, each - 10, "series-1")
        drawing.text(left + (width - left - 90) * n / most + 6, y + 20, write(n), 15, "start", "soft")
    return drawing, width, each * len(rows)


def coloured(paths: Mapping[str, str], values: Mapping[str, float]) -> Drawing:
    """Areas in six classes of about equal size; grey is 0 or no number."""
    drawing = Drawing(False)
    known = np.array([value for value in values.values() if value > 0])
    cuts = np.unique(np.quantile(known, [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6])) if len(known) else np.zeros(0)
    for code, path in paths.items():
        value = values.get(code, 0)
        steps = 6 - len(cuts) + int(np.searchsorted(cuts, value, side="left")) if value > 0 else 0
        drawing.shape(path, f"ramp-{min(6, max(1, steps))}" if value > 0 else "zero")
    return drawing


def card(
    title: str, under: str, number: str, foot: str, right: tuple[Drawing, float, float] | None, lang: str = "en"
) -> str:
    """The preview of a shared address: title, a number, a drawing, the source."""
    drawing = Drawing(False, lang)
    drawing.bar(0, 0, WIDE, HIGH, "paper")
    drawing.bar(0, 0, WIDE, 12, "accent")
    edge, room = (60.0, 480.0 if right else WIDE - 120.0)
    start, anchor = (edge + room, "end") if drawing.is_rtl else (edge, "start")
    y = 104.0
    for line in wrapped(title, 46, room)[:4]:
        drawing.text(start, y, line, 46, anchor, bold=True)
        y += 56
    for line in wrapped(under, 26, room)[:3]:
        drawing.text(start, y, line, 26, anchor, "soft")
        y += 34
    if number:
        drawing.text(start, max(y + 56, 420), number, 60, anchor, "accent", bold=True)
    for i, line in enumerate(reversed(foot_lines(foot)[:FOOT_LINES])):
        drawing.text(WIDE - 60 if drawing.is_rtl else edge, 598 - 26 * i, line, 20, anchor, "soft")
    if right:
        inner, width, height = right
        scale = min(580 / width, 460 / height)
        drawing.moved(570 + (580 - width * scale) / 2, 60 + (460 - height * scale) / 2, inner, scale)
    return drawing.svg(WIDE, HIGH, title)


def foot_lines(foot: str) -> list[str]:
    """The foot of a preview in lines; `card` shows the first `FOOT_LINES`."""
    return wrapped(foot, 20, WIDE - 120)


def png(svg: str) -> bytes:
    """A drawing as PNG."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg))


def _wide(text: str) -> float:
    """The approximate width of a text, in letters of its size."""
    return sum(1.0 if unicodedata.east_asian_width(one) in "WF" else 0.56 for one in text)


def wrapped(text: str, size: int, room: float) -> list[str]:
    """A text in lines that fit."""
    found = [""]
    for word in re.split(r"[ \n]+", text.strip()):  # not at a no-break space
        longer = f"{found[-1]} {word}".strip()
        if found[-1] and _wide(longer) * size > room:
            found.append(word)
        else:
            found[-1] = longer
    return found if found != [""] else []


def _cut(text: str, size: int, room: float) -> str:
    """As much of a text as there is room for."""
    if size * _wide(text) <= room:
        return text
    while text and size * _wide(f"{text}…") > room:
        text = text[:-1]
    return f"{text.rstrip()}…"
