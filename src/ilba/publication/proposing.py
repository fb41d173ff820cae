"""The first publication file, proposed from `inspect`, for a person to check.

Values of the data go into separate files: proposed recodes are written to the confidential folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.data.codelists import CODE_COLUMNS
from ilba.data.columns import AREAS, ColumnFacts, facts_of
from ilba.data.hierarchies import read_hierarchy
from ilba.data.inspecting import AMONG_NOTES, LEAVES, NAMELESS, FileFacts, Inspection, Match, inspect
from ilba.data.missing import SHORT
from ilba.data.reading import LABELLED, kind_of, time_folders, time_of, value_labels
from ilba.data.shapes import is_map
from ilba.errors import InputError, listing, notice
from ilba.files import creating, replacing
from ilba.publication.codelists import upper_codes
from ilba.publication.file import NAME, SCHEMA, PublicationFile, schema_text, toml, toml_name

Path_: TypeAlias = str | os.PathLike[str]
CONFIDENTIAL = "confidential"
_MOST_KEYS = 6
_GUESS = "a guess: check letters that are not English"
_LABELS = ("name", "label", "title", "bezeichnung", "nom", "nombre", "이름", "명칭")
_LEVEL = "\0level"
_MAX_KEYS = 3
"""the most keys of a table that is proposed"""


def init(
    *paths: Path_, out: Path_ = NAME, mask_thr: int = 5, population: str = "", wave: str = "", encoding: str = ""
) -> Path:
    """Inspect files and write a publication file that proposes how to publish them.

    Parameters
    ----------
    *paths : path
        Records, code lists and maps, or folders of them. Of folders named by times (`year=2025`, `year=2026`), one is
        proposed: that of the wave, else the last.
    out : path, default "publication.toml"
        Where to write. An existing file is not replaced.
    mask_thr : int, default 5
        The threshold K.
    population : str, default ""
        A name for the people in the records. Left out, the name of the file.
    wave : str, default ""
        The name of this count of the population.
    encoding : str, default ""
        The encoding of csv files that are not UTF-8 or UTF-16, such as "cp1254". Left out, it is guessed.

    Returns
    -------
    Path
        The publication file.

    Raises
    ------
    InputError
        No file of records is among the files, or the publication file exists.
    """
    target = Path(out)
    if target.is_dir():
        target = target / NAME
    if target.exists():
        raise InputError(f"{str(target)!r} exists. Edit it, or write to another place: --out FILE.")
    paths = tuple(_one_count(Path(path), wave, target.parent) for path in paths)
    found = inspect(*paths, mask_thr=mask_thr, encoding=encoding)
    unread = {one.path: f"{one.path} {one.about}" for one in found.files if one.what == "unreadable"}
    if found.records is None:
        raise InputError(f"none of these files has records. {listing(unread.values(), 3)}".rstrip())
    for path, text in unread.items():
        if any(Path(one) == Path(path) for one in paths):  # it may be the file of records
            raise InputError(f"{text} Correct it, or leave it out.")
        notice(text)
    if NAMELESS in found.records.about:
        raise InputError(f"{found.records.path} has no column names. {NAMELESS}.")
    if AMONG_NOTES in found.records.about:
        notice(f"{found.records.path}: {AMONG_NOTES}.")
    for text in (found.repetition, *found.contradictions):
        if text:
            notice(f"{text}.")
    if not found.hierarchies:
        raise InputError(
            f"no column of {found.records.path!r} looks like an area or another level: each is a quantity, an "
            f"identifier, a date or constant. See `ilba inspect`."
        )
    proposal = _Proposal(found, target, mask_thr, population, wave, is_guess=not encoding)
    text = proposal.text()
    entries = _strings(tomllib.loads(text))
    idle = [str(one) for one in map(Path, paths) if one.is_file() and proposal.place(str(one)) not in entries]
    for path in idle:
        notice(f"nothing of {path} is used. {proposal.unused(path)}")
    folder = target.parent / CONFIDENTIAL
    if not folder.exists():
        folder.mkdir(mode=0o700)
    _written(folder / ".gitignore", "*\n")
    _written(folder / SCHEMA, schema_text())
    for name, frame in proposal.files.items():
        with replacing(target.parent / name) as temporary:
            frame.write_csv(temporary)
    with creating(target, mode=0o644) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target


def recodes(file: Path, said: PublicationFile) -> dict[str, dict[str, str]]:
    """For each column the values that a proposed recode changes, from its file in the confidential folder."""
    found = {}
    for column, entry in said.recipe.items():
        place = entry.get("recode") if isinstance(entry, Mapping) else None
        if isinstance(place, str) and place.startswith(f"{CONFIDENTIAL}/"):
            found[column] = dict(pl.read_csv(file.parent / place, infer_schema=False).iter_rows())
    return found


def _one_count(path: Path, wave: str, folder: Path) -> Path:
    """Of folders that look like several counts of the same people the one of the wave, else the last."""
    folders = [one for one in time_folders(path) if one.parent == path]
    if not folders:
        return path
    found = next((one for one in folders if time_of(one) == wave), folders[-1])
    source, column = Path(os.path.relpath(path, folder)).as_posix(), found.name.partition("=")[0]
    notice(
        f"{listing((one.name for one in folders), 3)} in {path} look like several counts of the same people, so only "
        f"{found.name} is proposed. If they are different people, to be counted together, write file = "
        f"{source!r} and together = {column!r} under [source]."
    )
    return _one_count(found, wave, folder)


def _named_and_timed(path: Path) -> tuple[str, str, bool]:
    """The name of the population, the wave, and whether a folder such as `year=2026` names the wave."""
    path = path.absolute()
    times: list[str] = []
    while time := time_of(path):
        path, times = path.parent, [time, *times]
    name, wave = _name_and_wave(path.stem)
    return (name, "-".join(times), True) if times else (name, wave, False)


def _name_and_wave(stem: str) -> tuple[str, str]:
    """Find the name of the population and the year, quarter, month or day of the count in the name of a file.

    >>> _name_and_wave("Survey_2025"), _name_and_wave("people"), _name_and_wave("2026")
    (('survey', '2025'), ('people', ''), ('2026', ''))
    >>> _name_and_wave("jobs_2026_09"), _name_and_wave("jobs-20260930"), _name_and_wave("2026Q3 jobs")
    (('jobs', '2026-09'), ('jobs', '20260930'), ('jobs', '2026Q3'))
    """
    month, day = "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
    time = re.search(
        rf"(?<![0-9])(?:19|20)[0-9]{{2}}(?:[-_ .]?[qQ][1-4]|[-_ .]?{month}(?:[-_ .]?{day})?)?(?![0-9])", stem
    )
    rest = re.sub(r"[-_ .]+", "-", stem.replace(time[0], "")).strip("-").lower() if time else ""
    return (rest, re.sub("[_ .]", "-", time[0])) if time and rest else (stem.lower(), "")


def _written(file: Path, text: str) -> None:
    with replacing(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _are_same(frame: pl.DataFrame, one: str, other: str) -> bool:
    """Whether two columns are equivalent: a code and its name."""
    sizes = {frame[one].n_unique(), frame[other].n_unique(), frame.select(pl.struct(one, other).n_unique()).item()}
    return len(sizes) == 1


def _finest_codes(frame: pl.DataFrame, by: str) -> pl.DataFrame:
    """A list without the codes of upper levels: those that one of its columns names as parents of others."""
    uppers = set().union(*(_uppers(frame, by, name) for name in frame.columns if name != by))
    return frame.filter(~pl.col(by).str.strip_chars().is_in(uppers))


def _uppers(frame: pl.DataFrame, by: str, parent: str) -> set[str]:
    """The codes of upper levels in a list of all levels, if this column has its parents; else none."""
    rows = frame.select(pl.col(by, parent).str.strip_chars()).drop_nulls(by)
    return upper_codes(dict(rows.iter_rows()))


def _strings(value: Any) -> set[str]:
    """All texts in a publication file."""
    if isinstance(value, Mapping | list):
        return set().union(*map(_strings, value.values() if isinstance(value, Mapping) else value))
    return {value} if isinstance(value, str) else set()


class _Proposal:
    """A proposal, part by part."""

    def __init__(
        self, found: Inspection, target: Path, mask_thr: int, population: str, wave: str, *, is_guess: bool
    ) -> None:
        self.found, self.folder, self.mask_thr, self.is_guess = found, target.parent, mask_thr, is_guess
        self.own = "" if target.name == NAME else f"{target.stem}-"
        """a prefix of folder names, if there may be several publication files"""
        assert found.records is not None  # noqa: S101 - it was checked
        self.source: FileFacts = found.records
        name, time, is_folder = _named_and_timed(Path(self.source.path))
        self.is_named = bool(population)
        self.population, self.wave = population or name, wave or ("" if population and not is_folder else time)
        self.day = "{wave}-12-31" if re.fullmatch("[0-9]{4}", self.wave) else ""
        """a day that follows the wave"""
        self.files: dict[str, pl.DataFrame] = {}
        self.whole = [one for one in found.files if one is not self.source and self._is_whole(one)]
        """code lists of several variables, in the columns of a release"""
        self.trees = {m.column: m for m in found.matches if self._is_tree(m)}
        whole = {one.path for one in self.whole}
        lists = [m for m in found.matches if not self._is_map(m) and not self._is_tree(m) and m.file not in whole]
        self.lists = {m.column: m for m in lists}
        self.hierarchies = self._hierarchies()
        areas = {c for h in self.hierarchies.values() for c in h}
        self.shapes = {m.column: m for m in found.matches if self._is_map(m) and m.column in areas}
        keys = [key for key in found.keys if key not in areas]
        self.keys, self.spare = keys[:_MOST_KEYS], keys[_MOST_KEYS:]

    def _is_map(self, match: Match) -> bool:
        return is_map(Path(match.file))

    def _is_whole(self, one: FileFacts) -> bool:
        """Whether a file is a code list as `lists` takes it: a row of it names its variable."""
        is_own = set(CODE_COLUMNS[:2]) <= set(one.frame.columns) and kind_of(Path(one.path)) == "csv"
        return is_own and not {c.name for c in self.source.columns}.isdisjoint(one.frame[CODE_COLUMNS[0]])

    def _is_tree(self, match: Match) -> bool:
        return match.by == LEAVES and match.file.lower().endswith(".hrc")

    def place(self, path: str) -> str:
        """A file as the publication file names it."""
        return Path(os.path.relpath(path, self.folder)).as_posix()

    def _hierarchies(self) -> dict[str, list[str]]:
        chains = [list(chain) for chain in self.found.hierarchies]
        self.derived: dict[str, tuple[str, Match]] = {}
        self.named: dict[str, tuple[list[str], Match]] = {}
        """for some levels the columns of a code list with their names"""
        self.above: dict[str, list[str]] = {}
        """for each column with a file of its hierarchy: the names of the levels above it"""
        for column, tree in self.trees.items():
            chain = next((one for one in chains if column in one), None)
            if chain is not None and chain != [column]:
                continue  # the data has columns for the levels
            if chain is None:
                chain = [column]
                chains.append(chain)
            self.above[column] = self._levels_of(tree)
            chain[:0] = self.above[column]
        for chain in chains:
            match = self.lists.get(chain[-1]) if chain[-1] not in self.above else None
            if match is None:
                continue
            wrong = {coarse for coarse, fine, _ in self.source.nearly if fine == chain[-1]}
            good = {c.name for c in self.source.columns if not c.is_hollow} - wrong
            own = tuple(chain)
            for level in self._levels_in(match, {*own, *good}, own):
                below = self._below(match, level, own)
                chain.insert(chain.index(below), level)
                self.derived[level] = (own[-1], match)
        chains.sort(key=lambda one: not self._are_areas(one))
        only = chains[0][-1] if len(chains) == 1 else "hierarchy1"
        first = "area" if self._are_areas(chains[0]) else only
        names = [first, *(f"hierarchy{number}" for number in range(2, len(chains) + 1))]
        return dict(zip(names, chains, strict=True))

    def _are_areas(self, columns: Sequence[str]) -> bool:
        """Whether a column is called like an area, or has a map."""
        drawn = {match.column for match in self.found.matches if self._is_map(match)}
        return any(name in drawn or AREAS.search(name) for name in columns)

    def _levels_of(self, tree: Match) -> list[str]:
        """Name the levels above a column by the variables of the code lists that have exactly their codes."""
        taken = {name for names in self.above.values() for name in names} | {one.name for one in self.source.columns}
        known: dict[str, set[str]] = {}
        for one in self.whole:
            for variable, code in one.frame.select(pl.col(CODE_COLUMNS[:2]).cast(pl.String)).iter_rows():
                known.setdefault(variable, set()).add(code)
        codes = read_hierarchy(tree.file).tree
        names = []
        for level in range(1, int(codes["depth"].max() or 0)):  # type: ignore[arg-type]
            own = set(codes.filter(pl.col("depth") == level)["code"])
            fitting = [name for name, listed in known.items() if listed == own and name not in taken]
            names.append(fitting[0] if len(fitting) == 1 else f"{tree.column}_{level}")
        return names

    def _levels_in(self, match: Match, taken: set[str], chain: Sequence[str]) -> list[str]:
        """Columns of a code list that are levels above its codes: each code has one, and they repeat.

        Of a code and its name the shorter one is a level, and the other its label.
        """
        listed = next(one for one in self.found.files if one.path == match.file)
        frame = _finest_codes(listed.frame, match.by)
        size = frame.height
        levels = []
        for column in listed.columns if size == listed.frame.height else map(facts_of, frame.get_columns()):
            if column.name == match.by or column.name in taken or column.missing or column.kind in ("decimal", "date"):
                continue
            if 2 <= column.values <= size / 2 and self._below(match, column.name, chain):
                length = frame[column.name].str.len_chars().mean() or 0
                levels.append((column.values, length, column.name))
        nested: list[str] = []
        known = [name for name in chain if name in frame.columns]
        for _, _, name in sorted(levels):
            last = nested[-1] if nested else None
            if code := next((one for one in (*known, *nested) if _are_same(frame, one, name)), None):
                self.named.setdefault(code, ([], match))[0].append(name)
            elif last is None or frame.select(pl.struct(last, name).n_unique()).item() == frame[name].n_unique():
                nested.append(name)
        return nested

    def _below(self, match: Match, level: str, chain: Sequence[str]) -> str:
        """The column of the records directly below a level of a list; none if they have the level, or it crosses one.

        The records may have the level, or its names, under another name.
        """
        listed = next(one for one in self.found.files if one.path == match.file)
        columns = {one.name: one for one in self.source.columns if one.name in chain}
        fine = chain[-1]
        pad = self._pad(columns[fine])
        code, other = pl.col(match.by).str.strip_chars().str.zfill(pad), pl.col(level).str.strip_chars()
        known = listed.frame.select(code.alias(fine), other.alias(_LEVEL)).unique(fine)
        width = {name: one.pad for name, one in columns.items()} | {fine: pad}
        records = self.source.frame.select(pl.col(one).str.strip_chars().str.zfill(width[one]) for one in columns)
        both = records.unique().join(known, on=fine).drop_nulls()
        size = both[_LEVEL].n_unique()
        for upper in (one for one in chain[:-1] if one in columns):
            pairs, areas = both.select(pl.struct(upper, _LEVEL).n_unique()).item(), both[upper].n_unique()
            if pairs == areas:
                return upper if size < areas else ""
            if pairs != size:
                return ""
        return fine

    # --- the recipe

    def recipe(self) -> dict[str, dict[str, Any]]:
        steps: dict[str, dict[str, Any]] = {}
        used = [*(c for h in self.hierarchies.values() for c in h), *self.keys]
        for name in used:
            if any(name in above for above in self.above.values()):
                continue  # made from the file of the hierarchy
            if name in self.derived:
                fine, match = self.derived[name]
                listed = next(one for one in self.found.files if one.path == match.file)
                recode = self._file(listed) | {"from": match.by, "to": name} | self._padding(fine, match)
                letters, is_prefix = self._zeros(name)
                recode |= {"pad_to": letters} if letters else {}
                steps[name] = {"from": fine, "prefix": letters} if is_prefix else {"from": fine, "recode": recode}
                continue
            column = self.source.column(name)
            found = self._cleaning(column)
            if found:
                steps[name] = found
        return steps

    def _pad(self, column: ColumnFacts) -> int:
        """The length of the codes of a column if leading zeros make them match, else 0."""
        pads = [m.pad for m in self.found.matches if m.column == column.name and m.padded > m.share]
        return max([column.pad, *pads])

    def _pad_above(self, column: ColumnFacts) -> int:
        """The length of the codes of a level if a list of all levels below it lost their zeros, else 0."""
        fine = next((chain[-1] for chain in self.hierarchies.values() if column.name in chain[:-1]), "")
        match = self.lists.get(fine)
        codes = set(self.source.frame[column.name].str.strip_chars().drop_nulls()) if match else set()
        if not match or not all(map(str.isdecimal, codes)):
            return 0
        listed = next(one.frame for one in self.found.files if one.path == match.file)
        uppers = set().union(*(_uppers(listed, match.by, one) for one in listed.columns if one != match.by))
        lost = {one for one in codes - uppers if one.lstrip("0") in uppers}
        return max(map(len, lost), default=0)

    def _pad_below(self, column: ColumnFacts) -> int:
        """The length of the codes of a level that begin with codes above which lost their zeros, else 0."""
        if any(match.column == column.name for match in self.found.matches):
            return 0  # its list or map tells its length
        chain = next((one for one in self.hierarchies.values() if column.name in one), [column.name])
        known = {one.name: one for one in self.source.columns}
        for upper in (known[name] for name in chain[: chain.index(column.name)] if name in known):
            pad = max(self._pad(upper), self._pad_above(upper))
            pairs = self.source.frame.select(pl.col(upper.name, column.name).str.strip_chars()).drop_nulls().unique()
            none = {"", *upper.spellings, *column.spellings}
            both = [(above, code) for above, code in pairs.iter_rows() if none.isdisjoint((above, code))]
            lengths = {pad + len(code) - len(above) for above, code in both}
            begins = all(code.isdecimal() and code.startswith(above) for above, code in both)
            if pad and begins and len(lengths) == 1 and any(len(above) < pad for above, _ in both):
                return lengths.pop()
        return 0

    def _padding(self, column: str, match: Match) -> dict[str, int]:
        """The entry that makes the codes of a list or map as long as those of its column. Upper levels are shorter."""
        listed = next(one for one in self.found.files if one.path == match.file)
        pad = self._pad(self.source.column(column))
        codes = _finest_codes(listed.frame, match.by)[match.by].str.strip_chars().drop_nulls()
        is_shorter = bool((codes.str.contains(r"^\d+$") & (codes.str.len_chars() < pad)).any())
        return {"pad": pad} if is_shorter else {}

    def _zeros(self, level: str) -> tuple[int, bool]:
        """The length of the codes of a level that lost their zeros in a list, else 0; whether they begin its codes."""
        fine, match = self.derived.get(level, ("", None))
        pad = self._padding(fine, match).get("pad", 0) if match else 0
        listed = next((one.frame for one in self.found.files if match and one.path == match.file), pl.DataFrame())
        if not match or not pad or _finest_codes(listed, match.by).height < listed.height:
            return 0, False  # the codes of upper levels are in the list as they are
        both = listed.select(pl.col(match.by, level).str.strip_chars()).drop_nulls()
        codes, uppers = both[match.by].str.zfill(pad), both[level]
        lengths = set(uppers.str.len_chars())
        if not uppers.str.contains(r"^\d+$").all() or min(lengths) == pad:
            return 0, False
        for letters in range(max(lengths), pad):
            if (codes.str.head(letters) == uppers.str.zfill(letters)).all():
                return (letters, True) if min(lengths) < letters else (0, False)
        return (max(lengths), False) if len(lengths) > 1 else (0, False)

    def _cleaning(self, column: ColumnFacts) -> dict[str, Any]:
        pad = max(self._pad(column), self._pad_above(column), self._pad_below(column))
        short = (one for one in column.spellings if one in SHORT)  # in another column they may be codes
        here = [*(one for one in short if one not in self._listed(column.name)), *column.no_age]
        missing: dict[str, Any] = {"missing": here} if here else {}
        if column.kind == "age":
            return missing | {"width": 5, "top": 85}
        steps: dict[str, Any] = missing
        if column.case:
            steps["case"] = column.case
        if column.replace:
            steps["replace"] = dict(column.replace)
        if pad:
            steps["pad"] = pad
        if column.recode:
            file = self._free(f"{CONFIDENTIAL}/recode-{column.name.replace('/', '-')}")
            words = sorted(column.recode)
            self.files[file] = pl.DataFrame({"value": words, "becomes": [column.recode[one] for one in words]})
            steps |= {"recode": file, "unmatched": "keep"}
        return steps

    def _listed(self, column: str) -> set[str]:
        """The codes in the code list of a column."""
        match = self.lists.get(column)
        frames = [one.frame[match.by] for one in self.found.files if match and one.path == match.file]
        frames += [one.frame.filter(pl.col("variable") == column)["code"] for one in self.whole]
        return {code for frame in frames for code in frame.str.strip_chars().drop_nulls()}

    def _free(self, name: str) -> str:
        """The name of a new file: an existing one belongs to another publication file."""
        names = (f"{name}{number}.csv" for number in ("", *(f"-{n}" for n in range(2, 1000))))
        return next(one for one in names if not (self.folder / one).exists())

    def _file(self, one: FileFacts) -> dict[str, Any]:
        reading = one.reading
        plain: dict[str, Any] = {"file": self.place(one.path)}
        if reading.encoding and not reading.encoding.startswith("utf"):
            plain["encoding"] = reading.encoding
        if reading.separator and reading.separator != ",":
            plain["separator"] = reading.separator
        if reading.sheet and len(one.sheets) > 1:
            plain["sheet"] = reading.sheet
        if reading.header:
            plain["header"] = reading.header
        if reading.notes:
            plain["notes"] = reading.notes
        return plain

    def codes(self) -> dict[str, dict[str, Any]]:
        """A code list for each column that has one; labels of SPSS and similar files go into a new file."""
        found: dict[str, dict[str, Any]] = {}
        used = [*(c for h in self.hierarchies.values() for c in h), *self.keys]
        for column, match in self.lists.items():
            if column not in used:
                continue
            listed = next(one for one in self.found.files if one.path == match.file)
            padding = self._padding(column, match)  # the parents in a list without zeros lack theirs, too
            parent = self._parent_in(column, listed, match.by) or ({} if padding else self._parent(column, listed))
            found[column] = self._file(listed) | {"code": match.by} | padding | parent
            label = self._label_in(listed, match.by, list(parent.values()))
            if label:
                found[column]["label"] = {"en": label}
        for level, (names, match) in self.named.items():
            if level not in found:
                listed = next(one for one in self.found.files if one.path == match.file)
                place = listed.frame.columns.index  # of several names the one that stands where that of the finest does
                finest = found.get(match.column, {}).get("label", {}).get("en", match.by)
                apart = place(finest) - place(match.by)
                label = next((one for one in names if place(one) - place(level) == apart), names[0])
                letters, _ = self._zeros(level)
                parent = self._parent(level, listed)
                above = [name for name in parent.values() if name in self.named or not self._zeros(name)[0]]
                found[level] = self._file(listed) | {"code": level} | ({"pad": letters} if letters else {})
                found[level] |= parent if above else {}
                found[level]["label"] = {"en": label}
        kind = kind_of(Path(self.source.path)) if Path(self.source.path).is_file() else ""
        for column, labels in value_labels(Path(self.source.path), kind).items() if kind in LABELLED else ():
            if column in used and column not in found and labels and not self._listed(column):
                file = self._free(f"codes-{column.replace('/', '-')}")
                self.files[file] = pl.DataFrame({"code": list(labels), "label": list(labels.values())})
                found[column] = {"file": file, "code": "code", "label": {"en": "label"}}
        return found

    def _parent(self, column: str, listed: FileFacts) -> dict[str, str]:
        """The column of the list with the level above."""
        chain = next((one for one in self.hierarchies.values() if column in one), [column])
        upper = [one for one in chain[: chain.index(column)] if one in listed.frame.columns][-1:]
        return {"parent": upper[0]} if upper else {}

    def _parent_in(self, column: str, listed: FileFacts, by: str) -> dict[str, str]:
        """The column of a list of all levels with the code one level up: each of its values is a code of the list."""
        is_finest = any(chain[-1] == column and len(chain) > 1 for chain in self.hierarchies.values())
        names = (one for one in listed.frame.columns if is_finest and one != by)
        return next(({"parent": one} for one in names if _uppers(listed.frame, by, one)), {})

    def _label_in(self, listed: FileFacts, code: str, parent: Sequence[str]) -> str:
        """The column of labels: nearly unique in each area above, and with such a name or the longest texts."""
        enough = 0.8 * listed.frame.height
        others = [one for one in listed.columns if one.name not in (code, *parent) and one.kind != "decimal"]
        possible = [one.name for one in others if listed.frame.n_unique([one.name, *parent]) > enough]
        named = [name for name in possible if any(word in name.lower() for word in _LABELS)]
        longest = max(possible, key=lambda name: listed.frame[name].str.len_chars().mean() or 0, default="")
        return named[0] if named else longest

    def unused(self, path: str) -> str:
        """Why nothing of a file is used, and what to write if it should be."""
        match = next((one for one in self.found.matches if Path(one.file) == Path(path)), None)
        if match is None:
            return "No column of the records matches it."
        column = match.column
        own, chain = next((one for one in self.hierarchies.items() if column in one[1]), ("", []))
        if self._is_tree(match):
            if above := self._with_parents(match, chain):
                return f"It is not needed: its codes match {column}, whose parents are in the data ({listing(above)})."
            entry: dict[str, Any] = {"column": column, "levels": self._levels_of(match), "file": self.place(match.file)}
            if not entry["levels"]:
                return f"Its codes match {column}, but it has no code above another."
            return (
                f"Its codes match {column}, for which other parents are proposed. To use it instead, write "
                f"{toml_name(own)} = {toml(entry)} under [hierarchies]."
            )
        listed = next(one for one in self.found.files if one.path == match.file)
        entry = self._file(listed) | {"code": match.by} | self._padding(column, match)
        line = f"{toml_name(column)} = {toml(entry)} under [{'maps' if self._is_map(match) else 'codes'}]"
        proposed = (self.shapes if self._is_map(match) else self.lists).get(column)
        if proposed and proposed.file != match.file and (own or column in self.keys):
            other = self.place(proposed.file)
            return f"Its codes match {column}, for which {other} is proposed. To use it instead, write {line}."
        pad = self._pad(self.source.column(column))
        cleaned = f"; {toml_name(column)} = {toml({'pad': pad})} under [recipe]" if pad else ""
        return (
            f"Its codes match {column}, which is in no proposed hierarchy. To use it, add {column} to a hierarchy, and "
            f"write {line}{cleaned}."
        )

    def _with_parents(self, tree: Match, chain: Sequence[str]) -> list[str]:
        """The columns of the records with the parents in a file of a hierarchy; none if a level of it has no column."""
        fine = self.source.column(tree.column)
        columns = [one.name for one in self.source.columns if one.name in chain[: chain.index(fine.name)]]
        paths = read_hierarchy(tree.file).paths.rename(lambda level: f"{_LEVEL}{level}")
        *uppers, leaf = paths.columns
        records = self.source.frame.select(pl.col(fine.name, *columns).str.strip_chars()).unique().drop_nulls()
        both = records.with_columns(pl.col(fine.name).str.zfill(self._pad(fine))).join(
            paths, left_on=fine.name, right_on=leaf
        )
        found = [next((one for one in columns if both[one].equals(both[level])), "") for level in uppers]
        return found if both.height and all(found) else []

    # --- the text

    def text(self) -> str:
        source, recipe, codes = self.source, self.recipe(), self.codes()
        named = [] if self.is_named else ["population.name"]
        proposed = ["source", *named, "hierarchies", "keys", *(["lists"] if self.whole else [])]
        proposed += [f"recipe.{name}" for name in recipe]
        proposed += [f"codes.{name}" for name in codes] + [f"maps.{name}" for name in self.shapes]
        spellings = sorted({text for c in source.columns for text in c.spellings if text not in SHORT})
        proposed += ["recipe.missing"] if spellings else []
        totals = {column.name: list(column.totals) for column in source.columns if column.totals}
        proposed += ["recipe.without"] if totals else []
        proposed += ["tables.max_keys"] if len(self.keys) > _MAX_KEYS else []  # it leaves out the finest table
        labelled = [c for c in source.columns if c.label and c.name in self.keys]
        lines = [
            f"#:schema {CONFIDENTIAL}/{SCHEMA}",
            "# The source, content and method of a publication, written by `ilba init`. Edit it and keep it.",
            "# Of the data it holds only spellings of missing values and names of total lines.",
            "# Next: `ilba plan` is a dry run, `ilba publish` publishes.",
            "",
            "format = 1",
            "# These entries were proposed from the data. Check and correct each, then remove it from this list.",
            f"proposed = {toml(proposed)}",
            *([f"lists = {toml([self.place(one.path) for one in self.whole])}"] if self.whole else []),
            "",
            "# The variables of the tables, in the order of earlier waves.",
            f"keys = {toml(self.keys)}",
            *([f"# Possible further keys: {listing(self.spare, 30)}."] if self.spare else []),
            "",
            "# Counts below K are never shown.",
            f"mask_thr = {self.mask_thr}",
            'method = "controlled"',
            '# secret = "agency.secret"     # left out, one is made beside the store, once',
            '# ledger = "agency.ledger"     # left out, ILBA_LEDGER, else beside the secret',
            "",
            "[source]",
            f"file = {toml(self.place(source.path))}",
            *self._source_lines(),
            "",
            "[population]",
            "# Use the same name for all data about the same people.",
            f"name = {toml(self.population)}",
            f"wave = {toml(self.wave)}",
            f'# period = "{self.day or "2026-07-01"}"',
            '# unit = {en = "persons", fr = "personnes"}',
            "",
            "[about]",
            f'title = {{en = {toml(self.population.replace("-", " ").replace("_", " ").capitalize())}}}',
            '# description = {en = "", ko = ""}',
            '# source = "Where the data comes from"',
            '# licence = "https://creativecommons.org/licenses/by/4.0/"',
            "",
            "# From coarse to fine: columns; or {column = .., levels = [..], file = 'x.hrc'}, or prefixes = [2, 5].",
            "[hierarchies]",
            *(f"{toml_name(name)} = {toml(self._levels(columns))}" for name, columns in self.hierarchies.items()),
            "",
            "# How columns are cleaned first: trim, missing, case, replace, split, date, pad, prefix, bands, recode.",
            "[recipe]",
            *([f"missing = {toml(spellings)}"] if spellings else []),
            *([f"without = {toml(totals)}     # lines of totals"] if totals else []),
            *(f"{toml_name(name)} = {toml(steps)}" for name, steps in recipe.items()),
            *self._age_lines(),
            "",
            *self._matched_lines(codes),
            "# Names of columns, per language.",
            "[labels]",
            *(f"# {toml_name(name)} = {{en = {toml(name)}, ko = {toml(name)}}}" for name in self.keys),
            *(f"{toml_name(c.name)} = {toml({'en': c.label})}" for c in labelled),
            "",
            "[tables]",
            f"max_keys = {min(len(self.keys), _MAX_KEYS)}" if self.keys else f"# max_keys = {_MAX_KEYS}",
            '# names = ["town.sex", "town.age"]     # only these tables',
            "",
            "[outputs]",
            *self._folder_lines(),
            'formats = ["csv"]                 # public, in exports: csv, xlsx, json-stat, sdmx-csv, px',
            'languages = ["en"]                # of exports; the decision page is written in en or ko',
            "# pdf = true                      # the decision page also as PDF: pip install 'ilba[pdf]'",
            f'confidential = "{CONFIDENTIAL}"     # store, secret, ledger, reports',
            "",
        ]  # fmt: skip
        return "\n".join(lines)

    def _levels(self, columns: list[str]) -> Any:
        """A hierarchy: its columns, or the finest one with the file of those above."""
        above = self.above.get(columns[-1])
        if not above:
            return columns
        file = self.place(self.trees[columns[-1]].file)
        return {"column": columns[-1], "levels": above, "file": file}

    def _folder_lines(self) -> list[str]:
        """The public folders: one for each wave, if there are waves."""
        end = "-{wave}" if self.wave else ""
        lines = [f'release = "{self.own}release{end}"               # public']
        if self.own or end:
            lines.append(f'exports = "{self.own}exports{end}"')
        return lines

    def _source_lines(self) -> list[str]:
        source = self.source
        lines = []
        if source.reading.encoding and not source.reading.encoding.startswith("utf"):
            guess = f"     # {_GUESS}" if self.is_guess else ""
            lines.append(f"encoding = {toml(source.reading.encoding)}{guess}")
        if source.reading.separator not in ("", ","):
            lines.append(f"separator = {toml(source.reading.separator)}")
        if source.decimal == ",":
            lines.append('decimal = ","')
        if len(source.sheets) > 1:
            lines.append(f"sheet = {toml(source.reading.sheet)}")
        if source.reading.header:
            lines.append(f"header = {source.reading.header}     # the line with the column names")
        if source.reading.notes:
            lines.append('notes = "drop"     # titles, footnotes (text only in the first column), repeated names')
        means = "category counts records with missing values, drop leaves them out; do as in earlier waves"
        is_missing = any(c.missing for c in source.columns if c.name in self.keys or c.name in self.derived)
        lines.append(f'missing = "{"category" if is_missing else "drop"}"     # {means}')
        return lines

    def _age_lines(self) -> list[str]:
        """For each column of dates, the entry that makes ages of it if they are dates of birth."""
        dates = [column for column in self.source.columns if column.date]
        steps = (
            {"from": c.name, "date": c.date, "age_on": self.day or "2026-01-01", "width": 5, "top": 85} for c in dates
        )
        return [f"# age = {toml(one)}     # for dates of birth: set the day, add age to keys" for one in steps]

    def _matched_lines(self, codes: Mapping[str, Mapping[str, Any]]) -> list[str]:
        lines = []
        if codes:
            lines += ["# Code lists: every code that can occur, not only those of this data.", "[codes]"]
            if self.is_guess and any("encoding" in entry for entry in codes.values()):
                lines.append(f"# The encoding is {_GUESS}.")
            lines += [f"{toml_name(name)} = {toml(entry)}" for name, entry in codes.items()] + [""]
        if self.shapes:
            lines.append("[maps]")
            for name, match in self.shapes.items():
                entry = {"file": self.place(match.file), "code": match.by} | self._padding(name, match)
                lines.append(f"{toml_name(name)} = {toml(entry)}")
            lines.append("")
        return lines
