"""The service over HTTP: PxWebApi 2, and the page.

The service is stateless: any number of workers and hosts may serve the same folders. It has no cookies and no sessions,
and no path from outside reaches the data: tables are found by name in the manifest. Starlette serves the files of the
page from a folder that holds nothing else, and tells browsers which pages may read the data.

Threads read and answer requests (`work`); the event loop only receives and sends. Two kinds of requests are answered at
once, because handing them over takes longer: a short address whose answer is in memory, and a single cell of a table in
memory.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from ilba import __version__
from ilba.design.design import shown_name
from ilba.errors import IlbaError, InputError, listing, nearest
from ilba.output.export import rendered, variables_csv
from ilba.service import answers, choosing, codelists, saved
from ilba.service.addresses import API, Answer, Make, as_json, check_known, number, pairs, plain, query
from ilba.service.answers import FORMATS, Settings
from ilba.service.asked import Placement, UnknownError, ValueFilter, from_body, from_query, placed, split
from ilba.service.catalog import Catalog, Recent
from ilba.service.codelists import inside_of
from ilba.service.connection import MOST_BODY, Limits
from ilba.service.folder import ServedRelease, TableEntry
from ilba.service.guard import Guard
from ilba.service.on_demand import DemandRules, own_areas, summed
from ilba.service.openapi import document
from ilba.service.problems import OPEN, any_problem, busy_problem, http_problem, nobody, our_problem
from ilba.service.script import bundle
from ilba.service.sharing import Pages
from ilba.service.work import BusyError, GoneError, Lane, Lanes, Room, still_wanted

_MOST_BODIES = 64 * 2**20  # bytes of all bodies that are being received
_SHORT = 1000  # letters of an address that the event loop itself reads
_PIECE = 2**16  # bytes of an answer that are sent at once
_LONG_WORK = 10_000  # an answer with more cells is made in the lane for long work
_FOR_EVER = "public, max-age=31536000, immutable"
_FRESH = "public, max-age=60, stale-while-revalidate=600"
_WORTH_COMPRESSING = 1000
_MOST_DAMAGED = 20  # files that are named in a report
ENVIRONMENT = "ILBA_SERVICE"

_VARY = "Accept-Encoding, Origin"  # a cache must not mix answers to different kinds of clients
_SAID = {**OPEN, "Cache-Control": _FRESH, "Vary": _VARY}
_EVERY_METHOD = ["GET", "POST", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"]


def application(paths: list[str], settings: Settings | None = None, limits: Limits | None = None) -> ASGIApp:
    """The service for some release folders, as an ASGI application."""
    return Guard(_Service(Catalog(paths, answers.rehearse), settings or Settings(), limits or Limits()).app)


def from_environment() -> ASGIApp:
    """The application in a worker process, which reads from its environment what to serve."""
    sys.setswitchinterval(0.001)  # seconds after which a working thread yields to the event loop
    told = json.loads(os.environ[ENVIRONMENT])
    settings = {**told["settings"], "languages": tuple(told["settings"]["languages"])}
    settings["rules"] = msgspec.convert(settings["rules"], DemandRules)
    return application(told["paths"], Settings(**settings), Limits(**told["limits"]))


def environment(paths: list[str], settings: Settings, limits: Limits) -> str:
    """What `from_environment` reads."""
    told = {**asdict(settings), "rules": msgspec.to_builtins(settings.rules)}
    return json.dumps({"paths": paths, "settings": told, "limits": asdict(limits)})


class _Service:
    def __init__(self, catalog: Catalog, settings: Settings, limits: Limits) -> None:
        self.catalog = catalog
        self.settings = settings
        self._limits = limits
        self._lanes = Lanes(limits.timeout)
        self._room = Room(_MOST_BODIES)
        self._memory: Recent[Answer] = Recent(64 * 2**20)
        self._page = StaticFiles(packages=[("ilba.service", "page")])
        packed = [Middleware(GZipMiddleware, minimum_size=_WORTH_COMPRESSING, compresslevel=5)]
        if unknown := set(settings.languages) - set(catalog.languages):
            raise InputError(
                f"no release has labels or texts in {listing(sorted(unknown))}. Known are {listing(catalog.languages)}."
            )
        self._document = plain(document(settings, catalog))
        self._pages = Pages(catalog, settings)
        # Names may hold a slash, which is decoded in the path.
        table = f"{API}/tables/{{table:path}}"
        self.app = Starlette(
            routes=[
                Route("/", self._route(self._shown(self._pages.front))),
                Route("/static/page.js", self._route(self.script)),
                Mount("/static", self._page, middleware=packed),
                Route("/health", self.health),
                Route(f"{API}/cell", self.cell),
                Route(f"{API}/openapi.json", self._route(self.openapi)),
                Route(f"{API}/config", self._route(self.config)),
                Route(f"{API}/releases", self._route(self.releases)),
                Route(f"{API}/tables", self._route(self.tables)),
                Route(f"{table}/metadata", self._route(self.metadata)),
                Route(f"{table}/defaultselection", self._route(self.default_selection)),
                Route(f"{table}/data", self.data, methods=["GET", "POST"]),
                Route(f"{table}/areas", self.areas, methods=_EVERY_METHOD),
                Route(table, self._route(self.table)),
                Route(f"{API}/navigation", self._route(self.navigation)),
                Route(f"{API}/navigation/{{folder}}", self._route(self.navigation)),
                Route(f"{API}/savedqueries", self.save, methods=["POST"]),
                Route(f"{API}/savedqueries/{{query}}/data", self.saved_data),
                Route(f"{API}/savedqueries/{{query}}/selection", self._route(self.saved_selection)),
                Route(f"{API}/savedqueries/{{query}}", self._route(self.saved_query)),
                Route(f"{API}/rules", self._route(self.rules)),
                Route(f"{API}/codelists/{{name:path}}", self._route(self.code_list)),
                Route(f"{API}/geometry/{{release}}/{{column:path}}", self._route(self.geometry)),
                *self._shared_routes(),  # last, so that API requests are not compared with them
            ],
            exception_handlers={
                HTTPException: http_problem,
                IlbaError: our_problem,
                BusyError: busy_problem,
                GoneError: nobody,
                ClientDisconnect: nobody,
                Exception: any_problem,
            },
            lifespan=self._lifespan,
        )
        # A redirect would repeat the host of the request, which may be any host.
        self.app.router.redirect_slashes = False

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[Mapping[str, Any]]:
        """Watch the folders while the service runs; connections read their limits from the state."""
        with self.catalog.watched():
            yield {"limits": self._limits}

    def _route(self, answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """A route handler that runs a function in a thread."""

        async def run(request: Request) -> Response:
            return await self._lanes.run(request.receive, lambda: answer(request))

        return run

    def _shared_routes(self) -> list[Route]:
        """Addresses for people, portals and search engines."""
        shown, pages = self._shown, self._pages
        place = "place/{release}/{column}/{code:path}"
        return [
            Route("/table/{table:path}", self._route(self._of_table(pages.table))),
            Route(f"/{place}", self._route(shown(pages.place))),
            Route("/embed/table/{table:path}", self._route(self._of_table(pages.embedded_table))),
            Route(f"/embed/{place}", self._route(shown(lambda request: pages.place(request, embedded=True)))),
            Route("/picture/table/{table:path}", self._route(self._of_table(pages.table_picture))),
            Route(f"/picture/{place}", self._route(shown(pages.place_picture))),
            Route("/sdmx/2.1/dataflow/{agency}/{flow}", self._route(shown(pages.sdmx_structure))),
            Route("/sdmx/2.1/dataflow/{agency}/{flow}/{version}", self._route(shown(pages.sdmx_structure))),
            Route("/sdmx/2.1/data/{flow}", self._route(shown(pages.sdmx_data))),
            Route("/sdmx/2.1/data/{flow}/{key}", self._route(shown(pages.sdmx_data))),
            Route("/sdmx/2.1/data/{flow}/{key}/{provider}", self._route(shown(pages.sdmx_data))),
            Route("/sitemap.xml", self._route(shown(pages.sitemap))),
            Route("/robots.txt", self._route(shown(pages.robots))),
            Route("/catalog.jsonld", self._route(shown(pages.dcat))),
            Route("/datapackage/{release}.json", self._route(shown(pages.data_package))),
        ]

    def _shown(self, page: Callable[[Request], tuple[str, Make]]) -> Callable[[Request], Response]:
        """A page that is answered like everything else, from memory if possible."""
        return lambda request: self._answer(request, *page(request))

    def _of_table(self, page: Callable[[Request, TableEntry], tuple[str, Make]]) -> Callable[[Request], Response]:
        return self._shown(lambda request: page(request, self._page_entry(request)))

    def script(self, request: Request) -> Response:
        """The script of the page. Clients may cache its address for ever, because another script has another name."""
        content, name = bundle()
        kept = _FOR_EVER if request.scope["query_string"] == f"v={name}".encode() else "no-cache"
        said = {"Cache-Control": kept, "Cross-Origin-Resource-Policy": "same-origin"}
        return self._answer(request, name, lambda: Answer(content, "text/javascript; charset=utf-8", said))

    async def health(self, request: Request) -> Response:
        """Whether the releases can be read, as found by the last check: 503 if none can.

        One damaged table must not take the whole service down: the report names it, and the status stays 200.
        """
        if request.scope["query_string"]:
            raise InputError("health takes no parameters.")
        missing, stale, damaged = self.catalog.missing, self.catalog.stale, self.catalog.damaged
        left = len(self.catalog.paths) - len(missing)
        told = {
            "status": "damaged" if damaged or missing or stale else "ok",
            "detail": _in_words(missing, stale, damaged),
            "releases": left,
            "missing": missing,
            "stale": stale,
            "damaged": damaged[:_MOST_DAMAGED],
        }
        said = {"Cache-Control": "no-store"}
        return Response(plain(told), 200 if left else 503, said, media_type="application/json")

    async def cell(self, request: Request) -> Response:
        """One masked count."""
        if len(request.scope["query_string"]) <= _SHORT:
            with contextlib.suppress(IlbaError):  # an error text takes time to make
                question = self._question(request)
                if self.catalog.is_loaded(question.entry):
                    return self._cell(request, question)
        return await self._lanes.run(request.receive, lambda: self._cell(request, self._question(request)))

    def _question(self, request: Request) -> answers.Question:
        asked = query(request, ("release", "level", "key", "hkey_value", "key_value", "lang"))
        self._language(asked)
        level, key = (split(asked.get(name, "")) for name in ("level", "key"))
        values = [split(asked[name]) or [""] if name in asked else [] for name in ("hkey_value", "key_value")]
        question = answers.question(self.catalog, asked.get("release"), level, key, *values)
        if self.settings.rules.excludes(question.entry):
            self.settings.rules.check_variables(question.entry.table.columns)
        return question

    def _cell(self, request: Request, question: answers.Question) -> Response:
        return self._answer(
            request, question.entry.served.digest, lambda: as_json(answers.cell(self.catalog, question))
        )

    async def data(self, request: Request) -> Response:
        """The numbers of a table, or of a part of it."""
        is_short = request.method != "POST" and len(request.scope["query_string"]) <= _SHORT
        entry = self._found(request) if is_short else None
        kept = self._kept(request, entry.served.digest) if entry else None
        if kept is not None:
            return kept
        content = await self._body(request) if request.method == "POST" else b""
        found = await self._lanes.run(request.receive, lambda: self._part(request, content))
        if isinstance(found, Response):
            return found
        return await self._lanes.run(request.receive, *found)

    def _part(self, request: Request, content: bytes) -> Response | tuple[Callable[[], Response], Lane]:
        """The answer; or, for long work, the function that makes it and its lane."""
        filters, others = from_query(pairs(request))
        check_known(others, ("lang", "outputformat", "outputformatparams", "stub", "heading", "measure", "of", "range"))
        if request.method == "POST":
            if filters:
                raise InputError("the selection stands in the address and in the body. Leave it in one of them.")
            filters = from_body(content)
        return self._asked(request, self._table_entry(request), filters, others, content)

    def _asked(
        self,
        request: Request,
        entry: TableEntry,
        filters: Mapping[str, ValueFilter],
        others: Mapping[str, str],
        content: bytes,
    ) -> Response | tuple[Callable[[], Response], Lane]:
        lang, format = self._language(others), others.get("outputformat", "json-stat2").lower()
        if format not in FORMATS:
            raise InputError(
                f"outputFormat is {format[:50]!r}.{nearest(format[:50], FORMATS)} It is {listing(FORMATS)}."
            )
        body = hashlib.sha256(content).hexdigest() if content else ""
        kept = self._kept(request, entry.served.digest, body)
        if kept is not None:
            return kept
        written = choosing.csv_asked(others.get("outputformatparams", ""))
        part = choosing.part(self.catalog, entry, filters, self.settings.max_cells, others)
        self._check_rules(part)
        placement = placed(content, others)

        def make() -> Response:
            return self._answer(
                request, entry.served.digest, lambda: self._data(part, lang, format, written, placement), body
            )

        if part.cells <= _LONG_WORK:
            return make()
        return make, "sheet" if format == "xlsx" else "long"

    def _check_rules(self, part: choosing.Part) -> None:
        """Refuse a summed table that breaks a declared rule."""
        rules = self.settings.rules
        if rules == DemandRules() or part.entry.is_stored:
            return
        rules.check_variables(part.entry.table.columns)
        rules.check_counts(self.catalog.load(part.entry).values(part.places))

    async def areas(self, request: Request) -> Response:
        """The numbers of areas that the client combines."""
        if request.method != "POST":  # refused here: a GET would be read as the name of a table
            raise HTTPException(405, headers={"Allow": "POST"})
        content = await self._body(request)

        def make() -> Response:
            asked = query(request, ("lang", "outputformat", "outputformatparams"))
            lang, format = self._language(asked), asked.get("outputformat", "json-stat2").lower()
            if format not in ("json-stat2", "csv"):
                raise InputError(f"outputFormat is {format[:50]!r}. Own areas are answered as json-stat2 or csv.")
            written = choosing.csv_asked(asked.get("outputformatparams", ""))
            entry = self._table_entry(request)
            body = hashlib.sha256(content).hexdigest()
            return self._answer(
                request, entry.served.digest, lambda: self._own(entry, content, lang, format, written), body
            )

        return await self._lanes.run(request.receive, make, "long")

    def _own(self, entry: TableEntry, content: bytes, lang: str, format: str, written: Mapping[str, Any]) -> Answer:
        areas, settings = own_areas(content), self.settings
        found = summed(self.catalog, self._pages.maps, entry, areas, settings.rules, settings.max_cells, lang)
        if format == "csv":
            shown = {"Content-Disposition": "attachment; filename=areas.csv", "Content-Language": lang}
            return Answer(variables_csv(found.table, **written), FORMATS["csv"][1], shown)
        told = answers.data(found.table, entry, Placement())
        told["extension"]["ilba"]["inside"] = found.inside
        return as_json(told, lang)

    def rules(self, request: Request) -> Response:
        """The declared rules for tables on demand."""
        lang = self._language(query(request, ("lang",)))
        told = {"language": lang, **answers.rules(self.settings, lang)}
        return self._answer(request, f"rules {__version__}", lambda: as_json(told, lang))

    async def save(self, request: Request) -> Response:
        """Save a query: return its id; nothing is stored."""
        content = await self._body(request)

        def make() -> Response:
            lang = self._language(query(request, ("lang",)))
            wanted = saved.from_body(content)
            lang = self._language({"lang": wanted.language}) if wanted.language else lang
            choosing.part(self.catalog, self._entry(wanted.table_id), from_body(wanted.body), self.settings.max_cells)
            placed(wanted.body, {})
            self._format(wanted)
            said = {**OPEN, "Cache-Control": "no-store"}
            return Response(plain(saved.told(wanted, lang)), 201, said, media_type="application/json")

        return await self._lanes.run(request.receive, make)

    def _format(self, wanted: saved.SavedQuery) -> None:
        if wanted.output_format and wanted.output_format.lower() not in FORMATS:
            raise InputError(f"outputFormat is {wanted.output_format[:50]!r}. It is {listing(FORMATS)}.")
        choosing.csv_asked(",".join(wanted.output_format_params))

    def saved_query(self, request: Request) -> Response:
        """What a saved query asks for."""
        lang = self._language(query(request, ("lang",)))
        wanted = saved.opened(request.path_params["query"])
        self._entry(wanted.table_id)
        return self._answer(request, self.catalog.digest, lambda: as_json(saved.told(wanted, lang), lang))

    def saved_selection(self, request: Request) -> Response:
        """The values that a saved query names."""
        lang = self._language(query(request, ("lang",)))
        wanted = saved.opened(request.path_params["query"])
        entry = self._entry(wanted.table_id)
        filters = from_body(wanted.body)
        return self._answer(
            request,
            entry.served.digest,
            lambda: as_json(answers.selection(self.catalog, entry, filters, lang, self.settings), lang),
        )

    async def saved_data(self, request: Request) -> Response:
        """The numbers that a saved query asks for."""

        def find() -> Response | tuple[Callable[[], Response], Lane]:
            given = query(request, ("lang", "outputformat", "outputformatparams"))
            wanted = saved.opened(request.path_params["query"])
            kept = {
                "lang": wanted.language,
                "outputformat": wanted.output_format,
                "outputformatparams": ",".join(wanted.output_format_params),
            }
            others = {name: text for name, text in {**kept, **given}.items() if text}
            return self._asked(request, self._entry(wanted.table_id), from_body(wanted.body), others, wanted.body)

        found = await self._lanes.run(request.receive, find)
        return found if isinstance(found, Response) else await self._lanes.run(request.receive, *found)

    def _data(
        self, found: choosing.Part, lang: str, format: str, written: Mapping[str, Any], placement: Placement
    ) -> Answer:
        table = answers.answered(self.catalog, found, lang)
        still_wanted()
        kind, media, ending = FORMATS[format]
        if format == "json-stat2":
            return as_json(answers.data(table, found.entry, placement), lang)
        name = quote(f"{found.entry.file}.{ending}", safe=".+-_")
        shown = f"attachment; filename*=UTF-8''{name}"
        content = variables_csv(table, **written) if format == "csv" else rendered(table, kind)
        return Answer(content, media, {"Content-Disposition": shown, "Content-Language": lang})

    async def _body(self, request: Request) -> bytes:
        """The body of a POST, read only up to the limit."""
        media = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if media not in ("application/json", "text/json", ""):
            raise InputError(f"the body is {media[:50]!r}. Send application/json.")
        too_large = HTTPException(413, f"the body is larger than {MOST_BODY:,} bytes.")
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 9 or int(length) > MOST_BODY:
            raise too_large
        content = bytearray()
        with self._room.hold() as more:
            async for piece in request.stream():
                content += piece
                if len(content) > MOST_BODY:
                    raise too_large
                more(len(piece))
            return bytes(content)
        raise BusyError

    @property
    def _spoken(self) -> list[str]:
        return answers.offered_languages(self.catalog, self.settings)

    def _language(self, asked: Mapping[str, str]) -> str:
        known = self._spoken
        lang = asked.get("lang", known[0])
        if lang not in known:
            raise InputError(f"lang is {lang[:50]!r}. It is {listing(known)}.")
        return lang

    # Everything below runs in threads.

    def openapi(self, request: Request) -> Response:
        """The description of this interface."""
        query(request, ())
        return self._answer(request, __version__, lambda: Answer(self._document, "application/json"))

    def config(self, request: Request) -> Response:
        """What a client has to know in advance."""
        self._language(query(request, ("lang",)))
        told = answers.config(self.catalog, self.settings)
        return self._answer(
            request, ",".join([__version__, *(one["id"] for one in told["languages"])]), lambda: as_json(told)
        )

    def releases(self, request: Request) -> Response:
        """What is published."""
        lang = self._language(query(request, ("lang",)))
        return self._answer(
            request,
            self.catalog.digest,
            lambda: as_json(answers.releases(self.catalog, lang, self.settings.rules), lang),
        )

    def tables(self, request: Request) -> Response:
        """The list of tables."""
        taken = ("lang", "query", "pastdays", "includediscontinued", "pagenumber", "pagesize")
        asked = query(request, taken)
        lang = self._language(asked)
        if asked.get("includediscontinued", "false").lower() not in ("true", "false"):
            raise InputError("includeDiscontinued is 'true' or 'false'.")
        days = number(asked, "pastDays", 0, 36_500) if "pastdays" in asked else None
        page = number(asked, "pageNumber", 1, 10**9, 1)
        size = number(asked, "pageSize", 1, 10**9, 20)
        text = asked.get("query", "")
        if len(text) > 1000:
            raise InputError("query is longer than 1,000 letters.")
        today = "" if days is None else os.urandom(8).hex()  # "recent" changes with the clock
        return self._answer(
            request,
            self.catalog.digest + today,
            lambda: as_json(answers.tables(self.catalog, lang, self._spoken, text, page, size, days), lang),
        )

    def navigation(self, request: Request) -> Response:
        """The folders of the releases, or one of them with its tables."""
        lang = self._language(query(request, ("lang",)))
        folder = request.path_params.get("folder")
        return self._answer(
            request,
            self.catalog.digest,
            lambda: as_json(answers.navigation(self.catalog, lang, self._spoken, folder), lang),
        )

    def table(self, request: Request) -> Response:
        """One table of the list."""
        lang = self._language(query(request, ("lang",)))
        entry = self._table_entry(request)
        return self._answer(
            request, entry.served.digest, lambda: as_json(answers.table(entry, lang, self._spoken), lang)
        )

    def metadata(self, request: Request) -> Response:
        """A table without its numbers."""
        filters, asked = from_query(pairs(request))
        check_known(asked, ("lang", "outputformat", "defaultselection", "savedquery"))
        lang = self._language(asked)
        if "savedquery" in asked:
            stored = from_body(saved.opened(asked["savedquery"]).body)
            lists = {name: ValueFilter(codelist=one.codelist) for name, one in stored.items() if one.codelist}
            filters = {**lists, **filters}
        if asked.get("outputformat", "json-stat2").lower() != "json-stat2":
            raise InputError("metadata are written as json-stat2 only.")
        if asked.get("defaultselection", "false").lower() not in ("true", "false"):
            raise InputError("defaultSelection is 'true' or 'false'.")
        entry = self._table_entry(request)
        return self._answer(
            request, entry.served.digest, lambda: as_json(answers.metadata(self.catalog, entry, lang, filters), lang)
        )

    def default_selection(self, request: Request) -> Response:
        """The selection that is answered by default."""
        lang = self._language(query(request, ("lang",)))
        entry = self._table_entry(request)
        return self._answer(
            request,
            entry.served.digest,
            lambda: as_json(answers.default_selection(self.catalog, entry, lang, self.settings), lang),
        )

    def code_list(self, request: Request) -> Response:
        """The areas of a coarser level."""
        lang = self._language(query(request, ("lang",)))
        # The ids hold % if a column's name has a dot or a slash, and the address was already decoded once.
        name = request.path_params["name"]
        return self._answer(
            request, self.catalog.digest, lambda: as_json(codelists.code_list(self.catalog, name, lang), lang)
        )

    def geometry(self, request: Request) -> Response:
        """The map of a column, or of the areas inside a coarser one."""
        asked = query(request, ("within", "time"))
        named = self.catalog.named(request.path_params["release"])
        column = request.path_params["column"]
        served = self.catalog.drawn_by(named, column, asked.get("time", "")) if named else None
        known = self.catalog.map_digest(served, column) if served else None
        if named is None or served is None or known is None:
            raise UnknownError("there is no map of this column.")
        if "within" in asked:
            return self._answer(request, known, lambda: self._map_inside(named, served, column, asked["within"]))
        said = {**_SAID, "ETag": f'W/"{known[:32]}"'}
        if _has(request, known[:32]):
            return Response(status_code=304, headers=said)
        content, packed = self.catalog.geometry(served, column, known)
        if packed and _packs(request):
            content, said = packed, {**said, "Content-Encoding": "gzip"}
        return Response(content, media_type="application/geo+json", headers=said)

    def _map_inside(self, named: ServedRelease, drawn: ServedRelease, column: str, within: str) -> Answer:
        coarse, _, code = within.partition(":")
        content = self._pages.maps.inside(drawn, column, inside_of(self.catalog, named, column, coarse, code))
        return Answer(content, "application/geo+json")

    def _found(self, request: Request) -> TableEntry | None:
        return self._by_name(request.path_params["table"])

    def _by_name(self, name: str) -> TableEntry | None:
        # Names hold % if a column's own name has a dot or a slash, and the address was already decoded once.
        return self.catalog.find(name) or self.catalog.find(quote(name, safe=":+."))

    def _table_entry(self, request: Request) -> TableEntry:
        return self._entry(request.path_params["table"])

    def _page_entry(self, request: Request) -> TableEntry:
        """The table of a page. An address that names no release was shared when one was served alone."""
        return self._found(request) or self.catalog.last(request.path_params["table"]) or self._table_entry(request)

    def _entry(self, name: str) -> TableEntry:
        entry = self._by_name(name)
        if entry is None:
            names = [one.id for served in self.catalog.releases for one in served.entries.values()]
            last = self.catalog.last(name)  # named as if its release was served alone
            known = [last.id] if last else names[:2000]
            shown = [text if self._by_name(text := shown_name(one)) else one for one in known]
            close = f" Did you mean {shown[0]!r}?" if last else nearest(name[:60], shown)
            raise UnknownError(f"there is no table {name[:60]!r}.{close} /api/v2/tables lists all tables.")
        return entry

    def _answer(self, request: Request, digest: str, make: Make, body: str = "") -> Response:
        """An answer from memory, or made now; nothing is made for a client that already has it."""
        kept = self._kept(request, digest, body)
        if kept is not None:
            return kept
        made, packs = make(), _packs(request)
        if packs and len(made.body) > _WORTH_COMPRESSING:
            still_wanted()
            packed = gzip.compress(made.body, 5, mtime=0)
            made = Answer(packed, made.media, {**made.headers, "Content-Encoding": "gzip"})
        tag = _tag(request, digest, body)
        self._memory.put((tag, packs), made, len(made.body) + 500)
        return _sent(made, tag)

    def _kept(self, request: Request, digest: str, body: str = "") -> Response | None:
        """The answer, if the client or the memory has it."""
        tag = _tag(request, digest, body)
        if _has(request, tag):
            return Response(status_code=304, headers={**_SAID, "ETag": f'W/"{tag}"'})
        kept = self._memory.get((tag, _packs(request)))
        return None if kept is None else _sent(kept, tag)


def _tag(request: Request, digest: str, body: str) -> str:
    """The ETag of an answer. It depends on the request, but never on the host name that the client uses."""
    asked = [__version__, digest, request.scope["path"], request.scope["query_string"].decode("latin-1"), body]
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()[:32]


def _sent(answer: Answer, tag: str) -> Response:
    return _Pieces(answer.body, media_type=answer.media, headers={**_SAID, "ETag": f'W/"{tag}"', **answer.headers})


class _Pieces(Response):
    """An answer that is sent in pieces, so that a client that does not read it costs no second copy."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for start in range(0, len(body), _PIECE):
            piece = bytes(body[start : start + _PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": start + _PIECE < len(body)})
        if not len(body):
            await send({"type": "http.response.body", "body": b""})


def _in_words(missing: list[str], stale: list[str], damaged: list[str]) -> str:
    """What an operator has to know, without paths of this machine."""
    said = [f"The release {name!r} is gone, and nothing of it is served." for name in missing]
    said += [
        f"The replacement of the release {name!r} cannot be read; the earlier release is served." for name in stale
    ]
    said += [f"The file {name!r} is damaged or missing, and is not served." for name in damaged[:_MOST_DAMAGED]]
    return " ".join([*said, "Restore it, or make the release again."]) if said else "Every release can be read."


def _has(request: Request, tag: str) -> bool:
    given = request.headers.get("if-none-match", "")
    return request.method in ("GET", "HEAD") and (given.strip() == "*" or f'"{tag}"' in given)


def _packs(request: Request) -> bool:
    return re.search(r"\bgzip\b(?!;q=0(?:\.0*)?(?:,|$))", request.headers.get("accept-encoding", "")) is not None
