"""Data queries of SDMX REST 2.1: a dataflow for each table, messages as pysdmx writes them.

    /sdmx/2.1/dataflow/all/all             every dataflow by name
    /sdmx/2.1/dataflow/HANUL/DF_LA3_SEX    one, with its structure, concepts and code lists
    /sdmx/2.1/data/DF_LA3_SEX/010101+010102.f   the numbers; dimensions separated by dots, codes by +, an empty part
    means all

The agency is the id of the release. This module does not know HTTP.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence

from ilba.errors import InputError, listing, nearest
from ilba.output.formats import sdmx
from ilba.service.answers import worded
from ilba.service.asked import TooManyError, UnknownError
from ilba.service.catalog import Catalog
from ilba.service.folder import ServedRelease, TableEntry
from ilba.service.work import still_wanted

MEDIA = "application/xml"
_ANY = ("", "all", "latest", "*")


def _check() -> None:
    if importlib.util.find_spec("pysdmx") is None:
        raise UnknownError("SDMX is not offered here: the extra 'formats' is not installed.")


def agency_of(served: ServedRelease) -> str:
    """The agency of a release's dataflows: its id, in the letters that SDMX allows."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", served.id).upper()
    return name if name[:1].isalpha() else f"R_{name}"


def _flows(catalog: Catalog) -> Iterator[tuple[str, str, TableEntry]]:
    for served in catalog.releases:
        for entry in served.entries.values():
            yield agency_of(served), sdmx.flow_id(entry.table.name), entry


def found(catalog: Catalog, reference: str) -> tuple[str, TableEntry]:
    """The table of a dataflow that is written `FLOW`, `AGENCY,FLOW` or `AGENCY,FLOW,VERSION`."""
    parts = reference.split(",")
    agency, flow = (parts[0], parts[1]) if len(parts) > 1 else ("all", parts[0])
    known = list(_flows(catalog))
    for its_agency, name, entry in known:
        if name == flow.upper() and (agency in _ANY or agency.upper() == its_agency):
            return its_agency, entry
    raise UnknownError(f"there is no dataflow {flow[:60]!r}.{nearest(flow[:60], [name for _, name, _ in known])}")


def structure(catalog: Catalog, agency: str, flow: str, lang: str) -> bytes:
    """A dataflow with everything that it refers to; or the names of all dataflows."""
    _check()
    if flow in _ANY:
        wanted = [(one, entry) for one, _, entry in _flows(catalog) if agency in _ANY or one == agency.upper()]
        if not wanted:
            raise UnknownError(f"there is no agency {agency[:60]!r}.")
        return sdmx.flows([(worded(entry, lang), one) for one, entry in wanted])
    own, entry = found(catalog, f"{agency},{flow}")
    return sdmx.structure(catalog.load(entry).worded[lang], own)


def data(catalog: Catalog, reference: str, key: str, asked: Mapping[str, str], lang: str, most: int) -> bytes:
    """The numbers of a dataflow at the codes of a key, as generic data."""
    _check()
    agency, entry = found(catalog, reference)
    loaded = catalog.load(entry)
    table = loaded.worded[lang]
    places = _places(sdmx.axes_of(table), key, asked) if table.dimensions else []
    cells = 1
    for some in places:
        cells *= len(some)
    if cells > most:
        raise TooManyError(f"{cells:,} cells are asked for; one answer holds at most {most:,}. Name codes in the key.")
    still_wanted()
    return sdmx.data(table.cut(places, loaded.values(places)), agency)


def _places(
    axes: Sequence[tuple[str, str, list[str], list[str]]], key: str, asked: Mapping[str, str]
) -> list[list[int]]:
    wanted = [""] * len(axes) if key in _ANY else key.split(".")
    if len(wanted) != len(axes):
        names = listing(name for name, *_ in axes)
        raise InputError(f"the key has {len(wanted)} parts between dots; the dimensions are {names}.")
    found_ = []
    for (name, _, codes, _), text in zip(axes, wanted, strict=True):
        index = {code: at for at, code in enumerate(codes)}
        chosen = [] if text in _ANY else list(dict.fromkeys(text.split("+")))
        for code in chosen:
            if code not in index:
                raise UnknownError(f"{code[:50]!r} is not a code of {name}.{nearest(code[:50], codes[:2000])}")
        places = [index[code] for code in chosen] or list(range(len(codes)))
        if name == "TIME_PERIOD":
            low, high = asked.get("startperiod", ""), asked.get("endperiod", "")
            places = [
                at for at in places if (not low or codes[at] >= low) and (not high or codes[at][: len(high)] <= high)
            ]
            if not places:
                raise UnknownError("there are no numbers of these periods.")
        found_.append(places)
    return found_
