"""What every command does with damaged files: never a wrong number, never a traceback.

    python bench/damage.py [--flips 2000] [--cuts 400] [--manifests 1500] [--seed 1]

One file of each kind is made from a small synthetic population. Then one bit of a file is flipped, or the file is cut,
or the structure of a release's manifest is changed (with a matching checksum), and a command reads it. The command has
to give the numbers of the undamaged file, or one sentence. A manifest of another structure with a matching checksum may
also be answered, because it was written like that. Everything else counts as a failure:

    wrong       a wrong number without any message
    traceback   an error that is not one of ours, an answer with status 500, or a library's panic on the terminal
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import hashlib
import json
import os
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np
import polars as pl

import ilba
from ilba.cli import commands
from ilba.output.export import FORMATS
from ilba.release import MANIFEST, manifest
from ilba.service.app import application
from ilba.tables import store

HKEY, KEY = ["region", "town"], ["sex", "age"]
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
MAP = {"type": "FeatureCollection", "features": [{"type": "Feature", "id": "01", "properties": {}, "geometry": SQUARE}]}
OUTCOMES = ("same", "answered", "refused", "wrong", "traceback")


class Kind:
    """A kind of file: where its files are, and the commands that read them."""

    def __init__(self, files: list[Path], reads: dict[str, Callable[[], object]]) -> None:
        self.files, self.reads = files, reads


def make(home: Path) -> dict[str, Kind]:
    """One of each kind, with every way to read it."""
    rng = np.random.default_rng(7)
    town = rng.choice(6, 400, p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05])
    people = pl.DataFrame(
        {
            "region": [f"{t // 3 + 1:02}" for t in town],
            "town": [f"{t // 3 + 1:02}{t % 3 + 1:02}" for t in town],
            "sex": rng.choice(["f", "m"], 400),
            "age": rng.integers(1, 7, 400),
        }
    )
    people.write_csv(home / "people.csv")
    secret = ilba.Secret(bytes(range(32)))
    kept = secret.to_file(home / "agency.secret")
    drawn = ilba.build(home / "people.csv", HKEY, KEY, secret=secret)
    full = drawn.save(home / "full_tb.parquet")
    chosen = drawn.controlled(["town.sex.age", "town.sex"], secret=secret)
    masks = chosen.save(home / "masks.parquet")
    cube = drawn.cube(max_keys=1).write(home / "cube")
    release = drawn.release(
        home / "release", "ilba", max_keys=2, geometry={"region": MAP}, accept_risk=True, ledger=False
    ).path
    return {
        "store": Kind([full], _of_store(home, full)),
        "masks": Kind([masks], _of_masks(drawn, masks, secret)),
        "secret": Kind([kept], _of_secret(home, kept)),
        "cube": Kind(sorted(cube.glob("*.*")), _of_cube(home, full, cube)),
        "folder of Spark": _of_spark(home, drawn),
        "release": Kind(sorted(f for f in release.rglob("*.*") if f.name != MANIFEST), _of_release(home, release)),
        "manifest": Kind([release / MANIFEST], _of_release(home, release)),
    }


def run(*words: object) -> None:
    """A command as it is typed."""
    commands(args=[str(word) for word in words], standalone_mode=False)


def _written(home: Path, *words: object, name: str = "out.csv") -> bytes:
    out = home / name
    out.unlink(missing_ok=True)
    run(*words, "--out", out)
    return out.read_bytes()


def _of_store(home: Path, full: Path) -> dict[str, Callable[[], object]]:
    return {
        "open": lambda: ilba.open_store(full).frame.rows(),
        "open within": lambda: ilba.open_store(full, within="02").frame.rows(),
        "table": lambda: _written(home, "table", full, "--level", "town", "--key", "sex,age"),
        "cell": lambda: ilba.get_agg_freq(2, ["sex"], ["01", "0102"], ["f"], input_path=str(full)),
        "report": lambda: _written(home, "report", full, "--max-keys", 0, name="report.html"),
        "audit": lambda: _audited(full),
        "convert": lambda: (run("convert", full, home / "out.csv"), (home / "out.csv").read_bytes()),
    }


def _of_masks(drawn: Any, masks: Path, secret: ilba.Secret) -> dict[str, Callable[[], object]]:
    def again() -> object:
        before = ilba.open_store(masks)
        return drawn.controlled(["town.sex.age", "town.sex"], secret=secret, previous=before).frame.rows()

    return {"open": lambda: ilba.open_store(masks).frame.rows(), "next wave": again}


def _of_secret(home: Path, kept: Path) -> dict[str, Callable[[], object]]:
    def built() -> object:
        out = home / "again.parquet"
        out.unlink(missing_ok=True)
        run("build", home / "people.csv", "--hkey", "region,town", "--key", "sex,age", "--secret", kept, "--out", out)
        return ilba.open_store(out).frame.rows()

    return {"open": lambda: ilba.Secret.from_file(kept).fingerprint, "build": built}


def _of_cube(home: Path, full: Path, cube: Path) -> dict[str, Callable[[], object]]:
    def gone_on() -> object:
        run("cube", full, "--max-keys", 1, "--out", cube)
        return {file.name: file.read_bytes() for file in sorted(cube.glob("*.parquet"))}

    return {"cube": gone_on}


def _of_spark(home: Path, drawn: Any) -> Kind:
    """The folder that Spark writes, in three parts."""
    folder, cells = home / "spark", drawn.cells
    (folder / store.CELLS).mkdir(parents=True)
    parts, third = [], -(-cells.height // 3)
    for number in range(3):
        file = folder / store.CELLS / f"part-{number}.snappy.parquet"
        here = cells.slice(number * third, third)
        here.write_parquet(file, compression="snappy")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        parts.append(store.DatasetPart(file.name, here.height, here["cell0"].min(), here["cell0"].max(), digest))
    about = store.About(drawn.codes, drawn.labels, drawn.fingerprint, drawn.chosen)
    mark = store.marked([cells[name].to_numpy() for name in about.columns])
    (folder / store.ABOUT).write_text(store.Dataset(about, cells.height, mark, tuple(parts)).to_text())
    return Kind(
        [folder / store.ABOUT, *store.parts_of(folder)],
        {
            "open": lambda: ilba.open_store(folder).frame.rows(),
            "open within": lambda: ilba.open_store(folder, within="02").frame.rows(),
            "table": lambda: _written(home, "table", folder, "--level", "town", "--key", "sex"),
            "audit": lambda: _audited(folder),
        },
    )


def _of_release(home: Path, release: Path) -> dict[str, Callable[[], object]]:
    def read() -> object:
        opened = ilba.Release(release)
        maps = {column: opened.geometry(column) for column in opened.design.columns}
        return {name: opened.table(name).rows() for name in opened.tables}, opened.codes.rows(), maps

    def exported() -> object:
        kinds = [kind for kind in FORMATS if kind != "xlsx"]  # which holds the time of writing
        return [_written(home, "export", release, "--table", "town.sex", "--format", kind) for kind in kinds]

    return {"open": read, "export": exported, "audit": lambda: _audited(release), "serve": lambda: served(release)}


def _audited(source: Path) -> object:
    out = ilba.Release(source) if (source / MANIFEST).exists() else ilba.open_store(source)
    report = ilba.audit(out) if isinstance(out, ilba.Release) else ilba.audit(out, max_keys=1)
    return report.ranges.rows(), report.cells_disclosed, report.cells_certified


def served(release: Path) -> object:
    """What the service answers of a release that it opens: numbers, code lists, a map, a cell, its health."""
    asked = (
        "/api/v2/tables/town.sex/data?outputFormat=json-stat2",
        "/api/v2/tables/region.age/metadata",
        "/api/v2/cell?level=town&key=sex&hkey_value=01,0102&key_value=f",
        "/api/v2/geometry/release/region",
        "/api/v2/releases",
        "/health",
    )
    service = httpx.ASGITransport(application([str(release)]), raise_app_exceptions=False)

    async def answered() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=service, base_url="http://localhost") as client:
            return [await client.get(address) for address in asked]

    answers = asyncio.run(answered())
    if any(answer.status_code == 500 for answer in answers):
        raise AssertionError("an answer with status 500")
    return [(answer.status_code, answer.text) for answer in answers]


def outcome(read: Callable[[], object], whole: object, told: Path) -> tuple[str, str]:
    """How a damaged file was met; `told` takes what is written to the terminal."""
    with _terminal(told):
        try:
            found, said = ("same" if read() == whole else "wrong"), ""
        except (ilba.IlbaError, click.ClickException) as problem:
            found, said = "refused", str(problem)
        except BaseException as problem:  # a panic is not even an Exception
            if isinstance(problem, KeyboardInterrupt):
                raise
            found, said = "traceback", f"{type(problem).__name__}: {problem}"
    if "panicked at" in told.read_text(errors="replace"):
        return "traceback", "a library panicked"
    return ("traceback", f"no sentence: {said!r}") if found == "refused" and not said else (found, said)


@contextlib.contextmanager
def _terminal(file: Path) -> Iterator[None]:
    """Send what this process writes to its terminal, libraries included, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with file.open("wb") as handle:
        try:
            for number in (1, 2):
                os.dup2(handle.fileno(), number)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, before in zip((1, 2), kept, strict=True):
                os.dup2(before, number)
                os.close(before)


