"""A58, relay-free exchange of experts: tokens are put straight into windows of the experts' memory.

With a relay, tokens are arranged by destination in a buffer, exchanged, and arranged again by expert: two
more passes over memory on either side, and an exchange that begins when everyone has arrived. One-sided,
every rank puts its tokens to where they belong, after a small exchange of counts, and a fence ends it.
"""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Setting,
    Study,
    least,
    most,
    seconds_of,
    unsure,
)
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

RANKS, HIDDEN, TOP_K = 16, 7168, 8
"""Of a DeepSeek-V3 layer on one pod."""
EXCHANGE = CollectiveType.ALL_TO_ALL


@cache
def site(seed: int) -> Machine:
    """Sixteen accelerators on a switch of 196 GB/s each, with 1.6 TB/s of memory: Ascend 910C, data sheet."""
    device = {
        "name": "910c",
        "peak": {"bf16": 376e12},
        "memory_bandwidth": 1.6e12,
        "kernel_overhead": "5 us",
    }
    level = {"topology": "switch", "size": RANKS, "bandwidth": "196 GB/s", "latency": "500 ns"}
    level["messages"] = {
        "gap": "241 ns"
    }  # as of the one-sided exchange on GB200, benchmarks/fit_messages.py
    software = {"collective_overhead": "6.6 us"}
    return unsure(machine({"device": device, "network": [level], "software": software}), seed)


@cache
def traces(tokens: int, relay: bool, chunks: int) -> TraceSet:
    """Dispatch and combine of a layer, in so many chunks of the tokens."""
    size = tokens // chunks * TOP_K * HIDDEN
    return _relayed(size, chunks) if relay else _one_sided(size, chunks)


def _relayed(size: int, chunks: int) -> TraceSet:
    t = TraceBuilder()
    for width in (1, 2):  # FP8 out, BF16 back
        for _ in range(chunks):
            packed = _copy(t, "arrange", size * width, [])
            moved = t.collective("exchange", EXCHANGE, size * width, stream=1, deps=[packed])
            _copy(t, "restore", size * width, [moved])
    return TraceSet.of(t, ranks=RANKS)


def _one_sided(size: int, chunks: int) -> TraceSet:
    t = TraceBuilder()
    for width in (1, 2):
        for chunk in range(chunks):
            counts = t.collective("counts", EXCHANGE, 8 * RANKS * RANKS, stream=1)
            for peer in range(1, RANKS):
                t.put("tokens", peer, size * width // RANKS, f"experts{chunk}", deps=[counts])
            t.fence(f"experts{chunk}", stream=1)
    bindings = {
        r: Binding(0, peers={p: (r + p) % RANKS for p in range(1, RANKS)}) for r in range(RANKS)
    }
    return TraceSet([t.build()], bindings, Groups({"": list(range(RANKS))}))


def _copy(t: TraceBuilder, name: str, size: int, deps: list[int]) -> int:
    """A pass over memory: read and written."""
    return t.comp(name, tensor_size=2 * size, dtype="bf16", op_type="vector", stream=0, deps=deps)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of dispatch and combine, their rate, and the bytes that relays move through memory."""
    tokens, chunks = case["tokens"], setting["chunks"]
    seconds = seconds_of(traces(tokens, setting["relay"], chunks), site(seed))
    sent = 3 * tokens * TOP_K * HIDDEN
    relayed = 4 * sent if setting["relay"] else 0
    return {"seconds": seconds, "of_the_port": sent / 196e9 / seconds, "relay_bytes": relayed}


def chunked(relay: bool) -> list[Setting]:
    """In one piece, or in pieces that overlap."""
    return [{"relay": relay, "chunks": c} for c in (1, 2, 4)]


STUDY = Study(
    id="A58",
    system="Relay-free exchange of experts",
    family="communication",
    strength="direction",
    claims=[Claim("dispatch and combine take less time (no figure was published)", 1.0, 10.0)],
    rests_on={
        "puts into windows, and fences": "simulator/engine/stored.py",
        "passes over memory": "machines/device/work.py",
    },
    cases=lambda quick: [
        {"tokens": n} for n in ((16, 512, 8192) if quick else (16, 64, 512, 2048, 8192))
    ],
    sides={"one-sided": chunked(False), "relayed, with overlap": chunked(True)},
    idea="one-sided",
    measure=measure,
    better=("seconds", "min"),
    health="of_the_port",
    gone=lambda case: bool(case["tokens"] >= 8192),
    ablate={"windows without a relay": {"relay": True}},
    predictions={
        "no byte passes a relay": lambda t: 1 - t.figure("relay_bytes").max(axis=0),
        "batches of 512 tokens gain": lambda t: least(t.gains(tokens=512)) - 1.02,
        "16 tokens gain less than 512: a barrier and the counts cost as much as the relay": lambda t: (
            least(t.gains(tokens=512)) - most(t.gains(tokens=16))
        ),
    },
    cannot_say="Time to first token of a whole service, and memory that relays hold, which limits batches.",
)
