"""Which dispatched operators communicate, and what they say."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.observing import tensors
from chakrakit.sources.capture.observing.communication import read
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.model import CollectiveType as C

SMALL, LARGE = torch.zeros(2, 3), torch.zeros(8, 3)  # 24 and 96 bytes
GROUP = object()


@pytest.mark.parametrize(
    ("name", "args", "out", "said"),
    [
        ("c10d::allreduce_", ([SMALL, LARGE], GROUP), None, (C.ALL_REDUCE, 120, 120)),
        ("c10d::_allgather_base_", (LARGE, SMALL, GROUP), None, (C.ALL_GATHER, 24, 96)),
        (
            "_c10d_functional::reduce_scatter_tensor",
            (LARGE, "sum", 4, "0"),
            SMALL,
            (C.REDUCE_SCATTER, 96, 24),
        ),
        ("_dtensor::shard_dim_alltoall", (LARGE, 0, 1, "0"), LARGE, (C.ALL_TO_ALL, 96, 96)),
    ],
)
def test_bytes_that_go_in_and_come_out(name, args, out, said):
    found = read(name, args, {}, out)
    assert (found.kind, found.in_bytes, found.out_bytes) == said
    assert found.dtype == "float32"


def test_functional_collectives_name_their_group_last():
    assert read("_c10d_functional::all_reduce", (SMALL, "sum", "7"), {}, SMALL).group == "7"


def test_a_message_names_its_peer_and_tag_and_a_rooted_collective_its_root():
    sent = read("c10d::send", ([SMALL], GROUP, 3, 9), {}, None)
    assert (sent.kind, sent.peer, sent.tag) == (words.SEND, 3, 9)
    assert read("c10d::broadcast_", ([SMALL], GROUP, 2, 0), {}, None).peer == 2
    assert read("c10d::allreduce_", ([SMALL], GROUP, 2), {}, None).peer == -1


def test_splits_of_an_all_to_all():
    args = (LARGE, LARGE, GROUP, [3, 5], [4, 4])
    found = read("c10d::alltoall_base_", args, {}, None)
    assert (found.out_splits, found.in_splits) == ([3, 5], [4, 4])


def test_every_rank_says_the_same_of_a_gather_of_unequal_tensors():
    """Two and eight rows of 12 bytes: shares of five rows."""
    for own in (SMALL, LARGE):
        found = read("c10d::allgather_", ([[SMALL, LARGE]], [own], GROUP), {}, None)
        assert (found.kind, found.in_bytes, found.out_bytes) == (C.ALL_GATHER, 60, 120)
    found = read("c10d::allgather_", ([[SMALL, SMALL]], [SMALL], GROUP), {}, None)
    assert (found.in_bytes, found.out_bytes) == (24, 48)


def test_lists_of_unequal_tensors_are_the_splits_of_an_all_to_all():
    found = read("c10d::alltoall_", ([SMALL, LARGE], [SMALL, SMALL], GROUP), {}, None)
    assert (found.out_splits, found.in_splits) == ([6, 24], [6, 6])
    found = read("c10d::alltoall_", ([SMALL, SMALL], [SMALL, SMALL], GROUP), {}, None)
    assert (found.out_splits, found.in_splits) == ([], [])


@pytest.mark.parametrize(
    "name", ["_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd", "c10d::x"]
)
def test_what_waits_or_wraps_does_not_communicate(name):
    assert read(name, (SMALL,), {}, SMALL) is None


def test_tensors_of_a_nest():
    found = tensors([SMALL, (LARGE, 3), {"a": [SMALL]}, None])
    assert [t.numel() for t in found] == [6, 24, 6]
