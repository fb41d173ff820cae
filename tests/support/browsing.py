"""What is done and seen on the page, in a browser."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import polars as pl

AREAS = ["LA1", "LA2", "LA3", "OA"]


MARKUP = "<b onclick=alert(1)>Married & co</b>"


@dataclass
class Visitor:
    """Somebody with a browser. What must never happen is noted on the way and held against us at the end."""

    browser: object
    server: str

    def __post_init__(self):
        self.contexts, self.wrong, self.asked, self.forgiven = [], [], [], []

    def visit(self, hash="", *, wait=True, **settings):
        # Nothing moves: what is half faded in has another contrast.
        still = {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", "reduced_motion": "reduce"}
        context = self.browser.new_context(**still | settings)
        context.set_default_timeout(60_000)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text))
        page.on("pageerror", lambda problem: self.wrong.append(str(problem)))
        page.on("request", self._note)
        self.go(page, hash, wait=wait)
        return page

    def go(self, page, hash, *, wait=True):
        page.goto("about:blank")
        page.goto(f"{self.server}/{hash}")
        if wait:
            settled(page)

    def _note(self, request):
        self.asked.append(request.url)
        if not request.url.startswith((self.server, "blob:", "about:")):
            self.wrong.append(f"asked another host: {request.url}")

    def close(self):
        for context in self.contexts:
            context.close()
        assert [said for said in self.wrong if not any(word in said for word in self.forgiven)] == []


def settled(page):
    page.wait_for_selector("#panel[aria-busy=false]")


def link(**state) -> str:
    """The part of an address that describes a view, as a reader may have been sent it."""
    return "#" + "&".join(f"{name.replace('_', '.', 1)}={quote(value)}" for name, value in state.items())


def title(page) -> str:
    return page.locator("h1").inner_text()


def cells(page):
    """The rows of the table as text."""
    script = "rows => rows.map(row => [...row.cells].map(cell => cell.firstChild.textContent))"
    return page.locator("#panel tbody tr").evaluate_all(script)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def labels(release, variable: str, lang: str = "en") -> dict[str, str]:
    known = release.codes.filter(pl.col("variable") == variable).drop_nulls("code")
    return dict(known.select("code", f"label_{lang}").iter_rows())


def drawing(page) -> str:
    """The picture of the map."""
    return page.locator("#map canvas").first.evaluate("canvas => canvas.toDataURL()")


def colours(page) -> int:
    """How many colours the map has: more than a few when areas were drawn."""
    return page.locator("#map canvas").first.evaluate(
        """canvas => {
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const found = new Map();
            for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] < 255) continue;
                const colour = (data[i] << 16) + (data[i + 1] << 8) + data[i + 2];
                found.set(colour, (found.get(colour) ?? 0) + 1);
            }
            return [...found.values()].filter(pixels => pixels > 200).length;
        }"""
    )


def inside(page, cells: str) -> tuple[int, int]:
    """How many of some cells are between the left and the right edge of the table's frame, and how many there are."""
    return tuple(
        page.locator(cells).evaluate_all(
            """all => {
                const frame = document.getElementById('scroll').getBoundingClientRect();
                const sides = all.map(one => one.getBoundingClientRect());
                return [sides.filter(one => one.left >= frame.left && one.right <= frame.right).length, all.length];
            }"""
        )
    )
