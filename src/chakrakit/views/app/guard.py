"""Who may talk to the server: a browser on this machine, showing the app's own page.

A page from elsewhere can make a browser send requests to 127.0.0.1, under any name that its owner's
DNS gives that address. Such requests show by their Host, Origin or Sec-Fetch-Site; they get nothing.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_NAMES = ("127.0.0.1", "localhost")


class Guard:
    """Wraps an app that listens on `port`; refuses foreign requests and adds headers to all answers."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in _NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # there are none: answered 403
        if scope["type"] != "http":
            return
        why = self._refusal(scope)
        app = PlainTextResponse(f"refused: {why}\n", 403) if why else self._app
        await app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> str:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return "this server answers to 127.0.0.1 and localhost only"
        if headers.get("origin", next(iter(self._origins))).lower() not in self._origins:
            return "the request comes from another site"
        site = headers.get("sec-fetch-site", "none")
        # A link to the page may stand anywhere; what the page itself asks for may not be asked by others.
        opens = scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not opens:
            return "the request comes from another site"
        return ""


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
