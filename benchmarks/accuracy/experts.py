"""Dispatch and combine of DeepEP, on one node and across nodes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
from claim import machine_of, need, spread, table

import chakrakit as ck


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    parts: dict[tuple[str, str, int, str], list[float]] = defaultdict(list)
    for row in pq.read_table(need(data, "nccl", "deepep.parquet")).to_pylist():
        for what in ("dispatch", "combine"):
            key = (row["kind"].replace("_", " "), what, row["nodes"], row["sglang_version"])
            parts[key].append(_error(row, what))
    lines = [[*key, len(e), *spread(e)] for key, e in sorted(parts.items())]
    return "\n\n".join([TEXT, table(HEADS, lines)])


def _error(row: dict[str, object], what: str) -> float:
    took = row[f"{what}_us"] + (row[f"{what}_notify_us"] or 0.0)
    table = ck.collective(
        what,
        machine_of(f"dgx-h200:{row['nodes']}"),
        8 * row["nodes"],
        tokens=[row["tokens"]],
        hidden=row["hidden"],
        topk=row["topk"],
        experts=row["experts"],
        low_latency=row["kind"] == "low_latency",
        sms=row[f"{what}_sms"] or 24,
    )
    return table.rows[0].time_us / took - 1


HEADS = ("kernels", "what", "nodes", "SGLang", "rows", "median error", "90 %", "worst")
TITLE = "Expert parallel exchange"
TEXT = """\
DeepEP as SGLang calls it (the same source; 8 GPUs per node, InfiniBand between nodes), with 1 to 131,072
tokens per rank and 4 to 24 multiprocessors. Times include the transfer and the notification before it, which
waits for all ranks. Constants are fitted on 1, 2 and 8 nodes of SGLang 0.5.6 (hidden size 7,168, 8 of 256
experts) and on five token counts of 0.5.12 on one H200 node; all other rows of 0.5.12 are not fitted. Routing
is uniform over at most 4 nodes for a token, as in the test that the rows come from. Errors are absolute.

The throughput kernels ("normal") on 8 nodes take up to three times as long as fits on 1 and 2 nodes say, and
the constant `crowd` stands for that (`benchmarks/fit_messages.py`). What rank 0 transfers in a combine on 8
nodes, through ports of its own number alone, is within 8.2 % of a fit on 2 nodes (47 GB/s). Its dispatch
receives through all ports, and its notification waits for all ranks: both show one slow port (17 GB/s). Read
from the dispatch, that one figure gives the combine with its wait within 9.1 %. Neither channels nor copying
decide there: from 256 tokens on a dispatch takes 1.5 us a token with 8, 16 and 24 multiprocessors alike. The
low-latency kernels on 8 nodes carry 43 GB/s through every port, so that no port is slow for all traffic,
unless those rows are of other nodes; the rows do not say. Fits on 2 nodes cannot know
it: DeepEP's authors publish 51 and 50 GB/s for dispatch and combine on 8 nodes with ports of 400 Gb/s, 58 and
57 on 4 (their pull request 130; what stays in a token's own node is counted), for which the same fits give 54
and 53, 63 and 62; on another cluster with the same ports 44 GB/s on 2 nodes become 12.5 on 4 (issue 493 of
the same project). With `library: {dispatch: {crowd: 0, …}}` a machine's file says
that nothing is lost."""
