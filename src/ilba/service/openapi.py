"""stub"""

from typing import Any

from ilba.service.answers import Settings


def document(settings: Settings) -> dict[str, Any]:
    """x"""
    return {}
