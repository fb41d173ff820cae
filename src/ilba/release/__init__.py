"""Releases: the only door to the outside.

`writing` decides what may be published and proves it; `folder` writes the files. `ledger` keeps everything that was
published; `chapter` applies it to one population. `net` recognises the same people under another name. `coarser` sums
masks of a finer design. `adopting` enters publications made without a ledger. `reading` opens a release; `examining`
checks files of every version.
"""

from ilba.release.coarser import Finer
from ilba.release.ledger import Ledger
from ilba.release.reading import MANIFEST, PublicTable, Release
from ilba.release.writing import INSIDE, other_numbers, publishable, published, release, tell_other_numbers

__all__ = [
    "INSIDE",
    "MANIFEST",
    "Finer",
    "Ledger",
    "PublicTable",
    "Release",
    "other_numbers",
    "publishable",
    "published",
    "release",
    "tell_other_numbers",
]
