"""Files of hierarchies, as tau-ARGUS and sdcHierarchies write them: one code per line, `@` for each lower level.

The root `Total` is implied. `write` ends each line with one newline and writes no blanks around a code. A "dim list" is
read as well: its first line is the root, `@` with one more `@` everywhere, or `@Total` (sdcTable) with two more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import polars as pl

from ilba.data.csvfiles import read_text
from ilba.errors import InputError
from ilba.files import replacing

Path_: TypeAlias = str | os.PathLike[str]
ROOT = "Total"


@dataclass(frozen=True)
class HierarchyTree:
    """A hierarchy of codes, read from a file.

    Parameters
    ----------
    tree : polars.DataFrame
        A row for each code, in the order of the file: order, depth (1 is the top), code, parent, is_leaf.
    """

    tree: pl.DataFrame

    @property
    def depth(self) -> int:
        """The number of levels."""
        return int(self.tree["depth"].max() or 0)  # type: ignore[arg-type]

    @property
    def paths(self) -> pl.DataFrame:
        """The path of each leaf from the top: a column for each level; a short path repeats its last code."""
        above = dict(zip(self.tree["code"], self.tree["parent"], strict=True))
        rows = []
        for leaf in self.tree.filter("is_leaf")["code"]:
            path = [leaf]
            while above[path[0]] != ROOT:
                path.insert(0, above[path[0]])
            rows.append([*path, *[leaf] * (self.depth - len(path))])
        return pl.DataFrame(rows, schema=[f"level{place}" for place in range(1, self.depth + 1)], orient="row")

    def write(self, path: Path_) -> None:
        """Write the hierarchy to a file that tau-ARGUS and others read.

        Parameters
        ----------
        path : path
            Where to write, such as "regions.hrc".
        """
        lines = (f"{'@' * (depth - 1)}{code}\n" for depth, code in self.tree.select("depth", "code").iter_rows())
        with replacing(path, mode=0o644) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8", newline="\n")


def read_hierarchy(path: Path_, *, encoding: str = "") -> HierarchyTree:
    """Read a hierarchy from a `.hrc` file: one code per line, `@` for each level below the top.

    Parameters
    ----------
    path : path
        The file.
    encoding : str, optional
        Its encoding, if it is not UTF-8.

    Returns
    -------
    HierarchyTree
        The hierarchy; its `tree` is a frame of order, depth, code, parent and is_leaf.

    Raises
    ------
    InputError
        The file is malformed. The message names the line.

    Examples
    --------
    >>> read_hierarchy("regions.hrc").tree  # doctest: +SKIP
    """
    lines = read_text(path, encoding).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{os.fspath(path)!r} is empty: it has no code.")
    more = {"@": 1, f"@{ROOT}": 2}.get("".join(lines[0].split()), 0)  # a dim list: the first line is the root
    above: list[str] = []
    rows: list[tuple[int, str, str]] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if more and number == 1:
            continue
        depth, code = _spelled(path, number, line, more)
        if depth > len(above) + 1:
            fault = "is not at the top level" if not above else f"skips a level: {depth} after {len(above)}"
            raise _fault(path, number, f"{fault}. A line is at most one '@' deeper than the line before.")
        del above[depth - 1 :]
        if code in above:
            raise _fault(path, number, f"has the code {code!r}, which is also the code of its parent. Rename one.")
        if code in seen:
            raise _fault(path, number, f"has the code {code!r} again (first in line {seen[code]}). Codes are unique.")
        seen[code] = number
        rows.append((depth, code, above[-1] if above else ROOT))
        above.append(code)
    tree = pl.DataFrame(rows, schema={"depth": pl.Int64, "code": pl.String, "parent": pl.String}, orient="row")
    leaf = pl.col("depth").shift(-1).fill_null(0) <= pl.col("depth")
    return HierarchyTree(
        tree.select(pl.int_range(1, pl.len() + 1).alias("order"), "depth", "code", "parent", leaf.alias("is_leaf"))
    )


def _spelled(path: Path_, number: int, line: str, more: int) -> tuple[int, str]:
    """The depth and the code of a line."""
    text = line.strip()
    code = text.lstrip("@")
    depth = len(text) - len(code) + 1 - more
    code = code.strip()
    if not text:
        raise _fault(path, number, "is blank. Remove it.")
    if not code:
        raise _fault(path, number, "has a marker and no code. Write the code after it.")
    if code == ROOT:
        raise _fault(path, number, f"is the root {ROOT!r}, which is implied. Remove it, and one '@' from each line.")
    if depth < 1:
        fault = f"has no {'@' * more!r}, though the first line is the root"
        raise _fault(path, number, f"{fault}. Write {'@' * more!r} before the code.")
    if code[0] in "#$%&*>-+~" and depth == 1:
        raise _fault(path, number, f"begins with {code[0]!r} instead of '@'. Write '@' for each level.")
    return depth, code


def _fault(path: Path_, number: int, text: str) -> InputError:
    return InputError(f"{str(Path(path))!r}: line {number} {text}")
