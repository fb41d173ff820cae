"""The work of the page per frame while a map is zoomed, and the time to the first view.

    python bench/page_speed.py [--areas 10000] [--frames 60] [--release FOLDER]
    python bench/page_speed.py --nation 125000

A browser on this machine shows areas that are squares of a grid, three levels deep, served on the loopback. A nation
has four levels and an outline with 13 corners for each area; a reader goes from its regions down to output areas.
Script time is the time of the page's thread, from the browser's own metrics, so a busy machine changes it little. The
table also shows all work of that thread, with style, layout and drawing, because a canvas is drawn after the script
ends. The first view is in wall time.
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


def nation(folder: Path, areas: int) -> Path:
    """A release of a made-up nation: regions of 25 districts with 20 towns of 5 by 5 output areas."""
    import numpy as np
    import polars as pl

    import ilba

    towns = math.ceil(areas / 25)
    across = math.ceil(math.sqrt(towns))
    draws = np.random.default_rng(1)
    town = np.repeat(np.arange(towns), 25)[:areas]
    inside = np.tile(np.arange(25), towns)[:areas]
    x, y = (town % across) * 5 + inside % 5, (town // across) * 5 + inside // 5
    district, region = town // 20, town // 500

    def square(left: float, top: float, side: float) -> list[list[float]]:
        """An outline with two bent corners on each side; coordinates are metres."""
        ends = [(0, 0), (1, 0), (1, 1), (0, 1)]
        found = []
        for (ax, ay), (bx, by) in zip(ends, [*ends[1:], ends[0]], strict=True):
            for part, bend in ((0.0, 0.0), (0.33, 0.06), (0.67, -0.06)):
                px, py = ax + part * (bx - ax) + bend * (by - ay), ay + part * (by - ay) + bend * (bx - ax)
                found.append([round(200 * (left + side * px)), round(-200 * (top + side * py))])
        return [*found, found[0]]

    def collection(names: list[str], rings: list[list[list[list[float]]]]) -> dict[str, object]:
        shapes = [
            {"type": "Feature", "id": name, "properties": {}, "geometry": {"type": "MultiPolygon", "coordinates": ring}}
            for name, ring in zip(names, rings, strict=True)
        ]
        return {"type": "FeatureCollection", "features": shapes}

    squares = [[square((one % across) * 5, (one // across) * 5, 5)] for one in range(towns)]
    names = {
        "region": [f"{one:02}" for one in range(region.max() + 1)],
        "district": [f"{20 * one // 500:02}{one:04}" for one in range(district.max() + 1)],
    }
    names["town"] = [f"{names['district'][one // 20]}{one % 20:02}" for one in range(towns)]
    names["oa"] = [f"{names['town'][one]}{at:02}" for one, at in zip(town.tolist(), inside.tolist(), strict=True)]
    maps = {
        "town": collection(names["town"], [[one] for one in squares]),
        "oa": collection(names["oa"], [[[square(a, b, 1)]] for a, b in zip(x.tolist(), y.tolist(), strict=True)]),
    }
    for column, size in (("district", 20), ("region", 500)):
        groups = [squares[at * size : (at + 1) * size] for at in range(len(names[column]))]
        maps[column] = collection(names[column], groups)
    frame = pl.DataFrame(
        {
            "region": np.array(names["region"])[region],
            "district": np.array(names["district"])[district],
            "town": np.array(names["town"])[town],
            "oa": names["oa"],
        }
    )
    cells = pl.concat([frame.with_columns(sex=pl.lit(sex), age=pl.lit(age)) for sex in "fm" for age in "123"])
    cells = cells.with_columns(N=pl.Series(draws.poisson(40, cells.height)))
    levels = ["region", "district", "town", "oa"]
    finest = ilba.FinestTable.from_counts(cells, hkey=levels, key=["sex", "age"], secret=ilba.Secret(bytes(32)))
    tables = [f"{level}{keys}" for level in levels for keys in ("", ".sex", ".age", ".sex.age")]
    told = {"title": "A nation", "ledger": False, "method": "ilba", "accept_risk": True}
    finest.release(folder / "nation", tables=["all", *tables], geometry=maps, **told)
    return folder / "nation"


def walked(browser, server) -> None:
    """From the regions of a nation down to output areas, as a reader goes; the seconds of each step."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    region, district = "00", "000000"
    steps = {
        "regions": "#level.area=region&by=",
        "districts of the nation": "#level.area=district&by=",
        "towns of the nation": "#level.area=town&by=sex",
        "towns of a district": f"#level.area=town&by=sex&in.area=district:{district}",
        "output areas of a district": f"#level.area=oa&by=sex&in.area=district:{district}",
        "output areas of a region": f"#level.area=oa&by=&in.area=region:{region}",
        "the same again, as a table": f"#level.area=oa&by=sex&in.area=region:{region}&view=table",
        "output areas of the nation": "#level.area=oa&by=",
        "chart of the districts by sex": "#level.area=district&by=sex&view=chart",
    }
    for name, state in steps.items():
        page.goto("about:blank")
        clock = time.perf_counter()
        page.goto(f"{server.address}{state}")
        page.wait_for_selector("#panel[aria-busy=false]", timeout=60_000)
        taken = time.perf_counter() - clock
        said = page.locator("#summary").inner_text() or page.locator("#panel").inner_text()
        print(f"{name:<32}{taken:>7.2f} s  {said.splitlines()[0][:80]}", flush=True)
    page.close()


