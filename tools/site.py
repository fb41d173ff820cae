"""Build the documentation: one folder for each version, and a page that links to the newest.

    python tools/site.py [FOLDER]

The folder (docs/_build/html by default) keeps the versions that it already holds: to publish a site, build the next
version into a copy of the last one. `versions.js` lists them for the menu beside the pages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"

FRONT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>ilba</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<p><a href="{newest}/index.html">The documentation of ilba {newest}</a></p>
</html>
"""


def build(folder: Path) -> Path:
    """Build this version below the folder, and return where its pages are."""
    import ilba

    pages = folder / ilba.__version__
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d"]
    subprocess.run([*command, str(folder.parent / "doctrees"), str(DOCS), str(pages)], check=True)
    held = sorted((page.parent.name for page in folder.glob("*/index.html")), key=_order, reverse=True)
    (folder / "versions.js").write_text(f"window.ilbaVersions = {json.dumps(held)};\n", "utf-8")
    (folder / "index.html").write_text(FRONT.format(newest=held[0]), "utf-8")
    return pages


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in version.split("."))


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if sys.argv[1:] else DOCS / "_build" / "html"))
