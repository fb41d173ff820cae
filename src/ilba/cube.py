"""Every table of a finest table, each rolled up from a small finer one.

The tables form a tree: a table with all keys comes from the one a level finer, any other from the table with one key
more, the key with the fewest labels. Walking the tree depth first keeps only one branch in memory.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from ilba.codes import CodeLists
from ilba.design import Design, Level, Names, Selection, file_name, names_of
from ilba.errors import InputError, StoreError, listing, nearest
from ilba.files import replacing, sweep
from ilba.rollup import Finest, Sums, roll_up
from ilba.sealed import BrokenSeal, is_sealed

Tables: TypeAlias = str | Selection | Iterable[str | Selection]
Node: TypeAlias = tuple[tuple[int, ...], tuple[str, ...]]
_ABOUT = "cube.json"


def selections(
    design: Design, levels: Iterable[Level] | None = None, keys: Names | None = None, max_keys: int | None = None
) -> list[Selection]:
    """The tables of a cube: each level (each combination of levels with several hierarchies) by each subset of keys.

    >>> design = Design.of(["LA1", "LA2"], ["sex", "age"])
    >>> [table.name for table in selections(design, levels=["LA2"], max_keys=1)]
    ['LA2', 'LA2.sex', 'LA2.age']
    """
    if levels is None:
        combinations = list(itertools.product(*(range(len(h.columns) + 1) for h in design.hierarchies)))
    else:
        if isinstance(levels, str | Mapping) or not isinstance(levels, Iterable):
            levels = [levels]
        combinations = list(dict.fromkeys(design.select(level).levels for level in levels))
    chosen = design.keys if keys is None else names_of("keys", keys)
    design.select(0, chosen)  # unknown keys are refused here, with the nearest name
    chosen = tuple(key for key in design.keys if key in chosen)
    if max_keys is not None and (isinstance(max_keys, bool) or not isinstance(max_keys, int) or max_keys < 0):
        raise InputError(f"max_keys={max_keys!r} is not a whole number of at least 0.")
    most = len(chosen) if max_keys is None else min(max_keys, len(chosen))
    subsets = [subset for size in range(most + 1) for subset in itertools.combinations(chosen, size)]
    return [selection_of(design, (combination, subset)) for combination in combinations for subset in subsets]


def wanted_tables(
    design: Design,
    tables: Tables = "all",
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
) -> list[Selection]:
    """The tables to be released: those of a cube, or those listed, each once and with its keys in the design's order.

    >>> design = Design.of(["LA1", "LA2"], ["sex", "age"])
    >>> [table.name for table in wanted_tables(design, ["LA2.age.sex", "all"])]
    ['LA2.sex.age', 'all']
    """
    if isinstance(tables, str) and tables == "all":
        return selections(design, levels, keys, max_keys)
    if levels is not None or keys is not None or max_keys is not None:
        raise InputError("tables lists the tables already: leave out levels, keys and max_keys.")
    given = [tables] if isinstance(tables, str | Selection) else list(tables)
    if not given:
        raise InputError("tables is empty. Name at least one table, or give tables='all'.")
    found = [_ordered(design, table if isinstance(table, Selection) else _named(design, table)) for table in given]
    return list(dict.fromkeys(found))


def _ordered(design: Design, table: Selection) -> Selection:
    if len(table.levels) != len(design.hierarchies):
        raise InputError(f"the table {table.name!r} belongs to another design.")
    levels = {h.name: level for h, level in zip(design.hierarchies, table.levels, strict=True)}
    design.select(levels, table.keys)  # unknown keys are refused here, with the nearest name
    return design.select(levels, [key for key in design.keys if key in table.keys])


def _named(design: Design, name: object) -> Selection:
    """The table with this name, as `Selection.name` spells it; the keys may stand in any order."""
    if not isinstance(name, str):
        raise InputError(f"tables holds {name!r}, which is neither a table nor the name of one, such as 'town.sex'.")
    areas, *keys = name.split(".")
    levels: dict[str, int | str] = {}
    known = [column for hierarchy in design.hierarchies for column in hierarchy.columns]
    for area in [] if areas == "all" else areas.split("+"):
        column = unquote(area)
        owner = next((h.name for h in design.hierarchies if column in h.columns), None)
        if owner is None or owner in levels:
            raise InputError(
                f"there is no table {name!r}.{nearest(column, known)} A name begins with 'all' or one of "
                f"{listing(known)}, and goes on with keys: 'all.sex'."
            )
        levels[owner] = column
    return design.select(levels, [unquote(key) for key in keys])


def tree(codes: CodeLists, wanted: Sequence[Selection]) -> tuple[Node, dict[Node, list[Node]]]:
    """The finest table, and for each table those that are best rolled up from it until all wanted ones are reached."""
    design = codes.design
    asked = {(selection.levels, selection.keys) for selection in wanted}
    children: dict[Node, list[Node]] = {}
    root: Node = (tuple(len(h.columns) for h in design.hierarchies), design.keys)
    known = {root}
    for node in asked:
        while node not in known:
            known.add(node)
            parent = _parent(codes, node)
            # A table nobody asked for is only made where many others hang on it: with all keys.
            while parent not in asked and parent[1] != design.keys:
                parent = _parent(codes, parent)
            children.setdefault(parent, []).append(node)
            node = parent
    return root, {node: sorted(below) for node, below in children.items()}


def walk(codes: CodeLists, source: Finest, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Sums]]:
    """The sums of the wanted tables, whose keys stand in the order of the design, in the order of the tree."""
    asked = {(selection.levels, selection.keys) for selection in wanted}
    root, children = tree(codes, wanted)
    return descend(codes, asked, children, root, source)


def descend(
    codes: CodeLists, asked: Collection[Node], children: Mapping[Node, Sequence[Node]], node: Node, sums: Sums | Finest
) -> Iterator[tuple[Selection, Sums]]:
    """The sums of a table, where it was asked for, and of those that hang on it."""
    here = selection_of(codes.design, node)
    if node in asked:
        yield here, roll_up(codes, sums, codes.packing(here)) if isinstance(sums, Finest) else sums
    for child in children.get(node, []):
        below = roll_up(codes, sums, codes.packing(selection_of(codes.design, child)))
        yield from descend(codes, asked, children, child, below)


def _parent(codes: CodeLists, node: Node) -> Node:
    """The smallest table from which another can be rolled up."""
    design, (levels, keys) = codes.design, node
    missing = [key for key in design.keys if key not in keys]
    if missing:
        first_key = len(design.hierarchies)
        added = min(missing, key=lambda key: (len(codes.lists[first_key + design.keys.index(key)]), key))
        return levels, tuple(key for key in design.keys if key in keys or key == added)
    finer = [place for place, hierarchy in enumerate(design.hierarchies) if levels[place] < len(hierarchy.columns)]

    def growth(place: int) -> float:
        return codes.lists[place].size(levels[place] + 1) / codes.lists[place].size(levels[place])

    step = min(finer, key=growth)
    return tuple(level + (place == step) for place, level in enumerate(levels)), keys


def selection_of(design: Design, node: Node) -> Selection:
    """The table at a place of the tree."""
    levels, keys = node
    names = {hierarchy.name: level for hierarchy, level in zip(design.hierarchies, levels, strict=True)}
    return design.select(names, keys)


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
        kept, any other is made again. A folder that holds a cube of another store is refused.
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
