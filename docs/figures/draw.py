"""Draw the pictures of the documentation anew: `make figures`.

A picture shows what its page computes. Each page below is run as the tests run it. Where the page itself writes the
picture, that file is taken; the others are drawn here from what the page computed. Pages that read the reference data
need its folder in ILBA_SHARED and are left out with a note where it is absent.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("ILBA_SHARED", DOCS.parent.parent / "shared")).resolve()
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Names = dict[str, Any]


def sums_and_flags(names: Names) -> None:
    """The sums that five cells can have, what is published for each, and which of them are flagged."""
    import altair as alt

    from ilba import charts, masking

    K, n_small, n_at_threshold = names["K"], 5, 2
    low, high = masking.feasible(n_small, n_at_threshold, K)
    rows = []
    for total in range(int(low), int(high) + 1):
        value, type1, type2 = (int(x) for x in masking.ilba(n_small, n_at_threshold, total, K))
        flag = "type1" if type1 else "type2" if type2 else "no flag"
        rows.append({"sum": total, "published": value, "flag": flag})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("sum", type="ordinal", title="true sum of the five cells", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("published", type="ordinal", title="published", sort="descending"),
    )
    colours = alt.Scale(domain=["no flag", "type1", "type2"], range=[charts.PALETTE[4], "#D55E00", "#E69F00"])
    bars = base.mark_rect(stroke="white", strokeWidth=2).encode(
        color=alt.Color("flag", type="nominal", scale=colours, legend=alt.Legend(title=None, orient="top"))
    )
    words = ["Five cells, two of them masked to 5, K = 5", "A flag cuts the sums that a published value stands for."]
    _save((bars + base.mark_text().encode(text=alt.Text("sum", type="ordinal"))), words, "flags.svg", 620, 150)


def methods_of_this_package(names: Names) -> None:
    """The methods of `compare`."""
    rows = names["compared"].rows
    results = zip(rows["method"], rows["mean_loss"], rows["provable"], strict=True)
    words = ["Every method of this package", "20,000 people; the same tables, K = 5, against the same attacker."]
    _side_by_side(list(results), words, "choose-k.svg")


def methods_of_all_kinds(names: Names) -> None:
    """The methods of statistical offices."""
    words = [
        "Sixteen tables of one census",
        "100,000 people; every method on the same tables, against the same attacker.",
    ]
    _side_by_side(names["results"], words, "alternatives.svg")


def _side_by_side(results: list[tuple[str, float, float]], words: list[str], name: str) -> None:
    """Loss and what is proven, a bar for each method."""
    import altair as alt

    from ilba import charts

    rows = [{"method": method, "loss": float(loss), "proven": float(proven)} for method, loss, proven in results]
    order = [row["method"] for row in rows]

    def panel(field: str, title: str, shown: str, colour: str, labels: bool) -> Any:
        axis = alt.Axis(labelLimit=240) if labels else None
        base = alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X(field, type="quantitative", title=title, axis=alt.Axis(format=shown, tickCount=4)),
            y=alt.Y("method", type="nominal", sort=order, title=None, axis=axis),
        )
        text = base.mark_text(align="left", dx=4).encode(text=alt.Text(field, type="quantitative", format=shown))
        return (base.mark_bar(color=colour) + text).properties(width=250, height=alt.Step(24))

    both = alt.hconcat(
        panel("loss", "mean loss", ".2f", charts.PALETTE[0], True),
        panel("proven", "small cells proven small", ".0%", "#D55E00", False),
        spacing=40,
    )
    _save(both, words, name)


def blocks_of_the_example(names: Names) -> None:
    """The example of the paper: D, its blocks, the true sum and the released one."""
    import altair as alt

    from ilba import charts, masking

    K, true = names["K"], names["sum_small"]
    low, high = (int(end) for end in masking.feasible(names["n_small"], names["n_at_threshold"], K))
    first, last = (int(end) for end in masking.candidates(true, K))
    released = int(masking.ilba(names["n_small"], names["n_at_threshold"], true, K).sum_masked)
    rows = []
    for total in range(1, (high + K - 1) // K * K + 1):
        kind = (
            "C, the block of the true sum" if first <= total <= last else "in D" if low <= total <= high else "not in D"
        )
        mark = "true" if total == true else "released" if total == released else ""
        rows.append({"sum": total, "kind": kind, "mark": mark, "gap": total + (total - 1) // K * 0.35})
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("gap", type="quantitative", axis=None))
    kinds = ["C, the block of the true sum", "in D", "not in D"]
    scale = alt.Scale(domain=kinds, range=[charts.PALETTE[1], charts.PALETTE[4], "#DDDDDD"])
    cells = base.mark_square(size=560, opacity=1).encode(
        y=alt.value(40),
        color=alt.Color(
            "kind", type="nominal", scale=scale, legend=alt.Legend(title=None, orient="bottom", symbolSize=150)
        ),
    )
    numbers = base.mark_text().encode(y=alt.value(40), text=alt.Text("sum", type="ordinal"))
    marks = base.mark_text(fontWeight="bold").encode(y=alt.value(15), text=alt.Text("mark", type="nominal"))
    words = [
        f"Which sum do the small cells have? D = {low}..{high}",
        f"The numbers in C are released as its centre, {released}.",
    ]
    _save(cells + numbers + marks, words, "method.svg", 680, 60)


def page_in_a_browser(names: Names) -> None:
    """The page of `ilba serve`, photographed by Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("the page is photographed by Chromium, which is not here: apt-get install chromium")
    command = [sys.executable, "-m", "ilba", "serve", "census", "--port", "0", "--no-access-log"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            address = re.search(r"http://\S+", service.stderr.readline())[0]  # type: ignore[index,union-attr]
            options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=15000"]
            options += ["--window-size=1100,900", "--screenshot=census-page.png"]
            subprocess.run([browser, *options, address], check=True, capture_output=True)
        finally:
            service.terminate()


# Lines of at most 20 letters, so that they stay inside their box in a wide font, too.
STEPS = (
    ("microdata", ["one row per person,", "csv, parquet, SPSS"], "build"),
    ("finest table", ["every combination,", "true, masked count"], "table, cube"),
    ("tables", ["any level, any keys,", "flags and losses"], "audit"),
    ("audit", ["what can be proven", "from all of it?"], "release"),
    ("release", ["labels, code lists,", "masked counts, maps"], ""),
)


def way_of_the_data(names: Names) -> None:
    """The rooms that a record walks through, and the line between confidential and public."""
    wide, high, step, top = 152, 86, 192, 46
    right = len(STEPS) * step + 4
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} 160" width="{right}" height="160" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{right}" height="160" fill="white"/>',
        f'<rect x="4" y="8" width="{4 * step - 24}" height="144" rx="8" fill="#FBF1F1"/>',
        f'<rect x="{4 * step - 8}" y="8" width="{step + 4}" height="144" rx="8" fill="#EEF6F1"/>',
        '<text x="16" y="30" fill="#8A2B2B">confidential: files for their owner alone</text>',
        f'<text x="{4 * step + 4}" y="30" fill="#1E6B45">public</text>',
    ]
    for place, (title, lines, verb) in enumerate(STEPS):
        x = 16 + place * step if verb else 4 * step + 12
        edge = "#8A2B2B" if verb else "#1E6B45"
        out.append(f'<rect x="{x}" y="{top}" width="{wide}" height="{high}" rx="6" fill="white" stroke="{edge}"/>')
        out.append(f'<text x="{x + 12}" y="{top + 24}" font-size="14" font-weight="bold">{title}</text>')
        out += [f'<text x="{x + 12}" y="{top + 46 + 17 * i}">{line}</text>' for i, line in enumerate(lines)]
        if verb:
            end = x + wide
            out.append(f'<path d="M{end + 4} {top + 43} h28 m-6 -5 l6 5 l-6 5" fill="none" stroke="#333"/>')
            out.append(f'<text x="{end + 20}" y="{top + high + 14}" text-anchor="middle" fill="#333">{verb}</text>')
    Path("flow.svg").write_text("\n".join([*out, "</svg>", ""]), encoding="utf-8")


