"""The days that belong to a wave: the reference time, and the days on which ages are counted. Confidential.

A later wave has later ones. If the file still names those of an earlier wave, all ages are too young, and the release
tells a wrong time.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Mapping
from pathlib import Path

from ilba.data.reading import time_folders
from ilba.errors import StoreError, listing
from ilba.output.series import frequency
from ilba.publication.prepared import Prepared
from ilba.release import MANIFEST, Release

PERIOD = "population.period"
_NAME = "population.name"


def days_of(prepared: Prepared) -> dict[str, str]:
    """The entries of a publication file that name a time of its wave."""
    found = {PERIOD: prepared.said.population.period}
    ages = {name: entry.get("age_on", "") for name, entry in prepared.said.recipe.items() if isinstance(entry, dict)}
    found |= {f"recipe.{name}.age_on": day for name, day in ages.items() if isinstance(day, str)}
    return {entry: day for entry, day in found.items() if day}


def days_kept(prepared: Prepared) -> list[str]:
    """What a person should check: entries that still name the time of an earlier wave.

    Only waves that are times are compared, such as 2025 and 2026: others may count the same day twice, such as
    provisional and final results.
    """
    wave = prepared.said.population.wave
    earlier = [(one, days) for one, days in _known(prepared) if one < wave and frequency([one, wave])]
    found = []
    for entry, day in days_of(prepared).items():
        same = [one for one, days in earlier if days.get(entry) == day and not wave.startswith(day)]
        if same:
            last = max(same)
            follows = f" ({'{wave}' + day.removeprefix(last)!r} follows it)" if day.startswith(last) else ""
            found.append(f"{entry} is {day!r}, as in wave {last!r}. Set the time of wave {wave!r}{follows}.")
    return found


def waves_together(prepared: Prepared) -> list[str]:
    """What a person should check: folders named by times that are counted as if they were different people."""
    folders = time_folders(prepared.source)
    column = folders[0].name.partition("=")[0] if folders else ""
    declared = (*prepared.design.columns, *prepared.said.recipe.get("where", {}), prepared.said.source.together)
    if not folders or column in declared:
        return []
    # Years may lie in each of several regions: then no single folder has a wave.
    above = {os.path.relpath(folder.parent, prepared.folder) for folder in folders}
    named = f"file = '{Path(above.pop()).as_posix()}/{column}={{wave}}' under [source], " if len(above) == 1 else ""
    return [
        f"source.file has {listing(dict.fromkeys(one.name for one in folders), 3)}: they look like several counts of "
        f"the same people, who are added together. If so, publish each as a wave: {named}wave = '..' under "
        f"[population]. If they are different people, write together = {column!r} under [source]."
    ]


def _known(prepared: Prepared) -> list[tuple[str, dict[str, str]]]:
    """Published waves of these people with their days: from the records of publishing, and periods of releases.

    Next year's publication file may have another name, so the records of all files in the folder are read.
    """
    found = []
    with contextlib.suppress(StoreError):
        for place in released(prepared):
            told = Release(place).manifest.get("population", {})
            found.append((str(told.get("wave", "")), {PERIOD: str(told.get("period", ""))}))
    for file in sorted(prepared.confidential.glob("*.json")):
        unnamed = prepared.said.population.name if file == prepared.state else None
        for wave, days in recorded(file).items():
            if days.get(_NAME, unnamed) == prepared.said.population.name:
                found.append((wave, days))
    return found


def recorded_now(prepared: Prepared) -> dict[str, dict[str, str]]:
    """What the record of publishing keeps of a wave: its days and whose they are; nothing without either."""
    wave, days = prepared.said.population.wave, days_of(prepared)
    return {wave: {_NAME: prepared.said.population.name, **days}} if wave and days else {}


def released(prepared: Prepared) -> list[Path]:
    """The folders of releases of a publication file: one for each wave, if they are named so."""
    if "{wave}" in prepared.said.outputs.release:
        pattern = "*".join(map(glob.escape, prepared.said.outputs.release.split("{wave}")))
        place = Path(glob.escape(str(prepared.folder))) / pattern / MANIFEST
        found = sorted(Path(one).parent for one in glob.glob(str(place)))  # noqa: PTH207 - absolute patterns
        name = prepared.said.population.name
        return [one for one in found if Release(one).manifest.get("population", {}).get("name", "") == name]
    return [prepared.release] if (prepared.release / MANIFEST).exists() else []


def recorded(file: Path) -> dict[str, dict[str, str]]:
    """The days of each wave in the record of publishing."""
    try:
        plain = json.loads(file.read_text("utf-8")).get("waves", {})
    except (OSError, ValueError, AttributeError):
        return {}
    if not isinstance(plain, Mapping):
        return {}
    return {str(wave): dict(days) for wave, days in plain.items() if isinstance(days, Mapping)}
