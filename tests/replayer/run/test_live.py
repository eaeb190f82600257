"""Replays of several ranks, each a process of its own: what they do, and how they end when one dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.plan.plan import View
from chakrakit.replayer.recording.recording import Recording
from chakrakit.replayer.recording.units import find_units
from chakrakit.replayer.run.session import export, prepare, replay
from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.sources.pytorch.linking.linker import link
from chakrakit.trace.model.schema import NodeType
from support.recorded import DATA

pytest.importorskip("torch")
from chakrakit.replayer.runner.emulate import run_emulation

CHAKRA = Path(sys.executable).with_name("chakra")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


# --- the same work --------------------------------------------------------------------------------


def shapes_of(text):
    """Dimensions of tensors only: the observer also says of numbers that they have none."""

    def tidy(x):
        if not isinstance(x, list):
            return ()
        if x and all(isinstance(v, int) for v in x):
            return tuple(x)
        return tuple(t for t in map(tidy, x) if t)

    return tidy(json.loads(text or "[]"))


def operators(seen, rows=None):
    """Operators with the shapes of their tensors, those that gloo runs on threads of its own left out."""
    found = Counter()
    for row in range(len(seen)) if rows is None else rows:
        outer = row
        while outer >= 0 and not seen.names[outer].startswith("gloo:"):
            outer = seen.parents[outer]
        if outer < 0 and re.match(r"(aten|c10d|_c10d_functional)::", seen.names[row]):
            found[seen.names[row], shapes_of(seen.texts("inputs_shapes")[row])] += 1
    return found


def communication(trace):
    rows = np.flatnonzero(trace.types >= NodeType.COMM_SEND_NODE)
    names = ("type", "comm_type", "comm_size", "pg_name", "comm_src", "comm_dst")
    nodes = [trace[int(r)] for r in rows]
    return [tuple(n.get(name) for name in names) for n in nodes]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn_ddp_2", "gpt_pp_2", "gpt_fsdp_tp_4"])
def test_a_replay_does_what_was_recorded(tmp_path, name):
    """Every operator, shape, collective and byte; only wrappers around operators are not there again."""
    recorded, _ = link([DATA / name])
    report = replay(
        str(DATA / name),
        ReplayOptions(),
        iterations=1,
        warmup=0,
        output=tmp_path / "run",
        timeout_s=120,
    )
    assert report.coverage.count == report.coverage.time == 1
    assert report.stand_ins == []
    replayed = ck.read(tmp_path / "run")
    plans = prepare(recorded, ReplayOptions()).plans
    for rank in recorded.ranks:
        seen = Recording(rank, recorded.trace(rank))
        units = find_units(seen)
        whole = {r for u in units for r in (u.row, *u.inside)}
        opened = operators(seen, sorted(set(range(len(seen))) - whole))
        before, after = operators(seen), operators(Recording(rank, replayed.trace(rank)))
        views = [s for s in plans[rank].steps if isinstance(s, View)]
        extra = after - before
        assert {name for name, _ in extra} <= {"aten::as_strided"}
        assert sum(extra.values()) <= len(views)
        assert not (before - after) - opened
        told = communication(recorded.trace(rank))
        assert Counter(communication(replayed.trace(rank))) == Counter(told)
    assert {len(communication(replayed.trace(r))) for r in recorded.ranks} - {0}


# --- emulation ------------------------------------------------------------------------------------


def overlapping(ranks=4):
    """Compute, an all-reduce beside more compute, an all-to-all after both, on every rank."""
    bodies = []
    for _ in range(ranks):
        t = ck.TraceBuilder()
        a = t.comp("first", duration_ns=30_000_000)
        b = t.collective("sum", ck.CollectiveType.ALL_REDUCE, 1 << 22, deps=[a], duration_ns=1)
        c = t.comp("beside", duration_ns=60_000_000, deps=[a])
        d = t.collective("swap", ck.CollectiveType.ALL_TO_ALL, 4096, deps=[b, c], duration_ns=1)
        t.comp("last", duration_ns=10_000_000, deps=[d])
        bodies.append(t.build())
    return ck.TraceSet(bodies, groups=ck.Groups({"0": range(ranks)}))


@pytest.mark.slow
def test_emulation_keeps_order_and_overlap(tmp_path):
    """Four ranks over gloo: a trace that never ran, and whose compute is only waited for."""
    ck.write(overlapping(), tmp_path / "traces")
    done = subprocess.run(
        [
            CHAKRA,
            "replay",
            tmp_path / "traces",
            "--mode",
            "emulate",
            "--iterations",
            "2",
            "--json",
            "-o",
            tmp_path / "run",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["coverage"] == {"count": 1.0, "time": 1.0}
    assert report["step_ns"]["median"] >= 100_000_000
    run = ck.read(tmp_path / "run")
    for rank in run.ranks:
        start, end = run.start(rank), run.end(rank)
        edges = run.trace(rank).edges
        assert (start[edges.dst] >= end[edges.src]).all()
        assert end[1] - start[1] > 0  # 4 MiB are not there at once
        assert start[1] < end[2]  # while the compute beside it goes on
        assert start[2] < end[1]
        assert (end - start)[[0, 2, 4]].tolist() == [30_000_000, 60_000_000, 10_000_000]


def test_times_are_needed_to_emulate_and_not_to_communicate():
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_GATHER, 100, deps=[t.comp("work")])
    traces = ck.TraceSet([t.build()] * 2, groups=ck.Groups({"0": [0, 1]}))
    with pytest.raises(ck.errors.TraceError, match="simulate the trace first"):
        prepare(traces, ReplayOptions(mode="emulate"))
    plan = prepare(traces, ReplayOptions(mode="comm")).plans[1]
    assert [(e.op, e.input, e.output) for e in plan.communication.values()] == [
        ("all_gather_flat", 100, 200)
    ]


def test_order_of_communication_in_a_trace_that_never_ran():
    """Written first, but it depends on the second: the second is issued first."""
    t = ck.TraceBuilder()
    first = t.collective("late", ck.CollectiveType.ALL_REDUCE, 64)
    second = t.collective("early", ck.CollectiveType.ALL_REDUCE, 64)
    t.edge(second, first)
    t.edge(second, first, ck.EdgeKind.CTRL)
    plan = prepare(ck.TraceSet([t.build()]), ReplayOptions(mode="comm")).plans[0]
    assert plan.order == [second, first]


def test_what_a_node_waits_for_twice_is_one_wait(tmp_path):
    """Data and control dependency on the same node: it counts when all it waits for are done."""
    t = ck.TraceBuilder()
    a, b = t.comp("a", duration_ns=1000), t.comp("b", duration_ns=5000)
    c = t.comp("c", duration_ns=10, deps=[a, b], ctrl_deps=[a])
    t.comp("d", duration_ns=10, deps=[c])
    traces = ck.TraceSet([t.build()])
    plan = json.loads(msgspec.json.encode(prepare(traces, ReplayOptions(mode="emulate")).plans[0]))
    found = run_emulation(plan, {"iterations": 1, "warmup": 0, "timeout_s": 60}, None)
    assert found["start"] == [0, 1000, 6000, 6010]  # one compute engine, in order
    assert found["end"] == [1000, 6000, 6010, 6020]


def emulated(**changes):
    """The plan of one rank that reduces 64 bytes after 1 us, changed."""
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 64, deps=[t.comp("a", duration_ns=1000)])
    options = ReplayOptions(mode="emulate")
    plan = prepare(ck.TraceSet([t.build()], groups=ck.Groups({"0": [0]})), options).plans[0]
    return json.loads(msgspec.json.encode(plan)) | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"durations": [1 << 62, 0]}, "node 1 begins after 4,611,686,018 s; an hour is the most"),
        (
            {"backend": "smoke signals"},
            "there is no backend 'smoke signals' here; use --backend gloo",
        ),
        ({"lanes": ["a", 0]}, "the plan cannot be emulated: TypeError"),
        (
            {
                "communication": {
                    "1": {"op": "all_reduce", "group": 0, "input": 64, "output": 1 << 50}
                }
            },
            "the plan needs 1,048,576.0 GiB on this machine",
        ),
    ],
)
def test_plans_of_emulations_that_nobody_could_run(changes, said, monkeypatch, tmp_path):
    monkeypatch.setenv("CHAKRA_REPLAY_STORE", str(tmp_path / "store"))
    settings = {"iterations": 1, "warmup": 0, "timeout_s": 60}
    with pytest.raises(ReplayError, match=said):
        run_emulation(emulated(**changes), settings, None)


# --- when one dies --------------------------------------------------------------------------------


def endless(folder):
    """A replay of two ranks that takes minutes."""
    export_traces = folder / "traces"
    ck.write(overlapping(2), export_traces)
    export(str(export_traces), folder / "replay", ReplayOptions(mode="emulate"))
    return [sys.executable, str(folder / "replay" / "run.py"), "--iterations", "2000"]


def workers_of(parent):
    """Processes whose parent this is."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if f"\nPPid:\t{parent}\n" in text:
            found.append(int(status.parent.name))
    return sorted(found)


