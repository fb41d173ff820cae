"""Errors and notices.

::

    IlbaError                     every error of this package
    ├── InputError (ValueError)   an argument or the data is not what was expected: wrong use
    │   └── UnknownArgument (TypeError)   an argument that the function does not have
    ├── StoreError                a file is not a store, is damaged, or is of a newer format
    ├── SecretError               a secret is missing, malformed or not the one that is needed
    ├── WriteError (OSError)      a file could not be written (for example, a full disk); the old file is still there
    ├── UnsafeRelease             publishing would disclose counts; nothing was published
    │   └── Conflict              because of an earlier publication of the same people
    └── MissingExtra (ImportError) an optional package must be installed for this

    Notice (UserWarning)          a warning; the work continues
    └── Advice                    how the design could be better, or what was told after a publication; not an error
                                  for --strict either

A message says what was given, what was expected and what to type next. It never contains a true count or a secret.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import sys
import unicodedata
import warnings
from contextvars import ContextVar
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = ParamSpec("P")
R = TypeVar("R")


class IlbaError(Exception):
    """The base class of every error of this package."""


class InputError(IlbaError, ValueError):
    """An argument or the data is not what was expected."""


class UnknownArgument(InputError, TypeError):  # noqa: N818 - it names what was given
    """An argument that a function does not have."""


class StoreError(IlbaError):
    """A file is not a store, is damaged, or was written by a newer version."""


class SecretError(IlbaError):
    """A secret is missing, malformed, or not the one that is needed."""


class UnsafeRelease(IlbaError):  # noqa: N818 - it names what was refused
    """Publishing would disclose counts; nothing was published."""


class Conflict(UnsafeRelease):
    """Publishing conflicts with an earlier publication of the same people; `id` overrides the refusal once.

    Parameters
    ----------
    text : str
        What conflicts, and what to do.
    id : str
        The value for `accept_conflict`; empty where `correction` overrides it.
    """

    def __init__(self, text: str, id: str) -> None:
        super().__init__(text)
        self.id = id


class WriteError(IlbaError, OSError):
    """A file could not be written; the old file is still there."""


class MissingExtra(IlbaError, ImportError):  # noqa: N818 - it names what is missing
    """An optional package must be installed first."""


class Notice(UserWarning):
    """Something that the user should know, such as rows left out; the work continues."""


class Advice(Notice):
    """How the design could be better, or what was told after a publication. `--strict` does not make it an error."""


_is_published: ContextVar[bool] = ContextVar("is_published", default=False)


ELSEWHERE = {
    "area": "hkey", "areas": "hkey", "geo": "hkey", "geography": "hkey", "hierarchy": "hkey", "hierarchies": "hkey",
    "by": "key", "variables": "key", "vars": "key", "tab_vars": "key", "dimensions": "key", "dim_var": "key",
    "threshold": "mask_thr", "k": "mask_thr", "max_n": "mask_thr", "maxn": "mask_thr", "min_count": "mask_thr",
    "seed": "secret", "rkey": "secret", "password": "secret", "na_values": "missing_values", "na": "missing",
    "encoding": "read", "sep": "read", "separator": "read", "sheet_name": "read", "dtype": "schema", "codes": "labels",
    "codelist": "labels", "out": "output_path", "output": "output_path", "map": "geometry", "geojson": "geometry",
}  # fmt: skip
"""names of our arguments in other software"""


def suggesting(function: Callable[P, R], fuller: Callable[..., object] | None = None) -> Callable[P, R]:
    """Let a public function refuse a misspelled argument and suggest the nearest one, or the function that takes it."""
    known = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                ours = ELSEWHERE.get(name.lower(), "")
                near = f" Did you mean {ours!r}?" if ours in known else nearest(name, known)
                more = "" if fuller is None or name not in inspect.signature(fuller).parameters else fuller.__name__
                raise UnknownArgument(
                    f"{function.__name__}() has no argument {name!r}.{near} It takes {listing(known, 20)}."
                    + (f" ilba.{more} makes the same store and has {name!r}." if more else "")
                )
        return function(*args, **kwargs)

    return call


@contextlib.contextmanager
def after_publishing() -> Iterator[None]:
    """Make every notice Advice: the release is there, so `--strict` would stop too late."""
    before = _is_published.set(True)
    try:
        yield
    finally:
        _is_published.reset(before)


def notice(text: str, kind: type[Notice] = Notice) -> None:
    """Warn with `text`, at the caller's line outside this package."""
    kind = Advice if _is_published.get() else kind
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("ilba", "contextlib"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=depth)


def nearest(word: object, known: Iterable[object]) -> str:
    """`' Did you mean ...?'` for a misspelled word, or nothing when no known one is near."""
    by_text = {unicodedata.normalize("NFC", str(candidate)): candidate for candidate in known}
    asked = unicodedata.normalize("NFC", str(word))
    if asked in by_text and str(by_text[asked]) != str(word):
        return f" It has {by_text[asked]!r}, the same letters in another form of Unicode: copy the name from there."
    close = difflib.get_close_matches(asked, by_text, n=1, cutoff=0.6)
    if not close:
        folded = {text.casefold(): text for text in by_text}
        close = [folded[asked.casefold()]] if asked.casefold() in folded else []
    return f" Did you mean {by_text[close[0]]!r}?" if close else ""


def some(number: int, noun: str) -> str:
    """A number with its noun: 1 row, 2 rows, 1,234 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listing(words: Iterable[object], most: int = 12) -> str:
    """List the words with commas, at most `most` of them."""
    texts = [str(word) for word in words]
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")
