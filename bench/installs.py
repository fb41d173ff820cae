"""The size and the time of an installation: the wheel, with each extra, in a separate environment.

    python bench/installs.py                 every extra
    python bench/installs.py serve formats   these, and the base
    python bench/installs.py --write         also write the table into docs/do/install.md

The base runs `ilba demo`, `serve` also runs `ilba serve`, and every other extra does something that needs it, from a
folder outside the clone. The time is that of `pip install`, including downloads; packages that pip has cached come from
its cache.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "do" / "install.md"
BEGIN, END = "<!-- made by bench/installs.py -->", "<!-- end -->"
EXTRAS = ["", "serve", "charts", "formats", "maps", "pdf", "solver", "spark", "java", "all"]
MADE = """
import ilba
secret = ilba.Secret(bytes(32))
people = ilba.datasets.census(2000)
finest = ilba.build(people, ["LA1", "LA2"], ["gender", "age"], secret=secret)
finest.release("release", secret=secret, ledger=False)
"""
TRIED = {
    "charts": "ilba.charts.save(ilba.charts.loss(finest.table('LA2', 'age')), 'loss.svg')",
    "formats": "[ilba.export.export('release', 'LA2.gender', form, f'table.{form}') for form in ('xlsx', 'sdmx-ml')]",
    "maps": """
import numpy, pyogrio.raw, shapely
from ilba.data.shapes import read_shapes
areas = numpy.array(sorted(set(people['LA2'])), dtype=object)
shapes = shapely.to_wkb([shapely.box(i, 0, i + 1, 1) for i in range(len(areas))])
pyogrio.raw.write('map.gpkg', shapes, [areas], ['code'], geometry_type='Polygon', crs='EPSG:4326')
print(read_shapes('map.gpkg'))
""",
    "pdf": "from ilba.output import pdf; open('page.html', 'w').write('<h1>page</h1>'); pdf.write('page.html')",
    "solver": "print(ilba.audit(finest, max_keys=1, solver_seconds=1))",
    "spark": """
import os, sys
os.environ['PYSPARK_PYTHON'] = sys.executable
from pyspark.sql import SparkSession
session = SparkSession.builder.master('local[1]').getOrCreate()
built = ilba.build(session.createDataFrame(people.to_pandas()), ['LA1', 'LA2'], ['gender', 'age'], secret=secret)
assert built.table('LA2', 'gender').frame.count() == finest.table('LA2', 'gender').frame.height
""",
}
OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ILBA_SECRET")}
OURS = {"pip", "setuptools"}  # in every environment before anything is installed


def millions(number: int) -> str:
    return f"{number / 1e6:,.0f}" if number > 1e6 else f"{number / 1e6:.1f}"


def packages(site: Path) -> dict[str, int]:
    """What each distribution in an environment takes on disk, by the files that it lists."""
    found = {}
    for record in site.glob("*.dist-info/RECORD"):
        files = [site / line.split(",")[0] for line in record.read_text("utf-8").splitlines()]
        name = record.parent.name.partition("-")[0]
        found[name] = sum(file.stat().st_size for file in files if file.is_file())
    return {name: found[name] for name in sorted(found, key=lambda name: -found[name]) if name not in OURS}


def installed(wheel: Path, extra: str, home: Path) -> tuple[float, Path]:
    """Install the wheel with an extra; how long it took, and where."""
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    command = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    start = time.perf_counter()
    subprocess.run([*command, "--constraint", str(ROOT / "constraints.txt"), what], check=True)
    return time.perf_counter() - start, next((home / "lib").glob("python*/site-packages"))


def walk(home: Path, place: Path, serve: bool) -> None:
    """The tour in an empty folder; with `serve`, the page."""
    tour = [home / "bin" / "ilba", "demo", "--records", "20000"]
    subprocess.run(tour, cwd=place, check=True, capture_output=True, env=OUTSIDE)
    if not serve:
        return
    command = [home / "bin" / "ilba", "serve", "ilba-demo/release", "--port", "0", "--no-access-log"]
    server = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True, env=OUTSIDE)
    try:
        address = re.search(r"http://\S+", server.stderr.readline())[0]
        with urllib.request.urlopen(address) as answer:
            if b"<main" not in answer.read():
                raise SystemExit("the installed service does not serve the page.")
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", help=f"of {', '.join(EXTRAS[1:])}; all when left out")
    parser.add_argument("--write", action="store_true", help="put the table into docs/do/install.md")
    chosen = parser.parse_args()
    for extra in chosen.extras:
        if extra not in EXTRAS:
            parser.error(f"{extra!r} is not among {', '.join(EXTRAS[1:])}")
    lines = ["| `pip install` | MB on disk | seconds | brings, in MB |", "|---|--:|--:|---|"]
    with tempfile.TemporaryDirectory(prefix="ilba-installs-") as scratch:
        folder = Path(scratch)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", scratch, str(ROOT)]
        subprocess.run(command, check=True, capture_output=True)
        wheel = next(folder.glob("*.whl"))
        base: dict[str, int] = {}
        for extra in ["", *(chosen.extras or EXTRAS[1:])]:
            home, place = folder / f"env-{extra}", folder / f"place-{extra}"
            place.mkdir()
            seconds, site = installed(wheel, extra, home)
            if extra in ("", "serve"):
                walk(home, place, serve=bool(extra))
            for tried in TRIED if extra == "all" else TRIED.keys() & {extra}:
                words = [home / "bin" / "python", "-c", MADE + TRIED[tried]]
                subprocess.run(words, cwd=place, check=True, capture_output=True, env=OUTSIDE)
            held = packages(site)
            base = base or held
            news = {name: number for name, number in held.items() if name not in base or not extra}
            told = ", ".join(f"{name} {millions(number)}" for name, number in list(news.items())[:6])
            rest = list(news.values())[6:]
            told += f", {len(rest)} more {millions(sum(rest))}" if rest else ""
            name = f"ilba[{extra}]" if extra else "ilba"
            lines.append(f"| `{name}` | {sum(held.values()) / 1e6:,.0f} | {seconds:.0f} | {told} |")
            print(lines[-1], file=sys.stderr, flush=True)
        lines += ["", f"The wheel itself has {wheel.stat().st_size / 1e6:.1f} MB."]
    today = f"{datetime.datetime.now(tz=datetime.UTC):%-d %B %Y}"
    lines.append(f"(`python bench/installs.py`, {today}, Python {platform.python_version()}, {platform.machine()})")
    text = "\n".join(lines)
    print(text)
    if chosen.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
