"""What a plan must fulfil before anything is done."""

from __future__ import annotations

import gzip
import json

import pytest

from chakrakit.replayer.runner import COMPOSITE, REFUSED, limits
from chakrakit.replayer.runner.limits import (
    ALLOWED,
    ReplayError,
    blamed,
    check_emulation,
    check_memory,
    check_plan,
    read_plan,
)


@pytest.mark.parametrize("time", [{"host_ns": 1 << 62}, {"gap_ns": 1 << 50}, {"device_ns": -5}])
def test_a_plan_that_waits_for_ever_is_refused(plan, time):
    plan["steps"].append({"do": "stand_in", "name": "x", **time})
    with pytest.raises(ReplayError, match="an iteration that waits"):
        check_plan(plan)


STEP = {
    "do": "call",
    "op": "aten::add",
    "overload": "Tensor",
    "args": [{"slot": 0}, {"slot": 1}],
    "made": [[2, "", [], [], 0]],
}


def made(*steps, slots=3, groups=1):
    return {"slots": slots, "groups": [{"ranks": [0, 1]}] * groups, "steps": list(steps)}


def test_a_plan_of_known_steps_passes():
    check_plan(made(STEP, {"do": "collective", "op": "all_reduce", "group": 0, "inputs": [0]}))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (made({"do": "explode"}), "step 0: no such thing as 'explode'"),
        (made(STEP | {"op": "aten::from_file"}), "operator 'aten::from_file.Tensor' is not one"),
        (made(STEP | {"op": "os::system"}), "operator 'os::system.Tensor' is not one"),
        (made(STEP | {"overload": "out"}), "operator 'aten::add.out' is not one"),
        (made(STEP | {"op": "aten::polygamma_", "overload": ""}), "'aten::polygamma_' is not one"),
        (made(STEP | {"args": [[{"slot": 3}]]}), "step 0: no slot 3"),
        (made(STEP | {"free": [-1]}), "step 0: a slot that is none of 3"),
        (made(STEP | {"made": [[True]]}), "step 0: a slot that is none of 3"),
        (made(STEP, STEP | {"needs": [1]}), "step 1 waits for one that comes later"),
        (made({"do": "collective", "op": "all_reduce", "group": 1}), "on group 1"),
        (made({"do": "collective", "op": "gossip", "group": 0}), "'gossip' on group 0"),
        (
            made({"do": "collective", "op": "all_reduce", "group": 0, "reduce": "guess"}),
            "no reduction 'guess'",
        ),
        (made(slots=1 << 40), "1,099,511,627,776 slots"),
    ],
)
def test_a_step_that_cannot_be_is_named(plan, said):
    with pytest.raises(ReplayError, match=said):
        check_plan(plan)


EMULATED = {
    "durations": [5, 0],
    "release": [0, 0],
    "lanes": [0, -1],
    "waits": [[], [[0, 0, 3]]],
    "groups": [{"ranks": [0, 1]}],
    "communication": {"1": {"op": "all_reduce", "group": 0, "input": 64, "output": 64}},
    "order": [1],
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"lanes": [0]}, "columns differ in length"),
        ({"release": [0, -1]}, "a time below 0"),
        ({"waits": [[], [[2, 0, 0]]]}, "node 1 waits for node 2 in form 0"),
        ({"waits": [[], [[0, 7, 0]]]}, "node 1 waits for node 0 in form 7"),
        ({"order": []}, "the order of communication leaves some out"),
        (
            {"communication": {"1": {"op": "all_reduce", "group": 0, "input": -4}}},
            "node 1 communicates -4 bytes",
        ),
    ],
)
def test_an_emulation_is_checked_too(changes, said):
    if said is None:
        check_emulation(EMULATED | changes)
        return
    with pytest.raises(ReplayError, match=said):
        check_emulation(EMULATED | changes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not gzip", "is not a plan"),
        (gzip.compress(b"{"), "is not a plan"),
        (gzip.compress(b"[]"), "is not a plan of chakra replay"),
        (gzip.compress(b'{"format": "chakra-replay", "version": 9}'), "this runner knows 1"),
        (gzip.compress(b'{"format": "chakra-replay", "version": 1}'), "is damaged: KeyError"),
    ],
    ids=["not packed", "not JSON", "a list", "another version", "nothing in it"],
)
def test_a_file_that_is_no_plan_is_named(tmp_path, content, said):
    (tmp_path / "plan_0.json.gz").write_bytes(content)
    with pytest.raises(ReplayError, match=f"plan_0.json.gz.*{said}"):
        read_plan(tmp_path / "plan_0.json.gz")


@pytest.mark.parametrize(
    ("change", "said"), [({"device": None}, "device is None, and no str"), ({"rank": True}, "and no int")]
)  # fmt: skip
def test_what_surrounds_the_steps_is_checked_with_them(tmp_path, change, said):
    whole = {"rank": 0, "world": 1, "device": "cpu", "backend": "gloo", "groups": [], "memory": {}}
    plan = {"format": "chakra-replay", "version": 1, "slots": 0, "steps": [], **whole}
    path = tmp_path / "plan_0.json.gz"
    path.write_bytes(gzip.compress(json.dumps(plan).encode()))
    assert read_plan(path) == plan
    path.write_bytes(gzip.compress(json.dumps({**plan, **change}).encode()))
    with pytest.raises(ReplayError, match=said):
        read_plan(path)


def test_a_plan_that_unpacks_beyond_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_ROOM", 1 << 10)
    (tmp_path / "plan.gz").write_bytes(gzip.compress(b" " * (1 << 18)))
    with pytest.raises(ReplayError, match="unpacks to more than"):
        read_plan(tmp_path / "plan.gz")


def test_what_a_plan_s_content_breaks_is_the_plan_s_fault():
    with (
        pytest.raises(ReplayError, match=r"^it cannot be run: KeyError: 'slots'$"),
        blamed("it cannot be run"),
    ):
        {}["slots"]
    with pytest.raises(OSError, match="disk"), blamed("it cannot be run"):
        raise OSError("disk")


def test_memory_that_does_not_fit_is_said_in_gibibytes():
    check_memory(1 << 30, 1 << 30, "this machine")
    with pytest.raises(ReplayError, match=r"2\.0 GiB on this machine"):
        check_memory(2 << 30, 1 << 30, "this machine")


@pytest.mark.parametrize("root", [2, 8, -1])
def test_a_communication_with_somebody_who_is_no_member(root):
    """gloo ends the process over a message to one."""
    step = {"do": "collective", "op": "send", "group": 0, "inputs": [0], "root": root}
    with pytest.raises(ReplayError, match=f"step 0: member {root} of a group of 2"):
        check_plan(made(step))


def test_what_is_refused_is_never_called():
    assert not {f"aten::{name}" for name in REFUSED} & ALLOWED
    assert "opens a file" in REFUSED["from_file"]


def test_the_list_has_the_operators_of_models_and_none_that_writes_into_what_it_is_handed():
    """As recorded: a short list, whose names this PyTorch has."""
    torch = pytest.importorskip("torch")
    assert {"aten::mm", "aten::add.Tensor", "aten::embedding", "aten::convolution"} <= ALLOWED
    assert "aten::linear" in COMPOSITE
    assert len(ALLOWED) < 400
    for listed in ALLOWED:
        name, _, overload = listed.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, name), overload or "default")
        assert not any(a.is_out for a in operator._schema.arguments), listed
