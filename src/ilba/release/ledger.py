"""The ledger: everything published about a population, and every mask that was chosen for it. Confidential.

A ledger is a folder that only its owner can read. `log.jsonl` is an append-only list of entries. Each entry holds the
checksum of the one before, so a changed byte is noticed. `masks/` holds the masks: for each published small cell one
64-bit number, a keyed tag of the cell and its count with the mask in its last bit, also keyed. If large counts may
move, each cell has such a number, with the masked count in its last bits. Without the secret the numbers are noise. The
ledger holds no count, so the masks survive the deletion of the microdata.

A publication is written in four steps: an intent in the log, the new folder on disk, its exchange with the existing
folder, and an entry that it is done. After a kill, the next writer finds the intent and checks the folder: it was
published, or it was not.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from ilba.errors import Advice, InputError, StoreError, WriteError, notice
from ilba.files import PRIVATE, lock, making, replacing

FORMAT = 1
ENVIRONMENT = "ILBA_LEDGER"
LOG, MASKS, LOCK = "log.jsonl", "masks", "lock"
Path_: TypeAlias = str | os.PathLike[str]
Entry: TypeAlias = dict[str, Any]
_NONE = "0" * 64


@dataclass(frozen=True)
class Publication:
    """One publication, as the ledger keeps it (confidential).

    Its number is its place in the log.
    """

    number: int
    date: str
    population: str
    wave: str
    method: str
    threshold: int
    cells: str
    columns: tuple[str, ...]
    tables: tuple[str, ...]
    place: str
    """the folder or file, by its name at that time"""
    checksum: str
    """the SHA-256 of its manifest, which holds those of its files; empty for a single table"""
    data: str
    """a keyed checksum of the true counts: equal for the same data"""
    masks: str
    """a keyed checksum of the masked counts"""
    audit: str
    """"certified", "safe", "not safe" or "not audited" """
    accepted_risk: bool = False
    accepted_conflict: bool = False
    stated_bound: int | None = None
    sums: bool = False
    """whether its finest cells are sums of the masks of a finer design"""
    adopted: bool = False
    """whether it was made without a ledger and entered later"""
    withdrawn: bool = False
    """whether it was withdrawn; its masks stay, because somebody may have a copy"""
    parameters: str = ""
    """the parameters of the method that decide a count, if any"""
    epsilon: float | None = None
    """what it spends of the budget of its population, if it is noise"""
    has_masks: bool = True
    """whether it shows masks, which the ledger keeps"""
    other_masks: bool = False
    """whether it shows other masks than the ledger keeps, because those were entered first"""
    joint: bool = False
    """whether its method chose all numbers together, so that another wave gets other ones for unchanged counts"""

    @property
    def move(self) -> int:
        """How far large counts may have moved when masks were chosen jointly."""
        return moved_by(self.method, self.parameters)

    @property
    def way(self) -> tuple[str, int, str]:
        """How its counts were masked: method, K, and its parameters or the reading of S if the method uses it."""
        return self.method, self.threshold, self.parameters or ("" if self.method == "controlled" else self.cells)

    @classmethod
    def of(cls, entry: Mapping[str, Any], withdrawn: bool) -> Publication:
        """Read a publication from an entry of the log."""
        known = {field.name for field in fields(cls)}
        plain = {name: value for name, value in entry.items() if name in known}
        lists = {name: tuple(plain[name]) for name in ("columns", "tables")}
        # Earlier entries lack this field: only cell keys had parameters then.
        plain.setdefault("has_masks", not plain.get("parameters") or plain["method"] == "controlled")
        return cls(**{**plain, **lists, "number": entry["n"], "date": entry["time"], "withdrawn": withdrawn})


def moved_by(method: str, parameters: str) -> int:
    """How far large counts may have moved, from the parameters of a method in one line."""
    return int(parameters.removeprefix("move=")) if method == "controlled" and parameters.startswith("move=") else 0


class Ledger:
    """All publications about an agency's populations. Confidential.

    Parameters
    ----------
    path : path
        The folder of the ledger, such as "agency.ledger".

    Examples
    --------
    >>> ilba.Ledger("agency.ledger").publications  # doctest: +SKIP
    """

    def __init__(self, path: Path_) -> None:
        self.path = Path(os.path.realpath(path))
        if not (self.path / LOG).exists():
            if self.path.exists():
                raise StoreError(f"{os.fspath(path)!r} is not a ledger: it holds no {LOG}.")
            raise StoreError(f"there is no ledger {os.fspath(path)!r}. The first release makes it.")
        self._handle: int | None = None
        self._ends = 0
        self.entries = self._read()

    @classmethod
    def create(cls, path: Path_) -> Ledger:
        """Open a ledger, or create a new one.

        Parameters
        ----------
        path : path
            The folder of the ledger; its parent folder must exist.

        Returns
        -------
        Ledger
            The ledger, on the disk.

        Raises
        ------
        InputError
            The path holds something else.
        StoreError
            The ledger is not what was written.
        WriteError
            The folder cannot be written.
        """
        folder = Path(os.path.realpath(path))
        if not folder.parent.is_dir():
            raise InputError(f"there is no folder {str(folder.parent)!r} for the ledger. Create it first.")
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{os.fspath(path)!r} is a file, not a ledger. Give the name of a folder.")
        there = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
        there -= {name for name in there if name.startswith(f".{LOG}.")}  # left by a killed process
        if there - {LOG, LOCK, MASKS} and LOG not in there:
            raise InputError(f"{os.fspath(path)!r} holds other things. A ledger has a folder of its own.")
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / MASKS).mkdir(mode=0o700, exist_ok=True)
            with _locked(folder / LOCK, lambda: None):
                if not (folder / LOG).exists():
                    with replacing(folder / LOG) as temporary:
                        temporary.write_bytes(_line({"n": 0, "kind": "begin", "format": FORMAT, **_now()}, _NONE))
        except OSError as problem:
            raise _unwritten(path, problem) from problem
        return cls(folder)

    # --- reading

    def _read(self) -> list[Entry]:
        """All entries, after a check that each matches the one before."""
        try:
            content = (self.path / LOG).read_bytes()
        except OSError as problem:
            raise StoreError(f"the ledger {str(self.path)!r} cannot be read: {problem.strerror}.") from None
        lines = content.split(b"\n")
        torn = lines.pop()  # a line torn by a power cut was never relied on
        self._ends = len(content) - len(torn)
        entries: list[Entry] = []
        before = _NONE
        for number, line in enumerate(lines):
            try:
                entry = json.loads(line)
                if entry["n"] != number or _line(entry, before) != line + b"\n":
                    raise ValueError
            except (ValueError, KeyError, TypeError, RecursionError):
                raise StoreError(
                    f"the ledger {str(self.path)!r} is damaged in line {number + 1}: it is not what was written. "
                    f"Restore it from a copy."
                ) from None
            before = entry["digest"]
            entries.append(entry)
        if not entries or entries[0].get("kind") != "begin":
            raise StoreError(f"the ledger {str(self.path)!r} is damaged: it has no beginning. Restore it from a copy.")
        if entries[0].get("format", 0) > FORMAT:
            raise StoreError(f"the ledger {str(self.path)!r} is of a newer version. Type: pip install --upgrade ilba")
        return entries

    @property
    def tip(self) -> Entry:
        """The last entry."""
        return self.entries[-1]

    @property
    def publications(self) -> tuple[Publication, ...]:
        """All completed publications, the oldest first, without those that nobody outside ever saw."""
        done = {entry["of"] for entry in self.entries if entry["kind"] == "done"}
        withdrawn = {entry["of"]: bool(entry["unseen"]) for entry in self.entries if entry["kind"] == "withdrawn"}
        return tuple(
            Publication.of(entry, entry["n"] in withdrawn)
            for entry in self.entries
            if (entry["kind"] == "publication" or (entry["kind"] == "intent" and entry["n"] in done))
            and not withdrawn.get(entry["n"], False)
        )

    @property
    def populations(self) -> dict[str, list[Entry]]:
        """The entries that describe each population: one for each published data."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if entry["kind"] == "population":
                found.setdefault(entry["population"], []).append(entry)
        return found

    @property
    def unseen(self) -> set[str]:
        """The populations of which every publication was withdrawn before anybody outside saw it."""
        withdrawn = {entry["of"] for entry in self.entries if entry["kind"] == "withdrawn" and entry["unseen"]}
        seen: dict[str, bool] = {}
        for entry in self.entries:
            if entry["kind"] in ("publication", "intent"):
                name = entry["population"]
                seen[name] = seen.get(name, False) or entry["n"] not in withdrawn
        return {name for name, anybody in seen.items() if not anybody}

    @property
    def budgets(self) -> dict[str, float]:
        """The epsilon declared for all noise about each population."""
        found = [(entry["population"], float(entry["epsilon"])) for entry in self.entries if entry["kind"] == "budget"]
        return dict(reversed(found))  # the first declaration counts

    @property
    def spent(self) -> dict[str, float]:
        """The total epsilon of the noise about each population. Repeated numbers count once."""
        once = {(one.population, one.masks): one.epsilon for one in self.publications if one.epsilon is not None}
        found: dict[str, float] = {}
        for (population, _), epsilon in once.items():
            found[population] = found.get(population, 0.0) + epsilon
        return found

    def holds(self, number: int, digest: str) -> bool:
        """Whether an entry is in the ledger."""
        return number < len(self.entries) and self.entries[number]["digest"] == digest

    def parts(self, scope: str, until: int | None = None) -> list[Path]:
        """The checked files with the masks of a population and way, of entries before `until`; see `chapter`."""
        return [
            file
            for entry in self.entries[:until]
            if entry["kind"] == "masks" and entry["scope"] == scope
            for file in self._checked(entry)
        ]

    def _checked(self, entry: Mapping[str, Any]) -> list[Path]:
        """The files of an entry, after a check of their checksums."""
        checksums = entry.get("files") or {entry["file"]: entry["sha256"]}
        for name, checksum in checksums.items():
            file = self.path / MASKS / name
            if _checksum(file) != checksum:
                raise StoreError(f"{str(file)!r} of the ledger is missing or damaged. Restore it from a copy.")
        return [self.path / MASKS / name for name in checksums]

    def verify(self) -> int:
        """Check every entry and every file of masks.

        Returns
        -------
        int
            The number of entries.

        Raises
        ------
        StoreError
            The ledger is not what was written.
        """
        self.entries = self._read()
        for entry in self.entries:
            if entry["kind"] == "masks":
                self._checked(entry)
        extra = {path.name for path in (self.path / MASKS).iterdir() if not path.name.startswith(".")} - self._named()
        if extra and self._handle is None:
            notice(f"{sorted(extra)[0]!r} is in no entry of the ledger; the next release removes it.", Advice)
        return len(self.entries)

    # --- writing

    @contextlib.contextmanager
    def writing(self, waiting: Callable[[], object] | None = None) -> Iterator[Ledger]:
        """Be the only writer while the block runs; first complete or drop what a killed writer left."""
        with _locked(self.path / LOCK, waiting or _tell_waiting) as handle:
            self._handle = handle
            try:
                self.entries = self._read()
                with (self.path / LOG).open("rb+") as log:
                    log.truncate(self._ends)
                self._recover()
                yield self
            finally:
                self._handle = None

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """Remove a new ledger if the block fails before anything is entered."""
        try:
            yield
        except BaseException:
            with _locked(self.path / LOCK, _tell_waiting):
                if len(self._read()) == 1:
                    shutil.rmtree(self.path, ignore_errors=True)
            raise

    def _recover(self) -> None:
        """Complete or drop each open intent, depending on its folder; remove masks that no entry names."""
        closed = {entry["of"] for entry in self.entries if entry["kind"] in ("done", "dropped")}
        for entry in [entry for entry in self.entries if entry["kind"] == "intent" and entry["n"] not in closed]:
            stands = checksum_of(Path(entry["place"])) == entry["checksum"]
            self.append("done" if stands else "dropped", of=entry["n"])
        for path in (self.path / MASKS).iterdir():
            if path.name not in self._named():
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _named(self) -> set[str]:
        """The files and folders of masks that an entry names."""
        files = [
            name for entry in self.entries if entry["kind"] == "masks" for name in entry.get("files") or [entry["file"]]
        ]
        return {Path(name).parts[0] for name in files}

    def append(self, kind: str, **told: Any) -> Entry:
        """Add an entry; it is on disk when this returns."""
        assert self._handle is not None  # noqa: S101 - a mistake of ours, not of a user
        line = _line({"n": len(self.entries), "kind": kind, **told, **_now()}, self.tip["digest"])
        try:
            with (self.path / LOG).open("ab") as log:
                log.write(line)
                log.flush()
                os.fsync(log.fileno())
        except OSError as problem:
            raise _unwritten(self.path, problem) from problem
        entry: Entry = json.loads(line)
        self.entries.append(entry)
        return entry

    def keep_masks(self, scope: str, write: Callable[[Path], int], **told: Any) -> None:
        """Keep masks for ever: first write the files, then the entry that names them.

        `write` writes Parquet files into a folder and returns the number of masks in them.
        """
        name = f"{len(self.entries):06d}"
        with making(self.path / MASKS / name) as temporary:
            rows = write(temporary)
            for file in temporary.iterdir():
                file.chmod(PRIVATE) if file.suffix == ".parquet" else file.unlink()
            files = {f"{name}/{file.name}": _checksum(file) for file in sorted(temporary.iterdir())}
        if rows:
            self.append("masks", scope=scope, files=files, rows=rows, **told)
        else:
            (self.path / MASKS / name).rmdir()

    @contextlib.contextmanager
    def publishing(self, place: Path, checksum: str, **told: Any) -> Iterator[Entry]:
        """Write the intent, let this block exchange the folder at `place`, then write that it is done."""
        entry = self.append("intent", place=str(place), checksum=checksum, **told)
        try:
            yield entry
        except BaseException:
            self.append("done" if checksum_of(place) == checksum else "dropped", of=entry["n"])
            raise
        self.append("done", of=entry["n"])

    def withdraw(self, number: int, unseen: bool = False, reason: str = "") -> None:
        """Record that a publication was withdrawn.

        Parameters
        ----------
        number : int
            The number of the publication.
        unseen : bool, default False
            Whether nobody outside ever saw it. Then it does not bind later publications.
        reason : str, default ""
            The reason, in a sentence.
        """
        if number not in {one.number for one in self.publications}:
            raise InputError(f"the ledger has no publication {number}. `ilba ledger show` lists them.")
        self.append("withdrawn", of=number, unseen=unseen, reason=reason)

    def adopt(
        self,
        releases: Sequence[Any],
        store: Any,
        *,
        masks: Any = None,
        tables: Sequence[str] = (),
        secret: Any = None,
        accept_conflict: str | None = None,
        read: Mapping[str, Any] | None = None,
    ) -> list[Publication]:
        """Enter publications made without a ledger, so that later ones show the same masks.

        Parameters
        ----------
        releases : sequence of Release
            Opened releases, made by any version.
        store : FinestTable
            The finest table from which they were made.
        masks : FinestTable, optional
            A finest table with the published masks, if neither a released finest table nor the store has them.
        tables : sequence of str, default ()
            Tables that were published in another form: the csv files of the R package, which are compared with the
            masks, or names of tables.
        secret : Secret, optional
            The secret of the store, if it is not available otherwise.
        accept_conflict : str, optional
            The ID from a refusal: enter a publication that conflicts with one in the ledger. This is recorded, and
            masks entered before stay.
        read : mapping, optional
            How the csv files are written, as in `build`: {"encoding": "cp949"}.

        Returns
        -------
        list of Publication
            The publications, also those that were entered before: they are not entered again.

        Raises
        ------
        UnsafeRelease
            The masks of a release cannot be found, or publications show different masks. Nothing was entered.
        Conflict
            The ledger holds a publication about the same people by another method. Nothing was entered.
        """
        from ilba.release.adopting import adopt

        return adopt(
            self, releases, store, masks=masks, tables=tables, secret=secret, accept_conflict=accept_conflict, read=read
        )

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, {len(self.publications)} publications, confidential)"