def _save(chart: Any, words: list[str], name: str, width: int = 0, height: int = 0) -> None:
    import altair as alt

    from ilba import charts

    if width:
        chart = chart.properties(width=width, height=height)
    title = alt.TitleParams(words[0], subtitle=words[1:], anchor="start", offset=12)
    charts.save(chart.properties(title=title, background="white", padding=16).configure_view(stroke=None), name)


# None: the page itself writes the picture.
PICTURES: dict[str, dict[str, Callable[[Names], None] | None]] = {
    "learn/census.md": {"census-loss.svg": None, "census-map.svg": None, "census-page.png": page_in_a_browser},
    "learn/establishments.md": {"korea.svg": None},
    "learn/grid-squares.md": {"squares.svg": None},
    "learn/survey.md": {"survey.svg": None},
    "do/choose-k.md": {"choose-k.svg": methods_of_this_package},
    "understand/method.md": {"method.svg": blocks_of_the_example},
    "index.md": {"flow.svg": way_of_the_data},
    "understand/flags-and-rows.md": {"flags.svg": sums_and_flags},
    "understand/alternatives.md": {"alternatives.svg": methods_of_all_kinds},
}


def main(wanted: list[str]) -> None:
    """Draw the pictures of the pages named, or of all."""
    os.environ["ILBA_SHARED"] = str(SHARED)
    for page in wanted or PICTURES:
        code = BLOCK.findall((DOCS / page).read_text("utf-8"))
        if any("ILBA_SHARED" in block for block in code) and not (SHARED / "data").is_dir():
            print(f"{page}: left out, the reference data is not here; set ILBA_SHARED to its folder")
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            names: Names = {"__name__": "__main__"}
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for block in code:
                    exec(block, names)
            for picture, draw in PICTURES[page].items():
                if draw is not None:
                    draw(names)
                shutil.copyfile(picture, DOCS / Path(page).parent / picture)
                print(f"{Path(page).parent / picture}: {Path(picture).stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
