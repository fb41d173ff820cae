"""The confidential pages: templates with one base and one style.

A page is one file that contains its charts and styles and loads nothing. Every value in a template is escaped,
so labels cannot write markup; a missing name is an error. Only the result of `inline` is not escaped.
"""

from __future__ import annotations

import os
import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ilba.errors import InputError, some
from ilba.files import replacing
from ilba.methods.loss import not_quite_all
from ilba.output.korean import said

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LANGUAGES = ("en", "ko")
"""the languages in which pages are written"""


def write(path: str | os.PathLike[str], template: str, **facts: Any) -> Path:
    """Fill in a template and write the page, readable only for its owner."""
    page = filled(template, **facts)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Path(path)


def filled(template: str, **facts: Any) -> str:
    """The text of a page."""
    lang = facts.setdefault("lang", "en")
    if lang not in LANGUAGES:
        raise InputError(f"there is no page in {lang!r}. The languages are {' and '.join(LANGUAGES)}.")
    return _templates().get_template(template).render(facts | {"_": partial(said, lang=lang)})


def inline(svg: str, place: int = 0) -> Markup:
    """A chart inside a page; its names are made unique, because a page may have several."""
    from markupsafe import Markup

    drawn = re.sub(r"<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", svg)
    return Markup(re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>f{place}-", drawn))  # noqa: S704  # drawn by us


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("ilba.output"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"number": _number, "percent": percent, "some": some, "width": _width}
    return templates


def percent(share: float, digits: int = 1) -> str:
    """A share from 0 to 1 as a percentage; only all is 100%.

    >>> percent(0.123), percent(0.9997), percent(1.0)
    ('12.3%', '99.9%', '100.0%')
    """
    return f"{not_quite_all(share, digits + 2):.{digits}%}"


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _width(share: float) -> str:
    return f"{100 * min(max(share, 0), 1):.2f}%"
