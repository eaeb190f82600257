"""What a message costs at a port, fitted on public tables of expert exchange and tested on sizes left out.

python benchmarks/fit_messages.py DATA    (DATA/nccl/deepep.parquet and alltoall_trtllm_gb200.parquet)

An exchange takes a start, which its ports add to in parallel: a port is held for a gap by every message, a
gap by every peer, and its bytes over a bandwidth (LogGP's o, g and G). DeepEP is fitted on 1 and 2 nodes and
tested on 8, and on what its authors publish of 4 and 8; TensorRT-LLM's exchange on GB200 is fitted on 2 and
32 ranks and tested on 8. `bytes alone` is what the machine's links say without messages that cost: the
overhead of a collective, latency, bytes over bandwidth.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import chakrakit as ck
from chakrakit.machines.library import Routing, nodes_reached
from chakrakit.machines.library.engines import CHANNEL, CHUNK, devices_reached

COLLECTIVE_US, LATENCY_US = 6.6, 2.7  # as the presets dgx-h200 and gb200-nvl72
LINK_KB_PER_US, PORT_KB_PER_US, NVL72_KB_PER_US = 450.0, 50.0, 900.0  # GB/s are KB/us
ROUNDS, ENOUGH, SMALL = 30, 400, 0.02
"""Of weighing again, of descent, and the relative error below which all rows count alike."""


def descend(columns, target):
    """Non-negative least squares, one coefficient at a time."""
    gram, aim = columns.T @ columns, columns.T @ target
    found = np.zeros(columns.shape[1])
    for _ in range(ENOUGH):
        for j in np.flatnonzero(np.diag(gram)):
            found[j] = max(0.0, found[j] + (aim[j] - gram[j] @ found) / gram[j, j])
    return found


def fitted(columns, took):
    """Non-negative coefficients with small relative errors; single outliers count little."""
    weight = np.ones(len(took))
    for _ in range(ROUNDS):
        found = descend(columns * (weight / took)[:, None], weight)
        error = np.abs(columns @ found / took - 1)
        weight = 1 / np.sqrt(np.maximum(error, SMALL))
    return found


def median_error(predicted, took) -> str:
    """In percent."""
    return f"{100 * float(np.median(np.abs(predicted / took - 1))):5.1f} %"


def token_kb(row, what: str) -> float:
    """FP8 with scales out, BF16 back."""
    return (row["hidden"] * (1 + 4 / 128) + 16 if what == "dispatch" else 2 * row["hidden"]) / 1e3


def library_us(row, what: str) -> float:
    """What the preset's library says, whose constants were fitted on 8 nodes too."""
    options = {k: row[k] for k in ("hidden", "topk", "experts")}
    kind = {"low_latency": row["kind"] == "low_latency", "sms": row[f"{what}_sms"] or 24}
    table = ck.collective(
        what,
        f"dgx-h200:{row['nodes']}",
        8 * row["nodes"],
        tokens=[row["tokens"]],
        **options,
        **kind,
    )
    return table.rows[0].time_us


def low_latency_rows(rows, what: str):
    """The rows of these kernels, their nodes, the KB of each token and how many go near and away."""
    rows = [r for r in rows if r["kind"] == "low_latency" and r["sglang_version"] == "0.5.6.post2"]
    nodes = np.array([r["nodes"] for r in rows])
    messages = np.array([r["tokens"] * r["topk"] for r in rows], float)
    size = np.array([token_kb(r, what) for r in rows])
    return rows, nodes, size, messages * 7 / (8 * nodes), messages * (nodes - 1) / nodes


def low_latency_between(rows, what: str):
    """Their start on two nodes, and what a KB takes at a port there."""
    rows, nodes, size, _, away = low_latency_rows(rows, what)
    two, took = nodes == 2, np.array([r[f"{what}_us"] for r in rows])
    return fitted(np.stack([np.ones(two.sum()), (away * size)[two]], 1), took[two])


def low_latency(rows, what: str):
    """Every token goes to each of its experts by itself: over links within a node, ports between nodes.

    Gives the times on 8 nodes that fits on fewer predict, and those measured.
    """
    between = low_latency_between(rows, what)
    rows, nodes, size, near, away = low_latency_rows(rows, what)
    took = np.array([r[f"{what}_us"] for r in rows])
    inside, outside = (np.stack([np.ones(len(rows)), m * size], 1) for m in (near, away))
    within = fitted(inside[nodes == 1], took[nodes == 1])
    predicted = np.maximum(inside @ within, outside @ between)
    plain = (
        COLLECTIVE_US
        + LATENCY_US
        + np.maximum(near * size / LINK_KB_PER_US, away * size / PORT_KB_PER_US)
    )
    test = nodes == 8
    library = np.array([library_us(r, what) for r, t in zip(rows, test, strict=True) if t])
    print(
        f"DeepEP low latency {what:9} start {within[0]:5.1f}, {between[0]:5.1f} us; "
        f"{1 / within[1]:4.0f}, {1 / between[1]:4.0f} GB/s; "
        f"8 nodes {median_error(predicted[test], took[test])}, "
        f"bytes alone {median_error(plain[test], took[test])}, "
        f"the library's formula (fitted on 8 nodes too) {median_error(library, took[test])}"
    )
    return predicted[test], took[test]


