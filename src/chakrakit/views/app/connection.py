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
_RECEIVING = (h11.IDLE, h11.SEND_BODY)


class Connection(H11Protocol):
    """One connection. A timer runs while a request comes in, and while its answer goes out."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there and has yet to say something."""
        super().connection_made(transport)
        self._expect(REQUEST_S)

    def data_received(self, data: bytes) -> None:
        """Some bytes; the first of them begin a request."""
        if self._timer is None:
            self._expect(REQUEST_S)
        super().data_received(data)
        if self.conn.their_state not in _RECEIVING:
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

    def _drop(self) -> None:
        self._timer = None
        self.transport.abort()
