"""The HTML of the service: templates in which every text is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("ilba.service"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def rendered(template: str, facts: Mapping[str, Any]) -> str:
    """The text of a template with these facts."""
    return _templates().get_template(template).render(facts)
