"""The table and the picture on the README's first screen.

    python bench/first_screen.py           print the table
    python bench/first_screen.py --write   and put it into README.md, with docs/first-screen.svg

The data are a census of a million people, K=5, a fixed secret; all 32 tables of LA3 x gender x edu x age. The times of
a release are those of all 160 tables of OA x five keys, as `release` makes them by default: once with new masks, and
once with the kept masks, which is only the writing with its proof.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import ilba
from ilba import charts
from ilba.attack.audit import audit, losses
from ilba.demo import HKEY, KEY

ROOT = Path(__file__).parent.parent
SECRET = ilba.Secret(bytes(32))
RECORDS = 1_000_000
BEGIN, END = "<!-- made by bench/first_screen.py -->", "<!-- end -->"


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    clock = time.perf_counter()
    return work(), time.perf_counter() - clock


def main() -> None:
    people = ilba.datasets.census(RECORDS)
    small = ilba.build(people, HKEY[:3], ["gender", "edu", "age"], secret=SECRET)
    chosen, choosing = timed(lambda: small.controlled(secret=SECRET))
    rows = [
        ("controlled, the default: masks chosen jointly", chosen, "controlled", "yes"),
        ("iLBA, masked counts only", small, "ilba", "no"),
        ("as the R package writes its files", small, "r-file", "no"),
    ]
    points = []
    lines = [
        "| released as | small cells that anybody can prove | mean loss | largest loss | tables add up |",
        "|---|--:|--:|--:|---|",
    ]
    for name, finest, method, additive in rows:
        report = audit(finest, method, explanations=0, brief=True)
        loss = losses(report.published)
        lines.append(f"| {name} | {100 * report.share:.0f} % | {loss.mean():.2f} | {loss.max():.0f} | {additive} |")
        points.append({"method": name, "mean_loss": float(loss.mean()), "provable": report.share})
    finest, building = timed(lambda: ilba.build(people, HKEY, KEY, secret=SECRET))
    with tempfile.TemporaryDirectory() as scratch:
        release, publishing = timed(lambda: finest.release(Path(scratch) / "release", ledger=Path(scratch) / "ledger"))
        _, writing = timed(lambda: finest.release(Path(scratch) / "again", ledger=Path(scratch) / "ledger"))
        lines += [
            "",
            f"A million records are counted and masked in {building:.1f} s, the masks of these tables chosen in "
            f"{choosing:.1f} s.",
            f"For all {len(release.tables)} tables of four levels and five variables masks are chosen in "
            f"{publishing - writing:.0f} s,",
            f"and the release is written, with the proof of its folder, in {writing:.0f} s.",
            f"(`python bench/first_screen.py`, {datetime.date.today():%d %B %Y}, {os.cpu_count()} cores, "
            f"{platform.machine()})",
        ]
    text = "\n".join(lines)
    print(text)
    if "--write" in sys.argv:
        readme = ROOT / "README.md"
        before = readme.read_text(encoding="utf-8")
        assert BEGIN in before
        made = f"{BEGIN}\n{text}\n{END}"
        readme.write_text(
            re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: made, before, flags=re.DOTALL), encoding="utf-8"
        )
        picture = ROOT / "docs" / "first-screen.svg"
        charts.save(charts.risk(pl.DataFrame(points), title="What released tables give away, at what loss"), picture)
        drawn = picture.read_text(encoding="utf-8").replace("CONFIDENTIAL.", "A synthetic census.")  # so nobody's truth
        picture.write_text(drawn, encoding="utf-8")
        picture.chmod(0o644)


if __name__ == "__main__":
    main()
