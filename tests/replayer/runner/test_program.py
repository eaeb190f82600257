"""The runner on plans of one rank, in this process, and steps that were a graph of the device."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest

from chakrakit.replayer.runner.program import awaited_after, awaited_before, captured, stretches
from support.recorded import ADD, Sheet, plain, tensor
from support.replayed import ONE, plan_text, small_model

torch = pytest.importorskip("torch")
from chakrakit.replayer.runner.guard import memory_budget  # noqa: E402
from chakrakit.replayer.runner.program import PlanProgram  # noqa: E402
from chakrakit.replayer.runner.storages import make_externals  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def checked(plan):
    with torch.inference_mode():
        program = PlanProgram(torch, plan, "cpu", [], memory_budget(torch, "cpu", 1))
        make_externals(torch, plan, program.slots, "cpu", program.guard)
        program.check()
    return program


def test_nothing_of_a_step_is_left_but_what_was_there_before(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    program = checked(plan)
    program.run()
    kept = {v[0] for e in plan["externals"] for v in e["views"]}
    assert {i for i, t in enumerate(program.slots) if t is not None} == kept


def test_indices_are_within_range_and_not_all_the_same(tmp_path):
    plan = plan_text(small_model(), tmp_path)
    program = checked(plan)
    (slot,) = (e["views"][0][0] for e in plan["externals"] if e["dtype"] == "int64")
    values = program.slots[slot]
    assert 0 <= int(values.min()) < int(values.max()) < 50


def test_in_place_results_lie_in_the_same_storage(tmp_path):
    sheet = Sheet()
    schema = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    sheet.op("aten::add_", schema, [tensor(1, 4), tensor(2, 4), ONE], [tensor(1, 4)])
    program = checked(plan_text(sheet, tmp_path))
    before = program.slots[0].clone()
    with torch.inference_mode():
        program.run()
    assert torch.allclose(program.slots[0], before + program.slots[1])


@pytest.mark.parametrize(
    ("right", "out", "why"),
    [
        (tensor(2, 3), tensor(3, 4), "expected shape"),  # PyTorch refuses
        (tensor(2, 4), tensor(3, 2, 2), "gives shape [4] and not [2, 2]"),
    ],
)
def test_what_cannot_be_done_as_recorded_is_replaced_and_counted(tmp_path, right, out, why):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), right, ONE], [out])
    sheet.op("aten::add", ADD, [out, out, ONE], [tensor(4, *out["shape"])])
    program = checked(plan_text(sheet, tmp_path))
    (replaced,) = program.not_covered
    assert replaced["name"] == "aten::add"
    assert why in replaced["why"]
    program.run()


def test_an_overload_that_no_recording_has_is_replaced(tmp_path):
    sheet = Sheet()
    given = [tensor(1, 4), tensor(1, 4), ONE]
    sheet.op("aten::add", ADD, given, [tensor(2, 4)])
    sheet.op("aten::add", ADD.replace("add.Tensor", "add.Unheard"), given, [tensor(3, 4)])
    plan = plan_text(sheet, tmp_path)
    assert [s["do"] for s in plan["steps"]] == ["call", "stand_in"]
    checked(plan)


def test_the_short_way_is_taken_only_to_the_same_operator(tmp_path):
    """`Tensor.div` with a number is `div.Tensor` to the dispatcher, and here `div.Scalar` was recorded."""
    sheet = Sheet()
    schema = "aten::div.Scalar(Tensor self, Scalar other) -> Tensor"
    sheet.op("aten::div", schema, [tensor(1, 4), plain(2, "Int")], [tensor(2, 4)])
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(3, 4)])
    program = checked(plan_text(sheet, tmp_path))
    with torch.inference_mode():
        from torch.utils._python_dispatch import TorchDispatchMode

        seen = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        with Watch():
            program.run()
    assert seen == ["aten.div.Scalar", "aten.add.Tensor"]


STEPS: list[dict[str, Any]] = [
    {},
    {"graph": 1, "after": [0]},
    {"graph": 1, "stream": 2, "after": [1]},
    {"graph": 2},
    {"stream": 1, "after": [0, 2]},
]


def test_consecutive_steps_of_one_graph_belong_together() -> None:
    assert stretches(STEPS) == [range(1, 3), range(3, 4)]
    assert stretches([{}, {}]) == []


def test_the_launch_waits_for_steps_outside_and_others_wait_for_the_whole_graph() -> None:
    assert awaited_before(STEPS, range(1, 3)) == [0]
    assert awaited_after(STEPS, range(1, 3)) == [2]
    assert awaited_after(STEPS, range(3, 4)) == []


class Cuda:
    """Notes what is asked of a device."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.names = ["capture"]
        self.CUDAGraph = object
        self.Stream = lambda device: _Stream(self, "beside")
        self.Event = lambda: _Event(self)

    def synchronize(self) -> None:
        self.said.append("synchronize")

    def current_stream(self) -> _Stream:
        return _Stream(self, self.names[-1])

    @contextmanager
    def graph(self, graph: object) -> Any:
        self.said.append("begin")
        yield
        self.said.append("end")

    @contextmanager
    def stream(self, stream: _Stream | None) -> Any:
        self.names.append(stream.name if stream else self.names[-1])
        yield
        self.names.pop()


class _Stream:
    def __init__(self, cuda: Cuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def wait_stream(self, other: _Stream) -> None:
        self.cuda.said.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event: _Event) -> None:
        self.cuda.said.append(f"{self.name} waits for an event")


class _Event:
    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda

    def record(self) -> None:
        self.cuda.said.append(f"event on {self.cuda.names[-1]}")


def test_streams_fork_from_the_first_and_join_it_and_no_event_crosses_the_border() -> None:
    cuda = Cuda()
    torch = type("Torch", (), {"cuda": cuda})
    do = {i: lambda i=i: cuda.said.append(f"step {i} on {cuda.names[-1]}") for i in (1, 2)}

    captured(torch, "cuda", STEPS, range(1, 3), do)

    assert cuda.said == [
        "synchronize",
        "begin",
        "beside waits for capture",
        "step 1 on capture",
        "event on capture",
        "beside waits for an event",
        "step 2 on beside",
        "capture waits for beside",
        "end",
    ]


@pytest.mark.parametrize("inside", [range(1, 3), range(3, 4)])
def test_every_step_of_the_graph_runs_once(inside: range) -> None:
    done: list[int] = []
    do = {i: lambda i=i: done.append(i) for i in inside}

    captured(type("Torch", (), {"cuda": Cuda()}), "cuda", STEPS, inside, do)

    assert done == list(inside)
