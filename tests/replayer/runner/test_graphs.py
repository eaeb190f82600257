"""What of a plan becomes one graph, and what waits where around it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest

from chakrakit.replayer.runner.graphs import awaited_after, awaited_before, captured, stretches

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
