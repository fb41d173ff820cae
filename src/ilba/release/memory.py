"""What was published from one store, so that the next publication shows the same masks. Confidential.

Two releases of the same people with other masks give counts away. A store therefore has two files beside it, for its
owner alone: `NAME.published.json` lists what was published from it, and `NAME.masks.parquet` is the store with the
masks that were chosen. A finest table that is in no file remembers the same as long as it lives.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ilba.design.design import Design
from ilba.errors import StoreError, UnsafeRelease
from ilba.files import replacing
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store

FORMAT = 1


@dataclass(frozen=True)
class Publication:
    """One publication from a store: what it showed, and what was known of its safety (confidential)."""

    data: str
    """a checksum of the true counts: equal for the same data"""
    masks: str
    """a checksum of the masks"""
    method: str
    threshold: int
    cells: str
    tables: tuple[str, ...]
    audit: str
    """"certified", "safe", "not safe" or "not audited" """
    accepted_risk: bool
    stated_bound: int | None
    created: str

    @property
    def way(self) -> tuple[str, int, str]:
        """How its counts were masked, to be compared with `way`."""
        return _way(self.method, self.threshold, self.cells)


def way(method: str, design: Design) -> tuple[str, int, str]:
    """What decides a masked count besides the secret and the data."""
    return _way(method, design.threshold, design.cells)


def _way(method: str, threshold: int, cells: str) -> tuple[str, int, str]:
    return method, threshold, "" if method == "controlled" else cells  # the reading of S plays no part in sums


@dataclass
class Memory:
    """The publications from one store."""

    place: Path | None = None
    """the store; None for a table that is in no file"""
    publications: list[Publication] = field(default_factory=list)
    bounds_not_held: list[int] = field(default_factory=list)
    """bounds that were to be stated and did not hold: after one of them none may be stated"""
    _masks: FinestTable | None = None

    @classmethod
    def beside(cls, place: Path) -> Memory:
        """What stands beside a store."""
        memory = cls(place)
        try:
            text = memory.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return memory
        try:
            plain = json.loads(text)
            memory.publications = [
                Publication(**{**one, "tables": tuple(one["tables"])}) for one in plain["publications"]
            ]
            memory.bounds_not_held = [int(bound) for bound in plain["bounds_not_held"]]
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError(
                f"{str(memory.file)!r} is damaged. It says what was published from this store: restore it from a copy."
            ) from None
        return memory

    @property
    def file(self) -> Path:
        """The list of publications."""
        assert self.place is not None  # noqa: S101 - asked only where there is a store
        return _beside(self.place, ".published.json")

    def masks_file(self, given: Path | None) -> Path | None:
        """Where chosen masks are kept."""
        return given or (None if self.place is None else _beside(self.place, ".masks.parquet"))

    def masks(self, given: Path | None) -> FinestTable | None:
        """The finest table with the masks that were published last."""
        file = self.masks_file(given)
        return open_store(file) if file is not None and file.exists() else self._masks

    def of_same_data(self, data: str) -> list[Publication]:
        """The publications of the same true counts."""
        return [one for one in self.publications if one.data == data]

    def check_way(self, now: tuple[str, int, str]) -> None:
        """Refuse to publish by another method, K or reading: also a later wave, in which most people are the same."""
        for before in self.publications:
            if before.way != now:
                raise UnsafeRelease(
                    f"this store was published with method={before.method!r}, K={before.threshold} and "
                    f"cells={before.cells!r} ({before.created[:10]}). Comparing the two publications would reveal "
                    f"small counts, so nothing was published. Publish as before; other people need another store."
                )

    def check_masks(self, now: Publication) -> None:
        """Refuse to publish the same data with other masks."""
        for before in self.of_same_data(now.data):
            if before.masks != now.masks:
                raise UnsafeRelease(
                    f"this data was published with other masks ({before.created[:10]}). Comparing the two publications "
                    f"would reveal small counts, so nothing was published. Publish with the masks that were kept then "
                    f"(masks=), or the same tables as then."
                )

    def check_bound(self, data: str) -> None:
        """Refuse to state a bound where that would tell of the truth."""
        if self.bounds_not_held:
            raise UnsafeRelease(
                "a bound was asked for before and did not hold. To state another one now would tell so: publish "
                "without a stated bound."
            )
        if any(one.data != data for one in self.publications):
            raise UnsafeRelease(
                "an earlier wave was published from this store. A later wave states no bound: whether it could be "
                "held would tell of the changes. Publish without a stated bound."
            )

    def bar_bound(self, bound: int) -> None:
        """Remember that a bound did not hold."""
        self.bounds_not_held.append(bound)
        self._save()

    def keep(self, now: Publication, masks: AnyFinestTable, given: Path | None) -> None:
        """Remember a publication, before it takes its place: what everybody has must not be forgotten."""
        if now.method == "controlled" and isinstance(masks, FinestTable):
            file = self.masks_file(given)
            if file is not None:
                masks.write(file)
            else:
                self._masks = masks
        if now not in self.publications:
            self.publications.append(now)
        self._save()

    def follow(self, place: Path) -> None:
        """Take what is remembered along to another store with the same table."""
        there = Memory.beside(place)
        if there.place == self.place or not (self.publications or self.bounds_not_held):
            return
        there.publications += [one for one in self.publications if one not in there.publications]
        there.bounds_not_held += [bound for bound in self.bounds_not_held if bound not in there.bounds_not_held]
        masks, file = self.masks(None), there.masks_file(None)
        if masks is not None and file is not None and not file.exists():
            masks.write(file)
        there._save()

    def _save(self) -> None:
        if self.place is None:
            return
        plain: dict[str, Any] = {
            "confidential": True,
            "format": FORMAT,
            "publications": [asdict(one) for one in self.publications],
            "bounds_not_held": self.bounds_not_held,
        }
        with replacing(self.file) as temporary:
            temporary.write_text(json.dumps(plain, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _beside(place: Path, ending: str) -> Path:
    stem = place.name if place.is_dir() else place.stem
    return place.with_name(stem + ending)
