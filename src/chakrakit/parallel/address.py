"""Addresses of clusters, and what to say where nobody answers."""

from __future__ import annotations

from chakrakit.errors import ConfigError


def reach(name: str, address: str) -> None:
    """Refuses a HOST:PORT where nobody listens: Ray would try it for many minutes."""
    import socket

    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, or a file that Dask reads
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise unreachable(name, address, error) from None


def unreachable(name: str, address: str, error: Exception) -> ConfigError:
    """The error, with what to try."""
    token = " (a cluster that wants a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN)"
    return ConfigError(
        f"no {name} cluster answers at {address or 'this machine'}: {' '.join(str(error).split())[:300]}; "
        f"check the address{token if name == 'Ray' else ''}, or leave it out to start one here"
    )
