"""The tree of tables: the best finer table to roll up each table from, and the walk through the tree.

A table with all keys comes from the one that is one level finer. Any other comes from the table with one more key: the
key with the fewest labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from ilba.cells.codes import CodeLists
from ilba.design.design import Selection

T = TypeVar("T")
TreeNode: TypeAlias = tuple[tuple[int, ...], tuple[str, ...]]
"""a table by the levels of its hierarchies and by its keys"""


def tree(codes: CodeLists, wanted: Sequence[Selection]) -> tuple[TreeNode, dict[TreeNode, list[TreeNode]]]:
    """The finest table, and for each table those to roll up from it, until all wanted tables are reached."""
    design = codes.design
    asked = {(selection.levels, selection.keys) for selection in wanted}
    children: dict[TreeNode, list[TreeNode]] = {}
    root: TreeNode = (design.finest.levels, design.keys)
    known = {root}
    for node in asked:
        while node not in known:
            known.add(node)
            parent = _parent(codes, node)
            # A table that is not wanted is only made if many others depend on it: if it has all keys.
            while parent not in asked and parent[1] != design.keys:
                parent = _parent(codes, parent)
            children.setdefault(parent, []).append(node)
            node = parent
    return root, {node: sorted(below) for node, below in children.items()}


def walk(
    codes: CodeLists,
    wanted: Sequence[Selection],
    finest: T,
    roll_up: Callable[[T, Selection | None, Selection], T],
    release: Callable[[T], object] = lambda _: None,
) -> Iterator[tuple[Selection, T]]:
    """Each wanted table, keys in the order of the design, with what `roll_up` makes for it from a finer one.

    `roll_up` gets an earlier result, the table of that result (None for `finest`, the finest cells), and the table to
    make. The walk goes depth first: one branch of the tree is in memory at a time, and `release` is called with each
    result that is no longer needed.
    """
    asked = {(selection.levels, selection.keys) for selection in wanted}
    root, children = tree(codes, wanted)

    def descend(node: TreeNode, source: T, of: Selection | None) -> Iterator[tuple[Selection, T]]:
        here = codes.design.at(*node)
        if node in asked:
            yield here, roll_up(source, None, here) if of is None else source
        for child in children.get(node, []):
            target = codes.design.at(*child)
            made = roll_up(source, of, target)
            try:
                yield from descend(child, made, target)
            finally:
                release(made)

    return descend(root, finest, None)


def _parent(codes: CodeLists, node: TreeNode) -> TreeNode:
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