def damage(home: Path, kinds: dict[str, Kind], flips: int, cuts: int, rng: random.Random) -> Iterator[tuple[str, ...]]:
    """Turn bits and cut files, each kind and each command in turn: kind, damage, command, outcome and what was said."""
    with _terminal(home / "told"):
        whole = {kind: {name: read() for name, read in made.reads.items()} for kind, made in kinds.items()}
    turns = [(kind, name) for kind, made in kinds.items() for name in made.reads]
    for number in range(flips + cuts):
        kind, name = turns[number % len(turns)]
        file = rng.choice(kinds[kind].files)
        content = file.read_bytes()
        if number < flips:
            spoiled = bytearray(content)
            spoiled[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        else:
            spoiled = bytearray(content[: rng.randrange(len(content))])
        file.write_bytes(spoiled)
        how = "bit" if number < flips else "cut"
        yield kind, how, name, *outcome(kinds[kind].reads[name], whole[kind][name], home / "told")
        file.write_bytes(content)


def manifests(home: Path, kinds: dict[str, Kind], number: int, rng: random.Random) -> Iterator[tuple[str, ...]]:
    """Change a manifest in structure, with a checksum that fits: another value is a choice, a traceback is not."""
    (file,), reads = kinds["manifest"].files, kinds["manifest"].reads
    content = file.read_bytes()
    good = json.loads(content)
    names = [*reads]
    for turn in range(number):
        changed = copy.deepcopy(good)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _change(changed, rng)
        with contextlib.suppress(ValueError, RecursionError):
            file.write_text(manifest.dump(changed) if isinstance(changed, dict) else "null", encoding="utf-8")
        name = names[turn % len(names)]
        found, said = outcome(reads[name], None, home / "told")
        yield "manifest", "structure", name, "answered" if found == "wrong" else found, said
        file.write_bytes(content)


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    2**70,
    "",
    "x",
    "../../x",
    "tables/all.parquet",
    "\x00",
    "é" * 300,
    [],
    {},
    [[]],
    [None],
    {"": {}},
    {"a": [1, {"b": None}]},
    "2026-13-45",
    "0001-01-01T00:00:00+23:59",
)


