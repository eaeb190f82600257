"""The HTTP interface of the app. It is read-only, and no request can name a file of the user's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chakrakit.errors import ChakraError, ConfigError
from chakrakit.trace.files import scratch
from chakrakit.views.app.area import totals
from chakrakit.views.app.lod import TimeWindow
from chakrakit.views.app.node import around, describe
from chakrakit.views.app.search import ask_again, search
from chakrakit.views.app.session import AppSession
from chakrakit.views.app.shown_run import ShownRun
from chakrakit.views.app.window import rank_layout, rank_window

# Only the app's own page in a browser on this machine may use the server. Other pages can make a browser
# send requests to 127.0.0.1, under any name that their owner's DNS gives that address. Their Host, Origin or
# Sec-Fetch-Site gives such requests away, and they are refused.

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


class RequestGuard:
    """Wraps an app that listens on `port`: refuses other sites' requests and adds headers to answers."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in _NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # the app has none
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
        # Any site may link to the page; only the page itself may request the rest.
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


_MOST_BUCKETS = 8_000
"""Parts of a window: the pixels across an 8K screen; it bounds the size of an answer."""
_MOST_HOPS = 4
"""Edges away from a node that its surroundings reach: columns of nodes that fit beside each other."""
_MOST_SEARCHES = 8
"""Searches at once; all take turns in the one thread that looks through ranks."""
_SHARED = ("report.css", "report.js")
"""Files of the report that the app uses too: its tabs show sections of the report."""
_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
Answer = Callable[[AppSession, "Question"], Any]


class Question:
    """The parameters of a request, checked."""

    def __init__(self, request: Request) -> None:
        self._parameters = request.query_params

    def text(self, name: str, default: str | None = None) -> str:
        """A parameter as text."""
        text = self._parameters.get(name, default)
        if text is None:
            raise ConfigError(f"the request lacks {name!r}")
        return text

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number within bounds."""
        text = self.text(name, None if default is None else str(default))
        try:
            number = round(float(text)) if len(text) <= 32 else None
        except (ValueError, OverflowError):
            number = None
        if number is None or not low <= number < high:
            raise ConfigError(f"{name}={text[:40]!r}: give a whole number from {low} to {high - 1}")
        return number

    def window(self) -> TimeWindow:
        """The window `from` … `to`, in ns since the run's begin, in `width` parts."""
        begin = self.number("from", -(2**62), 2**62)
        end = self.number("to", -(2**62), 2**62)
        if end <= begin:
            raise ConfigError(f"a window from {begin} to {end} is empty")
        return TimeWindow(begin, end, self.number("width", 1, _MOST_BUCKETS))

    def side(self, session: AppSession) -> ShownRun:
        """The run of `side`: 0, or 1 for the run that it is compared with, or for it under `edits`."""
        edits = self.edits()
        most = len(session.sides) + (bool(edits) and not session.is_pair)
        return session.side_of(self.number("side", 0, most, 0), edits)

    def edits(self) -> list[str]:
        """`edits`: a JSON list of texts; none by default."""
        try:
            return msgspec.json.decode(self.text("edits", "[]"), type=list[str])
        except msgspec.DecodeError as error:
            raise ConfigError(f"edits should be a JSON list of texts: {error}") from None

    def place(self, session: AppSession) -> tuple[ShownRun, int]:
        """The run of `side`, and `rank`."""
        side = self.side(session)
        rank = self.number("rank", 0, 2**31)
        side.key(rank)
        return side, rank

    def ranks(self, side: ShownRun) -> list[int]:
        """`ranks`: ranks of the run with commas between them; texts that are not numbers are ignored."""
        texts = self.text("ranks").split(",")[: len(side.run)]
        ranks = [int(r) for r in texts if r.isascii() and r.isdigit() and len(r) < 10]
        for rank in ranks:
            side.key(rank)
        return ranks

    def row(self, session: AppSession) -> tuple[ShownRun, int, int]:
        """The run of `side`, `rank` and `row`."""
        side, rank = self.place(session)
        return side, rank, self.number("row", 0, len(side.view(rank)))


def _session(session: AppSession, _: Question) -> Any:
    return session.summary()


def _rank(session: AppSession, question: Question) -> Any:
    side, rank = question.place(session)
    return rank_layout(side, rank)


def _window(session: AppSession, question: Question) -> Any:
    side, rank = question.place(session)
    tracks = range(question.number("first", 0, 2**31, 0), question.number("last", 0, 2**31, 0))
    code = session.codes(question.text("paint", ""), side, rank)
    return rank_window(side, rank, question.window(), tracks, code)


def _at(session: AppSession, question: Question) -> Any:
    side, rank = question.place(session)
    lines = side.lines(rank)
    track = question.number("track", 0, len(lines.tracks))
    depth = question.number("depth", 0, len(lines.tracks[track].depths))
    return {"row": lines.row_at(track, depth, question.number("time", -(2**62), 2**62))}


def _node(session: AppSession, question: Question) -> Any:
    side, rank, row = question.row(session)
    if side.is_small:
        side.findings.start()
    return describe(side, rank, row) | {"twin": session.twin(side, rank, row)}


