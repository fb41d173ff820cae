"""Every table of a finest table, each rolled up from a small finer one.

Walking the tree of tables depth first keeps only one branch in memory.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ilba.cells.codes import CodeLists
from ilba.cells.tree import TreeNode, tree
from ilba.design.design import Selection, file_name
from ilba.errors import InputError, StoreError, listing
from ilba.files import replacing, sweep
from ilba.tables.rollup import Finest, Sums, roll_up
from ilba.tables.sealed import BrokenSeal, is_sealed

_ABOUT = "cube.json"


def walk(codes: CodeLists, source: Finest, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Sums]]:
    """The sums of the wanted tables, whose keys stand in the order of the design, in the order of the tree."""
    asked = {(selection.levels, selection.keys) for selection in wanted}
    root, children = tree(codes, wanted)
    return descend(codes, asked, children, root, source)


def descend(
    codes: CodeLists,
    asked: Collection[TreeNode],
    children: Mapping[TreeNode, Sequence[TreeNode]],
    node: TreeNode,
    sums: Sums | Finest,
) -> Iterator[tuple[Selection, Sums]]:
    """The sums of a table, where it was asked for, and of those that hang on it."""
    here = codes.design.at(*node)
    if node in asked:
        yield here, roll_up(codes, sums, codes.cell_index(here)) if isinstance(sums, Finest) else sums
    for child in children.get(node, []):
        below = roll_up(codes, sums, codes.cell_index(codes.design.at(*child)))
        yield from descend(codes, asked, children, child, below)


class Cube:
    """The tables of a cube, made when they are asked for."""

    def __init__(
        self,
        wanted: Sequence[Selection],
        tables: Callable[[Sequence[Selection]], Iterator[Any]],
        about: Callable[[], Any],
    ) -> None:
        """`about` tells which store the tables are of. It reads every cell, so it is called only by `write`."""
        self.selections = list(wanted)
        """which tables there are"""
        self._tables = tables
        self._about = about

    def __len__(self) -> int:
        return len(self.selections)

    def __iter__(self) -> Iterator[Any]:
        """The tables, each a `Table`, in the order in which they are cheapest to make.

        On Spark a large one is a `SparkTable`.
        """
        return self._tables(self.selections)

    def write(self, folder: str | os.PathLike[str], progress: Callable[[int, int], object] | None = None) -> Path:
        """Write each table as a Parquet file of labels, N_masked, type1 and type2 (confidential).

        After an interruption the same call goes on where it stopped: a table that is there and fits its checksum is
        kept, any other is made again.

        Parameters
        ----------
        folder : path
            An empty or new folder, or one that holds a cube of the same store.
        progress : callable, optional
            Called with the number of tables that are done and the number of all.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            The folder holds something else, or a cube of another store.
        """
        home = Path(folder)
        if home.exists() and not home.is_dir():
            raise InputError(f"{str(home)!r} is a file. Give the name of a folder.")
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        about, ours = home / _ABOUT, self._about()
        at_work = sweep(home)
        if about.exists():
            if _told(about) != ours:
                raise InputError(f"{str(home)!r} holds the cube of another store. Choose an empty or new folder.")
        elif set(home.iterdir()) - {*at_work}:
            raise InputError(f"{str(home)!r} is not empty and holds no cube. Choose an empty or new folder.")
        else:
            with replacing(about) as temporary:
                temporary.write_text(json.dumps(ours), encoding="utf-8")
        files = {selection: home / f"{file_name(selection.name)}.parquet" for selection in self.selections}
        left = [selection for selection in self.selections if not _is_whole(files[selection])]

        def write(table: Any) -> None:
            table.write_parquet(files[table.selection])

        done = len(self) - len(left)
        for _ in _beside(write, self._tables(left)):
            done += 1
            if progress:
                progress(done, len(self))
        return home

    def __repr__(self) -> str:
        return f"Cube({len(self)} tables: {listing((s.name for s in self.selections), 4)}; confidential)"


def _told(about: Path) -> Any:
    """Which store a cube was made from."""
    try:
        return json.loads(about.read_bytes())
    except ValueError:
        raise StoreError(
            f"{str(about)!r} is damaged, so it is not known which store this cube is of. Choose a new folder."
        ) from None


def _is_whole(file: Path) -> bool:
    try:
        return is_sealed(file.read_bytes())
    except (FileNotFoundError, BrokenSeal):
        return False


def _beside(write: Callable[[Any], None], tables: Iterator[Any]) -> Iterator[None]:
    """Write tables in a thread of its own while the next one is made; at most two wait, so memory stays bounded."""
    with ThreadPoolExecutor(max_workers=1) as writer:
        waiting: deque[Future[None]] = deque()
        for table in tables:
            waiting.append(writer.submit(write, table))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