def _now() -> dict[str, str]:
    return {"time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}


def _line(entry: Mapping[str, Any], before: str) -> bytes:
    """An entry as a line in a fixed spelling, with its own checksum and that of the entry before."""
    plain = {name: value for name, value in entry.items() if name != "digest"}
    text = json.dumps({**plain, "before": before}, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-1]},"digest":"{digest}"}}\n'.encode()


def _checksum(file: Path) -> str:
    """The SHA-256 of a file, read piece by piece; empty if there is no file."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def checksum_of(place: Path) -> str:
    """The checksum of the release at a path, or of a file; empty if there is none."""
    return _checksum(place / "release.json" if place.is_dir() else place)


def _unwritten(place: Path_, problem: OSError) -> WriteError:
    return WriteError(
        f"the ledger {os.fspath(place)!r} cannot be written: {problem.strerror}. Nothing was published. To use a "
        f"ledger in another place, give ledger= (--ledger PATH) or set ILBA_LEDGER; one ledger for the same people."
    )


def _tell_waiting() -> None:
    notice("another publication is being written with this ledger. Waiting until it is done.", Advice)


@contextlib.contextmanager
def _locked(file: Path, waiting: Callable[[], object]) -> Iterator[int]:
    """Hold the lock of a ledger."""
    try:
        handle = os.open(file, os.O_CREAT | os.O_RDWR, PRIVATE)
    except OSError as problem:
        raise _unwritten(file.parent, problem) from problem
    try:
        lock(handle, waiting)
        yield handle
    finally:
        os.close(handle)
