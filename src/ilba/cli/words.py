"""Shared by the commands: reading options, showing results and progress."""

from __future__ import annotations

import csv
import functools
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import polars as pl

from ilba import __version__
from ilba.errors import Advice, InputError, Notice, StoreError, nearest
from ilba.files import on_disk, writable
from ilba.progress import ProgressStep
from ilba.tables.beside import secret_path
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store, read_rds
from ilba.tables.store import OF_R

MISSING = "(missing)"
GROUPS = {
    "From your files to a publication": ("inspect", "init", "plan", "publish", "serve"),
    "Step by step": ("build", "table", "cell", "cube", "release", "export"),
    "Loss and risk": ("report", "audit", "risk", "compare", "choose-k"),
    "Secret, ledger and files": ("secret", "ledger", "doctor", "convert"),
    "A first look": ("demo",),
}
"""the commands by task; a command without a group comes last"""
_ORDER = [name for names in GROUPS.values() for name in names]


class Verbs(click.Group):
    """Commands in the order of their use; the error for a misspelled command suggests the nearest."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of their use."""
        return sorted(self.commands, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands to the help, grouped by task."""
        if not set(self.commands) & set(GROUPS["Step by step"]):  # a command with subcommands
            super().format_commands(ctx, formatter)
            return
        rest = [name for name in self.list_commands(ctx) if name not in _ORDER]
        for title, names in {**GROUPS, "More": rest}.items():
            known = [(name, self.commands[name].get_short_help_str(90)) for name in names if name in self.commands]
            if known:
                with formatter.section(title):
                    formatter.write_dl(known)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            raise click.UsageError(
                f"no such command {args[0]!r}.{nearest(args[0], known)} Commands: {', '.join(known)}.", ctx
            )
        return super().resolve_command(ctx, args)


def example(text: str) -> Callable[[click.Command], click.Command]:
    """Put an example at the end of a command's help."""

    def add(command: click.Command) -> click.Command:
        command.epilog = f"\b\nExample:\n  {text}"
        return command

    return add


def typed_list(value: str | list[str]) -> list[str]:
    """Split names or values at commas; one that contains a comma is in double quotes."""
    if isinstance(value, list):
        return value
    rows = list(csv.reader([value], skipinitialspace=True))
    return [cell.strip() for cell in rows[0]] if rows else []


def typed_pairs(option: str, pairs: tuple[str, ...], value: str = "VALUE") -> dict[str, str]:
    """Read pairs such as `LA3=towns.geojson`, one for each column."""
    for pair in pairs:
        if "=" not in pair:
            file = bool(Path(pair).suffix)
            wanted = f"COLUMN={pair}" if file else f"{pair}={value}"
            raise InputError(f"{option} {pair} names no column. Write {wanted}.")
    return dict(pair.partition("=")[::2] for pair in pairs)


def typed_labels(texts: list[str]) -> list[str | None]:
    """Read typed labels; `(missing)` is a missing one."""
    return [None if text == MISSING else text for text in texts]


def named_lists(values: tuple[str, ...], option: str, names: list[str] | None = None) -> Any:
    """Read `a,b` as a list, and `x=a,b` as a mapping; nothing gives an empty list.

    With `names`, only these are names before an equals sign, because a label may contain one.
    """
    if not values:
        return []
    if not any("=" in value and (names is None or value.partition("=")[0].strip() in names) for value in values):
        return [name for value in values for name in typed_list(value)]
    if not all("=" in value for value in values):
        raise InputError(f"{option} has some values with a name and some without. Write {option} name=a,b for each.")
    return {name.strip(): typed_list(rest) for name, _, rest in (v.partition("=") for v in values)}


def typed_level(text: str) -> Any:
    """`3`, `LA3`, or `area=3,industry=1`."""
    if "=" not in text:
        return int(text) if text.lstrip("-").isdecimal() else text
    pairs = (part.partition("=") for part in typed_list(text))
    return {name.strip(): typed_level(level.strip()) for name, _, level in pairs}


class OutputFile(click.Path):
    """A file to write. Its path is checked before the work begins."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the path and return it as typed."""
        found = super().convert(value, param, ctx)
        writable(os.fsdecode(found))
        return found


class ProgressBar:
    """A progress bar with the stage and the time on a terminal; nothing in a pipe."""

    def __init__(self, quiet: bool = False) -> None:
        self._bar: Any = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:<14}"), BarColumn(pulse_style="cyan"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> ProgressBar:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, step: ProgressStep) -> None:
        """Show a step: its stage, and how much of it is done."""
        if self._bar:
            self._bar.update(self._task, description=step.stage, completed=step.done, total=step.total)

    def stage(self, name: str) -> None:
        """Name the stage that begins."""
        self(ProgressStep(name))

    def aside(self, show: Callable[[], object]) -> None:
        """Print something while the bar is hidden."""
        self.__exit__()
        show()
        self.__enter__()


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_frame(frame: pl.DataFrame, rows: int) -> None:
    """Print the first rows of a frame on a terminal and the number of the others."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, dtype in frame.schema.items():
        number = dtype.is_numeric()
        table.add_column(Text(name), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in frame.head(rows).iter_rows():
        table.add_row(*(Text(shown(value)) for value in row))
    console = Console()
    console.print(table)
    if frame.is_empty():
        console.print("No rows.")
    if frame.height > rows:
        console.print(f"... {frame.height - rows:,} more rows; --out FILE writes all of them, --rows N shows more.")


def shown(value: object) -> str:
    """Format a value: (missing), yes or no, two decimals."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def called() -> str:
    """Return what to type for this command: its name if it is on the path, else its file."""
    typed = Path(sys.argv[0])
    found = shutil.which("ilba")
    if typed.stem != "ilba" or (found and Path(found).resolve() == typed.resolve()):
        return "ilba"
    return str(typed)


