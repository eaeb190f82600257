"""Requests as bytes, and what comes back."""

from __future__ import annotations

import socket


def talk(port: int, data: bytes) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        try:
            wire.sendall(data)
            answer = b""
            while piece := wire.recv(65536):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            return b""
        return answer


def request_of(port: int, path: str, more: str = "") -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{more}\r\n".encode()
    )
