"""The common refinement of several releases: the cells that they distinguish together.

Each release has its own columns, code lists and tables. Here every dimension of every release becomes a partition of
the finest known labels, which come from a store or from the releases themselves. Tables of two releases with the same
partitions are then the same table, whatever the names of their columns. A table by age bands is a coarser table than
one by age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.lattice import AreaRanges, Array, Edge, Lattice, Node, Step, table_of
from ilba.attack.published import PublishedTables
from ilba.cells.codes import CodeLists, typed_labels
from ilba.design.design import MASKED, Design, Selection
from ilba.design.population import Population
from ilba.design.tables import selections
from ilba.errors import InputError, listing
from ilba.release import Release
from ilba.release.coarser import label_map
from ilba.release.telling import leaks
from ilba.tables.finest import FinestTable

IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Joined:
    """A release or a store: its design and its code lists."""

    name: str
    design: Design
    lists: tuple[pl.DataFrame, ...]
    """the labels of each dimension, as text"""
    population: Population
    method: str = ""
    frames: Mapping[str | Selection, pl.DataFrame] = field(default_factory=dict)
    """the published tables; none for a store that is not itself audited"""
    folder: tuple[str, ...] = ()
    sums: bool = False
    """whether all counts are sums of the published counts of a finer table"""
    move: int = 0
    """how far large counts may have moved when masks were chosen jointly"""
    unlisted: tuple[str, ...] = ()
    """columns of which no code is known"""

    @classmethod
    def of_release(cls, release: Release, name: str, stores: Sequence[Joined] = ()) -> Joined:
        """A release as everybody has it. Only a store lists columns that no table of the release shows."""
        codes = release.code_lists()
        lists, unlisted = _texts(codes), codes.unlisted
        if unlisted:
            wanted = CodeLists.dimensions(release.design)
            fitting = [one.lists for one in stores if one.dimensions == wanted]
            if fitting:
                lists, unlisted = fitting[0], ()
        return cls(
            name,
            release.design,
            lists,
            cls.population_of(release),
            release.manifest["method"],
            {table: release.table(table) for table in release.tables},
            tuple(leaks(release)),
            release.manifest.get("sums", False),
            release.move,
            unlisted,
        )

    @staticmethod
    def population_of(release: Release) -> Population:
        """The population that a release declares."""
        return Population.from_json(release.manifest.get("population", {}))

    @classmethod
    def of_store(cls, finest: FinestTable, name: str, published: bool = False) -> Joined:
        """A store: its code lists, and if `published`, all its tables as they would be released."""
        frames: dict[str | Selection, pl.DataFrame] = {}
        if published:
            shown = PublishedTables.of(finest, finest.method, selections(finest.design))
            for node, rows in shown.tables.items():
                table, kept = table_of(finest.design, node), rows.value > 0
                labels = finest.codes.labels(finest.codes.cell_index(table), [rows.packed[kept]])
                frames[table.name] = pl.DataFrame([*labels, pl.Series(MASKED, rows.value[kept].astype(np.int64))])
        about = finest.design, _texts(finest.codes), finest.population, finest.method
        return cls(name, *about, frames, move=finest.move)

    @property
    def dimensions(self) -> list[list[str]]:
        """The columns of each dimension, by their names here."""
        return CodeLists.dimensions(self.design)


def _texts(codes: CodeLists) -> tuple[pl.DataFrame, ...]:
    return tuple(listed.labels.cast(pl.String) for listed in codes.lists)


@dataclass(frozen=True)
class Words:
    """How the columns and labels of the releases correspond, where their names do not say it."""

    rename: Mapping[str, str]
    """maps a column name of one release to its name in the others"""
    regroup: Mapping[str, Mapping[str, str]]
    """for a column, the coarser label of each finer one"""

    @classmethod
    def of(cls, rename: Mapping[str, str] | None, regroup: Mapping[str, Any] | None) -> Words:
        """Read what the user gave."""
        maps = {column: label_map(column, given) for column, given in (regroup or {}).items()}
        return cls(dict(rename or {}), maps)

    def common(self, column: str) -> str:
        """The common name of a column."""
        return self.rename.get(column, column)

    def coarser(self, source: Joined, column: str, codes: pl.Series) -> Mapping[str, str] | None:
        """The map from the finer labels, if this source has the coarser ones."""
        if column not in self.regroup:
            return None
        given = self.regroup[column]
        if column in self.rename:  # the coarser column has a name of its own
            return given
        here = set(codes.drop_nulls())
        fine, coarse = here <= set(given), here <= set(given.values())
        if coarse and not fine:
            return given
        if fine and (not coarse or all(to == one for one, to in given.items() if to in here)):
            return None
        if coarse:
            raise InputError(
                f"the labels of {column!r} in {source.name} mix finer and coarser labels of regroup= (--regroup). "
                f"Build the coarser table with a column name of its own, and say with rename= (--rename) what it "
                f"is in the others."
            )
        strange = sorted(here - set(given)) if here & set(given) else sorted(here - set(given.values()))
        raise InputError(
            f"regroup= (--regroup) does not name the labels {listing(strange, 6)} of {column!r} in {source.name}. Name "
            f"all finer labels there, each with its coarser one."
        )


class Partition(NamedTuple):
    """Groups of labels of a dimension: the group of each label, the first label of each group, and its name."""

    of: IntArray
    first: IntArray
    labels: pl.DataFrame


class CommonDimension:
    """One dimension of the common refinement: its finest labels, and the partitions that the releases use."""

    def __init__(self, columns: Sequence[str], labels: pl.DataFrame) -> None:
        self.columns, self.labels = list(columns), labels
        self.partitions: list[Partition] = []
        self._known: dict[bytes, int] = {}
        self.partition(np.zeros(labels.height, dtype=np.int64), pl.DataFrame())

    def partition(self, group: IntArray, names: pl.DataFrame) -> int:
        """The number of a partition; 0 is the total. `names` has a row for each finest label."""
        _, first, of = np.unique(group, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        groups = rank[of.reshape(-1)].astype(np.int64)
        key = groups.tobytes()
        if key not in self._known:
            self._known[key] = len(self.partitions)
            begins = first[order].astype(np.int64)
            labels = names[pl.Series(begins.astype(np.uint32))] if names.width else names
            self.partitions.append(Partition(groups, begins, labels))
        return self._known[key]

    def meet(self, numbers: Sequence[int]) -> int:
        """The coarsest partition that refines all of these."""
        distinct = list(dict.fromkeys(numbers))
        for one in distinct:
            if all(self.refines(one, other) for other in distinct):
                return one
        together = np.stack([self.partitions[number].of for number in distinct], axis=1)
        _, groups = np.unique(together, axis=0, return_inverse=True)
        return self.partition(groups.reshape(-1).astype(np.int64), self.labels)

    def refines(self, fine: int, coarse: int) -> bool:
        """Whether each group of one partition lies within a group of the other."""
        below, above = self.partitions[fine], self.partitions[coarse]
        return bool((above.of == above.of[below.first][below.of]).all())

    def named(self, number: int, group: int) -> str:
        """A group in words, such as `town t05`."""
        labels = self.partitions[number].labels
        column = labels.columns[-1]
        recurs = labels[column].n_unique() < labels.height
        path = labels.row(group)[0 if recurs else -1 :]
        return f"{column} {' > '.join('(missing)' if one is None else str(one) for one in path)}"


class JointLattice(Lattice):
    """The tables of all releases, by the partition of each dimension, with their common refinement `base`."""

    def __init__(self, dimensions: Sequence[CommonDimension], nodes: Sequence[Node]) -> None:
        self.dimensions = list(dimensions)
        released = list(dict.fromkeys(nodes))
        self.base = tuple(d.meet(numbers) for d, numbers in zip(dimensions, zip(*released, strict=True), strict=True))
        self.nodes = sorted({*released, self.base}, key=lambda node: (self.cells(node), node), reverse=True)

    def full_shape(self, node: Node) -> tuple[int, ...]:
        """The size of each axis; the first dimension is the last axis."""
        first, *rest = (len(d.partitions[number].first) for d, number in zip(self.dimensions, node, strict=True))
        return (*rest, first)

    def shape(self, node: Node) -> tuple[int, ...]:
        """The size of each dimension except the first."""
        return self.full_shape(node)[:-1]

    def cells(self, node: Node) -> int:
        """The number of cells of a table."""
        return int(np.prod(self.full_shape(node), dtype=object))

    def finer(self, child: Node, parent: Node) -> bool:
        """Whether one table adds up to another one, or is the same."""
        return all(
            a == b or self._refines[number][a, b] for number, (a, b) in enumerate(zip(child, parent, strict=True))
        )

    @cached_property
    def _refines(self) -> list[Array]:
        return [
            np.array([[d.refines(a, b) for b in range(len(d.partitions))] for a in range(len(d.partitions))])
            for d in self.dimensions
        ]

    @cached_property
    def edges(self) -> list[Edge]:
        """The cover relation, finest children first."""
        below: Array = np.array([[p != c and self.finer(c, p) for c in self.nodes] for p in self.nodes])
        reach: Array = below.astype(np.float32)
        found = np.argwhere(below & ~((reach @ reach) > 0))
        edges = [Edge(self.nodes[parent], self.nodes[child]) for parent, child in found]
        return sorted(edges, key=lambda e: (self.cells(e.child), self.cells(e.parent), e), reverse=True)

    def steps(self, edge: Edge, rows: AreaRanges) -> list[Step]:
        """The steps that sum the child's cells into the parent's; always for all areas."""
        steps = []
        for number, (above, below) in enumerate(zip(edge.parent, edge.child, strict=True)):
            if above == below:
                continue
            parts = self.dimensions[number].partitions
            places = parts[above].of[parts[below].first]
            axis = len(self.dimensions) - 1 if number == 0 else number - 1
            order = None if (np.diff(places) >= 0).all() else np.argsort(places, kind="stable").astype(np.int64)
            runs = places if order is None else places[order]
            starts = np.flatnonzero(np.diff(runs, prepend=-1)).astype(np.int64)
            whole = len(parts[above].first) == 1
            steps.append(Step(axis, None, None) if whole else Step(axis, starts, places, order))
        return steps

    def name(self, node: Node, place: int) -> str:
        """A cell in words."""
        *rest, first = (int(i) for i in np.unravel_index(place, self.full_shape(node)))
        words = [
            dimension.named(number, group)
            for dimension, number, group in zip(self.dimensions, node, [first, *rest], strict=True)
            if number
        ]
        return ", ".join(words) or "the total"

    def labels(self, node: Node, places: IntArray) -> list[pl.Series]:
        """The label columns of some cells."""
        *rest, first = np.unravel_index(places, self.full_shape(node))
        columns: list[pl.Series] = []
        for dimension, number, group in zip(self.dimensions, node, [first, *rest], strict=True):
            if number:
                columns += dimension.partitions[number].labels[pl.Series(group.astype(np.uint32))].get_columns()
        return columns


class Placed:
    """A release on the common refinement: its tables, with code lists that all releases share."""

    def __init__(self, source: Joined, dimensions: Sequence[CommonDimension], words: Words) -> None:
        self.source, self.dimensions = source, dimensions
        self.homes: list[int] = []
        """the dimension of the refinement to which each dimension of the release belongs"""
        self._rows: list[pl.DataFrame] = []
        for columns, listed in zip(source.dimensions, source.lists, strict=True):
            home, rows = projected(source, columns, listed, dimensions, words)
            self.homes.append(home)
            self._rows.append(rows)
        self.codes = CodeLists.of(source.design, [rows.unique() for rows in self._rows], source.unlisted)
        if source.design.cells == "grid":
            self._complete()
        self._numbers = [c.numbers(rows) for c, rows in zip(self.codes.lists, self._rows, strict=True)]
        self.published = PublishedTables.from_frames(self.codes, source.frames, source.method, source.move)
        self.nodes = {node: self._common(node) for node in self.published.tables}
        """the node of each table in the joint lattice"""
        lattice = self.published.lattice
        self.unshown: dict[Node, Node] = {}
        """the same of the finest cells, if they are not published but bounded by sums of masks"""
        if self.published.by_masks and self.published.may_miss and not lattice.baseless:
            self.unshown[lattice.base] = self._common(lattice.base)

    def _complete(self) -> None:
        """Raise an error if a release declares complete code lists (grid reading) and others have more codes."""
        for columns, listed, here in zip(self.source.dimensions, self.source.lists, self.codes.lists, strict=True):
            other = here.labels.join(listed, on=columns, how="anti", nulls_equal=True)
            if other.height:
                raise InputError(
                    f"{self.source.name} declares its code lists complete (cells='grid'), and the others have "
                    f"{listing([' > '.join(map(str, row)) for row in other.rows()], 6)} in {listing(columns)}. It "
                    f"counts different people, or its labels differ: regroup= (--regroup) says which label is which."
                )

    def _common(self, node: Node) -> Node:
        """The partitions of a table."""
        found = []
        for number, dimension in enumerate(self.dimensions):
            mine = [d for d, home in enumerate(self.homes) if home == number and node[d]]
            if not mine:
                found.append(0)
                continue
            group = np.zeros(dimension.labels.height, dtype=np.int64)
            names = []
            for d in mine:
                listed = self.codes.lists[d]
                group = group * listed.size(node[d]) + listed.nodes[node[d]][self._numbers[d]]
                names.append(self._rows[d].select(listed.columns[: node[d]]))
            unique = pl.concat(names, how="horizontal")
            found.append(dimension.partition(group, typed_labels(unique)))
        return tuple(found)

    def to_common(self, node: Node, values: Array, lattice: JointLattice) -> Array:
        """The values of a table's cells, in the order of the joint lattice."""
        place, index = (self.nodes | self.unshown)[node], []
        for d in (*range(1, len(self.homes)), 0):
            home, listed = self.homes[d], self.codes.lists[d]
            first = self.dimensions[home].partitions[place[home]].first
            digits = listed.nodes[node[d]][self._numbers[d][first]] if node[d] else np.zeros(1, dtype=np.int64)
            index.append(_along(digits, home, len(self.dimensions)))
        return np.array(np.broadcast_to(values[tuple(index)], lattice.full_shape(place)))

    def from_common(self, node: Node, values: Array) -> Array:
        """Values of the joint lattice, in the order of this release's cells. Only if the release is `straight`."""
        place, index = self.nodes[node], []
        for home in (*range(1, len(self.dimensions)), 0):
            mine = [d for d, other in enumerate(self.homes) if other == home and node[d]]
            if not mine:
                index.append(_along(np.zeros(1, dtype=np.int64), 0, len(self.homes)))
                continue
            (d,) = mine
            groups = np.empty(self.codes.lists[d].size(node[d]), dtype=np.int64)
            groups[self.codes.lists[d].nodes[node[d]][self._numbers[d]]] = (
                self.dimensions[home].partitions[place[home]].of
            )
            index.append(_along(groups, d, len(self.homes)))
        return np.array(values[tuple(index)])

    @property
    def straight(self) -> bool:
        """Whether each dimension of the release belongs to a different dimension of the refinement."""
        return len(set(self.homes)) == len(self.homes)


