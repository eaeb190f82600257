"""Opens runs and serves the app on a port of this machine until it is stopped."""

from __future__ import annotations

import contextlib
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.insight.rank import as_run, name_of, scheduled
from chakrakit.trace.sets import Run
from chakrakit.trace.storage import read
from chakrakit.views.app.session import Session
from chakrakit.views.app.shown_run import ShownRun

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

        from chakrakit.views.app.connection import MOST_NEW, Connection
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
