"""Check files of every version: what is old, what conflicts, what to type. Confidential."""

from __future__ import annotations

import itertools
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from ilba.design.design import MASKED
from ilba.errors import IlbaError, SecretError, StoreError, listing, some
from ilba.release.ledger import LOG, Ledger, Publication
from ilba.release.manifest import FORMAT
from ilba.release.reading import MANIFEST, Release, digest
from ilba.release.telling import leaks
from ilba.secret.secret import Secret
from ilba.tables.beside import published_path
from ilba.tables.opening import open_store, read_rds
from ilba.tables.store import ABOUT, OF_R


class Finding(NamedTuple):
    """A finding about a path."""

    path: str
    kind: str
    """"store", "release", "ledger", "secret" or "unknown" """
    text: str
    remedy: str = ""
    """what to type"""
    problem: bool = False


def examine(paths: Sequence[Path]) -> list[Finding]:
    """Check stores, releases, secrets and ledgers, and compare releases of one population.

    In any other folder, all of these in it and in its subfolders are checked.
    """
    releases: list[Release] = []
    ledgers: list[Ledger] = []
    found: list[Finding] = []
    for path in [one for given in paths for one in _held(given)]:
        try:
            kind = _kind(path)
            if kind == "release":
                releases.append(Release(path))
            elif kind == "ledger":
                ledgers.append(Ledger(path))
            found += _looks[kind](path)
        except IlbaError as problem:
            found.append(Finding(str(path), "unknown", str(problem), problem=True))
    for one, other in itertools.combinations(releases, 2):
        found += _compared(one, other, ledgers)
    for release in releases:
        if ledgers and digest(release.path / MANIFEST) not in {p.checksum for led in ledgers for p in led.publications}:
            found.append(
                Finding(
                    str(release.path), "release", "no ledger given here knows this release.",
                    f"ilba ledger adopt {shlex.quote(str(release.path))} --store STORE --ledger {ledgers[0].path}",
                    problem=True,
                )
            )  # fmt: skip
    return found


def _held(path: Path, depth: int = 2) -> list[Path]:
    """The path itself; for any other folder, our files and folders in it."""
    if not path.is_dir() or _kind_of_folder(path):
        return [path]
    inside = [one for one in sorted(path.iterdir()) if not one.name.startswith(".")]
    files = [one for one in inside if one.is_file() and _is_ours(one)]
    folders = [one for one in inside if one.is_dir()]
    below = [found for one in folders if depth or _kind_of_folder(one) for found in _held(one, depth - 1)]
    return [*files, *(one for one in below if one.is_file() or _kind_of_folder(one))] or [path]


def _is_ours(file: Path) -> bool:
    """Whether a file in a folder looks like a secret, a store, or the finest table of R."""
    ending = file.suffix.lower()
    try:
        if ending == ".parquet":
            return "ilba" in pl.read_parquet_metadata(file) and not file.name.endswith(".masks.parquet")
        if ending == ".rds":
            return not _is_frame(file)
    except (pl.exceptions.PolarsError, OSError):
        return False
    return ending == ".secret"


def _is_frame(file: Path) -> bool:
    """Whether an .rds file is not a finest table."""
    try:
        read_rds(file)
    except IlbaError:
        return True
    return False


def _kind_of_folder(path: Path) -> str:
    names = (("release", MANIFEST), ("ledger", LOG), ("store", ABOUT))
    return next((kind for kind, file in names if (path / file).exists()), "")


def _kind(path: Path) -> str:
    if not path.exists():
        raise StoreError(f"there is no {str(path)!r}.")
    if path.is_dir():
        if kind := _kind_of_folder(path):
            return kind
        raise StoreError(f"{str(path)!r} is not a store, release or ledger, and holds none.")
    with path.open("rb") as handle:
        return "secret" if handle.read(11) == b"ilba-secret" else "store"


def _store(path: Path) -> Iterator[Finding]:
    said = shlex.quote(str(path))
    is_r = path.suffix.lower() in OF_R
    finest = read_rds(path) if is_r else open_store(path)
    if is_r:
        text = f"a finest table of R with {some(len(finest), 'cell')}, K={finest.design.threshold}."
        yield Finding(str(path), "store", text, f"ilba convert {said} {shlex.quote(str(path.with_suffix('.parquet')))}")
        return
    text = f"a store of {some(len(finest), 'cell')}, {finest.method}, K={finest.design.threshold}"
    if finest.population.declared:
        yield Finding(str(path), "store", f"{text}, population {finest.population}.")
    else:
        made = "ilba build ..." if finest.fingerprint else f"ilba convert full_tb.rds {said}"
        remedy = f"{made} --population NAME --wave WAVE (counts in Python: from_counts(..., population=, wave=))"
        yield Finding(str(path), "store", f"{text}. No population is declared.", remedy)
    yield from _private(path, "store")
    if finest.origins.dropped:
        dropped = listing(finest.origins.dropped)
        yield Finding(
            str(path), "store", f"{dropped} was left out because of the data.", "ilba build ... --key A,B", True
        )
    aside = published_path(path)
    if aside.exists() and '"publications"' in aside.read_text(encoding="utf-8", errors="replace"):
        masks = aside.with_name(aside.name.removesuffix(".published.json") + ".masks.parquet")
        option = f" --masks {shlex.quote(str(masks))}" if masks.exists() else ""
        yield Finding(
            str(path), "store", "it was published before there was a ledger.",
            f"ilba ledger adopt RELEASE --store {said}{option}", True,
        )  # fmt: skip