def _along(values: IntArray, dimension: int, number: int) -> IntArray:
    """An index along the axis of a dimension: the first one is the last axis."""
    shape = [1] * number
    shape[dimension - 1] = len(values)
    return values.reshape(shape)


def projected(
    source: Joined, columns: Sequence[str], listed: pl.DataFrame, dimensions: Sequence[CommonDimension], words: Words
) -> tuple[int, pl.DataFrame]:
    """The dimension of these columns of a source, and their label for each of its finest labels, as text."""
    common = [words.common(column) for column in columns]
    home = next(number for number, d in enumerate(dimensions) if set(common) <= set(d.columns))
    rows = []
    for column, name in zip(columns, common, strict=True):
        finest = dimensions[home].labels[name].cast(pl.String)
        given = words.coarser(source, column, listed[column])
        rows.append((finest if given is None else _regrouped(finest, given)).rename(column))
    found = pl.DataFrame(rows)
    strange = listed.select(columns).join(found, on=columns, how="anti", nulls_equal=True)
    if strange.height:
        raise InputError(
            f"{source.name} has {listing([' > '.join(map(str, row)) for row in strange.rows()], 6)} in "
            f"{listing(columns)}, and no finer list says what they contain. Give the store with all columns as stores= "
            f"(--store); where labels were put together, say with regroup= (--regroup) which belongs to which."
        )
    return home, found


