"""What went wrong, as it is told to clients: RFC 9457, in a sentence, and no path of this machine in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ilba.errors import InputError, StoreError
from ilba.service.addresses import API, plain
from ilba.service.asked import TooManyError, UnknownError
from ilba.service.folder import DamagedError
from ilba.service.on_demand import RuleError

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
# Words that are no words of a sentence: they are written as they are typed.
_TYPED = {"codelist", "key", "lang", "level", "measure", "of", "placement", "query", "release"}


def problem(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None, title: str = ""
) -> Response:
    """Tell what went wrong."""
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
    open_to_all = OPEN if request.scope["path"].startswith(f"{API}/") else {}
    said = {**open_to_all, "Cache-Control": "no-store", **(headers or {})}
    return Response(plain(told), status, said, media_type="application/problem+json")


async def http_problem(request: Request, wrong: Exception) -> Response:
    """Tell of an address or a method that is not there."""
    status = wrong.status_code if isinstance(wrong, HTTPException) else 500
    detail = {404: "there is nothing at this address.", 405: "this address does not take this method."}
    said = getattr(wrong, "detail", "")
    return problem(request, status, detail.get(status, said), getattr(wrong, "headers", None))


async def our_problem(request: Request, wrong: Exception) -> Response:
    """Tell of what we refuse, or cannot read."""
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
    """Tell that there is too much to do."""
    return problem(request, 503, "there is too much to do here just now. Try again.", {"Retry-After": "5"}, "Too busy")


async def nobody(request: Request, wrong: Exception) -> Response:
    """Nobody is there to read it."""
    return Response(status_code=400)


async def any_problem(request: Request, wrong: Exception) -> Response:
    """Tell that something went wrong here, and nothing more."""
    return problem(request, 500, "something went wrong here. The operator finds it in the log.")