def _release(path: Path) -> Iterator[Finding]:
    release = Release(path)
    manifest = release.manifest
    text = f"a release of {some(len(release.tables), 'table')}, {manifest['method']}, K={manifest['threshold']}"
    told = manifest.get("population", {})
    yield Finding(str(path), "release", text + (f", population {told['name']!r}." if told.get("name") else "."))
    if manifest["format"] < FORMAT:
        yield Finding(
            str(path), "release", f"format {manifest['format']} is old: its manifest has no checksum of its own.",
            "ilba ledger adopt it, then release again", True,
        )  # fmt: skip
    for leak in leaks(release):
        yield Finding(str(path), "release", leak, f"ilba audit {shlex.quote(str(path))} --store STORE", True)
    try:
        release.verify()
    except StoreError as problem:
        yield Finding(str(path), "release", str(problem), problem=True)


def _ledger(path: Path) -> Iterator[Finding]:
    ledger = Ledger(path)
    ledger.verify()
    yield Finding(str(path), "ledger", f"a ledger of {some(len(ledger.publications), 'publication')}, as written.")
    yield from _private(path / LOG, "ledger")
    for name, entries in ledger.populations.items():
        published = [one for one in ledger.publications if one.population == name]
        ways = list(dict.fromkeys(one.way for one in published))
        if len(ways) < 2:
            continue
        if len({entry.get("fingerprint") for entry in entries}) == 1 and _keeps_masks(published):
            text = f"the population {name!r} was published by ilba, then by controlled, which keeps ilba's masks."
            yield Finding(str(path), "ledger", text)
        else:
            told = listing([f"{method} with K={K}{rest and f' ({rest})'}" for method, K, rest in ways])
            text = f"the population {name!r} was published in {len(ways)} ways, which reveals small counts: {told}."
            yield Finding(str(path), "ledger", text, f"ilba ledger show {shlex.quote(str(path))}", True)


def _keeps_masks(published: Sequence[Publication]) -> bool:
    """Whether waves by iLBA were followed by waves with jointly chosen masks and the same K: these keep iLBA's masks.

    Other iLBA masks after them, or of the same wave, do not fit.
    """
    K, cells = published[0].threshold, published[0].cells
    if {one.way for one in published} != {("ilba", K, cells), ("controlled", K, "")}:
        return False
    first = next(number for number, one in enumerate(published) if one.method == "controlled")
    drawn, after = published[:first], published[first:]
    chosen = [one for one in after if one.method == "controlled"]
    if {one.masks for one in after if one.method == "ilba"} - {one.masks for one in drawn}:
        return False
    return not any(one.data == other.data or one.wave == other.wave != "" for one in drawn for other in chosen)


def _secret(path: Path) -> Iterator[Finding]:
    secret = Secret.from_file(path)
    yield Finding(str(path), "secret", f"a secret (fingerprint {secret.fingerprint}).")
    yield from _private(path, "secret")
    others = [file for file in path.parent.glob("*.secret") if file != path]
    different = []
    for file in others:
        try:
            if Secret.from_file(file) != secret:
                different.append(file.name)
        except SecretError:
            continue
    if different:
        text = f"there are other secrets beside it ({listing(different)}). Data about the same people needs one."
        yield Finding(str(path), "secret", text, problem=True)


def _private(path: Path, kind: str) -> Iterator[Finding]:
    if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield Finding(str(path), kind, "others can read it.", f"chmod 600 {shlex.quote(str(path))}", True)


_looks: dict[str, Any] = {"store": _store, "release": _release, "ledger": _ledger, "secret": _secret}


def _compared(one: Release, other: Release, ledgers: Sequence[Ledger]) -> Iterator[Finding]:
    text = differing(one, other)
    if text and _corrects(one, other, ledgers):
        text = (
            f"{str(one.path)!r} and {str(other.path)!r} are of the same population and wave, and one corrects the "
            f"other: where a count is the same, its mask is the same."
        )
        yield Finding(str(other.path), "release", text)
    elif text:
        yield Finding(str(other.path), "release", text, f"ilba audit {one.path} {other.path} --store STORE", True)


def _corrects(one: Release, other: Release, ledgers: Sequence[Ledger]) -> bool:
    """Whether a ledger knows both releases as made by the same method from different data."""
    for ledger in ledgers:
        known = {publication.checksum: publication for publication in ledger.publications}
        ours, theirs = (known.get(digest(release.path / MANIFEST)) for release in (one, other))
        if ours and theirs and ours.population == theirs.population and ours.way == theirs.way:
            return ours.data != theirs.data
    return False


def differing(one: Release, other: Release) -> str:
    """A sentence if two releases of one population and wave show different counts; otherwise empty.

    A release of sums counts a part of the people or coarser groups: its tables have other counts under the same name.
    """
    if one.manifest.get("sums") or other.manifest.get("sums"):
        return ""
    ours, theirs = (release.manifest.get("population", {}) for release in (one, other))
    if not ours.get("name") or (ours["name"], ours.get("wave")) != (theirs.get("name"), theirs.get("wave")):
        return ""
    common = [name for name in one.tables if name in other.tables]
    for name in [name for name in common if one.tables[name].sha256 != other.tables[name].sha256]:
        columns = list(one.tables[name].columns)
        texts: Any = dict.fromkeys(columns, pl.String)
        frames = [release.table(name).filter(pl.col(MASKED) > 0).cast(texts) for release in (one, other)]
        order = columns or [MASKED]
        if not frames[0].sort(order).equals(frames[1].sort(order)):
            return (
                f"{str(one.path)!r} and {str(other.path)!r} are of the same population and wave ({ours['name']!r}) and "
                f"show different counts in {name!r}. Comparing them may reveal small counts, unless both went through "
                f"one ledger and one corrects the other."
            )
    return ""