def _regrouped(finest: pl.Series, given: Mapping[str, str]) -> pl.Series:
    """The coarser label of each of these finer ones."""
    absent = sorted(set(finest.drop_nulls()) - set(given))
    if absent:
        raise InputError(
            f"regroup= (--regroup) does not say where the codes {listing(absent, 6)} of {finest.name!r} belong."
        )
    return finest.replace_strict(given, return_dtype=pl.String)


def refine(releases: Sequence[Joined], stores: Sequence[Joined], words: Words) -> list[CommonDimension]:
    """The dimensions of the common refinement: the longest paths of columns, each with all known labels."""
    everybody = [*stores, *releases]
    for one in releases:
        if one.unlisted and len(everybody) > 1:
            raise InputError(
                f"{one.name} names no code of {listing(one.unlisted)}, which none of its tables shows. Releases are "
                f"audited together only if all codes are known. Give its store: stores= (--store)."
            )
    known = {column for one in everybody for column in one.design.columns}
    for column in words.rename.values():
        if column not in known:
            raise InputError(f"rename= (--rename) names {column!r}, which no release and no store has.")
    groups: list[list[str]] = []
    paths = [[words.common(column) for column in path] for one in everybody for path in one.dimensions]
    for path in sorted(paths, key=len, reverse=True):  # stable sort: stores come before releases
        near = [group for group in groups if set(group) & set(path)]
        if not near:
            groups.append(path)
        elif len(near) > 1 or not set(path) <= set(near[0]):
            raise InputError(
                f"the columns {listing(path)} and {listing(near[0])} overlap, and it is unknown how they nest. Give a "
                f"store that has {listing(dict.fromkeys([*near[0], *path]))} in one hierarchy as stores= (--store)."
            )
    _same_spelling(releases, stores, words)
    return [CommonDimension(group, _labels(group, everybody, words)) for group in groups]


