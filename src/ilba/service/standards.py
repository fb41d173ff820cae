"""Metadata for search engines, data portals and tools: schema.org, DCAT-AP, a data package, a sitemap.

All of it repeats what the manifest of a release says. This module does not know HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape

import polars as pl

from ilba.design.design import MASKED, plain_name
from ilba.errors import InputError
from ilba.output.wording import told
from ilba.service.addresses import API
from ilba.service.answers import FORMATS, utc, variable_names, worded
from ilba.service.catalog import Catalog
from ilba.service.folder import ServedRelease, TableEntry

NO_ROWS = pl.DataFrame()
MOST_ADDRESSES = 50_000  # per sitemap
_LEGAL = re.compile(r"[^A-Za-z0-9._-]+")


def _data_address(entry: TableEntry, base: str, lang: str, format: str, codes: bool = False) -> str:
    asked = {"lang": lang, "outputFormat": format, **({"outputFormatParams": "UseCodes"} if codes else {})}
    return f"{base}{API}/tables/{quote(entry.id, safe=':')}/data?{urlencode(asked)}"


def _licence(served: ServedRelease, stated: str = "") -> str:
    return str(served.release.manifest.get("licence", "")) or stated


def schema_table(entry: TableEntry, lang: str, base: str) -> dict[str, Any]:
    """A table as a schema.org Dataset, which search engines for data read."""
    served = entry.served
    files = [
        {
            "@type": "DataDownload",
            "name": format,
            "encodingFormat": media.partition(";")[0],
            "contentUrl": _data_address(entry, base, lang, format),
        }
        for format, (_, media, _) in FORMATS.items()
    ]
    return {
        "@context": "https://schema.org",
        **_schema_dataset(served, lang, base),
        "name": worded(entry, lang).title,
        "description": _described(served, lang, worded(entry, lang).title),
        "url": f"{base}/table/{quote(entry.id, safe=':')}?lang={lang}",
        "identifier": entry.id,
        "variableMeasured": [{"@type": "PropertyValue", "name": name} for name in variable_names(entry, lang)],
        "distribution": files,
    }


def _described(served: ServedRelease, lang: str, title: str) -> str:
    """The description of a dataset, in at least 50 letters, which search engines require."""
    notes = worded(next(iter(served.entries.values())), lang).notes(dense=True)
    return " ".join([told(served.release, "description", lang) or f"{title}.", *notes])


def _schema_dataset(served: ServedRelease, lang: str, base: str) -> dict[str, Any]:
    about, times = served.release.manifest, served.times
    source, licence = told(served.release, "source", lang), _licence(served)
    span = f"{times[0]}/{times[-1]}" if len(times) > 1 else "".join(times)
    return {
        "@type": "Dataset",
        "inLanguage": lang,
        "isAccessibleForFree": True,
        "dateModified": utc(about["created"]),
        **({"creator": {"@type": "Organization", "name": source}} if source else {}),
        **({"license": licence} if licence else {}),
        **({"temporalCoverage": span} if span else {}),
        "includedInDataCatalog": {"@type": "DataCatalog", "url": f"{base}/"},
    }


def schema_catalog(catalog: Catalog, lang: str, base: str) -> dict[str, Any]:
    """All releases as a schema.org DataCatalog."""
    return {
        "@context": "https://schema.org",
        "@type": "DataCatalog",
        "url": f"{base}/",
        "dataset": [
            {
                **_schema_dataset(served, lang, base),
                "name": told(served.release, "title", lang),
                "description": _described(served, lang, told(served.release, "title", lang)),
                "url": f"{base}/?lang={lang}#release={quote(served.id)}",
                "distribution": {
                    "@type": "DataDownload",
                    "encodingFormat": "application/json",
                    "contentUrl": f"{base}/datapackage/{quote(served.id)}.json",
                },
            }
            for served in catalog.releases
        ],
    }


def _texts(served: ServedRelease, names: Sequence[str], languages: Iterable[str]) -> list[dict[str, str]]:
    """In each language the first of these texts that the release has."""
    found = [
        {"@language": lang, "@value": next(filter(None, (told(served.release, name, lang) for name in names)), "")}
        for lang in languages
    ]
    return [one for one in found if one["@value"]]


def dcat(catalog: Catalog, languages: list[str], base: str, stated: str) -> dict[str, Any]:
    """All releases as a DCAT-AP catalogue in JSON-LD: a dataset for each release, a csv file for each table."""
    releases = catalog.releases
    publisher = {
        "@id": f"{base}/#publisher",
        "@type": "foaf:Agent",
        "foaf:name": told(releases[0].release, "source", languages[0])
        or told(releases[0].release, "title", languages[0]),
    }
    service = {
        "@id": f"{base}{API}",
        "@type": "dcat:DataService",
        "dct:title": "PxWebApi 2",
        "dcat:endpointURL": {"@id": f"{base}{API}"},
        "dcat:endpointDescription": {"@id": f"{base}{API}/openapi.json"},
        "dcat:servesDataset": [{"@id": f"{base}/#release-{quote(served.id)}"} for served in releases],
    }
    return {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "foaf": "http://xmlns.com/foaf/0.1/",
            "xsd": "http://www.w3.org/2001/XMLSchema#",
        },
        "@id": f"{base}/",
        "@type": "dcat:Catalog",
        "dct:title": _texts(releases[0], ["title"], languages),
        "dct:description": _texts(releases[0], ["description", "title"], languages),
        "dct:publisher": publisher,
        "foaf:homepage": {"@id": f"{base}/"},
        "dcat:service": service,
        "dcat:dataset": [_dcat_dataset(served, languages, base, stated, publisher) for served in releases],
    }


def _dcat_dataset(
    served: ServedRelease, languages: list[str], base: str, stated: str, publisher: dict[str, Any]
) -> dict[str, Any]:
    about, lang = served.release.manifest, languages[0]
    title = told(served.release, "title", lang)
    rights = _resource(_licence(served, stated))
    return {
        "@id": f"{base}/#release-{quote(served.id)}",
        "@type": "dcat:Dataset",
        "dct:identifier": served.id,
        "dct:title": _texts(served, ["title"], languages),
        "dct:description": [
            {"@language": one, "@value": _described(served, one, told(served.release, "title", one) or title)}
            for one in languages
        ],
        "dct:issued": {"@type": "xsd:dateTime", "@value": utc(about["created"])},
        "dct:publisher": {"@id": publisher["@id"]},
        "dcat:theme": {"@id": "http://publications.europa.eu/resource/authority/data-theme/SOCI"},
        "dcat:landingPage": {"@id": f"{base}/#release={quote(served.id)}"},
        "dcat:distribution": [
            {
                "@id": f"{base}/table/{quote(entry.id, safe=':')}#csv",
                "@type": "dcat:Distribution",
                "dct:title": worded(entry, lang).title,
                "dcat:accessURL": {"@id": f"{base}/table/{quote(entry.id, safe=':')}"},
                "dcat:downloadURL": {"@id": _data_address(entry, base, lang, "csv")},
                "dcat:mediaType": {"@id": "https://www.iana.org/assignments/media-types/text/csv"},
                "dct:format": {"@id": "http://publications.europa.eu/resource/authority/file-type/CSV"},
                **({"dct:license": rights} if rights else {}),
            }
            for entry in served.entries.values()
        ],
    }


def _resource(licence: str) -> dict[str, str] | None:
    """A licence in the form of DCAT: an address, or a named document."""
    if not licence:
        return None
    if re.fullmatch(r"https?://[^\s<>\"{}|\\^`]+", licence):
        return {"@id": licence}
    return {"@type": "dct:LicenseDocument", "dct:title": licence}


def data_package(served: ServedRelease, base: str, lang: str, most: int) -> dict[str, Any]:
    """A release as a data package: a csv file for each table that fits into one answer, with column types."""
    about = served.release.manifest
    licence = _licence(served)
    listed = [entry for entry in served.entries.values() if served.cells(entry.table) <= most]
    if not listed:
        raise InputError("no table of this release is small enough for one answer. Ask for parts of them.")
    return {
        "$schema": "https://datapackage.org/profiles/1.0/datapackage.json",
        "profile": "tabular-data-package",
        "name": _LEGAL.sub("-", served.id).lower().strip("-") or "release",
        "title": told(served.release, "title", lang),
        "description": _described(served, lang, told(served.release, "title", lang)),
        "homepage": f"{base}/",
        "created": utc(about["created"]),
        **({"sources": [{"title": source}]} if (source := told(served.release, "source", lang)) else {}),
        **({"licenses": [_package_licence(licence)]} if licence else {}),
        "resources": [_package_table(entry, base, lang) for entry in listed],
    }


def _package_licence(licence: str) -> dict[str, str]:
    if re.match(r"https?://", licence):
        return {"path": licence}
    return {"name": _LEGAL.sub("-", licence).strip("-"), "title": licence}


def _package_name(table: str) -> str:
    """A valid name for a data package: the table's own if plain, otherwise with the other letters spelled out."""
    if re.fullmatch(r"[a-z0-9_.]+", table):
        return table.replace(".", "-")
    return _LEGAL.sub("-", plain_name(table).replace("%", "-")).lower().strip("-")


