"""What a message costs at a port, fitted on public tables of expert exchange and tested on sizes left out.

python benchmarks/fit_messages.py DATA    (DATA/nccl/deepep.parquet and alltoall_trtllm_gb200.parquet)

An exchange takes a start, which its ports add to in parallel: a port is held for a gap by every message, a
gap by every peer, and its bytes over a bandwidth (LogGP's o, g and G). DeepEP is fitted on 1 and 2 nodes and
tested on 8, TensorRT-LLM's exchange on GB200 on 2 and 32 ranks and tested on 8. `bytes alone` is what the
machine's links say without messages that cost: the overhead of a collective, latency, bytes over bandwidth.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import chakrakit as ck

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


def low_latency(rows, what: str):
    """Every token goes to each of its experts by itself: over links within a node, ports between nodes.

    Gives the times on 8 nodes that fits on fewer predict, and those measured.
    """
    rows = [r for r in rows if r["kind"] == "low_latency" and r["sglang_version"] == "0.5.6.post2"]
    took = np.array([r[f"{what}_us"] for r in rows])
    nodes = np.array([r["nodes"] for r in rows])
    messages = np.array([r["tokens"] * r["topk"] for r in rows], float)
    size = np.array([token_kb(r, what) for r in rows])
    near, away = messages * 7 / (8 * nodes), messages * (nodes - 1) / nodes
    inside, outside = (np.stack([np.ones(len(rows)), m * size], 1) for m in (near, away))
    within = fitted(inside[nodes == 1], took[nodes == 1])
    between = fitted(outside[nodes == 2], took[nodes == 2])
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


def reached(places: int, topk: int, experts: int) -> float:
    """Of equal parts of the experts, how many a token of uniform routing reaches."""
    outside = experts - experts // places
    if outside < topk:
        return float(places)
    return places * (1 - math.comb(outside, topk) / math.comb(experts, topk))


def throughput(rows, what: str):
    """A token goes once to every node that wants it; multiprocessors copy, and limit two nodes.

    Gives the times on 8 nodes that fits on fewer predict, and those measured.
    """
    rows = [r for r in rows if r["kind"] == "normal" and r["sglang_version"] == "0.5.6.post2"]
    took = np.array([r[f"{what}_us"] + (r[f"{what}_notify_us"] or 0) for r in rows])
    nodes = np.array([r["nodes"] for r in rows])
    size = np.array([r["tokens"] * token_kb(r, what) for r in rows])
    away = np.array([reached(r["nodes"], r["topk"], r["experts"]) for r in rows])
    away = away * (nodes - 1) / nodes
    devices = np.array([reached(8 * r["nodes"], r["topk"], r["experts"]) for r in rows])
    copied = (1 + away + devices) * size / np.array([r[f"{what}_sms"] for r in rows])
    columns = np.stack([np.ones(len(rows)), copied], 1)
    two = fitted(columns[nodes == 2], took[nodes == 2])
    predicted = two[0] + np.maximum(copied * two[1], away * size / PORT_KB_PER_US)
    plain = COLLECTIVE_US + LATENCY_US + away * size / PORT_KB_PER_US
    test = nodes == 8
    rate = float(np.median((away * size / took)[test & (size > 1e5)]))
    best = float(((away * size / took)[nodes == 2]).max())
    print(
        f"DeepEP throughput  {what:9} 8 nodes {median_error(predicted[test], took[test])}, bytes alone "
        f"{median_error(plain[test], took[test])}: long exchanges reach {rate:.0f} GB/s of a port there, "
        f"and up to {best:.0f} on two nodes, where multiprocessors are the limit"
    )
    return predicted[test], took[test]


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
