"""How long the page works for each frame while a map is zoomed, and how soon a first view is there.

    python bench/page_speed.py [--areas 10000] [--frames 60] [--release FOLDER]

A browser of this machine shows areas that are squares of a grid, three levels deep, served on the loopback. Script is
counted in time of the processor, as the browser's own metrics tell it, so that a busy machine does not change it; the
first view is on the wall clock. With more areas than one answer holds, the page shows coarser levels and the areas
inside one of them.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.serving import serving


def published(folder: Path, areas: int) -> Path:
    import polars as pl

    import ilba

    side = math.ceil(math.sqrt(areas))
    rows = [
        (f"10kmN{n // 100}E{e // 100}", f"1kmN{n // 10}E{e // 10}", f"100mN{n}E{e}")
        for n in range(side)
        for e in range(side)
    ]
    cells = pl.DataFrame(rows[:areas] * 6, schema=["g10km", "g1km", "g100m"], orient="row").with_columns(
        kind=pl.lit("home")
    )
    finest = ilba.build(cells, ["g10km", "g1km", "g100m"], ["kind"], secret=ilba.Secret(bytes(32)))
    finest.release(
        folder / "grid", title="Grid", ledger=False, tables=["g10km", "g1km", "g100m"], method="ilba", accept_risk=True
    )
    return folder / "grid"


def measured(page, session, frames: int) -> float:
    """Milliseconds of script for a frame while the wheel is turned over the map."""

    def script() -> float:
        told = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in told if one["name"] == "ScriptDuration")

    page.locator("#map").focus()  # the wheel is for the page unless the map has the focus
    box = page.locator("#map").bounding_box()
    still = page.locator("#map canvas").first.evaluate("canvas => canvas.toDataURL()")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.evaluate(
        "() => { window.drawn = 0; const count = () => { window.drawn += 1; requestAnimationFrame(count); }; count(); }"
    )
    before, began = script(), page.evaluate("window.drawn")
    for n in range(frames):
        page.mouse.wheel(0, -60 if n % 20 < 10 else 60)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if n == 5 and page.locator("#map canvas").first.evaluate("canvas => canvas.toDataURL()") == still:
            raise SystemExit("the map did not zoom, so nothing was measured.")
    return 1000 * (script() - before) / max(1, page.evaluate("window.drawn") - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--areas", type=int, default=10_000)
    options.add_argument("--frames", type=int, default=60)
    options.add_argument("--release", type=Path)
    given = options.parse_args()
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        release = given.release or published(Path(scratch), given.areas)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        with serving(release, options=("--no-access-log",)) as server:
            for _ in range(3):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                page = context.new_page()
                clock = time.perf_counter()
                page.goto(server.address)
                page.wait_for_selector("#panel[aria-busy=false]")
                mark = page.evaluate("performance.getEntriesByName('first-view')[0].startTime")
                whole = 1000 * (time.perf_counter() - clock)
                print(f"first view after {mark:,.0f} ms in the browser, {whole:,.0f} ms in all")
                context.close()
            if given.release is None:
                finest(browser, server, given)
        browser.close()


def finest(browser, server, given) -> None:
    """The finest areas: all at once, or those inside one area where they are too many."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    inside = "&in.area=g10km:10kmN0E0" if given.areas > 100_000 else ""
    clock = time.perf_counter()
    page.goto(f"{server.address}#level.area=g100m&by=&view=map{inside}")
    page.wait_for_selector("#map canvas", timeout=60_000)
    page.wait_for_selector("#panel[aria-busy=false]", timeout=60_000)
    shown = page.locator("#summary").inner_text().partition(".")[0]
    print(f"{shown}: shown after {1000 * (time.perf_counter() - clock):,.0f} ms")
    print(f"{measured(page, session, given.frames):.2f} ms of script a frame while zooming")


if __name__ == "__main__":
    main()
