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

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.replayer import ReplayOptions, export, replay
from chakrakit.replayer.plan import View
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.session import prepare
from chakrakit.replayer.units import find_units
from chakrakit.sources.pytorch.linking import link
from chakrakit.trace.model import NodeType
from support.recorded import DATA

pytest.importorskip("torch")

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
    assert report.stand_ins == []
    assert report.coverage.count == report.coverage.time == 1
    replayed = ck.read(tmp_path / "run")
    plans = prepare(recorded, ReplayOptions()).plans
    for rank in recorded.ranks:
        seen = RecordedRows(rank, recorded.trace(rank))
        units = find_units(seen)
        whole = {r for u in units for r in (u.row, *u.inside)}
        opened = operators(seen, sorted(set(range(len(seen))) - whole))
        before, after = operators(seen), operators(RecordedRows(rank, replayed.trace(rank)))
        views = [s for s in plans[rank].steps if isinstance(s, View)]
        extra, missing = after - before, (before - after) - opened
        # FSDP hands `cat` a buffer for its result; it is called without.
        assert {name for name, _ in missing} <= {"aten::cat"}
        assert {name for name, _ in extra} <= {"aten::as_strided", "aten::cat"}
        assert sum(n for (name, _), n in extra.items() if name == "aten::cat") == missing.total()
        assert sum(extra.values()) <= len(views) + missing.total()
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
