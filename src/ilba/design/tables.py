"""Selections of tables: their names, all of a cube, or a list."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from urllib.parse import unquote

from ilba.design.design import Design, Level, Names, Selection, names_of, plain_name, shown_name
from ilba.errors import InputError, listing, nearest

MOST_TABLES = 100_000
Tables: TypeAlias = str | Selection | Iterable[str | Selection]


def selections(
    design: Design, levels: Iterable[Level] | None = None, keys: Names | None = None, max_keys: int | None = None
) -> list[Selection]:
    """The tables of a cube: each level (each combination of levels with several hierarchies) by each subset of keys.

    >>> design = Design.of(["LA1", "LA2"], ["sex", "age"])
    >>> [table.name for table in selections(design, levels=["LA2"], max_keys=1)]
    ['LA2', 'LA2.sex', 'LA2.age']
    """
    if levels is None:
        _refuse_endless(design, keys, max_keys)
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
    return [design.at(combination, subset) for combination in combinations for subset in subsets]


def planned_tables(design: Design, plan: Tables, wanted: list[Selection]) -> list[Selection]:
    """The tables for which a release of the wanted ones chooses masks: all, unless the plan names some.

    Where all are too many to list, a release needs a plan, so the wanted tables are it.

    >>> design = Design.of(["town"], ["sex"])
    >>> [table.name for table in planned_tables(design, "all", wanted_tables(design, ["town"]))]
    ['all', 'all.sex', 'town', 'town.sex']
    """
    is_all = isinstance(plan, str) and plan == "all"
    return wanted if is_all and number_of_tables(design) > MOST_TABLES else wanted_tables(design, plan)


def number_of_tables(design: Design, keys: Names | None = None, max_keys: int | None = None) -> int:
    """The number of tables of a design: each combination of levels by each subset of keys."""
    chosen = len(design.keys) if keys is None else len(names_of("keys", keys))
    most = chosen if not isinstance(max_keys, int) else min(max_keys, chosen)
    number = math.prod(len(h.columns) + 1 for h in design.hierarchies)
    return number * sum(math.comb(chosen, size) for size in range(most + 1))


def _refuse_endless(design: Design, keys: Names | None, max_keys: int | None) -> None:
    """Refuse to list all tables of a design with many hierarchies."""
    number = number_of_tables(design, keys, max_keys)
    if number > MOST_TABLES:
        raise InputError(
            f"this design has {number:,} tables, too many to list. Name those that you want as tables= (--tables), or "
            f"take fewer with max_keys= (--max-keys). A release needs them as plan= (--plan) too: masks are chosen for "
            f"these."
        )


def coarser(design: Design, tables: Iterable[Selection]) -> list[Selection]:
    """The tables that can be summed from one of these, in the order of `selections`.

    A table with more than `MOST_TABLES` below it gives only itself.

    >>> design = Design.of(["LA1", "LA2"], ["sex", "age"])
    >>> [table.name for table in coarser(design, [design.select("LA1", ["age"])])]
    ['all', 'all.age', 'LA1', 'LA1.age']
    """
    found: set[tuple[tuple[int, ...], tuple[str, ...]]] = set()
    for table in tables:
        found.add((table.levels, table.keys))
        if math.prod(level + 1 for level in table.levels) * 2 ** len(table.keys) <= MOST_TABLES:
            subsets = [s for size in range(len(table.keys) + 1) for s in itertools.combinations(table.keys, size)]
            found.update(itertools.product(itertools.product(*(range(level + 1) for level in table.levels)), subsets))
    place = {key: number for number, key in enumerate(design.keys)}
    order = sorted(found, key=lambda one: (one[0], len(one[1]), [place[key] for key in one[1]]))
    return [design.at(levels, keys) for levels, keys in order]


def wanted_tables(
    design: Design,
    tables: Tables = "all",
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
) -> list[Selection]:
    """The tables to release: those of a cube or of a list, each once and with its keys in the design's order.

    >>> design = Design.of(["LA1", "LA2"], ["sex", "age"])
    >>> [table.name for table in wanted_tables(design, ["LA2.age.sex", "all"])]
    ['LA2.sex.age', 'all']
    """
    if isinstance(tables, str) and tables == "all":
        return selections(design, levels, keys, max_keys)
    if levels is not None or keys is not None or max_keys is not None:
        raise InputError("tables already lists the tables: leave out levels, keys and max_keys.")
    given = [tables] if isinstance(tables, str | Selection) else list(tables)
    if not given:
        raise InputError("tables is empty. Name at least one table, or give tables='all'.")
    found = [_ordered(design, table if isinstance(table, Selection) else _named(design, table)) for table in given]
    return list(dict.fromkeys(found))


def _ordered(design: Design, table: Selection) -> Selection:
    if len(table.levels) != len(design.hierarchies):
        raise InputError(f"the table {table.name!r} belongs to another design.")
    return design.at(table.levels, table.keys)


def _named(design: Design, name: object) -> Selection:
    """The table with this name, as in `Selection.name`; the keys may be in any order."""
    if not isinstance(name, str):
        raise InputError(f"tables contains {name!r}, which is neither a table nor the name of one, such as 'town.sex'.")
    areas, *keys = _quoted(design, name).split(".")
    levels: dict[str, int | str] = {}
    known = [column for hierarchy in design.hierarchies for column in hierarchy.columns]
    for area in [] if areas == "all" else areas.split("+"):
        column = unquote(area)
        owner = next((h.name for h in design.hierarchies if column in h.columns), None)
        if owner is None or owner in levels:
            raise InputError(
                f"there is no table {name!r}.{nearest(column, known)} A name begins with 'all' or one of "
                f"{listing(known)}, followed by keys: {'.'.join([known[-1], *design.keys[:2]])!r}."
            )
        levels[owner] = column
    for column in map(unquote, keys):
        owner = next((h.name for h in design.hierarchies if column in h.columns), None)
        if owner is not None and owner not in levels:
            both = [level for h in design.hierarchies if (level := {**levels, owner: column}.get(h.name))]
            rest = [key for key in map(unquote, keys) if key not in both]
            named = shown_name(".".join(["+".join(map(plain_name, map(str, both))), *map(plain_name, rest)]))
            raise InputError(f"{column!r} belongs to a hierarchy, not to the keys. Write the table as {named!r}.")
    return design.select(levels, [unquote(key) for key in keys])


def _quoted(design: Design, name: str) -> str:
    """A table's name with the dots of its columns quoted, if it has a part that is no column.

    >>> _quoted(Design.of(["town"], ["sex", "age.band"]), "town.sex.age.band")
    'town.sex.age%2Eband'
    """
    if {unquote(part) for part in re.split(r"[.+]", name)} <= {"all", *design.columns}:
        return name
    dotted = sorted((column for column in design.columns if "." in column), key=len, reverse=True)
    for column in dotted:
        name = re.sub(rf"(?<![^.+]){re.escape(column)}(?![^.+])", plain_name(column), name)
    return name