LIMIT = 4
"""Nodes that a token of the benchmark may go to: the collector of these rows runs DeepEP's own test, which
takes each token's experts from the best min(nodes, 4) groups."""
PUBLISHED = {4: {"dispatch": 58, "combine": 57}, 8: {"dispatch": 51, "combine": 50}}
"""GB/s of DeepEP's own tests by nodes (H800 with ports of 400 Gb/s, 24 multiprocessors; pull request 130 of
deepseek-ai/DeepEP), counted with what a token sends to its own node. On another cluster (its issue 493, H200
with the same ports) 44 GB/s on 2 nodes become 12.5 on 4."""
STARTS_US, RATES_KB_PER_US = np.arange(10, 241, 2.0), np.geomspace(5, 40, 140)
PORTS_KB_PER_US = np.arange(8, 50.1, 0.5)
"""What is tried for a start, for a multiprocessor, and for the slowest port of 8 nodes."""


def exchanged(rows):
    """For each row, the nodes that a token reaches, those of them that are not its own, and the devices."""
    routings = [(r["nodes"], Routing(1, 1, r["topk"], r["experts"], LIMIT)) for r in rows]
    nodes = np.array([nodes_reached(n, routing) for n, routing in routings])
    devices = np.array([devices_reached(n, 8 * n, routing) for n, routing in routings])
    return nodes, nodes * (1 - 1 / np.array([r["nodes"] for r in rows])), devices


class Throughput:
    """The rows of the throughput kernels, and what they take: as `throughput_terms`, but for arrays.

    A token goes once to every node that wants it, through the port of the sender's number, and over links
    from there. Ports and multiprocessors work at once, after a first chunk has come through.
    """

    def __init__(self, rows, what: str):
        rows = [r for r in rows if r["kind"] == "normal" and r["sglang_version"] == "0.5.6.post2"]
        self.transfer = np.array([r[f"{what}_us"] for r in rows])
        self.whole = self.transfer + np.array([r[f"{what}_notify_us"] or 0 for r in rows])
        self.nodes = np.array([r["nodes"] for r in rows])
        tokens = np.array([r["tokens"] for r in rows])
        sms = np.array([r[f"{what}_sms"] for r in rows])
        size = tokens * np.array([token_kb(r, what) for r in rows])
        every, away, devices = exchanged(rows)
        self.sent, self.copied = away * size, (1 + away + devices) * size / sms
        self.chunks = np.maximum(1.0, tokens * every / self.nodes * CHANNEL / sms / CHUNK)

    def predicted(self, start: float, rate: float, port: float):
        """Microseconds with this start, KB/us of a multiprocessor and of a port."""
        parts = self.copied / rate, self.sent / port
        return start + np.maximum(*parts) + np.minimum(*parts) / self.chunks

    def fitted(self, took, nodes: int, rates, ports) -> tuple[float, float, float]:
        """The start, rate and port of those tried with the least error; outliers count little."""
        on = self.nodes == nodes
        error, best = np.inf, (0.0, 0.0, 0.0)
        for rate in rates:
            for port in ports:
                moving = self.predicted(0.0, rate, port)[on]
                errors = np.abs((STARTS_US[:, None] + moving) / took[on] - 1)
                means = np.sqrt(errors).mean(axis=1)
                if means.min() < error:
                    error, best = means.min(), (float(STARTS_US[means.argmin()]), rate, port)
        return best

    def error(self, took, nodes: int, constants: tuple[float, float, float]) -> str:
        """The median on so many nodes."""
        on = self.nodes == nodes
        return median_error(self.predicted(*constants)[on], took[on])


