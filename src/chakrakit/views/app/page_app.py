"""A page that is complete in itself, served as the app is: on this machine, to its own browser."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from chakrakit.views.app.server import RequestGuard
from chakrakit.views.page import POLICY


def page_app(html: str, port: int) -> RequestGuard:
    """The page at `/`, for a server that listens on this port of 127.0.0.1; nothing else is there."""

    def answer(_: Request) -> Response:
        return HTMLResponse(html, headers={"content-security-policy": POLICY})

    return RequestGuard(Starlette(routes=[Route("/", answer)]), port)
