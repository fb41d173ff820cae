"""Releases: the only door to the outside. `reading` opens a release folder, `writing` makes one."""

from ilba.release.reading import MANIFEST, PublicTable, Release
from ilba.release.writing import release

__all__ = ["MANIFEST", "PublicTable", "Release", "release"]
