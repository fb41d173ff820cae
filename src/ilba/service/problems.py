"""Errors for clients: RFC 9457, in a sentence, without paths of this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ilba.errors import InputError, StoreError
from ilba.output.wording import LANGUAGES, words
from ilba.service.addresses import API, plain
from ilba.service.asked import TooManyError, UnknownError
from ilba.service.folder import DamagedError
from ilba.service.on_demand import RuleError
from ilba.service.rendering import rendered

# The data are public: any page may read them.
OPEN = {"Cross-Origin-Resource-Policy": "cross-origin"}

_TITLES = {
    400: "Bad request",
    403: "Too many cells",
    404: "Not found",
    405: "Method not allowed",
    413: "Too large",
    414: "Address too long",
    431: "Too many headers",
    500: "Error in the service",
    503: "Try again",
}
# Names that are typed exactly like this, even at the start of a sentence.
_TYPED = {"codelist", "key", "lang", "level", "measure", "of", "placement", "query", "release"}

_LANG = re.compile(r"\blang=(\w+)")


def problem(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None, title: str = ""
) -> Response:
    """Make the answer for an error."""
    title = title or _TITLES.get(status, "Error")
    first = re.match(r"[a-z]+(?= )", detail)
    if first and first[0] not in _TYPED:
        detail = detail[:1].upper() + detail[1:]
    told = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": request.scope["path"],
    }
    if _is_for_a_reader(request):
        return _told_on_a_page(request, status, title, detail, headers or {})
    open_to_all = OPEN if request.scope["path"].startswith(f"{API}/") else {}
    said = {**open_to_all, "Cache-Control": "no-store", **(headers or {})}
    return Response(plain(told), status, said, media_type="application/problem+json")


def _is_for_a_reader(request: Request) -> bool:
    """Whether a browser opens the address as a page: somebody followed a link."""
    return "text/html" in request.headers.get("accept", "") and not request.scope["path"].startswith(f"{API}/")


def _told_on_a_page(request: Request, status: int, title: str, detail: str, headers: Mapping[str, str]) -> Response:
    asked = _LANG.search(request.scope["query_string"][:200].decode("latin-1"))
    wanted = [asked[1] if asked else "", *request.headers.get("accept-language", "")[:200].split(",")]
    names = [one.strip()[:2].lower() for one in wanted]
    lang = next((one for one in names if one in LANGUAGES), LANGUAGES[0])
    said = words(lang)
    heading = said["nothing_here"] if status == 404 else title
    if detail.rstrip(".") == words(LANGUAGES[0])["nothing_here"]:
        detail = ""  # the heading says it
    text = rendered("problem.html", {"lang": lang, "heading": heading, "detail": detail, "back": said["to_start"]})
    answered = {"Vary": "Accept, Accept-Language", "Cache-Control": "no-store", **headers}
    return Response(text, status, answered, media_type="text/html")


async def http_problem(request: Request, wrong: Exception) -> Response:
    """Answer a request for an unknown address or method."""
    status = wrong.status_code if isinstance(wrong, HTTPException) else 500
    detail = {404: "there is nothing at this address.", 405: "this address does not take this method."}
    said = getattr(wrong, "detail", "")
    return problem(request, status, detail.get(status, said), getattr(wrong, "headers", None))


async def our_problem(request: Request, wrong: Exception) -> Response:
    """Answer a request that is refused, or that needs an unreadable file."""
    if isinstance(wrong, DamagedError):
        return problem(request, 503, str(wrong), {"Retry-After": "60"}, "Not available")
    if isinstance(wrong, StoreError):  # its text names paths of this machine
        return problem(request, 503, "the release is being replaced. Try again.", {"Retry-After": "1"})
    if isinstance(wrong, RuleError):
        return problem(request, 403, str(wrong), title="Against a rule")
    status = 403 if isinstance(wrong, TooManyError) else 404 if isinstance(wrong, UnknownError) else 400
    if not isinstance(wrong, InputError):
        return problem(request, 500, "something went wrong here. The operator finds it in the log.")
    return problem(request, status, str(wrong))


async def busy_problem(request: Request, wrong: Exception) -> Response:
    """Answer that the service is too busy."""
    return problem(request, 503, "the service is too busy at the moment. Try again.", {"Retry-After": "5"}, "Too busy")


async def nobody(request: Request, wrong: Exception) -> Response:
    """Answer nothing: the client has left."""
    return Response(status_code=400)


async def any_problem(request: Request, wrong: Exception) -> Response:
    """Answer that something went wrong, without details."""
    return problem(request, 500, "something went wrong here. The operator finds it in the log.")
