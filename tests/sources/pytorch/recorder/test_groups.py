"""Process groups, and marks that say in which one a collective runs."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from chakrakit.sources.pytorch.recorder import (
    GROUP_MARK,
    REDUCE_MARK,
    mark_groups,
    rank,
    world_size,
)
from chakrakit.sources.pytorch.recorder.groups import ddp_groups, group_name, process_groups

torch = pytest.importorskip("torch")
dist = torch.distributed


def test_groups_are_marked_around_collectives_and_unmarked_again():
    before = dist.all_reduce
    restore = mark_groups()
    assert dist.all_reduce is not before
    restore()
    assert dist.all_reduce is before


@pytest.fixture
def alone():
    """A job of one rank whose collectives do nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("said", "found"), [({}, (0, 1)), ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8))]
)
def test_before_groups_are_set_up_the_environment_tells_the_rank(monkeypatch, said, found):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert (rank(), world_size()) == found
    assert (process_groups(), ddp_groups()) == ([], [])


def test_groups_and_their_ranks_are_those_of_the_job(alone):
    assert (rank(), world_size()) == (0, 4)
    pair = dist.new_group([0, 2])
    found = {g["pg_name"]: g["ranks"] for g in process_groups()}
    assert found == {group_name(None): [0, 1, 2, 3], group_name(pair): [0, 2]}


def test_a_collective_runs_inside_marks_of_its_group_and_its_reduction(alone, monkeypatch):
    marks = []

    @contextmanager
    def record_function(name):
        marks.append(name)
        yield

    monkeypatch.setattr(torch.autograd.profiler, "record_function", record_function)
    restore = mark_groups()
    pair = dist.new_group([0, 2])
    dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MAX)
    dist.broadcast(torch.ones(1), 0, group=pair)
    restore()
    assert marks == [
        GROUP_MARK + group_name(None),
        REDUCE_MARK + "max",
        GROUP_MARK + group_name(pair),
    ]
