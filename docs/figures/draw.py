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
PICTURES: dict[str, dict[str, Callable[[Names], None] | None]] = {
    "learn/census.md": {"census-loss.svg": None, "census-map.svg": None},
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
