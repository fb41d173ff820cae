"""A confidential page as PDF, by WeasyPrint: the extra `pdf`."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from ilba.errors import MissingExtra
from ilba.files import replacing

Path_: TypeAlias = str | os.PathLike[str]


def require() -> Any:
    """Load WeasyPrint, or say what to install."""
    try:
        return importlib.import_module("weasyprint")
    except ImportError:
        raise MissingExtra("a PDF needs weasyprint. Type: pip install 'ilba[pdf]'") from None
    except OSError:  # Pango, which draws letters, is not part of the Python package
        raise MissingExtra(
            "a PDF needs Pango, which is not part of a Python package. On Debian and Ubuntu type: "
            "apt install libpango-1.0-0 libpangoft2-1.0-0"
        ) from None


def write(page: Path_, path: Path_ | None = None) -> Path:
    """Write one of our pages as PDF that only its owner can read.

    Parameters
    ----------
    page : path
        The HTML file.
    path : path, optional
        Where to write. Left out, beside the page.

    Returns
    -------
    Path
        Where it was written.

    Raises
    ------
    MissingExtra
        The extra `pdf` is not installed.
    """
    library = require()
    target = Path(page).with_suffix(".pdf") if path is None else Path(path)
    drawn = library.HTML(string=Path(page).read_text("utf-8"), url_fetcher=_refuse).write_pdf()
    with replacing(target) as temporary:
        temporary.write_bytes(drawn)
    return target


def _refuse(url: str, *_: Any, **__: Any) -> NoReturn:
    """Refuse to load anything: our pages need nothing, and a label must not cause a request."""
    raise ValueError(f"{url[:40]!r} is not loaded")
