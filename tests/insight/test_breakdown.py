"""Breakdowns: against painting, against a plain reading of Kineto files, against HTA's figures."""

from __future__ import annotations

import gzip
import json
import math

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.breakdown import breakdown
from chakrakit.trace.sets import Run
from support.paths import DATA

# What HTA 0.6.1 prints for the two files, µs: (kernel time, idle, compute, non-compute, exposed
# communication, communication covered by computation).
HTA = {
    "df_index_resolver": (1_732_965, 732_352, 620_516, 380_097, 357_343, 0),
    "nccl_parser_config": (660_550, 506_512, 113_012, 41_026, 39_461 + 305, 7_092),
}


def sums(b) -> int:
    return b.compute_ns + b.exposed_comm_ns + b.exposed_copy_ns + b.idle_ns


def test_two_ranks_by_hand(two_ranks):
    result = breakdown(two_ranks)
    first, second = (r.breakdown for r in result.ranks)
    assert result.span_ns == 55_000
    assert (first.compute_ns, first.comm_ns, first.exposed_comm_ns, first.idle_ns) == (
        15_000,
        40_000,
        40_000,
        0,
    )
    assert first.exposed_wait_ns == 20_000
    assert second.exposed_wait_ns == 0
    assert sums(first) == sums(second) == 55_000


def test_waiting_for_a_slow_rank_is_no_bubble():
    """Ranks of a stage wait for the same messages, and one that shares layers with a slow rank for that one.

    Messages are asked for early, so both happen at the same time.
    """
    plan = {"layers": 4, "seq": 512, "global_batch": 8, "tp": 4, "pp": 2}
    traces = ck.generate(model="gpt3-125m", **plan).traces
    run = ck.simulate(traces, "dgx-h100", compute="roofline", stragglers={3: 1.5}).run()
    peer, slow = (breakdown(run).ranks[rank].breakdown for rank in (0, 3))
    assert peer.bubble_ns == pytest.approx(slow.bubble_ns, rel=0.02)
    assert peer.exposed_wait_ns > 0.6 * (slow.compute_ns - peer.compute_ns)
    assert slow.exposed_wait_ns == 0


@pytest.mark.parametrize("seed", range(8))
def test_random_runs_agree_with_painting(make_random, oracle, seed):
    run, programs = make_random(seed)
    times = oracle(programs)
    span = max(e for rank in times for _, e in rank)
    for rank in breakdown(run).ranks:
        painted = {k: set() for k in ("comp", "copy", "coll")}
        for node, (a, b) in zip(programs[rank.rank], times[rank.rank], strict=True):
            painted[node["kind"]] |= set(range(a, b, 100))
        b = rank.breakdown
        assert b.compute_ns == 100 * len(painted["comp"])
        assert b.exposed_comm_ns == 100 * len(painted["coll"] - painted["comp"])
        assert b.exposed_copy_ns == 100 * len(painted["copy"] - painted["comp"] - painted["coll"])
        assert sums(b) == span
        assert sum(b.idle.values()) == b.idle_ns


def plain(events: list[tuple[str, int, int]]) -> tuple[int, int, int, int, int, int]:
    """Busy times by sweeping over all borders: (span, idle, compute, rest, comm not covered, covered)."""
    borders = sorted([(a, 1, k) for k, a, _ in events] + [(b, -1, k) for k, _, b in events])
    open_, last = {"compute": 0, "comm": 0, "copy": 0}, borders[0][0]
    idle = compute = rest = bare = covered = 0
    for at, step, kind in borders:
        length, last = at - last, at
        if open_["compute"]:
            compute += length
            covered += length * (open_["comm"] > 0)
        elif open_["comm"] or open_["copy"]:
            rest += length
            bare += length * (open_["comm"] > 0)
        else:
            idle += length
        open_[kind] += step
    return borders[-1][0] - borders[0][0], idle, compute, rest, bare, covered


def device_events(name: str, scale: int, whole: bool) -> list[tuple[str, int, int]]:
    """(kind, start, end) of a file's device events; `whole` shrinks each to whole µs as HTA does."""
    events = json.loads(gzip.decompress((DATA / "hta" / f"{name}.json.gz").read_bytes()))[
        "traceEvents"
    ]
    first = min(e["ts"] for e in events)
    out = []
    for e in events:
        kind = "comm" if e["name"].startswith("nccl") else "compute"
        kind = "copy" if e["cat"] != "kernel" else kind
        if whole:
            start, end = math.ceil(e["ts"]), math.floor(e["ts"] + e["dur"])
            out.append((kind, start, max(start, end)))
        else:
            start = round((e["ts"] - first) * scale)
            out.append((kind, start, start + round(e["dur"] * scale)))
    return out


