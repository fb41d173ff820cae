"""Every table of a finest table: made one by one, and written to a folder."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ilba.design.design import Selection, file_name
from ilba.errors import InputError, StoreError, listing
from ilba.files import replacing, sweep
from ilba.progress import Progress, ProgressStep, silent
from ilba.tables.sealed import BrokenSeal, is_sealed
from ilba.tables.table import AnyTable

_ABOUT = "cube.json"


class Cube:
    """The tables of a cube, made on demand."""

    def __init__(
        self,
        wanted: Sequence[Selection],
        tables: Callable[[Sequence[Selection]], Iterator[AnyTable]],
        about: Callable[[], Any],
    ) -> None:
        """`about` identifies the store. It reads every cell, so only `write` calls it."""
        self.selections = list(wanted)
        """the tables of the cube"""
        self._tables = tables
        self._about = about

    def __len__(self) -> int:
        return len(self.selections)

    def __iter__(self) -> Iterator[AnyTable]:
        """The tables, each a `Table`, in the order in which they are cheapest to make.

        On Spark a large one is a `SparkTable`.
        """
        return self._tables(self.selections)

    def write(self, folder: str | os.PathLike[str], progress: Progress | None = None) -> Path:
        """Write each table as a Parquet file of labels, N_masked, type1 and type2 (confidential).

        After an interruption the same call continues: an existing table that matches its checksum is
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

        def write(table: AnyTable) -> None:
            table.write_parquet(files[table.selection])

        tell, done = progress or silent, len(self) - len(left)
        tell(ProgressStep("writing tables", done, len(self)))
        for _ in _beside(write, self._tables(left)):
            done += 1
            tell(ProgressStep("writing tables", done, len(self)))
        return home

    def __repr__(self) -> str:
        return f"Cube({len(self)} tables: {listing((s.name for s in self.selections), 4)}; confidential)"


def _told(about: Path) -> Any:
    """The store that a cube was made from."""
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


def _beside(write: Callable[[AnyTable], None], tables: Iterator[AnyTable]) -> Iterator[None]:
    """Write tables in a separate thread while the next one is made; at most two wait, so memory stays bounded."""
    with ThreadPoolExecutor(max_workers=1) as writer:
        waiting: deque[Future[None]] = deque()
        for table in tables:
            waiting.append(writer.submit(write, table))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
