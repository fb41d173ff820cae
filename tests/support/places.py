"""Where the files are that tests read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("ILBA_SHARED", ROOT.parent / "shared"))
GOLDEN = ROOT / "tests" / "data" / "golden"
"""outputs of the R package that are part of the repository"""

FORMATS = ROOT / "tests" / "data" / "formats"
"""what each version of the formats wrote, with its numbers"""

VERSIONS = sorted(folder.name for folder in FORMATS.iterdir() if (folder / "expected.json").is_file())


def golden_bytes(file: Path) -> bytes:
    """What R wrote to a file: in the repository it is compressed, in the shared folder it is not."""
    packed = file.with_name(f"{file.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else file.read_bytes()
