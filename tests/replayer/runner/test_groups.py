"""Process groups of a replay: made in the same order on every rank."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.groups import end_groups, start_groups
from chakrakit.replayer.runner.limits import ReplayError


class Distributed:
    """Notes what is asked of it."""

    def __init__(self, available=True, backends=("gloo",)):
        self.available, self.backends, self.asked, self.joined = available, backends, [], False
        self.distributed_c10d = self

    def is_available(self):
        return self.available

    def is_backend_available(self, name):
        return name in self.backends

    def is_initialized(self):
        return self.joined

    def init_process_group(self, backend, init_method, rank, world_size, timeout):
        self.joined = True
        self.asked.append((backend, init_method, rank, world_size, timeout.total_seconds()))

    def destroy_process_group(self):
        self.joined = False

    def _get_default_group(self):
        return "world"

    def new_group(self, ranks, timeout):
        return ranks


class Torch:
    def __init__(self, **more):
        self.distributed = Distributed(**more)


def plan(*groups, world=2, steps=(), backend="gloo"):
    made = [{"name": str(i), "ranks": list(ranks)} for i, ranks in enumerate(groups)]
    return {"groups": made, "world": world, "rank": 0, "backend": backend, "steps": list(steps)}


def test_the_first_group_of_everybody_is_the_world(monkeypatch):
    monkeypatch.setenv("CHAKRA_REPLAY_STORE", "/x/store")
    torch = Torch()
    assert start_groups(torch, plan([0, 1], [1], [0, 1]), 60) == ["world", [1], [0, 1]]
    assert torch.distributed.asked == [("gloo", "file:///x/store", 0, 2, 60)]
    end_groups(torch)
    assert not torch.distributed.joined


def test_under_torchrun_ranks_meet_as_it_says(monkeypatch):
    monkeypatch.delenv("CHAKRA_REPLAY_STORE", raising=False)
    torch = Torch()
    start_groups(torch, plan([0, 1]), 5)
    assert torch.distributed.asked[0][1] == "env://"


def test_one_rank_joins_only_where_it_talks_to_itself():
    torch = Torch()
    assert start_groups(torch, plan([0], world=1), 60) == []
    assert start_groups(torch, plan(world=2), 60) == []
    talks = plan([0], world=1, steps=[{"do": "collective"}])
    assert start_groups(torch, talks, 60) == ["world"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"available": False}, "built without torch.distributed"),
        ({"backends": ()}, "no backend 'gloo' here; use --backend gloo or nccl"),
    ],
)
def test_a_pytorch_that_cannot_communicate_says_so(given, said):
    with pytest.raises(ReplayError, match=said):
        start_groups(Torch(**given), plan([0, 1]), 60)