def _change(told: Any, rng: random.Random) -> None:
    """One change somewhere in a document: a value replaced, removed, doubled, renamed, moved or exchanged."""
    places = []

    def walk(value: Any) -> None:
        if isinstance(value, dict | list):
            for name in value if isinstance(value, dict) else range(len(value)):
                places.append((value, name))
                walk(value[name])

    walk(told)
    if not places:
        return
    owner, name = rng.choice(places)
    other, place = rng.choice(places)
    how = rng.choice(("odd", "odd", "remove", "rename", "exchange", "double"))
    if how == "odd":
        owner[name] = copy.deepcopy(rng.choice(ODD))
    elif how == "remove":
        del owner[name]
    elif how == "rename" and isinstance(owner, dict):
        owner[rng.choice(("x", "name", "file", "format", str(name) * 2))] = owner.pop(name)
    elif how == "exchange":
        owner[name], other[place] = copy.deepcopy(other[place]), copy.deepcopy(owner[name])
    elif how == "double" and isinstance(owner, list):
        owner.append(copy.deepcopy(owner[name]))


def table(found: Counter[tuple[str, str, str, str]]) -> str:
    """The outcomes as a table."""
    lines = [f"{'file':<16} {'damage':<10} {'command':<12} {'tries':>6}" + "".join(f"{name:>11}" for name in OUTCOMES)]
    for kind, how, name in dict.fromkeys(key[:3] for key in found):
        counts = [found[kind, how, name, one] for one in OUTCOMES]
        lines.append(f"{kind:<16} {how:<10} {name:<12} {sum(counts):>6}" + "".join(f"{one:>11}" for one in counts))
    totals = [sum(count for key, count in found.items() if key[3] == one) for one in OUTCOMES]
    return "\n".join([*lines, f"{'all':<40} {sum(totals):>6}" + "".join(f"{one:>11}" for one in totals)])


def trial(flips: int, cuts: int, structures: int, seed: int) -> tuple[Counter[tuple[str, str, str, str]], list[str]]:
    """Every trial, counted, and what the failures said."""
    rng, found, failures = random.Random(seed), Counter[tuple[str, str, str, str]](), []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        home = Path(folder)
        kinds = make(home)
        tries = damage(home, kinds, flips, cuts, rng)
        for part in (tries, manifests(home, kinds, structures, rng)):
            for kind, how, name, ended, said in part:
                found[kind, how, name, ended] += 1
                if ended in ("wrong", "traceback"):
                    failures.append(f"{kind}, {how}, {name}: {ended}: {said}")
    return found, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--cuts", type=int, default=400)
    parser.add_argument("--manifests", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found, failures = trial(given.flips, given.cuts, given.manifests, given.seed)
    print(table(found))
    for line in dict.fromkeys(failures):
        print(line)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
