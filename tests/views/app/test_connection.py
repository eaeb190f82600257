"""Connections that have to get on: whoever sends or reads too slowly is dropped."""

from __future__ import annotations

import contextlib
import socket

import pytest

from chakrakit.views.app import launch as connection
from support.raw_http import request_of, talk


def test_a_slow_request_is_dropped(server):
    assert talk(server, b"GET / HTTP/1.1\r\nHost: ") == b""
    assert talk(server, b"") == b""
    body = request_of(server, "/api/session", "Content-Length: 1000\r\n")
    assert talk(server, body).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_an_upgrade_to_a_websocket_is_no_error_of_the_server(server):
    more = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YWJj\r\n"
    data = request_of(server, "/api/session", more).replace(
        b"Connection: close", b"Connection: Upgrade"
    )
    assert not talk(server, data).startswith(b"HTTP/1.1 5")


def test_idle_connections_make_room_for_requests(server, monkeypatch):
    """The one that has waited longest goes first: here long before its time is over."""
    monkeypatch.setattr(connection, "REQUEST_S", 60.0)
    monkeypatch.setattr(connection, "MOST", 3)
    with contextlib.ExitStack() as stack:
        idle = [socket.create_connection(("127.0.0.1", server), timeout=50) for _ in range(8)]
        for wire in idle:
            stack.enter_context(wire)
        assert talk(server, request_of(server, "/api/session")).startswith(b"HTTP/1.1 200")
        assert [_hung_up(wire) for wire in idle[:5]] == [True] * 5


def _hung_up(wire: socket.socket) -> bool:
    try:
        return wire.recv(1) == b""
    except ConnectionResetError:
        return True