def run_of_events(events: list[tuple[str, int, int]]) -> Run:
    names = {"comm": "ncclKernel", "copy": "Memcpy DtoD", "compute": "gemm"}
    base = min(a for _, a, _ in events)
    kinds = [k for k, _, _ in events]
    start, end = (np.array([e[i] - base for e in events]) for i in (1, 2))
    types = [
        int(ck.NodeType.COMM_COLL_NODE if k == "comm" else ck.NodeType.COMP_NODE) for k in kinds
    ]
    trace = ck.Trace.from_columns(
        {
            "name": [names[k] for k in kinds],
            "type": types,
            "start_time_ns": start,
            "duration_ns": end - start,
            "is_cpu_op": [False] * len(kinds),
            "comm_type": [0 if k == "comm" else None for k in kinds],
        }
    )
    return Run([trace])


def figures(run: Run) -> tuple[int, int, int, int, int, int]:
    result = breakdown(run)
    b = result.ranks[0].breakdown
    assert sums(b) == result.span_ns
    return (
        result.span_ns,
        b.idle_ns,
        b.compute_ns,
        b.exposed_comm_ns + b.exposed_copy_ns,
        b.exposed_comm_ns,
        b.overlap_ns,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", HTA)
def test_exact_times_agree_with_a_plain_sweep(name):
    events = device_events(name, 1000, whole=False)
    assert figures(run_of_events(events)) == plain(events)


@pytest.mark.parametrize("name", HTA)
def test_times_shrunk_to_microseconds_give_htas_figures(name):
    """HTA rounds starts up and ends down to whole µs; with that done, its figures come out exactly."""
    events = device_events(name, 1, whole=True)
    assert plain(events) == HTA[name]
    assert figures(run_of_events(events)) == HTA[name]


def test_hta_loses_time_to_rounding():
    """Of 3,774 device events up to 2 µs each: exact busy times are larger than HTA's, idle is smaller."""
    exact = figures(run_of_events(device_events("nccl_parser_config", 1000, whole=False)))
    hta_names = HTA["nccl_parser_config"]
    assert 0 < exact[2] / 1000 - hta_names[2] < 2_700
    assert exact[1] / 1000 < hta_names[1]


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "resnet50_b128"])
def test_linked_recordings_agree_with_their_kineto_file(linked, name):
    raw = json.loads(gzip.decompress((DATA / "pytorch" / name / "kineto.json.gz").read_bytes()))
    kinds = {"kernel": "compute", "gpu_memcpy": "copy", "gpu_memset": "copy"}
    first = min(e["ts"] for e in raw["traceEvents"] if "ts" in e)
    events = []
    for e in raw["traceEvents"]:
        if e.get("cat") in kinds:
            start = round((e["ts"] - first) * 1000)
            events.append((kinds[e["cat"]], start, start + round(e["dur"] * 1000)))
    b = breakdown(linked(name)).ranks[0].breakdown
    _, _, compute, rest, _, _ = plain(events)
    # A time in µs with three digits is a float; each border may be off by one ns.
    assert b.compute_ns == pytest.approx(compute, abs=2 * len(events))
    assert b.exposed_comm_ns + b.exposed_copy_ns == pytest.approx(rest, abs=2 * len(events))


@pytest.mark.parametrize("name", ["gpt_fsdp_tp_4", "gpt_pp_2", "cnn_ddp_2", "resnet50_b128"])
def test_every_rank_sums_to_the_span(linked, name):
    result = breakdown(linked(name))
    for rank in result.ranks:
        assert sums(rank.breakdown) == result.span_ns
        assert sum(rank.breakdown.idle.values()) == rank.breakdown.idle_ns


def test_pipeline_ranks_wait_for_messages(linked):
    """Two stages: both wait for activations or gradients that have not been sent yet."""
    for rank in breakdown(linked("gpt_pp_2")).ranks:
        assert rank.breakdown.bubble_ns > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt_fsdp_tp_4", "gpt_pp_2", "cnn_ddp_2"])
def test_host_communication_agrees_with_the_kineto_files(linked, name):
    """gloo communicates on host threads: the union of its ranges, rank by rank, to the nanosecond."""
    for rank in breakdown(linked(name)).ranks:
        file = DATA / "pytorch" / name / f"kineto_{rank.rank}.json.gz"
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        first = min(e["ts"] for e in events if "ts" in e)
        ranges = [
            ("comm", start := round((e["ts"] - first) * 1000), start + round(e["dur"] * 1000))
            for e in events
            if e.get("ph") == "X"
            and e["name"].startswith("gloo:")
            and e["cat"] != "gpu_user_annotation"
        ]
        _, _, _, busy, _, _ = plain(ranges)
        assert rank.breakdown.comm_ns == busy
