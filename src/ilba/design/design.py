"""The vocabulary of a release: hierarchies, keys, the threshold, and which table is asked for.

All names, ranks and levels are checked here once for all other modules.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import quote, unquote

from ilba.errors import InputError, listing, nearest

Cells: TypeAlias = Literal["observed", "grid"]
Names: TypeAlias = str | Sequence[str]
HKey: TypeAlias = Names | Mapping[str, Names]
Level: TypeAlias = int | str | Mapping[str, int | str]

COUNT, MASKED = "N", "N_masked"
LARGEST = 100_000
"""the largest K: a word is computed for each count below it"""
RESERVED = (COUNT, MASKED, "type1", "type2", "loss")


@dataclass(frozen=True)
class Origins:
    """Where the parts of a design come from: a person declared them, or they were proposed from the data."""

    keys: Literal["declared", "proposed"] = "declared"
    dropped: tuple[str, ...] = ()
    """columns that were left out because of their number of values in this data"""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {"keys": self.keys, "dropped": list(self.dropped)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Origins:
        """Read them from plain values."""
        return cls("proposed" if plain["keys"] == "proposed" else "declared", tuple(map(str, plain["dropped"])))


@dataclass(frozen=True)
class Hierarchy:
    """Columns from coarse to fine, such as LA1 > LA2 > LA3 > OA.

    Parameters
    ----------
    name : str
        The name of the hierarchy, such as "area".
    columns : tuple of str
        Its columns from coarse to fine.
    """

    name: str
    columns: tuple[str, ...]

    def level(self, wanted: object) -> int:
        """Find the number of a level.

        Parameters
        ----------
        wanted : int or str
            A number from 1, the name of a column, or 0 for no level.

        Returns
        -------
        int
            The number of the level.

        Raises
        ------
        InputError
            The hierarchy has no such level.
        """
        if isinstance(wanted, str):
            if wanted in self.columns:
                return self.columns.index(wanted) + 1
            if not wanted.isdecimal():
                raise InputError(
                    f"level={wanted!r} is not a column of the hierarchy.{nearest(wanted, self.columns)} {self}"
                )
            wanted = int(wanted)
        number = _whole(wanted)
        if number is None or not 0 <= number <= len(self.columns):
            raise InputError(f"level={wanted!r} is not in this store. {self}")
        return number

    def __str__(self) -> str:
        steps = ", ".join(f"{rank} {column}" for rank, column in enumerate(self.columns, 1))
        return f"Its levels are 0 (none), {steps}."


@dataclass(frozen=True)
class Selection:
    """One table: a level for each hierarchy, and the keys in the requested order."""

    levels: tuple[int, ...]
    keys: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    """the columns of each dimension: of a hierarchy from coarse to fine, of a key itself"""
    hierarchies: tuple[str, ...]
    """the names of the hierarchies of the design, in its order"""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All label columns, in the order of the table."""
        return tuple(column for path in self.paths for column in path)

    @property
    def finest(self) -> tuple[str, ...]:
        """The finest column of each hierarchy that the table has."""
        return tuple(path[-1] for path in self.paths[: len(self.paths) - len(self.keys)])

    @property
    def by_name(self) -> dict[str, int]:
        """Its levels by the names of the hierarchies.

        >>> Design.of({"area": ["LA1", "LA2"], "branch": ["section"]}, []).select("LA2").by_name
        {'area': 2, 'branch': 0}
        """
        return dict(zip(self.hierarchies, self.levels, strict=True))

    def is_within(self, other: Selection) -> bool:
        """Whether this table can be summed from another one of the same design.

        >>> design = Design.of(["LA1", "LA2"], ["sex", "age"])
        >>> design.select("LA1", ["age"]).is_within(design.select("LA2", ["sex", "age"]))
        True
        """
        coarser = all(mine <= theirs for mine, theirs in zip(self.levels, other.levels, strict=True))
        return coarser and {*self.keys} <= {*other.keys}

    @property
    def name(self) -> str:
        """The table's own name: the finest column of each hierarchy, then the keys.

        >>> Design.of(["LA1", "LA2"], ["sex", "age"]).select("LA2", ["age"]).name
        'LA2.age'
        """
        areas = "+".join(plain_name(column) for column in self.finest) or "all"
        return ".".join([areas, *(plain_name(key) for key in self.keys)])


