"""Releases: the only door to the outside.

`writing` decides what may be published and proves it, and `folder` writes the files. `ledger` keeps what was ever
published, `chapter` knows what follows from it for one population, `net` catches the same people under another name,
`coarser` sums masks of a finer design, `adopting` enters what was published without a ledger. `reading` opens a
release, `examining` looks at files of every version.
"""

from ilba.release.coarser import Finer
from ilba.release.ledger import Ledger
from ilba.release.reading import MANIFEST, PublicTable, Release
from ilba.release.writing import publishable, published, release

__all__ = ["MANIFEST", "Finer", "Ledger", "PublicTable", "Release", "publishable", "published", "release"]
