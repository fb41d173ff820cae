"""The script of the page: its modules as one file, so that a browser asks once instead of thirty times.

Each module becomes a function that returns its exports. The modules need no build step. They may only use the forms of
import and export that are read here.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources

_FIRST = "app.js"
_IMPORT = re.compile(r'^import (\{[^}]*\}|\* as \w+) from "\./([\w./-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:.|\n)*?\*/)\n", re.MULTILINE)


@cache
def bundle() -> tuple[bytes, str]:
    """The script, and a name that changes with it."""
    outside: dict[str, None] = {}
    inside: dict[str, str] = {}
    _take(_FIRST, outside, inside)
    content = "".join([*outside, *inside.values()]).encode()
    return content, hashlib.sha256(content).hexdigest()[:12]


def _take(name: str, outside: dict[str, None], inside: dict[str, str]) -> None:
    """Add a module after those that it imports; third-party modules are imported unchanged."""
    if name in inside:
        return
    text = (resources.files("ilba.service") / "page" / name).read_text("utf-8")
    bound = []
    for names, source in _IMPORT.findall(text):
        if "/" in source:
            outside[f'import {names} from "./{source}";\n'] = None
            continue
        _take(source, outside, inside)
        taken = names.removeprefix("* as ") if names.startswith("*") else names.replace(" as ", ": ")
        bound.append(f"const {taken} = {_called(source)};\n")
    exported = ", ".join(match[1] for match in _EXPORT.finditer(text))
    text = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", text)))
    if odd := _OTHER.search(text):
        raise ValueError(f"{name}: {odd[0]!r} is not a form of import or export that is read here.")
    inside[name] = f"const {_called(name)} = (() => {{\n{''.join(bound)}{text}return {{ {exported} }};\n}})();\n"


def _called(name: str) -> str:
    return f"module_{name.removesuffix('.js')}"
