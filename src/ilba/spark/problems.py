"""Errors of Spark in one sentence, and files that Spark would pass over in silence."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote, urlsplit

import polars as pl

from ilba.data.reading import unlike_parts
from ilba.errors import IlbaError, InputError, SecretError, listing

TIME = "ilba.time"
"""the metadata of a column of times: the unit and the zone that its files name"""
UNLIKE = "ilba.unlike"
"""the metadata of a column that has another type in some parts: why it is refused"""
CHANGED = "the data changed while it was counted: a label is new. Count it again."
_OURS = re.compile(r"\bilba\.errors\.(\w+): (.+)")
_FILE = re.compile(r"(?:reading file|footer for file:?) (\S.*?)\.?(?:\. |\s*\n|$)")
_COLUMN = re.compile(r"Parquet column \[(.+?)\]\. ")
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "is not a Parquet file")
_DECODING = re.compile(
    r"most recent failure: Lost task[^\n]*: (?:java|org\.apache\.parquet)\.(?!lang\.OutOfMemoryError)[^\n]*\n"
    r"(?:\s+at (?!org\.apache\.(?:parquet|orc)\.|org\.apache\.spark\.sql\.execution\.)[^\n]*\n)*"
    r"\s+at org\.apache\.(?:parquet|orc|spark\.sql\.execution\.(?:vectorized|datasources\.(?:parquet|orc)))\."
    r"(?!\S*(?:Writer|Output))"
    r"|most recent failure: Lost task[^\n]*: java\.lang\.ArrayIndexOutOfBoundsException\s*\n\s*Driver stacktrace:"
)
"""how a task fails that decodes a damaged page after reading it; Java leaves out the frames of a frequent error"""
_REASONS = {
    r"AccessControlException|Permission denied|AccessDenied|Forbidden": "Spark may not read it.",
    r"FILE_NOT_EXIST|FileNotFoundException": "it has disappeared since Spark listed the files. Run it again.",
    r"SocketTimeout|ConnectException|UnknownHostException": "the connection to it failed. Run it again.",
    r"DATA_TYPE_MISMATCH": "{column} has another type there, or no value in a part. Write all parts with the same "
    "columns and types.",
    r"CSV header": "its columns are not those of the other parts, or two have one name. Write all parts with the same "
    "columns.",
    r"MALFORMED_RECORD_IN_PARSING": "a line has too few or too many fields. Correct that; a field with a line feed in "
    "it has to be in quotes.",
}
_ENDED = (
    "Python worker exited unexpectedly",
    "EOFException occurred while reading the port number",
    "Could not connect to Python worker",
    "ExecutorLostFailure",
)
_NOTHING = "Nothing was half written. Run it again."
_GONE = ("Answer from Java side is empty", "Connection refused", "Error while sending or receiving")
"""what PySpark says if the Java of the driver is no more"""


@contextlib.contextmanager
def telling(then: str = _NOTHING) -> Iterator[None]:
    """Turn the errors of a job that users meet into one sentence each; `then` says what is left of the work."""
    try:
        yield
    except IlbaError:
        raise
    except Exception as problem:  # Java, PySpark and Connect have their own kinds of errors
        sentence = _sentence(str(problem), then)
        if sentence is None:
            raise
        raise sentence from problem


def _sentence(text: str, then: str) -> IlbaError | None:
    """The error of this package for the text of one of Spark, with all its causes; None if it is another one."""
    if ours := _OURS.search(text):  # a worker raised it
        return {"SecretError": SecretError, "InputError": InputError}.get(ours[1], IlbaError)(ours[2].strip())
    if CHANGED in text:
        return InputError(CHANGED)
    if any(word in text for word in _UNREADABLE):
        found = _FILE.search(text)
        file = repr(_shown(unquote(found[1]))) if found else "the data"
        damaged = "it is damaged or not what its name says."
        why = next((words for reason, words in _REASONS.items() if re.search(reason, text)), damaged)
        column = _COLUMN.search(text)
        why = why.replace("{column}", f"the column {column[1]!r}" if column else "a column")
        return InputError(f"Spark could not read {file}: {why}")
    if _DECODING.search(text):
        return InputError(
            "Spark could not read one of the files of the data: it is damaged. To learn which one, run it again with "
            "--conf spark.sql.parquet.enableVectorizedReader=false (in Python set it in the session)."
        )
    if any(word in text for word in _ENDED):
        return IlbaError(
            f"a worker of Spark was killed or ran out of memory, and Spark gave up. {then} If it happens again, give "
            f"the workers more memory: --conf spark.executor.memoryOverhead=4g."
        )
    if any(word in text for word in _GONE):
        return IlbaError(
            f"the Java of Spark's driver has ended, perhaps for want of memory. {then} Give it more: --conf "
            f"spark.driver.memory=4g (in Python in a new process)."
        )
    return None


def refuse_nanoseconds(files: list[str], said: str) -> None:
    """Refuse times in nanoseconds with the names of their columns. Spark reads no file that has one."""
    names: list[str] = []
    for path in _on_disk(files):
        with contextlib.suppress(OSError, ValueError):  # damaged
            schema = importlib.import_module("pyarrow.parquet").ParquetFile(path).schema
            columns = [schema.column(place) for place in range(len(schema))]
            names += [one.path for one in columns if "nanoseconds" in str(one.logical_type)]
    if names:
        raise InputError(
            f"Spark cannot read {said}: times in nanoseconds are in {listing(map(repr, dict.fromkeys(names)), 3)}. "
            f"Write the file without them, or in microseconds; in polars: cast({{{names[0]!r}: pl.Datetime('us')}})."
        )


def refuse_empty(files: list[str]) -> None:
    """Refuse parquet and orc files without a byte among the files of a frame. Spark would leave them out."""
    empty = []
    for path in _on_disk(files):
        with contextlib.suppress(OSError):  # the workers have other disks
            if os.stat(path).st_size == 0:  # noqa: PTH116 - there can be many
                empty.append(path)
    _refuse(empty)


def refuse_unlike(files: list[str], said: str) -> dict[str, dict[str, Any]]:
    """Refuse parts with different columns. Spark would fill a column with missing values, or leave it out.

    The parts must be of one folder or pattern: the files of a join have different columns, too. Only their footers are
    read. The result is metadata of columns: of times the unit and the zone that the files name, which Spark does not
    read, and of other columns whether their types differ. Those are refused only if they are counted, as in memory.
    """
    paths = sorted(_on_disk(files))  # the same file is named each time
    with ThreadPoolExecutor() as pool:
        read = {path: kinds for path, kinds in zip(paths, pool.map(_columns, paths), strict=True) if kinds is not None}
    if len({frozenset((name, _time(kind)) for name, kind in kinds.items()) for kinds in read.values()}) > 1:
        raise InputError(unlike_parts(said))
    found: dict[str, dict[Any, str]] = {}
    for path, kinds in read.items():
        for name, kind in kinds.items():
            if kind not in (None, pl.Null):
                found.setdefault(name, {}).setdefault(kind, path)
    return {name: _metadata(name, kinds) for name, kinds in found.items()}


def _time(kind: Any) -> pl.Datetime | None:
    return kind if isinstance(kind, pl.Datetime) else None


def _metadata(name: str, kinds: dict[Any, str]) -> dict[str, Any]:
    """What the files tell of a column, from its types, each with a file that has it."""
    if len(kinds) > 1:
        (one, file), (other, at), *_ = ((_named(kind), repr(path)) for kind, path in kinds.items())
        where = f"the column {name!r} is {one} in {file} and {other} in {at}"
        return {UNLIKE: f"{where}. Write all parts with the same columns and types."}
    time = _time(next(iter(kinds)))
    return {} if time is None else {TIME: [time.time_unit, time.time_zone or ""]}


def _named(kind: Any) -> str:
    return "Enum" if isinstance(kind, pl.Enum) else str(kind)  # its categories are labels


def _columns(path: str) -> dict[str, Any] | None:
    """The columns of a file with their types, without those in the names of its folders; None if it is unreadable."""
    try:
        if path.lower().endswith(".orc"):
            kinds = dict.fromkeys(importlib.import_module("pyarrow.orc").ORCFile(path).schema.names)
        else:
            kinds = dict(pl.read_parquet_schema(path))
    except (OSError, ValueError, pl.exceptions.PolarsError):  # damaged, or on the disks of the workers: Spark tells
        return None
    folders = {part.partition("=")[0].casefold() for part in path.split("/") if "=" in part}
    # for Spark, Age and age are one column
    return {name: kind for name, kind in kinds.items() if name.casefold() not in folders}


def _on_disk(files: list[str]) -> Iterator[str]:
    """The parquet and orc files of a frame that may be on the driver's disks."""
    for file in files:
        parts = urlsplit(file)
        if parts.scheme in ("", "file") and parts.path.lower().endswith((".parquet", ".pq", ".orc")):
            yield unquote(parts.path)


def refuse_empty_at(spark: Any, url: str, files: list[str]) -> None:
    """The same for the files of a frame that was read from a URL: Spark lists them, but does not open empty ones."""
    opened = spark.read.format("binaryFile").load(url).select("path")
    with telling():
        read = {_shown(row[0]) for row in opened.collect()}
    _refuse([name for name in map(_shown, map(unquote, files)) if name not in read])


def _refuse(empty: list[str]) -> None:
    if empty:
        raise InputError(
            f"{listing(map(repr, sorted(empty)), 3)} cannot be read: a file of 0 bytes is damaged. Write it again, or "
            f"remove it if it should hold no records."
        )


def _shown(place: str) -> str:
    """A file as a person writes it: a local path without its scheme."""
    return re.sub(r"^file:/+", "/", place)
