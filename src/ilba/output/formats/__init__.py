"""What a worded table is in each format that is more than its rows: one module for each."""

from __future__ import annotations

from ilba.errors import MissingExtra


def missing_extra(problem: ImportError, what: str) -> MissingExtra:
    """The error where the packages that write a format are not installed."""
    return MissingExtra(f"writing {what} needs {problem.name or 'more packages'}. Type: pip install 'ilba[formats]'")