def _labels(group: Sequence[str], everybody: Sequence[Joined], words: Words) -> pl.DataFrame:
    """All finest labels of a dimension, from the sources that have all its columns and no regrouped one."""
    found = []
    for one in everybody:
        for path, listed in zip(one.dimensions, one.lists, strict=True):
            common = [words.common(column) for column in path]
            if set(common) == set(group) and all(words.coarser(one, c, listed[c]) is None for c in path):
                found.append(listed.rename(dict(zip(path, common, strict=True))).select(group))
    if not found:
        raise InputError(
            f"no release and no store lists the finer labels of {listing(group)}. Give the finer store as stores= "
            f"(--store)."
        )
    return typed_labels(pl.concat(found).unique()).sort(group)


def _same_spelling(releases: Sequence[Joined], stores: Sequence[Joined], words: Words) -> None:
    """Refuse columns of one name whose labels differ both ways, unless a store has all of them.

    Such labels may have different spellings (01 and 1) or groupings. Taken as they are, they would lead to false
    proofs.
    """

    def spelled(sources: Sequence[Joined]) -> dict[str, list[tuple[str, set[str]]]]:
        found: dict[str, list[tuple[str, set[str]]]] = {}
        for one in sources:
            for path, listed in zip(one.dimensions, one.lists, strict=True):
                for column in path:
                    codes = set(listed[column].drop_nulls())
                    given = words.coarser(one, column, listed[column])
                    if given is None:
                        found.setdefault(words.common(column), []).append((one.name, codes))
        return found

    in_stores = spelled(stores)
    for column, lists in spelled(releases).items():
        widest_name, widest = max(lists, key=lambda pair: len(pair[1]))
        for name, codes in lists:
            if codes <= widest:
                continue
            if any(codes | widest <= all_of for _, all_of in in_stores.get(column, [])):
                continue
            raise InputError(
                f"the labels of {column!r} differ: {name} has {listing(sorted(codes - widest), 4)}, {widest_name} has "
                f"{listing(sorted(widest - codes), 4)}. If these are two spellings or bands of the same, say "
                f"with regroup= (--regroup) which finer label belongs to which coarser one. If both lists are right, "
                f"give the store that has all labels as stores= (--store)."
            )