def file_name(table: str) -> str:
    """Return the name of a table's files without the ending: its name, shortened for file systems if needed.

    >>> file_name("LA2.age"), len(file_name("long." * 100))
    ('LA2.age', 167)
    """
    if len(table) <= 200:
        return table
    return f"{table[:150]}~{hashlib.sha256(table.encode()).hexdigest()[:16]}"


def plain_name(name: str) -> str:
    """Quote a column's name as a part of a table's name."""
    return "%61ll" if name == "all" else quote(name, safe="").replace(".", "%2E")


def columns_named(table: str) -> frozenset[str]:
    """Return the columns in a table's name: the same for keys in any order.

    >>> columns_named("LA2.age.sex") == columns_named("LA2.sex.age")
    True
    """
    return frozenset(re.split(r"[.+]", table))


def shown_name(table: str) -> str:
    """Return the name of a table for a person to read: its columns as they are.

    >>> shown_name("all.%C3%96%C4%9Frenim%20durumu")
    'all.Öğrenim durumu'
    """
    return unquote(table)


@dataclass(frozen=True)
class Design:
    """The variables of a table and the threshold of its masks.

    Parameters
    ----------
    hierarchies : tuple of Hierarchy
        The hierarchies.
    keys : tuple of str
        The categorical variables that are in no hierarchy.
    threshold : int
        The threshold K.
    cells : {"observed", "grid"}, default "observed"
        The reading of S: see `ilba.build`.

    Examples
    --------
    >>> design = Design.of(["LA1", "LA2"], ["gender"], mask_thr=5)
    >>> design.columns
    ('LA1', 'LA2', 'gender')
    >>> design.select("LA2", "gender").levels
    (2,)
    """

    hierarchies: tuple[Hierarchy, ...]
    keys: tuple[str, ...]
    threshold: int
    cells: Cells = "observed"

    @classmethod
    def of(
        cls,
        hkey: HKey,
        key: Names,
        mask_thr: int = 5,
        cells: Cells = "observed",
        hkey_rank: Sequence[float] | None = None,
    ) -> Design:
        """Make a design from the arguments of a user, and check them.

        Parameters
        ----------
        hkey : str, sequence of str or dict
            The columns of the hierarchy from coarse to fine, or a mapping from names to columns for several.
        key : str or sequence of str
            The categorical variables.
        mask_thr : int, default 5
            The threshold K, at least 3.
        cells : {"observed", "grid"}, default "observed"
            The reading of S: see `ilba.build`.
        hkey_rank : sequence of float, optional
            The rank of each column of `hkey`, if they are not in the order from coarse to fine.

        Returns
        -------
        Design
            The design.

        Raises
        ------
        InputError
            A column is named twice or has a reserved name, or an argument is not what was expected.
        """
        hierarchies = hierarchies_of(hkey, hkey_rank)
        keys = names_of("key", key)
        columns = [column for hierarchy in hierarchies for column in hierarchy.columns]
        both = [column for column in keys if column in columns]
        if both:
            raise InputError(f"{listing(both)} is in hkey and in key. Leave it in one of them.")
        for column in (*columns, *keys):
            if column in RESERVED:
                raise InputError(
                    f"a column called {column!r} would collide with the columns of the result. Rename it in the data."
                )
            if column == "*" or (column.startswith("^") and column.endswith("$")):
                raise InputError(f"a column called {column!r} would be taken for a pattern. Rename it in the data.")
        if cells not in get_args(Cells):
            raise InputError(
                f"cells={cells!r} is not known.{nearest(cells, get_args(Cells))} "
                f"It is 'observed' (as the R package counts) or 'grid' (as the paper defines)."
            )
        return cls(hierarchies, keys, threshold_of(mask_thr), cells)

    @property
    def columns(self) -> tuple[str, ...]:
        """All label columns: the hierarchies from coarse to fine, then the keys."""
        return (*(column for hierarchy in self.hierarchies for column in hierarchy.columns), *self.keys)

    def select(self, level: Level = 0, key: Names | None = ()) -> Selection:
        """Name the table at a level by some keys.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order of its columns.

        Returns
        -------
        Selection
            The levels, keys and columns of the table, with its name.

        Raises
        ------
        InputError
            There is no such level or key.
        """
        levels = self._levels(level)
        keys = names_of("key", () if key is None else key)
        for name in keys:
            if name not in self.keys:
                if name in self.columns:
                    raise InputError(f"{name!r} belongs to a hierarchy: choose it with level={name!r}, not as a key.")
                known = f"Its keys are {listing(self.keys)}." if self.keys else "It has no keys."
                raise InputError(f"{name!r} is not a key of this store.{nearest(name, self.keys)} {known}")
        areas = [h.columns[:number] for h, number in zip(self.hierarchies, levels, strict=True) if number]
        return Selection(levels, keys, (*areas, *((name,) for name in keys)), tuple(h.name for h in self.hierarchies))

    @property
    def finest(self) -> Selection:
        """The finest table: every hierarchy at its finest level, by all keys."""
        return self.at([len(hierarchy.columns) for hierarchy in self.hierarchies], self.keys)

    def at(self, levels: Sequence[int], keys: Sequence[str]) -> Selection:
        """Name the table at these levels, its keys in the order of the design.

        Parameters
        ----------
        levels : sequence of int
            A level for each hierarchy.
        keys : sequence of str
            The keys of the table, in any order.

        Returns
        -------
        Selection
            The levels, keys and columns of the table, with its name.

        Examples
        --------
        >>> Design.of(["LA1", "LA2"], ["sex", "age"]).at([2], ["age", "sex"]).name
        'LA2.sex.age'
        """
        by_name = {hierarchy.name: level for hierarchy, level in zip(self.hierarchies, levels, strict=True)}
        asked = names_of("key", keys)
        ordered = [key for key in self.keys if key in asked]
        return self.select(by_name, ordered if len(ordered) == len(asked) else asked)  # refuses keys that are unknown

    def _levels(self, level: Level) -> tuple[int, ...]:
        names = [hierarchy.name for hierarchy in self.hierarchies]
        if isinstance(level, Mapping):
            for name in level:
                if name not in names:
                    raise InputError(
                        f"level names the hierarchy {name!r}, which this store does not have."
                        f"{nearest(name, names)} It has {listing(names)}."
                    )
            return tuple(h.level(level.get(h.name, 0)) for h in self.hierarchies)
        if len(self.hierarchies) == 1:
            return (self.hierarchies[0].level(level),)
        for place, hierarchy in enumerate(self.hierarchies):
            if level in hierarchy.columns:
                return tuple(hierarchy.level(level) if i == place else 0 for i in range(len(names)))
        if _whole(level) == 0:
            return tuple(0 for _ in names)
        columns = {column: h.name for h in self.hierarchies for column in h.columns}
        asked = [part.strip() for part in level.split(",")] if isinstance(level, str) else []
        told: dict[str, str | int] = {columns[one]: one for one in asked if one in columns}
        if not asked or len(told) < len(asked):  # an unknown column, or two of one hierarchy
            told = dict.fromkeys(names, 1)
        example = ", ".join(f"{name!r}: {one!r}" for name, one in told.items())
        typed = ",".join(f"{name}={one}" for name, one in told.items())
        raise InputError(
            f"level={level!r} does not say which hierarchy. This store has {listing(names)}: give level={{{example}}} "
            f"(--level {typed})."
        )

    def to_json(self) -> dict[str, Any]:
        """Give the design as plain values, for a file.

        Returns
        -------
        dict
            Hierarchies, keys, threshold and cells.
        """
        return {
            "hierarchies": [{"name": h.name, "columns": list(h.columns)} for h in self.hierarchies],
            "keys": list(self.keys),
            "threshold": self.threshold,
            "cells": self.cells,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Design:
        """Read a design from plain values.

        Parameters
        ----------
        plain : dict
            The result of `to_json`.

        Returns
        -------
        Design
            The same design.
        """
        hkey = {str(h["name"]): [str(c) for c in h["columns"]] for h in plain["hierarchies"]}
        return cls.of(hkey, [str(k) for k in plain["keys"]], plain["threshold"], plain["cells"])


def hierarchies_of(hkey: HKey, hkey_rank: Sequence[float] | None = None) -> tuple[Hierarchy, ...]:
    """The hierarchies given as one list, or as a mapping from a name to a list."""
    if not isinstance(hkey, Mapping):
        columns = names_of("hkey", hkey)
        if not columns:
            raise InputError("hkey is empty: name at least one column, such as hkey=['region'].")
        return (Hierarchy("area", _ranked(columns, hkey_rank)),)
    if hkey_rank is not None:
        raise InputError("hkey_rank is only for one hierarchy given as a list; order several from coarse to fine.")
    if not hkey:
        raise InputError("hkey is empty: name at least one hierarchy, such as hkey={'area': ['region', 'town']}.")
    hierarchies = tuple(Hierarchy(str(name), names_of(f"hkey[{name!r}]", cols)) for name, cols in hkey.items())
    seen: set[str] = set()
    for hierarchy in hierarchies:
        if not hierarchy.columns:
            raise InputError(f"hkey[{hierarchy.name!r}] is empty: name its columns from coarse to fine.")
        twice = seen.intersection(hierarchy.columns)
        if twice:
            raise InputError(f"{listing(sorted(twice))} is in two hierarchies. Leave it in one of them.")
        seen.update(hierarchy.columns)
    return hierarchies


def _ranked(columns: tuple[str, ...], ranks: Sequence[float] | None) -> tuple[str, ...]:
    if ranks is None:
        return columns
    ranks = list(ranks)
    if len(ranks) != len(columns):
        raise InputError(
            f"hkey_rank has {len(ranks)} ranks for {len(columns)} columns. Give one for each of {listing(columns)}."
        )
    if any(isinstance(rank, str) or rank != rank for rank in ranks):
        raise InputError("hkey_rank contains a value that is not a number. Give ranks such as [2, 1, 4, 3].")
    if len(set(ranks)) != len(ranks):
        raise InputError("hkey_rank has the same rank twice. Give each column its own, 1 for the coarsest.")
    return tuple(column for _, column in sorted(zip(ranks, columns, strict=True)))


def names_of(argument: str, given: Names) -> tuple[str, ...]:
    """One name or several as a tuple, each a string and none twice."""
    if isinstance(given, Mapping) or not isinstance(given, str | Sequence):
        try:
            given = list(given)
        except TypeError:
            raise InputError(f"{argument}={given!r} is not a list of column names.") from None
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"{argument} contains {name!r}, which is not the name of a column.")
    if len(set(names)) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise InputError(f"{argument} names {listing(sorted(twice))} twice.")
    return names


def threshold_of(mask_thr: object) -> int:
    """K as a whole number of at least 3."""
    number = _whole(mask_thr)
    if number is None or number < 3:
        raise InputError(f"mask_thr={mask_thr!r} is not a whole number of at least 3. The usual ones are 3, 5 and 10.")
    if number > LARGEST:
        raise InputError(f"mask_thr={mask_thr!r} is too large: at most {LARGEST:,}. The usual ones are 3, 5 and 10.")
    return number


def _whole(value: object) -> int | None:
    """The value as an int if it is a whole number (5, numpy's 5, 5.0), otherwise None; True is not a number here."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return int(value) if isinstance(value, float) and value.is_integer() else None
