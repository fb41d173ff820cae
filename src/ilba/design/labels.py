"""What makes two labels the same."""

from __future__ import annotations

from typing import TypeAlias

Label: TypeAlias = str | int | None


def label_text(label: Label) -> str | None:
    """The identity of a label: the number 1 and the text "1" are the same label, "01" is another one.

    >>> label_text(1), label_text("1"), label_text("01"), label_text(None)
    ('1', '1', '01', None)
    """
    return None if label is None else str(label)
