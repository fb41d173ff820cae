"""Work in a process of its own, which is killed at a write to the disk."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator

import ilba
from support.people import HKEY, ILBA, KEY, population
from support.places import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import kills

SECRET = bytes(range(32))


def killed(every: int, work: Callable[..., object], *args: object) -> Iterator[int]:
    """Do the work, killed before its first write, then `every` writes later, until it comes to its end."""
    at, code = 1, -9
    while code:
        code = kills.ended(kills.started(at, work, *args))
        assert code in (0, -9), f"the work failed by itself at write {at}"
        yield at
        at += every


def build(people: str, store: str) -> None:
    ilba.build(people, HKEY, KEY, secret=ilba.Secret(SECRET), output_path=store)


def release(seed: int, out: str, title: str) -> None:
    warnings.simplefilter("ignore", ilba.Notice)
    finest = ilba.build(population(seed=seed), HKEY, KEY, secret=ilba.Secret(SECRET))
    finest.release(out, title=title, tables=["block.sex", "town", "all"], ledger=False, **ILBA)
