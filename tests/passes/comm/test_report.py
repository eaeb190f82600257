"""How communication changed: calls and bytes by type, over all ranks."""

from __future__ import annotations

from chakrakit import Binding, CollectiveType, TraceBuilder, TraceSet
from chakrakit.passes.comm import Comm
from chakrakit.passes.comm.comm import report
from support.comm_cases import case

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


AG = CollectiveType.ALL_GATHER


def test_the_report_counts_calls_and_bytes():
    traces, _, _ = case("ddp")
    change = Comm("split-all-reduce")
    rows = {r["type"]: r for r in change.explain(traces, traces | change)["communication"]}
    calls = rows["all-reduce"]["calls before"]
    assert rows["reduce-scatter"]["calls after"] == rows["all-gather"]["calls after"] == calls
    assert rows["all-reduce"]["calls after"] == 0
    assert rows["reduce-scatter"]["bytes after"] == rows["all-reduce"]["bytes before"]


def test_messages_are_counted_for_every_rank_that_runs_a_body():
    def moved(size):
        t = TraceBuilder()
        t.send("s", 0, 1, size)
        t.collective("c", AG, 10)
        return TraceSet([t.build()], {r: Binding(0) for r in range(3)})

    assert report(moved(100), moved(60)) == {
        "communication": [
            {
                "type": "all-gather",
                "calls before": 3,
                "calls after": 3,
                "bytes before": 30,
                "bytes after": 30,
            },
            {
                "type": "comm-send",
                "calls before": 3,
                "calls after": 3,
                "bytes before": 300,
                "bytes after": 180,
            },
        ]
    }
