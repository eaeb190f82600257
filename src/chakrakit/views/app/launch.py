"""Opens runs and serves the app on a port of this machine until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.insight.rank import as_run, name_of, scheduled
from chakrakit.trace.sets import Run
from chakrakit.trace.storage import read
from chakrakit.views.app.session import Session
from chakrakit.views.app.shown_run import ShownRun

# Connections that have to get on: whoever sends or reads too slowly is dropped.


REQUEST_S = 10.0
"""For a whole request, from the moment that the connection is there or its first byte comes."""
ANSWER_S = 120.0
"""For the answer to be made and read."""
MOST, MOST_NEW = 100, 32
"""Connections at once, and those taken in before any is dropped. A browser makes six; each takes one of the
files that a process may have open, of which some systems give 256, and the event loop does not get over
having none left.
"""
_RECEIVING = (h11.IDLE, h11.SEND_BODY)


class Connection(H11Protocol):
    """One connection. A timer runs while a request comes in, and while its answer goes out."""

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0
    """When it was made, by the loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there and has yet to say something."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._expect(REQUEST_S)
        if len(self.connections) > MOST:
            self._drop_longest_waiting()

    def data_received(self, data: bytes) -> None:
        """Some bytes; the first of them begin a request."""
        if self._timer is None:
            self._expect(REQUEST_S)
        super().data_received(data)
        if not self.is_receiving:
            self._expect(ANSWER_S)

    def on_response_complete(self) -> None:
        """The answer is out; until the next request the server's own timer runs."""
        self._expect(None)
        if self.conn.their_state is h11.SEND_BODY:  # what is still to come is of no interest
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
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
        """Makes room by the one that has had the most time to send a request."""
        waiting = [c for c in self.connections if isinstance(c, Connection) and c.is_receiving]
        min(waiting, key=lambda c: c._since)._drop()  # at least this one is

    @property
    def is_receiving(self) -> bool:
        """Whether a request is still to come, or to be completed."""
        return self.conn.their_state in _RECEIVING and not self.transport.is_closing()

    def _drop(self) -> None:
        self._timer = None
        self.transport.abort()


HOST = "127.0.0.1"
PORT = 8127
"""The usual port: a link to what is shown then works the next day, too."""


def open_session(paths: list[str]) -> Session:
    """The runs behind the paths; traces without times are scheduled."""
    sides = [_side(path) for path in paths]
    for names in ([Path(path).name for path in paths], paths):
        if len({side.name for side in sides}) < len(sides):
            for side, name in zip(sides, names, strict=True):
                side.name = name
    return Session(sides)


def _side(path: str) -> ShownRun:
    traces = read(path)
    if isinstance(traces, Run) or any(traces.body(r).is_timed for r in traces.ranks[:1]):
        run, notes = as_run(traces, path), []
    else:
        run, note = scheduled(traces)
        notes = [note]
    if run.missing_ranks:
        notes.append(f"{len(run.missing_ranks):,} ranks that groups name were not recorded.")
    return ShownRun(run, name_of(run, path), notes)


def serve(session: Session, port: int | None, browser: bool, tell: Callable[[str], object]) -> None:
    """Serves until it is interrupted; `tell` gets the address once it can be opened."""
    for side in session.sides:
        side.warm()
    try:
        import uvicorn

        from chakrakit.views.app.server import app
    except ModuleNotFoundError as error:
        if error.name not in ("uvicorn", "starlette"):
            raise
        raise MissingExtra("chakra view", "view") from None
    # Pans are answered while an analysis runs in another thread: it must not keep the interpreter.
    sys.setswitchinterval(0.0005)
    with _listening(port) as listener:
        bound = listener.getsockname()[1]
        address = f"http://{HOST}:{bound}/"
        config = uvicorn.Config(
            app(session, bound),
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
            uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int | None) -> socket.socket:
    """A socket on the loopback device; another port only where none was asked for."""
    for wanted in (PORT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, wanted))
        except OSError as error:
            listener.close()
            reason = error
            continue
        listener.listen(128)
        return listener
    raise ConfigError(f"port {port} cannot be used ({reason}); choose another with --port")
