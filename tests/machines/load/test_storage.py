"""The stores of a machine's file: every number checked, and servers that are somewhere."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Store
from support.networks import network

DISK = {"kind": "local", "bandwidth": "5 GB/s"}
LEVELS = {"topology": "switch", "size": 2}, {"topology": "switch", "size": 4}


def stores(**texts: dict) -> tuple[Store, ...]:
    return network(*LEVELS, storage=texts).stores


def test_a_store_reads_as_fast_as_it_writes_unless_it_says_otherwise() -> None:
    plain, fast = stores(a=DISK, b={**DISK, "read_bandwidth": "9 GB/s", "latency": "2 us"})
    assert (plain.name, plain.bandwidth, plain.read_bandwidth) == ("a", 5e9, 5e9)
    assert (fast.read_bandwidth, fast.latency) == (9e9, pytest.approx(2e-6))
    assert (plain.operations, plain.capacity, plain.when_full) == (0, 0, "wait")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ({**DISK, "bandwidth": 0}, r"storage\.a\.bandwidth"),
        ({**DISK, "queue": 3}, "nothing waits without a limit; set `operations` too"),
        ({**DISK, "operations": -1}, "operations: -1 is not in 0"),
        ({**DISK, "nodes": [0]}, "list nodes for a remote store, and only for that kind"),
        ({**DISK, "kind": "remote"}, "list nodes for a remote store, and only for that kind"),
        ({**DISK, "kind": "remote", "nodes": [4]}, r"nodes: 4 is listed twice or is not in 0 … 3"),
        ({**DISK, "kind": "remote", "nodes": [1, 1]}, "1 is listed twice"),
        ({**DISK, "kind": "remote", "nodes": [0, 1, 2, 3]}, "all 4 nodes are servers"),
        ({**DISK, "kind": "peer", "distance": 4}, "4 nodes away is not another of the 4 nodes"),
    ],
)
def test_what_no_store_can_be_is_refused(text: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        stores(a=text)


def test_a_node_serves_one_store() -> None:
    one, other = ({**DISK, "kind": "remote", "nodes": nodes} for nodes in ([0, 1], [1]))
    with pytest.raises(ConfigError, match=r"storage\.b\.nodes: node 1 already serves 'a'"):
        stores(a=one, b=other)
