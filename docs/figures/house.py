"""Draw the house that the data walks through: `python docs/figures/house.py` writes docs/house.svg."""

from __future__ import annotations

from html import escape
from pathlib import Path

WIDE, HIGH = 1000, 400
INK, PRIVATE, PUBLIC, LINE = "#1d2b33", "#fbeee6", "#e6f2f1", "#7a8a93"


def box(x: int, y: int, wide: int, title: str, *lines: str) -> str:
    high = 34 + 17 * len(lines)
    texts = [f'<text x="{x + 12}" y="{y + 22}" font-weight="600">{escape(title)}</text>']
    texts += [
        f'<text x="{x + 12}" y="{y + 41 + 17 * n}" font-size="12" fill="#4a5a63">{escape(line)}</text>'
        for n, line in enumerate(lines)
    ]
    frame = f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="7" fill="white" stroke="{LINE}"/>'
    return frame + "".join(texts)


def arrow(*points: tuple[int, int], said: str = "", at: tuple[int, int] = (0, 0)) -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    word = f'<text x="{at[0]}" y="{at[1]}" font-size="12" fill="#4a5a63">{escape(said)}</text>' if said else ""
    return f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.6" marker-end="url(#tip)"/>{word}'


def main() -> None:
    parts = [
        f'<rect x="10" y="36" width="676" height="352" rx="12" fill="{PRIVATE}"/>',
        f'<rect x="716" y="36" width="274" height="352" rx="12" fill="{PUBLIC}"/>',
        '<text x="26" y="26" font-weight="600">confidential: true counts, flags, losses, the secret</text>',
        '<text x="732" y="26" font-weight="600">public: labels and masked counts</text>',
        box(30, 60, 180, "data/", "files and frames,", "code lists, R's files"),
        box(30, 180, 180, "design/, cells/", "labels become digits,", "cells whole numbers"),
        box(30, 300, 180, "secret/", "one keyed draw per cell:", "labels and count"),
        box(
            260, 150, 190, "tables/finest, store", "N and N_masked of every", "cell, on disk; in memory", "or in spark/"
        ),
        box(260, 60, 190, "methods/masking", "SCA, parts, iLBA: only", "numbers in, numbers out"),
        box(260, 290, 190, "methods/controlled", "masks chosen jointly", "over all tables"),
        box(490, 60, 176, "tables/table, cube", "parts rolled up, then", "masked: never the", "other way round"),
        box(490, 180, 176, "attack/", "everything released,", "attacked together"),
        box(490, 290, 176, "output/, publication/", "what masking costs, and", "one file for all steps"),
        box(736, 60, 236, "release/", "the only door: tables, code lists,", "map, manifest with checksums"),
        box(736, 170, 236, "output/export, charts", "csv, xlsx, JSON-stat, SDMX, PX;", "pictures"),
        box(736, 280, 236, "service/", "PxWebApi 2 and the page; knows", "no store and no secret"),
        arrow((120, 128), (120, 178)),
        arrow((210, 214), (258, 200)),
        arrow((210, 330), (235, 330), (235, 225), (258, 225)),
        arrow((355, 128), (355, 148)),
        arrow((355, 288), (355, 237)),
        arrow((450, 180), (470, 180), (470, 100), (488, 100)),
        arrow((666, 90), (734, 90)),
        arrow((734, 118), (700, 118), (700, 210), (668, 210)),
        arrow((578, 248), (578, 288)),
        arrow((854, 128), (854, 168)),
        arrow((854, 238), (854, 278)),
    ]
    tip = (
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>'
    )
    font = 'font-family="system-ui, \'Segoe UI\', sans-serif" font-size="14"'
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" height="{HIGH}" '
        f'role="img" aria-label="From microdata to the page" {font} fill="{INK}">'
        f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>{tip}{"".join(parts)}</svg>\n'
    )
    (Path(__file__).parents[1] / "house.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
