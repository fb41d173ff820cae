"""Several waves of one population as one release: every table has time as its last variable.

Nothing is computed across waves here. Every count of a series is in a release.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import cached_property
from itertools import pairwise
from typing import Any

import polars as pl

from ilba.data.codelists import code_columns
from ilba.design.design import MASKED, Design
from ilba.errors import InputError, listing
from ilba.output.wording import LANGUAGES, WordedTable, words
from ilba.release import PublicTable, Release

# How PX, SDMX and readers write times: the letter of the frequency, the pattern, and the PX spelling.
_FREQUENCIES = (
    ("A1", r"(\d{4})"),
    ("H1", r"(\d{4})-?[HS]([12])"),
    ("Q1", r"(\d{4})-?Q([1-4])"),
    ("M1", r"(\d{4})-?M?(0[1-9]|1[0-2])"),
    ("W1", r"(\d{4})-?W(\d{2})"),
    ("D1", r"(\d{4})-(\d{2})-(\d{2})"),
)

_PARTS = {"A1": 1, "H1": 2, "Q1": 4, "M1": 12, "W1": 53}  # of a year, by frequency

_ALIKE = {
    "method": "the method is",
    "threshold": "K is",
    "cells": "the reading of S is",
    "hierarchies": "the hierarchies are",
    "keys": "the keys are",
    "absent": "a row that is not there means",
}
"""what waves of a series have in common, besides the population"""


def frequency(times: Iterable[str]) -> tuple[str, list[str]] | None:
    """The PX frequency that all of these times have, and the times as PX spells them.

    >>> frequency(["2021", "2026"]), frequency(["2026-Q1", "2026-Q3"])
    (('A1', ['2021', '2026']), ('Q1', ['20261', '20263']))
    """
    listed = list(times)
    for letter, pattern in _FREQUENCIES:
        found = [re.fullmatch(pattern, time) for time in listed]
        if found and all(found):
            return letter, ["".join(one.groups()) for one in found if one]
    return None


def timeline(times: Sequence[str]) -> list[float]:
    """Where times stand between the first and the last, from 0 to 1; in equal steps if they are no dates.

    >>> timeline(["2001", "2021", "2026"]), timeline(["2026-Q1", "2026-Q2", "2027-Q1"]), timeline(["a", "b", "c"])
    ([0.0, 0.8, 1.0], [0.0, 0.25, 1.0], [0.0, 0.5, 1.0])
    """
    found = frequency(times)
    at = [float(place) for place in range(len(times))]
    if found and found[0] in _PARTS:
        at = [int(time[:4]) + (int(time[4:] or 1) - 1) / _PARTS[found[0]] for time in found[1]]
    elif found:
        with contextlib.suppress(ValueError):  # no day has this date
            at = [float(date.fromisoformat(time).toordinal()) for time in times]
    return [(one - at[0]) / (at[-1] - at[0] or 1) for one in at]


def time_of(release: Release) -> str:
    """The reference time of a release: its wave, or its period if only that is a time."""
    told = release.manifest.get("population", {})
    wave, period = told.get("wave", ""), told.get("period", "")
    return str(wave if wave and (frequency([wave]) or not frequency([period])) else period or wave)


def population_of(release: Release) -> str:
    """The name of the population, empty if not declared."""
    return str(release.manifest.get("population", {}).get("name", ""))


def unlike(one: Release, other: Release) -> str:
    """Why two releases cannot be in one series; empty if they can."""
    names = [population_of(each) for each in (one, other)]
    times = [time_of(each) for each in (one, other)]
    if names[0] != names[1]:
        return f"the populations are {names[0]!r} and {names[1]!r}."
    if times[0] == times[1]:
        return f"both are of {times[0]!r}."
    for name, called in _ALIKE.items():
        told = [each.manifest[name] for each in (one, other)]
        if told[0] != told[1]:
            if name == "hierarchies":
                told = [[list(hierarchy.columns) for hierarchy in each.design.hierarchies] for each in (one, other)]
            is_order = name == "keys" and sorted(told[0]) == sorted(told[1])
            cure = (
                " Release one of them again with its keys in the order of the other (ilba publish --correction); its "
                "masks stay."
            )
            text = f"{called} {told[0]!r} in {times[0]!r} and {told[1]!r} in {times[1]!r}."
            return text + (cure if is_order else "")
    return ""


def apart(releases: Iterable[Release]) -> list[str]:
    """Why waves of the same population are not one series, in words."""
    waves: dict[str, list[Release]] = {}
    for one in sorted(releases, key=time_of):
        if population_of(one) and time_of(one):
            waves.setdefault(population_of(one), []).append(one)
    return [
        f"the waves of {name!r} are not one series: {reason}"
        for name, found in waves.items()
        for one, other in pairwise(found)
        if time_of(one) != time_of(other) and (reason := unlike(one, other))
    ]


class Series(Release):
    """Several releases of one population, by time.

    Parameters
    ----------
    releases : sequence of Release
        The waves, in any order. They have the same population, variables, method and threshold.

    Raises
    ------
    InputError
        They are not waves of one population.
    """

    def __init__(self, releases: Sequence[Release]) -> None:
        found = sorted(releases, key=time_of)
        if len(found) < 2 or not all(population_of(one) and time_of(one) for one in found):
            raise InputError(
                "a series is two or more releases with the same population and different waves. Declare both when "
                "you build: population=, wave= (--population, --wave)."
            )
        for place, one in enumerate(found[1:]):
            for before in found[: place + 1]:
                if reason := unlike(before, one):
                    raise InputError(
                        f"the releases {listing(str(each.path) for each in found)} are not a series: {reason}"
                    )
        last = found[-1]
        self.waves = {time_of(one): one for one in found}
        self.path = last.path
        self.time = "time"
        while self.time in last.design.columns:
            self.time += "_"
        bounds = [int(one.manifest.get("bound", 0)) for one in found]
        self.manifest = {
            **{name: value for name, value in last.manifest.items() if name not in ("bound", "wave")},
            **({"bound": max(bounds)} if all(bounds) else {}),
            "title": self._timeless(last.manifest["title"]),
            "keys": [*last.manifest["keys"], self.time],
            "rows": "nonzero",
            "created": max(one.manifest["created"] for one in found),
            "texts": {
                lang: {name: self._timeless(text) for name, text in told.items()}
                for lang, told in last.manifest.get("texts", {}).items()
            },
        }
        self.design = Design.from_json(self.manifest)
        self.tables = {}
        for name, table in last.tables.items():
            if all(name in one.tables for one in found):
                here = self.selected(table)
                self.tables[here.name] = here
        self.digests = {}

    def _timeless(self, title: str) -> str:
        """A title without the time of its wave, for the whole series."""
        for time in self.waves:
            title = re.sub(rf"[\s,:\-–(]*\b{re.escape(time)}\b\)?", "", title)
        return title.strip() or "Series"

    def selected(self, table: PublicTable) -> PublicTable:
        """A table of the waves, over time."""
        selection = self.design.select(dict(table.levels), [*table.keys, self.time])
        return PublicTable(selection, table.rows, table.sha256)

    @cached_property
    def codes(self) -> pl.DataFrame:
        """The code lists of all waves, the newest first, and the times."""
        newest = list(reversed(self.waves.values()))
        joined = pl.concat([one.codes for one in newest], how="diagonal").unique(
            ["variable", "code", "parent"], keep="first", maintain_order=True
        )
        said = {f"label_{lang}": words(lang)["time"] for lang in LANGUAGES}
        own = [
            {"variable": self.time, "code": None, **said},
            *({"variable": self.time, "code": time, "label_en": time} for time in self.waves),
        ]
        kinds = dict.fromkeys(["variable", "code", *said], pl.String)
        whole = pl.concat([joined, pl.DataFrame(own, schema=kinds)], how="diagonal")
        return whole.select(code_columns(whole.columns))

    @cached_property
    def nonexistent(self) -> dict[str, pl.DataFrame]:  # type: ignore[override]
        """By time, the codes (variable, code, parent) that the declared lists of its wave do not have.

        A list that was not declared has only published codes, so it does not say what existed.
        """
        own = ["variable", "code", "parent"]
        every, found = self.codes.select(own).drop_nulls("code"), {}
        for time, one in self.waves.items():
            origins = one.manifest.get("origins", {}).get("codes", {})
            declared = [column for column, origin in origins.items() if origin == "declared"]
            ours = every.filter(pl.col("variable").is_in(declared))
            lacking = ours.join(one.codes.select(own), on=own, how="anti", nulls_equal=True)
            if lacking.height:
                found[time] = lacking
        return found

    def table(self, name: str) -> pl.DataFrame:
        """Read a table over all waves.

        Parameters
        ----------
        name : str
            The name of a table of the waves with the time after it, such as "LA3.gender.time".

        Returns
        -------
        polars.DataFrame
            Labels, time and N_masked.

        Raises
        ------
        InputError
            The series has no such table.
        """
        wanted = self.named(name)
        plain = {
            time: one.design.select(dict(wanted.levels), list(wanted.keys[:-1])) for time, one in self.waves.items()
        }
        return self.joined({time: self.waves[time].table(selection.name) for time, selection in plain.items()})

    def joined(self, frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
        """The rows of all waves, each with its time; a label column of two types is text."""
        kinds: dict[str, set[Any]] = {}
        for frame in frames.values():
            for column, kind in frame.schema.items():
                kinds.setdefault(column, set()).add(kind)
        mixed = [column for column, found in kinds.items() if len(found) > 1 and column != MASKED]
        rows = [
            frame.with_columns(pl.col(mixed).cast(pl.String), pl.lit(time).alias(self.time))
            for time, frame in frames.items()
        ]
        columns = [*(column for column in kinds if column != MASKED), self.time, MASKED]
        return pl.concat([frame.select(columns) for frame in rows])

    def content(self, file: str) -> bytes:
        """Read a file of the newest wave.

        Parameters
        ----------
        file : str
            Its path inside the folder.

        Returns
        -------
        bytes
            The checked bytes.
        """
        return list(self.waves.values())[-1].content(file)


def opened(releases: Any) -> Release:
    """A release, or a series of several, from paths or opened releases."""
    if isinstance(releases, list | tuple):
        waves = [one if isinstance(one, Release) else Release(one) for one in releases]
        return waves[0] if len(waves) == 1 else Series(waves)
    return releases if isinstance(releases, Release) else Release(releases)


def time_column(table: WordedTable) -> str | None:
    """The time variable of a table, if it has one."""
    return table.release.time if isinstance(table.release, Series) else None
