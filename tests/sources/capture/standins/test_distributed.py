"""torch.distributed without peers."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from chakrakit.sources.capture.recording import CreatedGroup
from chakrakit.sources.capture.standins import Distributed, Mail


@pytest.fixture
def job(patches, recorder, fake):
    """Makes one rank of four."""

    def make(rank=0, mail=None):
        made = Distributed(patches, rank, 4, recorder, Mail(mail or {}))
        made.install()
        return made

    yield make
    if dist.is_initialized():
        dist.destroy_process_group()


def test_groups_are_listed_in_the_order_all_ranks_make_them(job):
    made = job(rank=1)
    dist.init_process_group("nccl")
    dist.init_process_group("nccl")  # a script may say it twice
    dist.new_group([0, 2], group_desc="odd ones")
    mesh = dist.init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    assert (dist.get_rank(), dist.get_world_size()) == (1, 4)
    assert [(g.ranks, g.label) for g in made.groups[:2]] == [
        ((0, 1, 2, 3), "world"),
        ((0, 2), "odd ones"),
    ]
    assert made.groups[1].name == ""  # of which rank 1 is no member
    assert CreatedGroup(mesh.get_group("tp").group_name, (0, 1), "tp") in made.groups
    assert list(mesh.get_coordinate()) == [0, 1]


def test_a_wait_completes_the_collective_it_belongs_to(job, recorder):
    job()
    dist.init_process_group("gloo")
    with recorder:
        first = dist.all_reduce(torch.empty(4), async_op=True)
        second = dist.all_reduce(torch.empty(8), async_op=True)
        first.wait()
        first.wait()  # there is nothing left to wait for
        second.wait()
    names = [recorder.signatures.listed[op.signature].name for op in recorder.ops]
    waits = [op.waits_for for op, n in zip(recorder.ops, names, strict=True) if n == "c10d::wait"]
    assert waits == [i for i, n in enumerate(names) if n == "c10d::allreduce_"]
    assert [c.in_bytes for c in recorder.comms] == [16, 32]
    assert second.is_completed()


def test_objects_of_rank_0_reach_those_captured_later(job):
    first = job(rank=0)
    dist.broadcast_object_list([{"seed": 7}], src=0)
    later = job(rank=2, mail=first.mail.sent)
    received = [None]
    dist.broadcast_object_list(received, src=0)
    assert received == [{"seed": 7}]
    assert later.patches.stubbed


def test_every_rank_is_taken_to_say_what_this_one_does(job):
    job(rank=1)
    gathered = [None] * 4
    dist.all_gather_object(gathered, {"loss": 1})
    assert gathered == [{"loss": 1}] * 4
    assert gathered[0] is not gathered[1]


@pytest.mark.slow
def test_each_rank_gets_its_own_part_of_what_rank_0_scattered(job):
    first = job(rank=0)
    dist.scatter_object_list([None], ["a", "b", "c", "d"])
    out = [None]
    job(rank=2, mail=first.mail.sent)
    dist.scatter_object_list(out, None)
    assert out == ["c"]
