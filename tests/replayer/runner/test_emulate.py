"""Waits and communication: a trace's own schedule in real time."""

from __future__ import annotations

import json

import msgspec
import pytest

import chakrakit as ck
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.runner.emulate import _turns, run_emulation
from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.session import prepare

torch = pytest.importorskip("torch")


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


def test_communication_stands_in_the_queue_of_its_group_or_of_its_peer():
    exchanges = {
        0: {"op": "all_reduce", "group": 0},
        1: {"op": "send", "group": 0, "root": 1},
        2: {"op": "all_gather_flat", "group": 0},
        3: {"op": "send", "group": 0, "root": 2},
        4: {"op": "all_reduce", "group": 1},
    }
    turns = _turns([2, 0, 1, 3, 4], exchanges)
    assert turns[0] is turns[2] == [2, 0]
    assert (turns[1], turns[3], turns[4]) == ([1], [3], [4])
