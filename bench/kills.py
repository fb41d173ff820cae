"""Kill a publication at chosen writes, and see whether ledger and folders still agree.

python bench/kills.py [--kills 100] [--writers 10]

Each publication runs in a separate process, which is killed at its n-th write to disk, for n = 1, 2, ... Then the next
publication must find a valid ledger, and each folder must have its entry and each entry its folder. At the end several
processes publish at once. The script prints what was found; the exit code is 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path

import polars as pl

import ilba
from ilba.release import ledger as ledger_module

# Children start from a process that has loaded everything, but used only numba: polars must not be forked at work.
START = multiprocessing.get_context("forkserver")
START.set_forkserver_preload(
    ["polars", "ilba.release", "ilba.methods.controlled.choosing", "ilba.tables.building", "ilba.attack.audit", "warm"]
)
WRITES = ("fsync", "replace", "rename", "link", "unlink", "mkdir")


def people(number: int) -> pl.DataFrame:
    """A wave of a small population: in each one somebody has moved."""
    rows = [(f"t{(i * 7 + (i == number)) % 5}", i * i % 3, i % 4) for i in range(150)]
    return pl.DataFrame(rows, schema=["town", "sex", "age"], orient="row")


def publish(home: Path, number: int) -> None:
    """Publish one wave."""
    warnings.simplefilter("ignore", ilba.Notice)
    finest = ilba.build(
        people(number), ["town"], ["sex", "age"], secret=home / "agency.secret", population="town", wave=str(number)
    )
    finest.release(home / f"out{number}", tables=["town.sex.age", "town"])


def begun(home: Path, number: int, die_at: int | None = None) -> multiprocessing.process.BaseProcess:
    """A process that publishes a wave, and is killed before its n-th write."""
    return started(die_at, publish, home, number)


def started(die_at: int | None, work: Callable[..., object], *args: object) -> multiprocessing.process.BaseProcess:
    """A process that does some work, and is killed before its n-th write."""
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), before.get("PYTHONPATH", "")])
    forkserver.ensure_running()  # it loads modules from where this file is
    os.environ.clear()
    os.environ.update(before)
    child = START.Process(target=_work, args=(before, die_at, work, *args))
    child.start()
    return child


def ended(child: multiprocessing.process.BaseProcess) -> int | None:
    """How a process ended."""
    child.join()
    return child.exitcode


def _work(environment: dict[str, str], die_at: int | None, work: Callable[..., object], *args: object) -> None:
    os.environ.clear()  # of the moment in which the first of these processes was started
    os.environ.update(environment)
    if die_at is not None:
        _dying(die_at)
    work(*args)


def _dying(at: int) -> None:
    """Kill this process before its n-th write to the disk."""
    left = at

    def wrapped(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal left
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in WRITES:
        setattr(os, name, wrapped(getattr(os, name)))


def wrong(home: Path) -> list[str]:
    """What does not agree: folders without an entry, entries without a folder, a ledger that is not valid."""
    place = home / "agency.ledger"
    if not place.exists() or not (place / ledger_module.LOG).exists():
        return [f"{folder.name} has no entry" for folder in home.glob("out*")]
    book = ilba.Ledger(place)
    with book.writing():  # completes or drops what a killed one left
        pass
    book.verify()
    entered = {Path(one.place).name: one.checksum for one in book.publications}
    found = []
    for folder in home.glob("out*"):
        release = ilba.Release(folder)
        release.verify()
        if entered.get(folder.name) != ledger_module.checksum_of(folder):
            found.append(f"{folder.name} has no entry")
    return found + [f"{name} is entered and absent" for name in entered if not (home / name).exists()]


def kills(most: int, every: int = 1) -> tuple[int, list[str]]:
    """Kill publications at every n-th write; how many were killed, and what was wrong."""
    killed, found = 0, []
    for number in range(3):  # the very first one, a later wave, and one that replaces a folder
        with tempfile.TemporaryDirectory() as folder:
            home, before = Path(folder) / "home", Path(folder) / "before"
            home.mkdir()
            ilba.Secret(bytes(32)).to_file(home / "agency.secret")
            for wave in range(number):
                ended(begun(home, wave))
            home.rename(before)
            at, code = 0, None
            while code != 0 and killed < most:  # 0: it came to its end, so all its writes were tried
                at += every
                shutil.copytree(before, home)
                code = ended(begun(home, 1, at))
                found += [f"write {at}: {text}" for text in wrong(home)]
                if code != 0:
                    killed += 1
                    if ended(begun(home, 1)):
                        found.append(f"write {at}: the next run failed")
                    found += [f"after write {at}: {text}" for text in wrong(home)]
                shutil.rmtree(home)
    return killed, found


def at_once(writers: int) -> list[str]:
    """Several processes publish waves of one population at once; what was wrong afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        ilba.Secret(bytes(32)).to_file(home / "agency.secret")
        codes = [ended(child) for child in [begun(home, number) for number in range(writers)]]
        found = wrong(home)
        entries = len(ilba.Ledger(home / "agency.ledger").publications)
        if any(codes) or entries != writers:
            found.append(f"{writers} writers left {entries} publications, and ended with {codes}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--writers", type=int, default=10)
    asked = parser.parse_args()
    killed, found = kills(asked.kills)
    print(f"{killed} publications killed at chosen writes: {len(found)} things wrong")
    together = at_once(asked.writers)
    print(f"{asked.writers} publications at once: {len(together)} things wrong")
    for text in found + together:
        print(f"  {text}")
    sys.exit(bool(found or together))


if __name__ == "__main__":
    main()