def started(command, between=0):
    """The replay once both ranks are at it; `between` processes stand between it and them."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        starters = workers_of(process.pid) if between else [process.pid]
        workers = [w for s in starters for w in workers_of(s)]
        if len(workers) == 2 and all(_threads(w) > 4 for w in workers):
            return process, workers + starters * between
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the ranks did not start")


def _threads(pid):
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def gone(pids, seconds=15):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(_alive(p) for p in pids):
            return True
        time.sleep(0.05)
    return False


def _alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_all_and_is_named(tmp_path):
    process, workers = started(endless(tmp_path))
    os.kill(workers[1], signal.SIGKILL)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "error: rank 1 was killed by SIGKILL; the replay was ended" in said
    assert "rank 0: error: rank 1 was killed by SIGKILL" in said
    assert gone(workers)


@pytest.mark.slow
def test_ranks_do_not_outlive_the_command(tmp_path):
    """The command is killed, so it can tell nobody; who it started and whom they started notice."""
    ck.write(overlapping(2), tmp_path / "traces")
    command = [str(CHAKRA), "replay", str(tmp_path / "traces"), "--mode", "emulate"]
    process, workers = started([*command, "--iterations", "2000"], 1)
    process.kill()
    process.wait(timeout=30)
    assert gone(workers)
