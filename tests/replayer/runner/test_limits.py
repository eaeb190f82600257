"""What a plan must fulfil before anything is done."""

from __future__ import annotations

import gzip

import pytest

from chakrakit.replayer.runner import limits
from chakrakit.replayer.runner.limits import (
    ReplayError,
    check_emulation,
    check_memory,
    check_plan,
    host_memory,
    read_plan,
)


@pytest.mark.parametrize("time", [{"host_ns": 1 << 62}, {"gap_ns": 1 << 50}, {"device_ns": -5}])
def test_a_plan_that_waits_for_ever_is_refused(plan, time):
    plan["steps"].append({"do": "stand_in", "name": "x", **time})
    with pytest.raises(ReplayError, match="an iteration that waits"):
        check_plan(plan)


def written(tmp_path, data):
    path = tmp_path / "plan_0.json.gz"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"plain", "is not a plan: "),
        (gzip.compress(b"{"), "is not a plan: "),
        (gzip.compress(b"[]"), "is not a plan of chakra replay"),
        (gzip.compress(b"{}")[:-4], "is not a plan: "),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path, data, said):
    with pytest.raises(ReplayError, match=said):
        read_plan(written(tmp_path, data))


def test_a_plan_that_unpacks_too_far_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_ROOM", 1000)
    path = written(tmp_path, gzip.compress(b" " * 1_000_000, 9))
    with pytest.raises(ReplayError, match=r"unpacks to more than .* bytes, as no plan does"):
        read_plan(path)


def test_what_goes_wrong_because_of_a_plan_blames_it():
    with pytest.raises(ReplayError, match="the plan: KeyError: 'x'"), limits.blamed("the plan"):
        raise KeyError("x")
    with pytest.raises(OSError, match="disk"), limits.blamed("the plan"):
        raise OSError("disk")


def emulation(**changes):
    plan = {
        "durations": [5, 0],
        "release": [0, 0],
        "lanes": [0, -1],
        "waits": [[], [[0, 0, 0]]],
        "groups": [{"name": "0", "ranks": [0]}],
        "communication": {"1": {"op": "all_reduce", "group": 0, "input": 8, "output": 8}},
        "order": [1],
    }
    return plan | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lanes": [0]}, "columns differ in length"),
        ({"durations": [-1, 0]}, "a time below 0"),
        ({"waits": [[], [[9, 0, 0]]]}, "node 1 waits for node 9"),
        ({"waits": [[], [[0, 7, 0]]]}, "in form 7"),
        ({"order": []}, "leaves some out"),
        ({"communication": {"1": {"op": "shout", "group": 0}}}, "node 1: 'shout' on group 0"),
        (
            {"communication": {"1": {"op": "all_reduce", "group": 0, "input": -8}}},
            "communicates -8 bytes",
        ),
        (
            {"communication": {"1": {"op": "all_reduce", "group": 0, "reduce": "explode"}}},
            "no reduction 'explode'",
        ),
    ],
)
def test_an_emulation_is_checked_whole(changes, said):
    check_emulation(emulation())
    with pytest.raises(ReplayError, match=said):
        check_emulation(emulation(**changes))


def test_more_than_there_is_of_memory_is_refused():
    check_memory(1 << 30, 1 << 30, "this machine")
    with pytest.raises(ReplayError, match=r"needs 2.0 GiB on the GPU, and 1.0 GiB are free"):
        check_memory(2 << 30, 1 << 30, "the GPU")
    assert host_memory() > 1 << 20
