"""Addresses of clusters: one where nobody listens is refused at once, with what to try."""

from __future__ import annotations

import socket

import pytest

from chakrakit.errors import ConfigError
from chakrakit.parallel.clusters import reach, unreachable


def test_an_address_where_somebody_listens_will_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach("Dask", f"tcp://127.0.0.1:{port}")
        reach("Ray", f"127.0.0.1:{port}")
    with pytest.raises(ConfigError, match=f"no Ray cluster answers at 127.0.0.1:{port}"):
        reach("Ray", f"127.0.0.1:{port}")  # nobody listens any more


@pytest.mark.parametrize("address", ["", "auto", "scheduler.json", "host:name"])
def test_what_is_no_host_and_port_is_left_to_the_engine(address: str) -> None:
    reach("Ray", address)


def test_a_port_beyond_all_ports_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"answers at 127\.0\.0\.1:99999"):
        reach("Dask", "127.0.0.1:99999")


def test_the_error_is_one_line_with_a_hint_about_tokens_for_ray_alone() -> None:
    told = str(unreachable("Ray", "", OSError("no\n  route")))
    assert told.startswith(
        "no Ray cluster answers at this machine: no route; check the address (a "
    )
    assert "RAY_AUTH_TOKEN" in told
    assert "TOKEN" not in str(unreachable("Dask", "a:1", OSError("no")))
    assert len(str(unreachable("Dask", "a:1", OSError("x" * 5000)))) < 500
