"""Addresses to share: `/table/...` and `/place/...`, each with a title and a preview picture.

The page of a place is written here completely, so that it works without a script and search engines can read it. The
page of a table is the single page of the service, with a head that names the table. Texts and drawings come from
published tables alone; templates escape every text.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape
from starlette.requests import Request

from ilba.output.wording import LANGUAGES, MASKING, WordedTable, told, whole, words
from ilba.service import pictures, places, sdmx, standards
from ilba.service.addresses import Answer, Make, as_json, pairs, plain
from ilba.service.answers import Settings, config, language_name, offered_languages, releases, utc, worded
from ilba.service.asked import UnknownError
from ilba.service.catalog import Catalog
from ilba.service.codelists import axis_of
from ilba.service.folder import ServedRelease, TableEntry
from ilba.service.measures import bound_of, doubt_of
from ilba.service.outlines import Maps
from ilba.service.rendering import rendered
from ilba.service.script import bundle

_HEAD = "<title>Statistics</title>"  # the place of a table's head in the page
_TOLD = '<script type="application/json" id="told">'
_SCRIPT = "/static/page.js"
_MOST_OTHERS = 1000  # names that are offered for comparison
_MOST_FITTING = 8  # names that are listed when several places fit
_MOST_DRAWN = 20_000  # areas of a preview
_BARS = 10
_OPEN = {"Access-Control-Allow-Origin": "*"}  # the data are public: any page may read them
PAGE = {"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache"}


@cache
def _index() -> str:
    return (resources.files("ilba.service") / "page" / "index.html").read_text("utf-8")


class Writing:
    """Numbers as a language writes them."""

    def __init__(self, lang: str) -> None:
        self.said = words(lang)

    def number(self, value: float) -> str:
        """A whole number."""
        return whole(round(value), self.said)

    def signed(self, value: int) -> str:
        """A difference, with its sign."""
        return f"{'+' if value > 0 else '−' if value < 0 else '±'}{self.number(abs(value))}"

    def percent(self, share: float | None) -> str:
        """A fraction as percent."""
        if share is None:
            return "–"
        digits = f"{100 * share:.1f}".replace(".", self.said["decimal"])
        return self.said["percent_of"].format(n=digits)


class Pages:
    """The pages and pictures of places and tables. Each returns what its answer depends on, and its maker."""

    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        self._catalog = catalog
        self._settings = settings
        self.maps = Maps(catalog)

    def base(self, request: Request) -> str:
        """The base of complete addresses: as declared, otherwise as the client calls the service."""
        return self._settings.address or f"{request.url.scheme}://{request.headers.get('host', 'localhost')}"

    def language(self, request: Request, asked: str = "") -> str:
        """The language of a page: the requested one, otherwise the reader's, otherwise the default."""
        known = offered_languages(self._catalog, self._settings)
        if asked in known:
            return asked
        for wanted in request.headers.get("accept-language", "")[:200].split(","):
            name = wanted.partition(";")[0].strip().lower()
            for one in (name, name.partition("-")[0]):
                if one in known:
                    return one
        return known[0]

    def front(self, request: Request) -> tuple[str, Make]:
        """The page about everything that is published."""
        asked, base = _given(request), self.base(request)
        lang = self.language(request, asked.get("lang", ""))
        served = self._catalog.releases[0]

        def make() -> Answer:
            release = served.release
            about = {
                "title": told(release, "title", lang),
                "description": told(release, "description", lang) or told(release, "source", lang),
                "picture": "",
                "dataset": _embedded(standards.schema_catalog(self._catalog, lang, base)),
            }
            return self._page(about, "/", lang, base, served)

        return f"{self._catalog.digest} {lang} {base}", make

    def table(self, request: Request, entry: TableEntry, embedded: bool = False) -> tuple[str, Make]:
        """The page about one table."""
        asked, base = _given(request), self.base(request)
        lang = self.language(request, asked.get("lang", ""))
        path = table_address(entry)

        def make() -> Answer:
            about = {
                "title": worded(entry, lang).title,
                "description": " ".join(worded(entry, lang).notes(dense=True)),
                "picture": f"{base}/picture{path}?lang={lang}",
                "dataset": _embedded(standards.schema_table(entry, lang, base)),
            }
            return self._page(about, path, lang, base, entry.served, embedded)

        return f"{self._catalog.digest} {lang} {base}", make

    def embedded_table(self, request: Request, entry: TableEntry) -> tuple[str, Make]:
        """The page about one table, for embedding in other pages."""
        return self.table(request, entry, embedded=True)

    def _page(
        self, about: dict[str, Any], path: str, lang: str, base: str, served: ServedRelease, embedded: bool = False
    ) -> Answer:
        head = rendered("head.html", self._head(about, path, lang, base, served))
        text = _index().replace(_HEAD, head, 1).replace('<html lang="en">', f'<html lang="{lang}">', 1)
        known = {
            "lang": lang,
            "config": config(self._catalog, self._settings),
            "releases": releases(self._catalog, lang, self._settings.rules),
        }
        text = text.replace(_TOLD, _TOLD + str(_embedded(known)), 1).replace(_SCRIPT, f"{_SCRIPT}?v={bundle()[1]}")
        if lang in LANGUAGES[1:]:
            preload = '<link rel="modulepreload" href="/static/words/{}.js">'
            text = text.replace(preload.format("en"), preload.format("en") + preload.format(lang), 1)
        if embedded:
            text = text.replace("<html ", '<html data-embed="" ', 1)
        return Answer(text.encode(), "text/html; charset=utf-8", {**PAGE, "Vary": "Accept-Encoding, Accept-Language"})

    def _head(
        self, about: dict[str, Any], path: str, lang: str, base: str, served: ServedRelease, more: str = ""
    ) -> dict[str, Any]:
        known = offered_languages(self._catalog, self._settings)
        return {
            "picture_of": about["title"],
            **about,
            "lang": lang,
            "site": told(served.release, "title", lang),
            "address": f"{base}{path}?lang={lang}{more}",
            "alternates": [(other, f"{base}{path}?lang={other}{more}") for other in known],
        }

    def table_picture(self, request: Request, entry: TableEntry) -> tuple[str, Make]:
        """The preview of a table: a map if there is one, otherwise bars."""
        asked = _given(request)
        lang = self.language(request, asked.get("lang", ""))

        def make() -> Answer:
            table = worded(entry, lang)
            drawing, said = self._drawn(entry, lang)
            title, foot = table.title, _foot(table)
            return Answer(pictures.png(pictures.card(title, said, "", foot, drawing, lang)), "image/png")

        return f"{entry.served.digest} {lang}", make

    def _drawn(self, entry: TableEntry, lang: str) -> tuple[tuple[pictures.Drawing, float, float] | None, str]:
        """A drawing of a table and its caption: one variable, the others at their first value or last time."""
        loaded = self._catalog.load(entry)
        dimensions = loaded.worded[lang].dimensions
        if not dimensions:
            return None, ""
        areas = [one for one in dimensions if one.geo]
        shown = areas[0] if areas else max(dimensions, key=lambda one: (one.name != entry.served.time, len(one)))
        places_of, said = [], []
        for one in dimensions:
            at = len(one) - 1 if one.name == entry.served.time else 0
            places_of.append(list(range(len(one))) if one is shown else [at])
            if one is not shown:
                said.append(one.labels[at])
        values = loaded.values(places_of).tolist()
        outlines = self.maps.of(entry.served, shown.name) if shown in areas and len(shown) <= _MOST_DRAWN else None
        if outlines is not None:
            known = [pair for pair in zip(shown.codes, values, strict=True) if pair[1] == pair[1]]
            by_code = {outlines.own(code): value for code, value in known}
            return (pictures.coloured(outlines.paths(560, 460), by_code), 560.0, 460.0), ", ".join(said)
        rows = [row for row in zip(shown.labels, values, strict=True) if row[1] == row[1]]  # without blanks
        rows = sorted(rows, key=lambda row: -row[1])[:_BARS] if len(rows) > _BARS else rows
        return pictures.bars(rows, Writing(lang).number), ", ".join(said)

    def place(self, request: Request, embedded: bool = False) -> tuple[str, Make]:
        """The page of one place, or of two places side by side."""
        asked, base = _given(request), self.base(request)
        lang = self.language(request, asked.get("lang", ""))
        place = self._named(request, lang)
        wanted = asked.get("with", "")[:200]
        time = places.at_time(place, asked.get("time", ""))

        def make() -> Answer:
            fitting = places.beside(place, wanted) if wanted else []
            other = fitting[0] if len(fitting) == 1 else None
            shown = [place] if other is None or other.at == place.at else [place, other]
            known = [places.about(self._catalog, self.maps, one, lang, time) for one in shown]
            facts = self._place(known, lang, base, embedded, "time" in asked)
            if wanted and other is None:
                names = ", ".join(
                    [*(one.name for one in fitting[:_MOST_FITTING]), *["…"] * (len(fitting) > _MOST_FITTING)]
                )
                said = facts["said"]["place_several" if fitting else "place_none"]
                facts["problem"] = said.format(name=wanted, list=names)
            text = rendered("place.html", facts)
            return Answer(
                text.encode(), "text/html; charset=utf-8", {**PAGE, "Vary": "Accept-Encoding, Accept-Language"}
            )

        return f"{place.served.digest} {lang} {base}", make

    def _named(self, request: Request, lang: str) -> places.Locality:
        given = request.path_params
        return places.find(self._catalog, given["release"], given["column"], given["code"], lang)

    def place_picture(self, request: Request) -> tuple[str, Make]:
        """The preview of a place: its name, its count, and its pyramid or groups."""
        asked = _given(request)
        lang = self.language(request, asked.get("lang", ""))
        place = self._named(request, lang)
        time = places.at_time(place, asked.get("time", ""))

        def make() -> Answer:
            write = Writing(lang)
            known = places.about(self._catalog, self.maps, place, lang, time)
            table = WordedTable(place.served.release, _first(place.served).table, standards.NO_ROWS, lang)
            drawing: tuple[pictures.Drawing, float, float] | None = None
            if known.pyramid:
                most = int(known.pyramid.counts.max())
                drawing = pictures.pyramid(known.pyramid, most, write.number, False, lang)
            elif known.groups:
                rows = [(group.label, float(group.count)) for group in known.groups[0][1]]
                drawing = pictures.bars(rows[:_BARS], write.number)
            number = _number(known, write, table.told("unit"))
            under = f"{_kind(known, write)} · {table.told('title')}"
            card = pictures.card(place.name, under, number, _foot(table), drawing, lang)
            return Answer(pictures.png(card), "image/png")

        return f"{place.served.digest} {lang}", make

    def sitemap(self, request: Request) -> tuple[str, Make]:
        """The addresses of tables and places."""
        base = self.base(request)

        def make() -> Answer:
            lang = offered_languages(self._catalog, self._settings)[0]
            found = itertools.chain(["/"], standards.table_addresses(self._catalog), self._place_addresses(lang))
            some = itertools.islice(found, standards.MOST_ADDRESSES)
            updated = max(served.release.manifest["created"] for served in self._catalog.releases)
            return Answer(standards.sitemap(some, base, utc(updated)).encode(), "application/xml")

        return f"{self._catalog.digest} {base}", make

    def _place_addresses(self, lang: str) -> Iterator[str]:
        for served in self._catalog.releases:
            for hierarchy in served.release.design.hierarchies:
                for level, column in enumerate(hierarchy.columns, 1):
                    with contextlib.suppress(UnknownError):
                        areas = axis_of(self._catalog, served, hierarchy.name, level, lang)
                        yield from (
                            places.place_address(served, column, code) for code in areas.some(areas.stated).codes
                        )

    def robots(self, request: Request) -> tuple[str, Make]:
        """What search engines may visit: everything except the numbers themselves and embedded pages."""
        base = self.base(request)
        text = f"User-agent: *\nDisallow: /api/\nDisallow: /embed/\nAllow: /\nSitemap: {base}/sitemap.xml\n"
        return f"robots {base}", lambda: Answer(text.encode(), "text/plain; charset=utf-8")

    def dcat(self, request: Request) -> tuple[str, Make]:
        """The DCAT-AP catalogue."""
        base, spoken = self.base(request), offered_languages(self._catalog, self._settings)

        def make() -> Answer:
            told_ = standards.dcat(self._catalog, spoken, base, self._settings.license)
            return Answer(plain(told_), "application/ld+json")

        return f"{self._catalog.digest} {base}", make

    def data_package(self, request: Request) -> tuple[str, Make]:
        """The data package of a release."""
        asked, base = _given(request), self.base(request)
        lang = self.language(request, asked.get("lang", ""))
        served = self._catalog.named(request.path_params["release"])
        if served is None:
            raise UnknownError("there is no such release.")

        def make() -> Answer:
            return as_json(standards.data_package(served, base, lang, self._settings.max_cells), lang)

        return f"{served.digest} {lang} {base}", make

    def sdmx_structure(self, request: Request) -> tuple[str, Make]:
        """SDMX dataflows: one with its structure, or all by name."""
        given, lang = request.path_params, self.language(request, _given(request).get("lang", ""))

        def make() -> Answer:
            found = sdmx.structure(self._catalog, given["agency"], given["flow"], lang)
            return Answer(found, sdmx.MEDIA, _OPEN)

        return f"{self._catalog.digest} {lang}", make

    def sdmx_data(self, request: Request) -> tuple[str, Make]:
        """The numbers of an SDMX dataflow."""
        given, asked = request.path_params, _given(request)
        lang, key = self.language(request, asked.get("lang", "")), given.get("key", "all")

        def make() -> Answer:
            most = self._settings.max_cells
            return Answer(sdmx.data(self._catalog, given["flow"], key, asked, lang, most), sdmx.MEDIA, _OPEN)

        return f"{self._catalog.digest} {lang}", make

    def _place(
        self, known: Sequence[places.PlaceFacts], lang: str, base: str, embedded: bool, keeps_time: bool
    ) -> dict[str, Any]:
        """What the page of a place says. With `keeps_time` its links lead to the same time, else to the newest."""
        first, write = known[0], Writing(lang)
        place, said = first.place, dict(write.said)
        served, address = place.served, place.address
        table = WordedTable(served.release, _first(served).table, standards.NO_ROWS, lang)
        name = said["place_of"].format(name=place.name, other=known[1].place.name) if len(known) > 1 else place.name

        def titled(whom: str) -> str:
            return f"{whom}, {first.time} – {table.told('title')}" if served.time else f"{whom} – {table.told('title')}"

        title = titled(name)
        time = {"time": first.time} if served.time else {}  # a wave that is served alone has one time
        same = time if keeps_time else {}
        query = urlencode({"lang": lang, **same})
        sides = [_side(one, known, lang, same) for one in known]
        about = {
            "title": title,
            "description": _description(known, sides, said),
            "picture": f"{base}/picture{address}?{query}",
            "picture_of": titled(place.name),
            "dataset": "",
        }
        other_place = {"with": known[1].place.code} if len(known) > 1 else {}
        more = {**other_place, **same}
        inside = f"{base}/embed{address}?{urlencode({'lang': lang, **other_place, **time})}"
        level = {f"level.{place.hierarchy.name}": place.areas.name, "view": "map", "place": place.code}
        level |= {f"pick.{served.time}": when for when in same.values()}
        is_newest = first.time == next(reversed(served.times), "")
        spoken = offered_languages(self._catalog, self._settings)
        return {
            **self._head(about, address, lang, base, served, f"&{urlencode(more)}" if more else ""),
            "is_rtl": pictures.is_rtl(lang),
            "said": said,
            "home": f"/?lang={lang}",
            "own": address,
            "query": query,
            "time": same.get("time", ""),
            "newer": ()
            if is_newest
            else (
                said["place_newer"].format(time=served.times[-1]),
                f"{address}?{urlencode({'lang': lang, **other_place})}",
            ),
            "keep": (
                said["place_keep"].format(time=first.time),
                f"{address}?{urlencode({'lang': lang, **other_place, **time})}",
            )
            if time and not same
            else (),
            "above": [(name_of, f"{there}?{query}") for name_of, there in first.above],
            "languages": [
                (other, f"{address}?{urlencode({'lang': other, **more})}", language_name(other)) for other in spoken
            ],
            "heading": name,
            "problem": "",
            "sides": sides,
            "compared": _compared(known, write) if len(known) > 1 and all(one.is_there for one in known) else [],
            "rank_head": said["place_rank_head"].format(all=write.number(first.peopled)),
            "others": [place.areas.labels[at] for at in place.areas.stated[:_MOST_OTHERS]],
            "explained": f"/?lang={lang}#{urlencode({'release': served.id, 'about': 1})}",
            "on_map": f"/?lang={lang}#{urlencode({'lang': lang, 'release': served.id, 'by': '', **level})}",
            "embed": f'<iframe src="{inside}" title="{title.replace(chr(34), "")}" width="100%" height="900"></iframe>',
            "embedded": embedded,
            "notes": [*table.notes(dense=True), _linked(table)],
        }