def throughput(rows, what: str):
    """Fitted on two nodes, the port by the low-latency kernels, which fill it; tried on eight.

    What rank 0 transfers in a combine passes through ports of its own number alone (results come back the way
    the token went), so that it shows what a port does; its dispatch receives through all ports of its node,
    and its notification waits for all ranks: both show the slowest port of the cluster. That is a constant of
    the cluster, which two nodes do not have: it is read from the dispatch on 8, and the combine tests it.
    Gives the times on 8 nodes that the fits on two nodes predict, and those measured.
    """
    port, t = 1 / low_latency_between(rows, what)[1], Throughput(rows, what)
    fits = {
        name: t.fitted(took, 2, RATES_KB_PER_US, [port])
        for name, took in (("transfer", t.transfer), ("whole", t.whole))
    }
    start, rate, _ = fits["whole"]
    plain = COLLECTIVE_US + LATENCY_US + t.sent / PORT_KB_PER_US
    on = t.nodes == 8
    print(
        f"DeepEP throughput  {what:9} start {start:5.1f} us; {rate:4.1f} GB/s a multiprocessor; "
        f"transfer: 2 nodes {t.error(t.transfer, 2, fits['transfer'])}, 8 nodes "
        f"{t.error(t.transfer, 8, fits['transfer'])}; with the wait for all ranks: 2 nodes "
        f"{t.error(t.whole, 2, fits['whole'])}, 8 nodes {t.error(t.whole, 8, fits['whole'])}, "
        f"bytes alone {median_error(plain[on], t.whole[on])}"
    )
    slowest(rows, what, t, fits["whole"])
    for count, published in PUBLISHED.items():
        here = [{"nodes": count, "topk": 8, "experts": 256}]
        (every,), (sent,), (near,) = exchanged(here)
        carried = every / max(sent / port, (1 + sent + near) / 24 / rate)
        print(
            f"  published on {count} nodes: {published[what]} GB/s of a port by DeepEP's count, here "
            f"{carried:.1f}: {100 * (carried / published[what] - 1):+.1f} %"
        )
    return t.predicted(*fits["whole"])[on], t.whole[on]


def slowest(rows, what: str, t: Throughput, two: tuple[float, float, float]) -> None:
    """The slowest port on 8 nodes, and the constants of a preset that follow from it and from two nodes."""
    start, rate, port = two
    d = Throughput(rows, "dispatch")
    own = d.fitted(d.whole, 2, RATES_KB_PER_US, [port])
    read = d.fitted(d.whole, 8, [own[1]], PORTS_KB_PER_US)[2]
    eight = t.fitted(t.whole, 8, [rate], [read])
    node = (eight[0] - start) / 6
    print(
        f"  slowest port on 8 nodes, read from the dispatch: {read:.1f} GB/s; with it 8 nodes "
        f"{t.error(t.whole, 8, (start, rate, read))}; constants of a preset: "
        f"start_us {start - 2 * node:.1f}, node_us {node:.2f}, "
        f"multiprocessor_gbs {rate:.1f}, crowd {(port / read - 1) / 6:.2f}, with which 8 "
        f"nodes {t.error(t.whole, 8, eight)}"
    )


DTYPE_KB = {"bfloat16": 14.336, "fp8": 7.168, "nvfp4": 4.032}
OPERATIONS = (
    ("one_sided", "dispatch"),
    ("one_sided", "combine"),
    ("two_sided", "prepare"),
    ("two_sided", "dispatch"),
    ("two_sided", "combine"),
    ("two_sided", "combine_low_precision"),
)


def gb200(rows, kernel: str, what: str) -> None:
    """A token goes once to each of min(8, ranks) ranks, one of which may be its own."""
    rows = [r for r in rows if (r["kernel"], r["op"]) == (kernel, what)]
    took, ranks, tokens = (
        np.array([r[k] for r in rows], float) for k in ("latency_us", "ep", "tokens")
    )
    away = tokens * np.minimum(8, ranks) * (ranks - 1) / ranks
    sizes = {"dispatch": None, "combine": "bfloat16"}.get(what, "nvfp4")
    size = np.array([DTYPE_KB[sizes or r["dtype"]] for r in rows])
    columns = np.stack([np.ones(len(rows)), ranks - 1, tokens, tokens * size, away, away * size], 1)
    fit, test = ranks != 8, ranks == 8
    start, peer, token, own, message, byte = found = fitted(columns[fit], took[fit])
    plain = COLLECTIVE_US + 0.6 + away * size / NVL72_KB_PER_US
    print(
        f"GB200 {kernel} {what:21} start {start:5.2f} us, {peer:.3f} a peer, {token:.4f} a token, "
        f"{message:.4f} a message, {own:.5f} and {byte:.5f} a KB; 8 ranks "
        f"{median_error((columns @ found)[test], took[test])}, "
        f"bytes alone {median_error(plain[test], took[test])}"
    )


def main(data: str) -> None:
    """All fits, with the errors on what was left out."""
    deepep = pq.read_table(Path(data) / "nccl" / "deepep.parquet").to_pylist()
    for what in ("dispatch", "combine"):
        low_latency(deepep, what)
    for what in ("dispatch", "combine"):
        throughput(deepep, what)
    exchanges = pq.read_table(Path(data) / "nccl" / "alltoall_trtllm_gb200.parquet").to_pylist()
    for kernel, what in OPERATIONS:
        gb200(exchanges, kernel, what)


if __name__ == "__main__":
    main(sys.argv[1])
