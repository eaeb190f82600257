"""Workloads by layers out and in again: computation, collectives, bytes and groups."""

from __future__ import annotations

import json

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.simulator.exports.layers import layers_text
from chakrakit.sources.foreign.layers import read_layers
from chakrakit.trace.model import CollectiveType
from chakrakit.trace.sets import Times, run_of
from chakrakit.views.spans import write_spans
from support.commands import succeeded


def program():
    builder = ck.TraceBuilder()
    a = builder.comp("gemm", duration_ns=5_000)
    b = builder.collective("gather", CollectiveType.ALL_GATHER, 1024, deps=[a], pg_name="tp")
    c = builder.comp("gemm", duration_ns=7_000, deps=[b])
    d = builder.collective("sum", CollectiveType.ALL_REDUCE, 4096, deps=[c], pg_name="tp")
    builder.collective("gradients", CollectiveType.REDUCE_SCATTER, 65536, deps=[d], pg_name="dp")
    groups = {"tp": [[0, 1], [2, 3], [4, 5], [6, 7]], "dp": [[0, 2, 4, 6], [1, 3, 5, 7]]}
    return ck.TraceSet.of(builder, ranks=8, groups=groups)


def totals(traces):
    trace = traces.trace(0)
    calls = traces.collectives.calls
    rows = [r for r in calls.to_pylist() if r["rank"] == 0]
    found = sorted((r["comm_type"], r["comm_size"], len(traces.groups[r["group"]])) for r in rows)
    return found, int(trace.own_ns.sum())


@pytest.mark.parametrize("simai", [True, False])
def test_a_round_trip_keeps_computation_collectives_bytes_and_group_sizes(simai):
    traces = program()
    text, left_out = layers_text(traces, simai)
    again = read_layers(text.encode(), "w.txt")
    assert totals(again) == totals(traces)
    assert left_out == {}
    assert len(again) == 8


def test_spans_have_the_times_and_nesting_of_nodes(tmp_path):
    succeeded("generate", "--model", "gpt3-125m", "--dp", 2, "--seq", 16, "-o", tmp_path / "w")
    succeeded("simulate", tmp_path / "w", "--machine", "dgx-h100", "-o", tmp_path / "run")
    succeeded("export", tmp_path / "run", tmp_path / "spans.json", "--to", "otlp")
    lines = (tmp_path / "spans.json").read_text().splitlines()
    run = ck.read(tmp_path / "run")
    spans = json.loads(lines[1])["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (len(lines), len(spans)) == (2, len(run.trace(1)))
    took = sum(int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"]) for s in spans)
    assert took == pytest.approx(
        int((run.end(1) - run.start(1)).sum()) * run.tick_ps / 1000, abs=len(spans)
    )


def test_spans_are_exact_and_of_rows_that_ran(tmp_path):
    """Times since 1970 have more digits than a float; a type may be unknown; a row may not have run."""
    now = 1_700_000_000_000_000_001
    trace = ck.Trace.from_columns(
        {
            "name": ["a", "b"],
            "type": [99, 4],
            "start_time_ns": [now, now + 3],
            "duration_ns": [2, 4],
        }
    )
    recorded = ck.Run([trace], {0: ck.Binding(0)})
    stopped = run_of(ck.TraceSet([trace]), {0: Times(np.array([5, -1]), np.array([7, -1]))}, {})
    for run, starts in ((recorded, [now, now + 3]), (stopped, [5])):
        write_spans(run, tmp_path / "spans.json")
        (line,) = (tmp_path / "spans.json").read_text().splitlines()
        spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        assert [int(s["startTimeUnixNano"]) for s in spans] == starts
