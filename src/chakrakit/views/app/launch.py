"""Opens runs and serves the app on a local port until it is stopped; slow clients are disconnected."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
from uvicorn import Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.insight.rank import as_run, name_of, scheduled
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.trace.storage import read
from chakrakit.views.app.shown_run import ShownRun

if TYPE_CHECKING:
    from chakrakit.views.app.session import AppSession

REQUEST_S = 10.0
"""Time for a whole request, from the connection or its first byte on; a local browser needs far less."""
ANSWER_S = 120.0
"""Time for an answer to be made and read: a file for Perfetto may be large."""
MOST, MOST_NEW = 100, 32
"""Connections at once, and connections accepted in one go. A browser makes six. Each takes one of the files
that a process may have open; some systems allow 256, and the event loop fails when none is left.
"""
_RECEIVING = (h11.IDLE, h11.SEND_BODY)


class PromptServer(Server):
    """A server that ends at once when it is told to: nobody waits for the answers that are under way."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """It is told to end; who then gets no answer is no error."""
        logging.getLogger("uvicorn.error").disabled = True
        self.force_exit = True
        super().handle_exit(sig, frame)


class Connection(H11Protocol):
    """One connection, with a timer that runs while a request arrives and while its answer is sent."""

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0
    """When the connection was made, by the loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected and not sent anything yet."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._expect(REQUEST_S)
        if len(self.connections) > MOST:
            self._drop_longest_waiting()

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived; the first ones begin a request."""
        if self._timer is None:
            self._expect(REQUEST_S)
        super().data_received(data)
        if not self.is_receiving:
            self._expect(ANSWER_S)

    def on_response_complete(self) -> None:
        """The answer was sent; until the next request, the server's own timer runs."""
        self._expect(None)
        if self.conn.their_state is h11.SEND_BODY:  # the rest of the request is not needed
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected."""
        self._expect(None)
        super().connection_lost(exc)

    def _expect(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._later(seconds)

    def _later(self, seconds: float) -> asyncio.TimerHandle:
        loop: Any = self.loop
        timer: asyncio.TimerHandle = loop.call_later(seconds, self._drop)
        return timer

    def _drop_longest_waiting(self) -> None:
        """Drops the connection that has had the most time to send a request."""
        waiting = [c for c in self.connections if isinstance(c, Connection) and c.is_receiving]
        min(waiting, key=lambda c: c._since)._drop()  # not empty: this connection is one of them

    @property
    def is_receiving(self) -> bool:
        """Whether a request has not arrived completely."""
        return self.conn.their_state in _RECEIVING and not self.transport.is_closing()

    def _drop(self) -> None:
        self._timer = None
        self.transport.abort()


HOST = "127.0.0.1"
PORT = 8127
"""The default port: fixed, so that links still work the next day; the number is arbitrary."""


def open_session(
    runs: Sequence[str | TraceSet], machine: str = "", together: bool = False
) -> AppSession:
    """Opens the runs, or those at these paths; traces without times are scheduled.

    Runs `together` are jobs that ran at the same time, on one clock; else two runs are compared.
    """
    # The first rank is read in other threads while the rest of the program is imported.
    paths = [run if isinstance(run, str) else run.card.name for run in runs]
    sides = [_side(run, path) for run, path in zip(runs, paths, strict=True)]
    for side in sides:
        side.warm()
    for names in ([Path(path).name for path in paths], paths):
        if len({side.name for side in sides}) < len(sides):
            for side, name in zip(sides, names, strict=True):
                side.name = name
    if together:
        first = min(side.origin for side in sides)
        for side in sides:
            side.origin = first
    from chakrakit.views.app.session import AppSession

    return AppSession(sides, machine, together)


def _side(source: str | TraceSet, path: str) -> ShownRun:
    traces = read(source) if isinstance(source, str) else source
    if isinstance(traces, Run) or any(traces.body(r).is_timed for r in traces.ranks[:1]):
        run, notes = as_run(traces, path), []
    else:
        run, note = scheduled(traces)
        notes = [note]
    if run.missing_ranks:
        notes.append(f"{len(run.missing_ranks):,} ranks that groups name were not recorded.")
    return ShownRun(run, name_of(run, path), notes, path)


Tell = Callable[[str], object]


def serve(session: AppSession, port: int | None, browser: bool, tell: Tell) -> None:
    """Serves the app until it is interrupted; calls `tell` with the address once it can be opened."""
    with _extra():
        from chakrakit.views.app.server import app
    _serve(lambda bound: app(session, bound), port, browser, tell)


def serve_page(html: str, port: int | None, browser: bool, tell: Tell) -> None:
    """Serves one page until it is interrupted."""
    with _extra():
        from chakrakit.views.app.page_app import page_app
    _serve(lambda bound: page_app(html, bound), port, browser, tell)


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    """Says which extra to install where the packages of a web server are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("uvicorn", "starlette"):
            raise
        raise MissingExtra("chakra view", "view") from None


def _serve(made: Callable[[int], Any], port: int | None, browser: bool, tell: Tell) -> None:
    with _extra():
        import uvicorn
    # An analysis in another thread must release the interpreter often, so that panning stays smooth.
    sys.setswitchinterval(0.0005)
    with _listening(port) as listener:
        bound = listener.getsockname()[1]
        address = f"http://{HOST}:{bound}/"
        config = uvicorn.Config(
            made(bound),
            http=Connection,
            ws="none",
            log_level="error",
            lifespan="off",
            backlog=MOST_NEW,
        )
        tell(address)
        if browser:
            webbrowser.open(address)
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how one stops it
            PromptServer(config).run(sockets=[listener])


def _listening(port: int | None) -> socket.socket:
    """A socket on the loopback device; falls back to a free port only if no port was requested."""
    for candidate in (PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, candidate))
        except OSError as error:
            listener.close()
            reason = error
            continue
        listener.listen(128)
        return listener
    raise ConfigError(f"port {port} cannot be used ({reason}); choose another with --port")
