"""The command line: one command per task, with the names of the Python arguments."""

from __future__ import annotations

import gc
import os
import re
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ilba.errors import Conflict, IlbaError, InputError, Notice, SecretError, nearest

if TYPE_CHECKING:
    from ilba.cli.words import commands

__all__ = ["commands", "main"]

# The module of each command. A command loads only its module, because loading takes most of a short run.
_HOMES = {
    "planning": ("inspect", "init", "plan", "publish"),
    "making": ("demo", "build", "table", "cell", "cube", "convert", "secret"),
    "publishing": ("release", "export", "serve"),
    "judging": ("report", "audit", "risk", "compare", "choose-k"),
    "remembering": ("ledger", "doctor"),
}


def _with(command: str | None) -> click.Group:
    """The command line with one command, or with all of them."""
    for home in [home for home, names in _HOMES.items() if command in names] or _HOMES:
        import_module(f"ilba.cli.{home}")
    found: click.Group = import_module("ilba.cli.words").commands
    return found


def _quickly(command: str | None) -> click.Group:
    """As `_with`, at the start of a process: all that is loaded stays, so nothing looks for garbage in it."""
    if "polars" in sys.modules:  # the process is somebody else's
        return _with(command)
    gc.disable()
    found = _with(command)
    gc.freeze()
    gc.enable()
    return found


def __getattr__(name: str) -> Any:
    """Return all commands as `commands`."""
    if name == "commands":
        return _with(None)
    raise AttributeError(f"module 'ilba.cli' has no attribute {name!r}")


def main() -> NoReturn:
    """Run the command line; print errors of this package as one line on stderr and set the exit code."""
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", Notice)
    _shown.clear()
    warnings.showwarning = _show
    try:
        ended = _quickly(sys.argv[1] if len(sys.argv) > 1 else None).main(standalone_mode=False)
        sys.exit(ended if isinstance(ended, int) else 0)
    except click.exceptions.Abort:
        _fail("stopped. Nothing was half written.", 130)
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except click.ClickException as problem:
        where = problem.ctx.command_path if isinstance(problem, click.UsageError) and problem.ctx else "ilba"
        _fail(_before_the_command(problem) or f"{_told(problem)} Type: {where} --help", problem.exit_code)
    except Notice as problem:
        _fail(f"{problem} (--strict)", 1)
    except (InputError, SecretError, Conflict) as problem:
        _fail(str(problem), 2)
    except IlbaError as problem:
        _fail(str(problem), 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as problem:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - stdout itself may be the problem
        where = f" {str(problem.filename)!r}" if problem.filename else ""
        _fail(f"cannot read or write{where}: {problem.strerror or problem}.", 1)


def _before_the_command(problem: click.ClickException) -> str:
    """Say where an option of all commands goes that was typed after one; empty for other errors."""
    if not isinstance(problem, click.NoSuchOption) or problem.ctx is None:
        return ""
    root, option = problem.ctx.find_root(), problem.option_name
    if not any(option in param.opts for param in root.command.params):
        return ""
    command = problem.ctx.command_path.removeprefix(root.command_path)
    return f"{option} goes before the command. Type: {root.command_path} {option}{command}"


def _told(problem: click.ClickException) -> str:
    """Describe a usage error in one sentence."""
    context = problem.ctx if isinstance(problem, click.UsageError) else None
    options = [param for param in context.command.params if isinstance(param, click.Option)] if context else []
    if isinstance(problem, click.NoSuchOption):
        known = [name for option in options for name in (*option.opts, *option.secondary_opts)]
        return f"no such option {problem.option_name!r}.{nearest(problem.option_name, known)}"
    text = problem.format_message().rstrip(".")
    extra = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", text)
    if extra:
        aside = f" To write there: --out {extra[1]}." if any(option.name == "out" for option in options) else ""
        return f"{extra[1]!r} is one argument too many.{aside}"
    return f"{text[:1].lower()}{text[1:]}."


def _fail(text: str, code: int) -> NoReturn:
    click.echo(f"error: {text}", err=True)
    sys.exit(code)


_shown: set[str] = set()
"""the notes of this command: each is shown once"""


def _show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if str(message) not in _shown:
        _shown.add(str(message))
        click.echo(f"note: {message}", err=True)
