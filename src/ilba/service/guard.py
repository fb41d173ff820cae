"""What holds for every request and every answer: limits before, security headers after."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ilba.service.addresses import API
from ilba.service.connection import MOST_QUERY
from ilba.service.problems import problem

_MOST_PATH = 2000
_MOST_HEADERS = 100
_HOST = re.compile(rb"[A-Za-z0-9._~-]{0,255}(?::\d{0,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{0,5})?")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_FRAMED = _POLICY.replace("frame-ancestors 'none'", "frame-ancestors *")  # a click can do nothing on it
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_CLOSED = {"Cross-Origin-Resource-Policy": "same-origin"}  # the page itself is for this origin alone


class Guard:
    """Apply limits before and security headers after the application, for every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = CORSMiddleware(
            self._within_limits,
            allow_origins=["*"],
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Content-Type", "If-None-Match"],
            expose_headers=["Content-Disposition", "ETag", "Retry-After"],
            max_age=86_400,
        )
        self._headers = _raw(_HEADERS)
        self._framed = _raw({**_HEADERS, "Content-Security-Policy": _FRAMED})
        self._of_page = _raw({**_HEADERS, **_CLOSED})
        self._checked = _raw({"Cache-Control": "no-cache"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within the limits, with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        of_api = scope["path"].startswith(f"{API}/")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = message["headers"]
                message["headers"] = [*said, *(self._headers if of_api else self._more(scope["path"], said))]
            await send(message)

        await (self._open if of_api else self._within_limits)(scope, receive, guarded)

    def _more(self, path: str, said: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers of a page or a picture; a page that is made for it may be embedded elsewhere."""
        is_framed = path.startswith("/embed/")
        given = {name for name, _ in said} | ({b"x-frame-options"} if is_framed else set())
        added = [*(self._framed if is_framed else self._of_page), *self._checked]
        return [(name, value) for name, value in added if name not in given]

    async def _within_limits(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = _refused(scope)
        await (problem(Request(scope), *refused) if refused else self._app)(scope, receive, send)


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def _refused(scope: Scope) -> tuple[int, str] | None:
    """Why a request is refused before its content is read."""
    if len(scope["query_string"]) > MOST_QUERY or len(scope["path"]) > _MOST_PATH:
        return 414, f"the address is longer than {MOST_QUERY:,} letters. Send a long selection as POST."
    if len(scope["headers"]) > _MOST_HEADERS:
        return 431, f"the request has more than {_MOST_HEADERS} headers."
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) > 1 or (not hosts and scope["http_version"] == "1.1"):
        return 400, f"the request has {len(hosts) or 'no'} Host headers. Send one."
    if hosts and not _HOST.fullmatch(hosts[0]):
        return 400, "the Host header is not the name of a machine."
    return None