def _given(request: Request) -> dict[str, str]:
    """The parameters of an address. Other sites add their own parameters, which are ignored."""
    return {name.lower(): value for name, value in reversed(pairs(request))}


def _first(served: ServedRelease) -> TableEntry:
    return next(iter(served.entries.values()))


def table_address(entry: TableEntry) -> str:
    """The address of the page of a table."""
    return f"/table/{quote(entry.id, safe=':')}"


def _embedded(value: dict[str, Any]) -> Markup:
    """JSON inside a page, escaped so that it cannot end its element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe)  # noqa: S704  # every sign of markup is written as a number


def _source(table: WordedTable, masking: bool = True) -> str:
    """Source, licence and, if not said elsewhere, a note that counts are masked."""
    said, about = table.said, table.release.manifest
    licence, word = about.get("licence", ""), "chart_note" if about["method"] in MASKING else "chart_plain"
    parts = [
        said["source"].format(source=table.told("source")) if table.told("source") else "",
        said["licence"].format(licence=licence) if licence else "",
        said[word].format(K=about["threshold"]) if masking else "",
    ]
    return " · ".join(part for part in parts if part)


def _foot(table: WordedTable) -> str:
    """What stands below a preview; where there is room, also what small counts may stand for."""
    short, about = _source(table), table.release.manifest
    if about["method"] not in MASKING:
        return short
    long = f"{short} {table.said['small'].format(K=about['threshold'])}"
    return long if len(pictures.foot_lines(long)) <= pictures.FOOT_LINES else short


def _linked(table: WordedTable) -> Markup:
    """Source and licence; a licence that is an address is a link."""
    text = escape(_source(table, masking=False))
    licence = table.release.manifest.get("licence", "")
    if not re.fullmatch(r"https?://\S+", licence):
        return text
    link = Markup('<a href="{0}" rel="license">{0}</a>').format(licence)
    return link.join(text.rsplit(str(escape(licence)), 1))


def _kind(known: places.PlaceFacts, write: Writing) -> str:
    """What a place is, where it is, and the time of its numbers if one was declared."""
    label = known.place.areas.label
    kind = write.said["place_in"].format(kind=label, above=known.above[-1][0]) if known.above else label
    return " · ".join([kind, known.time] if known.time else [kind])


def _number(one: places.PlaceFacts, write: Writing, unit: str) -> str:
    """The count of a place with its unit, or that it did not exist at the time."""
    if not one.is_there:
        return write.said["not_in"].format(time=one.time)
    return "" if one.count is None else f"{write.number(one.count)} {unit}".strip()


def _description(known: Sequence[places.PlaceFacts], sides: Sequence[dict[str, Any]], said: Mapping[str, str]) -> str:
    """What a preview says: the time, the number of one place and its first facts, or the numbers of two by name."""
    time = known[0].time
    if len(sides) > 1:
        numbers = [said["place_told"].format(name=one["name"], text=one["number"]) for one in sides if one["number"]]
        return " · ".join(part for part in (time, "; ".join(numbers)) if part)
    text = " · ".join(part for part in (sides[0]["number"], *sides[0]["facts"][:2]) if part)
    return said["place_told"].format(name=time, text=text) if time and text and known[0].is_there else text


def _side(
    one: places.PlaceFacts, known: Sequence[places.PlaceFacts], lang: str, same: Mapping[str, str]
) -> dict[str, Any]:
    """One place as the page shows it; drawings of two places have the same scale, and links the same time."""
    write, place = Writing(lang), one.place
    said, release = write.said, place.served.release
    unit = told(release, "unit", lang)
    others = [other for other in known if other is not one]

    def largest(of: Callable[[places.PlaceFacts], int]) -> int:
        return max(of(other) for other in known)

    drawn: dict[str, Any] = {"pyramid": "", "lines": "", "ages": [], "sexes": ("", "")}
    if one.pyramid is not None:
        most = largest(lambda about: int(about.pyramid.counts.max()) if about.pyramid else 0)
        picture, width, height = pictures.pyramid(one.pyramid, most, write.number, True, lang)
        drawn["pyramid"] = Markup(picture.svg(width, height, f"{place.name}: {said['place_pyramid']}"))  # noqa: S704
        rows = zip(one.pyramid.ages, one.pyramid.counts.tolist(), strict=True)
        drawn["ages"] = [(age, write.number(a), write.number(b)) for age, (a, b) in rows]
        drawn["sexes"] = one.pyramid.sexes
    if len(one.times) > 1:
        most = largest(lambda about: max([n or 0 for _, n in about.times]))
        picture, width, height = pictures.lines(one.times, most, write.number, True)
        drawn["lines"] = Markup(picture.svg(width, height, f"{place.name}: {said['place_time']}"))  # noqa: S704
    above = one.above[-1][0] if one.above else said["everywhere"]
    return {
        **drawn,
        "name": place.name,
        "address": f"{place.address}?{urlencode({'lang': lang, **same})}",
        "kind": _kind(one, write),
        "number": _number(one, write, unit),
        "facts": _facts(one, write),
        "groups": [(label, [_row(group, write) for group in groups]) for label, groups in one.groups],
        "neighbours_head": (f"{place.name}: " if others else "")
        + (said["place_touching"] if one.is_touching else said["place_same"].format(above=above)),
        "neighbours": [
            (
                near.name,
                f"{near.address}?{urlencode({'lang': lang, **same})}",
                "" if near.count is None else write.number(near.count),
                "" if others else f"{place.address}?{urlencode({'lang': lang, 'with': near.code, **same})}",
            )
            for near in one.neighbours
        ],
    }


def _row(group: places.Group, write: Writing) -> tuple[str, ...]:
    rank = "–"
    if group.rank is not None:
        rank = "≈" * group.rank.is_close + write.number(group.rank.number) + " =" * (group.rank.shared > 1)
    return group.label, write.number(group.count), write.percent(group.share), write.percent(group.everywhere), rank


def _ranked(rank: places.Rank, words_of_it: str, write: Writing, **given: str) -> str:
    """A rank in words, with the number of places that share it, and whether masking may decide it."""
    text = words_of_it.format(n=write.number(rank.number), **given)
    if rank.shared > 1:
        text = write.said["place_tied"].format(rank=text, n=write.number(rank.shared))
    return write.said["place_close"].format(rank=text) if rank.is_close else text


def _compared(known: Sequence[places.PlaceFacts], write: Writing) -> list[tuple[str, list[tuple[str, ...]]]]:
    """The groups of two places in common tables: count and share of each, and the share everywhere."""
    found = []
    for (label, groups), (_, others) in zip(known[0].groups, known[1].groups, strict=True):
        pairs = zip(groups, others, strict=True)
        rows = [
            (*_row(one, write)[:3], *_row(other, write)[1:3], write.percent(one.everywhere)) for one, other in pairs
        ]
        found.append((label, rows))
    return found


def _facts(one: places.PlaceFacts, write: Writing) -> list[str]:
    """The short lines under the number."""
    said, place = write.said, one.place
    found = []
    time = place.served.time
    levels = {h.name: 0 for h in place.served.release.design.hierarchies} | {place.hierarchy.name: place.level}
    entry = place.served.entry(levels, [time] if time else [])
    most = None if entry is None else bound_of(entry)
    if most and one.count is not None:
        low, high = write.number(max(0, one.count - most)), write.number(one.count + most)
        found.append(said["place_range"].format(low=low, high=high))
    if len(one.times) > 1:
        (earlier, before), (_, now) = one.times[-2:]
        doubt = None if entry is None else doubt_of(entry)
        if now is not None and before is not None:
            since = "place_since_doubt" if doubt is not None and abs(now - before) <= doubt else "place_since"
            found.append(said[since].format(change=write.signed(now - before), time=earlier))
        elif now is not None:
            found.append(said["not_in"].format(time=earlier))
    if one.rank is not None and one.areas > 1:
        found.append(_ranked(one.rank, said["place_rank"], write, all=write.number(one.areas)))
    if one.above and one.rank_inside is not None and 1 < one.areas_inside < one.areas:
        every, above = write.number(one.areas_inside), one.above[-1][0]
        found.append(_ranked(one.rank_inside, said["place_rank_inside"], write, all=every, above=above))
    if one.above and one.share_above is not None:
        found.append(said["place_share"].format(share=write.percent(one.share_above), above=one.above[-1][0]))
    elif one.share_of_all is not None and one.areas > 1:
        share = write.percent(one.share_of_all)
        found.append(said["place_share"].format(share=share, above=said["everywhere"]))
    return found
