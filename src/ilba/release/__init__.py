"""Releases: the only door to the outside.

`writing` decides what may be published and proves it, `folder` writes the files, `memory` knows what was published
before, `reading` opens a release.
"""

from ilba.release.reading import MANIFEST, PublicTable, Release
from ilba.release.writing import publishable, release

__all__ = ["MANIFEST", "PublicTable", "Release", "publishable", "release"]
