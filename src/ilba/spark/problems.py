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

from ilba.data.reading import unlike_parts
from ilba.errors import IlbaError, InputError, SecretError, listing

CHANGED = "the data changed while it was counted: a label is new. Count it again."
_OURS = re.compile(r"\bilba\.errors\.(\w+): (.+)")
_FILE = re.compile(r"(?:reading file|footer for file:?) (\S.*?)\.?(?:\. |\s*\n|$)")
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
    r"DATA_TYPE_MISMATCH": "a column has another type there. Write all parts with the same columns and types.",
    r"CSV header": "its columns are not those of the other parts, or two have one name. Write all parts with the same "
    "columns.",
}
_ENDED = (
    "Python worker exited unexpectedly",
    "EOFException occurred while reading the port number",
    "Could not connect to Python worker",
    "ExecutorLostFailure",
)
_NOTHING = "Nothing was half written. Run it again."


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
    return None


def refuse_empty(files: list[str]) -> None:
    """Refuse parquet and orc files without a byte among the files of a frame. Spark would leave them out."""
    empty = []
    for path in _on_disk(files):
        with contextlib.suppress(OSError):  # the workers have other disks
            if os.stat(path).st_size == 0:  # noqa: PTH116 - there can be many
                empty.append(path)
    _refuse(empty)


def refuse_unlike(files: list[str], said: str) -> None:
    """Refuse parts with different columns. Spark would fill a column with missing values, or leave it out.

    The parts must be of one folder or pattern: the files of a join have different columns, too. Only their footers are
    read.
    """
    paths = list(_on_disk(files))
    with ThreadPoolExecutor() as pool:
        found = {names for names in pool.map(_names, paths) if names is not None}
    if len(found) > 1:
        raise InputError(unlike_parts(said))


def _names(path: str) -> frozenset[str] | None:
    """The columns of a file without those in the names of its folders; None if it cannot be read here."""
    try:
        if path.lower().endswith(".orc"):
            names = importlib.import_module("pyarrow.orc").ORCFile(path).schema.names
        else:
            names = importlib.import_module("pyarrow.parquet").read_schema(path).names
    except (OSError, ValueError):  # damaged, or on the disks of the workers: Spark tells
        return None
    folders = {part.partition("=")[0].casefold() for part in path.split("/") if "=" in part}
    return frozenset(map(str.casefold, names)) - folders  # for Spark, Age and age are one column


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