def _package_table(entry: TableEntry, base: str, lang: str) -> dict[str, Any]:
    axes, labels = entry.served.axes(entry.table), entry.served.labels[lang]
    fields = [{"name": column, "type": "string", "title": labels.variable(column)} for column in axes]
    if not axes:  # a table has at least one variable, as in JSON-stat
        fields = [{"name": "measure", "type": "string", "title": worded(entry, lang).said["variable"]}]
    return {
        "profile": "tabular-data-resource",
        "name": _package_name(entry.id),
        "title": worded(entry, lang).title,
        "path": _data_address(entry, base, lang, "csv", codes=True),
        "scheme": base.partition(":")[0],
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "schema": {
            "fields": [
                *fields,
                {
                    "name": MASKED,
                    "type": "integer",
                    "title": worded(entry, lang).value_label,
                    "constraints": {"minimum": 0},
                },
            ],
            "missingValues": [],
        },
    }


def sitemap(addresses: Iterable[str], base: str, updated: str) -> str:
    """The addresses that a search engine may visit."""
    lines = "".join(
        f"<url><loc>{escape(base + address)}</loc><lastmod>{updated}</lastmod></url>" for address in addresses
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{lines}</urlset>'
    )


def table_addresses(catalog: Catalog) -> Iterator[str]:
    """The pages of all tables."""
    for served in catalog.releases:
        for entry in served.entries.values():
            yield f"/table/{quote(entry.id, safe=':')}"
