"""Sums of gradients over 4 nodes of 8 devices: plain, or coded on their way, in one piece or in several.

Sums of coded numbers are not coded sums. `flat` therefore exchanges coded parts all to all, decodes, adds,
and gathers the coded result; `nested` reduces plainly within a node and codes only what crosses nodes.
"""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.passes.comm import Comm
from chakrakit.published import unsure
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

NODES, WIDTH = 4, 8
RANKS = NODES * WIDTH
STAGES = {
    "plain": [("all-reduce", "all", 1)],
    "plain nested": [
        ("reduce-scatter", "in", 1),
        ("all-reduce", "out", WIDTH),
        ("all-gather", "in", WIDTH),
    ],
    "flat": [("all-to-all", "all", 1), ("all-gather", "all", RANKS)],
    "nested": [
        ("reduce-scatter", "in", 1),
        ("all-to-all", "out", WIDTH),
        ("all-gather", "out", RANKS),
        ("all-gather", "in", WIDTH),
    ],
}
"""The collectives of each scheme: type, group, and what part of the gradients a rank puts in."""
CODED = {"flat": (0, 1), "nested": (1, 2)}
TYPES = {
    "all-reduce": CollectiveType.ALL_REDUCE,
    "all-to-all": CollectiveType.ALL_TO_ALL,
    "all-gather": CollectiveType.ALL_GATHER,
    "reduce-scatter": CollectiveType.REDUCE_SCATTER,
}
FIRST_STREAM, CODEC_STREAM = 20, 40
"""Each stage and each codec has a stream of its own, so that pieces follow each other through them."""


@cache
def message(size: int, scheme: str, pieces: int, ratio: float, rate: float) -> TraceSet:
    """One sum; coded with a codec that makes one byte of `ratio` at `rate` GB/s of plain bytes."""
    t = TraceBuilder()
    for _ in range(pieces):
        last: list[int] = []
        for number, (kind, group, share) in enumerate(STAGES[scheme]):
            part = max(1, size // pieces // share)
            where = {"stream": FIRST_STREAM + number, "pg_name": group, "phase": f"{number}"}
            last = [t.collective(f"{kind} {number}", TYPES[kind], part, deps=last, **where)]
    inside = [list(range(n * WIDTH, (n + 1) * WIDTH)) for n in range(NODES)]
    across = [list(range(i, RANKS, WIDTH)) for i in range(WIDTH)]
    every = [list(range(RANKS))]
    traces = TraceSet.of(t, ranks=RANKS, groups={"all": every, "in": inside, "out": across})
    for number in CODED.get(scheme, ()):
        traces = traces | Comm(
            action="compress",
            phases=(f"{number}",),
            ratio=ratio,
            throughput=f"{rate} GB/s",
            stream=CODEC_STREAM + 2 * number,
        )
    return traces


@cache
def site(link: float, seed: int) -> Machine:
    """Nodes of eight behind one switch each, and `link` Gb/s a device between them."""
    inside = {"topology": "switch", "size": WIDTH, "bandwidth": "450 GB/s", "latency": "300 ns"}
    outside = {
        "topology": "switch",
        "size": NODES,
        "bandwidth": f"{link} Gb/s",
        "latency": "1350 ns",
    }
    text = {"network": [inside, outside], "software": {"collective_overhead": "6.6 us"}}
    return unsure(machine(text), seed)
