"""How long a cluster takes to write and read its state: local memory, peers' memory and remote servers."""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.published import seconds_of, unsure
from chakrakit.trace.model import NodeType, TraceBuilder
from chakrakit.trace.sets import TraceSet

NODES, DEVICES = 16, 8
STATE = 40e9 * 16 / (NODES * DEVICES)
"""Bytes of a device's share: weights, gradients and optimizer state of 40 billion parameters."""
CHANGED = 0.1
"""Share of the state that a difference holds."""
REMOTE = {"bandwidth": "10 GB/s", "latency": "1 ms", "operations": 128}
SITE = {
    "device": {"name": "gpu", "memory": "80 GB"},
    "network": [
        {"topology": "switch", "size": DEVICES, "bandwidth": "450 GB/s", "latency": "1 us"},
        {"topology": "switch", "size": NODES + 4, "bandwidth": "200 Gb/s", "latency": "3 us"},
    ],
    "storage": {
        "local": {"kind": "local", "bandwidth": "25 GB/s", "latency": "10 us"},
        "peers": {"kind": "peer", "bandwidth": "50 GB/s", "distance": 1},
        "remote": {"kind": "remote", "nodes": [16, 17, 18, 19], **REMOTE},
    },
}


@cache
def seconds(store: str, share: float, reads: bool, seed: int) -> float:
    """All devices write (or read) this share of their state at once, in four pieces."""
    t = TraceBuilder()
    kind = NodeType.MEM_LOAD_NODE if reads else NodeType.MEM_STORE_NODE
    last: list[int] = []
    for _ in range(4):
        last = [t.node("state", kind, storage=store, tensor_size=int(share * STATE / 4), deps=last)]
    traces = TraceSet.of(t, ranks=NODES * DEVICES)
    return seconds_of(traces, unsure(machine(SITE), seed), "measured")