def spent(session) -> dict[str, float]:
    """The seconds that the page's thread spent with each kind of work."""
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def measured(page, session, frames: int) -> tuple[float, float]:
    """Milliseconds of script, and of all work of the page, for a frame while the wheel is turned over the map."""

    def turned(number: int) -> None:
        for n in range(number):
            page.mouse.wheel(0, -60 if n % 20 < 10 else 60)
            page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    page.locator("#map").focus()  # the wheel is for the page unless the map has the focus
    box = page.locator("#map").bounding_box()
    still = page.locator("#map").screenshot()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    turned(5)
    if page.locator("#map").screenshot() == still:
        raise SystemExit("the map did not zoom, so nothing was measured.")
    before = spent(session)
    turned(frames)
    after = spent(session)
    script, work = (1000 * (after[name] - before[name]) / frames for name in ("ScriptDuration", "TaskDuration"))
    return script, work


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--areas", type=int, default=10_000)
    options.add_argument("--frames", type=int, default=60)
    options.add_argument("--release", type=Path)
    options.add_argument("--nation", type=int, metavar="AREAS")
    given = options.parse_args()
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        made = nation(Path(scratch), given.nation) if given.nation and not given.release else None
        release = given.release or made or published(Path(scratch), given.areas)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        with serving(release, options=("--no-access-log",)) as server:
            for _ in range(3):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                page = context.new_page()
                session = context.new_cdp_session(page)
                session.send("Performance.enable", {"timeDomain": "threadTicks"})
                clock = time.perf_counter()
                page.goto(server.address)
                page.wait_for_selector("#panel[aria-busy=false]")
                mark = page.evaluate("performance.getEntriesByName('first-view')[0].startTime")
                whole = 1000 * (time.perf_counter() - clock)
                work = 1000 * spent(session)["TaskDuration"]
                told = f"{mark:,.0f} ms in the browser, {whole:,.0f} ms in all"
                print(f"first view after {told}; {work:,.0f} ms of work of the page")
                context.close()
            if given.nation:
                walked(browser, server)
            elif given.release is None:
                finest(browser, server, given)
        browser.close()


def finest(browser, server, given) -> None:
    """The finest areas, all at once."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    clock = time.perf_counter()
    page.goto(f"{server.address}#level.area=g100m&by=&view=map")
    page.wait_for_selector("#map canvas", timeout=60_000)
    page.wait_for_selector("#panel[aria-busy=false]", timeout=60_000)
    shown = page.locator("#summary").inner_text().partition(".")[0]
    print(f"{shown}: shown after {1000 * (time.perf_counter() - clock):,.0f} ms")
    script, work = measured(page, session, given.frames)
    print(f"{script:.2f} ms of script a frame while zooming, {work:.2f} ms of all work of the page")


if __name__ == "__main__":
    main()
