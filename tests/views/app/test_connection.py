"""Connections that have to get on: whoever sends or reads too slowly is dropped."""

from __future__ import annotations

import pytest

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