def _analyze(session: AppSession, question: Question) -> Any:
    side = question.side(session)
    if not question.number("small", 0, 2, 0) or side.is_small:
        side.findings.start()
    return session.progress()


def _around(session: AppSession, question: Question) -> Any:
    return around(*question.row(session), question.number("hops", 1, _MOST_HOPS + 1, 2))


def _search(session: AppSession, question: Question) -> Any:
    return search(
        question.side(session), question.text("text"), question.number("first", 0, 2**31, 0)
    )


def _not_now(session: AppSession, question: Question) -> Any:
    return ask_again(question.side(session), question.number("first", 0, 2**31, 0))


def _progress(session: AppSession, _: Question) -> Any:
    return session.progress()


def _tabs(session: AppSession, _: Question) -> Any:
    return {"empty": session.empty_tabs()}


def _offered(session: AppSession, _: Question) -> Any:
    return session.editing.offered()


def _edited(session: AppSession, question: Question) -> Any:
    return session.editing.outcome(question.edits())


def _area(session: AppSession, question: Question) -> Any:
    side, rank = question.place(session)
    tracks = range(question.number("first", 0, 2**31, 0), question.number("last", 0, 2**31))
    window = question.window()
    return totals(side, rank, window.begin, window.end, tracks)


def _flame(session: AppSession, question: Question) -> Any:
    side, rank = question.place(session)
    window = question.window()
    return session.flame(side, rank, window.begin, window.end)


def _network(session: AppSession, question: Question) -> Any:
    window = question.window()
    return session.network(question.side(session), window.begin, window.end)


def _query(session: AppSession, question: Question) -> Any:
    return session.query(question.side(session), question.text("sql"))


def _path(session: AppSession, question: Question) -> Any:
    return session.path(
        question.side(session),
        question.number("from", -(2**62), 2**62),
        question.number("to", -(2**62), 2**62),
    )


def _section(session: AppSession, question: Question) -> Any:
    return session.section(question.number("side", 0, len(session.sides), 0), question.text("name"))


_ANSWERS: dict[str, Answer] = {
    "session": _session,
    "rank": _rank,
    "window": _window,
    "at": _at,
    "node": _node,
    "around": _around,
    "progress": _progress,
    "tabs": _tabs,
    "offered": _offered,
    "edited": _edited,
    "area": _area,
    "flame": _flame,
    "network": _network,
    "query": _query,
    "analyze": _analyze,
    "path": _path,
    "section": _section,
}


def app(session: AppSession, port: int) -> RequestGuard:
    """The web app on a session, for a server that listens on this port of 127.0.0.1."""
    routes = [
        Route("/", _static("index.html")),
        *(Route(f"/static/{name}", _static(name)) for name in [*static_files(), *_SHARED]),
        *(Route(f"/api/{name}", _json(session, answer)) for name, answer in _ANSWERS.items()),
        Route("/api/search", _searching(session)),
        Route("/api/perfetto", _perfetto(session)),
    ]
    return RequestGuard(Starlette(routes=routes), port)


def static_files() -> list[str]:
    """The files of the page; only these are served."""
    folder = resources.files("chakrakit.views") / "app" / "static"
    return sorted(f.name for f in folder.iterdir() if f.is_file())


def _static(name: str) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        views = resources.files("chakrakit.views")
        file = views / name if name in _SHARED else views / "app" / "static" / name
        content = file.read_bytes()
        return Response(content, media_type=_KINDS[Path(name).suffix])

    return answer


def _json(session: AppSession, answer: Answer) -> Callable[[Request], Response]:
    def respond(request: Request) -> Response:
        try:
            content, status = answer(session, Question(request)), 200
        except ChakraError as error:
            content, status = {"error": str(error)}, 400
        return Response(msgspec.json.encode(content), status, media_type="application/json")

    return respond


def _searching(session: AppSession) -> Callable[[Request], Awaitable[Response]]:
    """Answers searches in a pool of threads, so that nothing else waits; if all are busy, says so."""
    threads = ThreadPoolExecutor(_MOST_SEARCHES)
    running = 0
    begin, refuse = _json(session, _search), _json(session, _not_now)

    async def respond(request: Request) -> Response:
        nonlocal running
        if running == _MOST_SEARCHES:
            return refuse(request)
        running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, begin, request)
        finally:
            running -= 1

    return respond


def _perfetto(session: AppSession) -> Callable[[Request], Response]:
    """Answers with a window as a file for Perfetto; one at a time, because files may be large."""
    writing = threading.Lock()

    def respond(request: Request) -> Response:
        if not writing.acquire(blocking=False):
            raise HTTPException(429, "another window is being written; ask again when it is there")
        try:
            content = _window_file(session, Question(request))
        except ChakraError as error:
            raise HTTPException(400, str(error)) from None
        finally:
            writing.release()
        return Response(content, media_type="application/octet-stream")

    return respond


def _window_file(session: AppSession, question: Question) -> bytes:
    side = question.side(session)
    ranks, window = question.ranks(side), question.window()
    with scratch("chakra-view") as folder:
        file = folder / "window.pftrace"
        session.write_window(side, ranks, window, file)
        return file.read_bytes()
