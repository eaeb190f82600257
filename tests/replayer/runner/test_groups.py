"""Process groups of a replay: made in the same order on every rank."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chakrakit.replayer.runner.groups import end_groups, start_groups
from chakrakit.replayer.runner.limits import ReplayError


class Distributed:
    """Notes what is asked of torch.distributed."""

    def __init__(self, available=True):
        self.available, self.asked = available, []
        self.distributed_c10d = SimpleNamespace(_get_default_group=lambda: "world")
        self.joined = False

    def is_available(self):
        return self.available

    def is_backend_available(self, name):
        return name == "gloo"

    def is_initialized(self):
        return self.joined

    def init_process_group(self, backend, **how):
        self.joined = True
        self.asked.append((backend, how["init_method"], how["rank"], how["world_size"]))

    def new_group(self, ranks, timeout):
        self.asked.append((tuple(ranks), timeout.total_seconds()))
        return f"group of {ranks}"

    def destroy_process_group(self):
        self.joined = False


def plan(*groups, world=2, backend="gloo", **more):
    listed = [{"ranks": list(g)} for g in groups]
    return {"groups": listed, "world": world, "rank": 1, "backend": backend, **more}


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setenv("CHAKRA_REPLAY_STORE", "/scratch/store")
    return SimpleNamespace(distributed=Distributed())


def test_the_first_group_of_all_ranks_is_the_world(torch):
    made = start_groups(torch, plan([0, 1], [1], [0, 1]), 30)
    assert made == ["world", "group of [1]", "group of [0, 1]"]
    assert torch.distributed.asked == [
        ("gloo", "file:///scratch/store", 1, 2),
        ((1,), 30),
        ((0, 1), 30),
    ]
    end_groups(torch)
    assert not torch.distributed.joined


def test_one_rank_that_talks_to_nobody_joins_nothing(torch):
    alone = plan([0], world=1, steps=[{"do": "call", "op": "aten::add"}])
    assert start_groups(torch, alone, 30) == []
    assert torch.distributed.asked == []
    end_groups(torch)


@pytest.mark.parametrize(
    "talks",
    [
        {"steps": [{"do": "collective"}]},
        {"steps": [{"do": "call", "op": "_c10d_functional::all_reduce"}]},
        {"communication": {"1": {}}},
    ],
)
def test_one_rank_that_talks_to_itself_joins(torch, talks):
    assert start_groups(torch, plan([0], world=1, **talks), 30) == ["world"]


def test_what_this_pytorch_does_not_have_is_said(torch):
    with pytest.raises(ReplayError, match="there is no backend 'mpi' here; use --backend"):
        start_groups(torch, plan([0, 1], backend="mpi"), 30)
    torch.distributed.available = False
    with pytest.raises(ReplayError, match=r"built without torch\.distributed"):
        start_groups(torch, plan([0, 1]), 30)
