"""The texts for the readers of a release, in any number of languages. Declared by a person, and public."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ilba.data.codelists import LANGUAGE_TAG
from ilba.errors import InputError, listing, nearest

NAMES = ("title", "description", "source", "unit", "note")


def read_texts(given: Any) -> dict[str, dict[str, str]]:
    """The texts of each language, from a mapping or a json or toml file; empty if there are none."""
    if given is None:
        return {}
    texts = _read(Path(given)) if isinstance(given, str | os.PathLike) else given
    if not isinstance(texts, Mapping) or not all(isinstance(one, Mapping) for one in texts.values()):
        raise InputError('texts are given by language, such as {"fr": {"title": "Recensement"}}.')
    for lang, told in texts.items():
        if not re.fullmatch(LANGUAGE_TAG, str(lang)):
            raise InputError(f"texts: {lang!r} is not a language. Write it as in fr or pt-BR.")
        for name, text in told.items():
            if name not in NAMES:
                raise InputError(f"texts: {name!r} is not known.{nearest(str(name), NAMES)} It is {listing(NAMES)}.")
            if not isinstance(text, str):
                raise InputError(f"texts: the {name} in {lang!r} is not a text.")
    return {lang: dict(told) for lang, told in texts.items()}


def _read(file: Path) -> Any:
    try:
        content = file.read_text("utf-8-sig")
        return tomllib.loads(content) if file.suffix.lower() == ".toml" else json.loads(content)
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(f"the texts in {str(file)!r} cannot be read as json or toml.") from problem
