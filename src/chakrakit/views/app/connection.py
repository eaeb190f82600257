"""Connections that have to get on: whoever sends or reads too slowly is dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

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
