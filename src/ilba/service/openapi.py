"""The OpenAPI 3.1 document of the service: `openapi.yaml`, with examples from the served releases."""

from __future__ import annotations

import copy
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import msgspec

from ilba import __version__
from ilba.service.answers import Settings, offered_languages
from ilba.service.catalog import Catalog


def document(settings: Settings, catalog: Catalog) -> dict[str, Any]:
    """The document, with examples from the served releases."""
    written = copy.deepcopy(_written())
    written["info"]["version"] = __version__
    written["info"]["description"] += f" One answer holds at most {settings.max_cells:,} cells."
    for parameter in ("Lang", "LangOfNothing", "LangOfSaved"):
        written["components"]["parameters"][parameter]["schema"]["enum"] = offered_languages(catalog, settings)
    for parameter, names in _examples(catalog).items():
        written["components"]["parameters"][parameter]["examples"] = {name: {"value": name} for name in names}
    return written


@cache
def _written() -> dict[str, Any]:
    """The document as it is in the file, which takes a moment to read."""
    return msgspec.yaml.decode((resources.files("ilba.service") / "openapi.yaml").read_bytes(), type=dict[str, Any])


def _examples(catalog: Catalog) -> dict[str, list[str]]:
    served = catalog.releases[0]
    entries = sorted(served.entries.values(), key=lambda entry: served.cells(entry.table))
    columns = [column for h in served.release.design.hierarchies for column in h.columns]
    lists = [f"{fine}.{coarse}" for coarse, fine in pairwise(columns)]
    return {
        "TableId": [entry.id for entry in entries[len(entries) // 4 : len(entries) // 4 + 3]],
        "CodeListId": lists[:1],
        "ReleaseId": [served.id],
        "FolderId": [served.id],
        "Column": [entry["column"] for entry in served.release.manifest["geometry"]][:1],
    }