def opened(path: str) -> FinestTable:
    """Open a store, or R's own file."""
    return read_rds(path) if path.lower().endswith(OF_R) else open_store(path)


def opened_on(engine: dict[str, Any], path: str, method: str | None = None) -> Any:
    """Open a store in memory or on Spark, with the given method."""
    on_spark = engine["engine"] == "spark"
    place = on_disk(path)
    if on_spark and "://" not in place and not Path(place).exists():  # before Spark starts, which can take minutes
        raise StoreError(f"there is no store {path!r}.")
    finest = open_store(path, spark=session_of(engine)) if on_spark else opened(path)
    return finest if method is None else finest.with_method(method)


def session_of(engine: dict[str, Any]) -> Any:
    """Return the Spark session of the options."""
    from ilba.spark import session
    from ilba.spark.sessions import without_log

    pairs = [pair.partition("=") for pair in engine["conf"]]
    for name, equals, _ in pairs:
        if not equals:
            raise InputError(f"--conf {name} has no value. Write --conf spark.executor.memory=8g.")
    return session(engine["master"], conf={**without_log(), **{name.strip(): value for name, _, value in pairs}})


def engines(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the engine."""

    @functools.wraps(command)
    def call(engine: str, master: str | None, conf: tuple[str, ...], **rest: Any) -> Any:
        if engine != "spark" and (master or conf):
            raise InputError("--master and --conf go with --engine spark.")
        return command(engine={"engine": engine, "master": master, "conf": conf}, **rest)

    for option in (
        click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark. Repeatable."),
        click.option(
            "--master", metavar="URL", help="Where Spark runs: local[4], yarn, spark://.., or sc://.. (Connect)."
        ),
        click.option(
            "--engine",
            type=click.Choice(["embedded", "spark"]),
            default="embedded",
            show_default=True,
            help="In this process, or on Spark.",
        ),
    ):
        call = option(call)
    return call


def ledger_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the ledger; the command gets them as `ledger`."""

    @functools.wraps(command)
    def call(ledger: str | None, no_ledger: bool, **rest: Any) -> Any:
        if ledger and no_ledger:
            raise InputError("--ledger and --no-ledger contradict each other. Leave one of them out.")
        return command(ledger=False if no_ledger else ledger, **rest)

    for option in (
        click.option("--accept-conflict", metavar="ID", help="Publish despite this conflict, and record it."),
        click.option("--no-ledger", is_flag=True, help="A trial: the masks are not kept."),
        click.option("--ledger", help="The ledger of masks and publications [ILBA_LEDGER, else beside the secret]."),
    ):
        call = option(call)
    return call


page_lang = click.option(
    "--lang",
    type=click.Choice(["en", "ko"]),
    default="en",
    show_default=True,
    expose_value=False,
    callback=lambda context, _, lang: context.meta.__setitem__("lang", lang),
    help="The language of the page.",
)


def lang_of_page() -> str:
    """Return the language of `--lang`."""
    return str(click.get_current_context().meta.get("lang", "en"))


json_option = click.option("--json", "as_json", is_flag=True, help="Machine output: one JSON document.")
level_option = click.option(
    "--level",
    default="0",
    show_default=True,
    metavar="N|NAME",
    help="Level as a number, a column name, or area=3,industry=1.",
)
named_tables = click.option(
    "--tables", type=typed_list, metavar="A,B,..", help="Names such as LA3.gender.age [every table]."
)


plan_option = click.option(
    "--plan", type=typed_list, metavar="A,B,..", help="Tables for which `controlled` chooses masks [all]."
)


def some_tables(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select tables of a store."""
    for option in (
        click.option("--max-keys", type=click.IntRange(min=0), help="At most this many keys in a table."),
        click.option("--keys", type=typed_list, metavar="A,B,..", help="Only subsets of these keys [all]."),
        click.option("--levels", multiple=True, metavar="N|NAME", help="Only this level. Repeatable [all, also 0]."),
    ):
        command = option(command)
    return command


def method_option(text: str) -> Callable[..., Any]:
    """Add the option for the method."""
    return click.option("--method", metavar="NAME[:A=1,..]", help=text)


key_option = click.option(
    "--key", type=typed_list, metavar="A,B,..", default=[], help="Keys of the table, separated by commas."
)


def secret_of(store: str, secret: str | None) -> Any:
    """Return the given secret, else the one beside the store."""
    beside = secret_path(Path(store))
    return secret or (beside if not os.environ.get("ILBA_SECRET") and beside.exists() else None)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--strict", is_flag=True, help="Turn notes into errors, for unattended jobs.")
@click.version_option(__version__, prog_name="ilba")
def commands(strict: bool) -> None:
    """Publish frequency tables from microdata and protect small counts."""
    if strict:
        warnings.simplefilter("error", Notice)
        warnings.simplefilter("always", Advice)