def truth_of(store: FinestTable, source: Joined, lattice: JointLattice, words: Words) -> IntArray | None:
    """The true counts of the base cells (confidential); None if the store is too coarse for them."""
    dimensions = lattice.dimensions
    named = {words.common(column): column for column in source.design.columns}
    frame = store.frame
    place: Any = np.zeros(frame.height, dtype=np.int64)
    for number in (*range(1, len(dimensions)), 0):
        dimension, partition = dimensions[number], lattice.base[number]
        parts = dimension.partitions[partition]
        if not partition:
            continue
        if not set(dimension.columns) <= set(named):
            return None
        labels = dimension.labels.cast(pl.String)
        for path, listed in zip(source.dimensions, source.lists, strict=True):
            for column in path:
                given = words.coarser(source, column, listed[column])
                name = words.common(column)
                if given is None or name not in labels.columns:
                    continue
                coarser = _regrouped(labels[name], given)
                if coarser.n_unique() < labels[name].n_unique():
                    return None  # bands are coarser than the base; another spelling is not
                labels = labels.with_columns(coarser)
        here = labels.with_row_index("\0")
        rows = frame.select(pl.col(named[column]).cast(pl.String).alias(column) for column in dimension.columns)
        found = rows.join(here, on=dimension.columns, how="left", nulls_equal=True, maintain_order="left")["\0"]
        if found.null_count():  # a combination of columns from several dimensions that no list holds
            return None
        place = place * len(parts.first) + parts.of[found.to_numpy()]
    counted = np.bincount(place, frame["N"].to_numpy(), minlength=lattice.cells(lattice.base))
    return counted.astype(np.int64).reshape(lattice.full_shape(lattice.base))
