"""Shards made one by one."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_common

from chakrakit.sources.capture.standins import sharding
from chakrakit.sources.capture.standins.sharding import Chunks


@pytest.mark.parametrize("size", [0, 1, 3, 8, 10])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_pieces_are_those_of_fsdp_itself(size, count):
    """Which cuts as `torch.chunk` does and fills up with empty pieces."""
    tensor = torch.arange(2 * size).reshape(size, 2)
    wanted = _fsdp_common._chunk_with_empty(tensor, count, 0)
    made = Chunks(tensor, count)
    assert len(made) == len(wanted)
    for index in (*range(count), -1):
        assert made[index].numel() == wanted[index].numel()
        assert made[index].flatten().tolist() == wanted[index].flatten().tolist()


def test_a_piece_past_the_last_is_refused():
    with pytest.raises(IndexError):
        Chunks(torch.ones(4), 2)[2]


def test_fsdp_is_given_pieces_that_are_made_when_asked_for(patches):
    plain = _fsdp_common._chunk_with_empty
    sharding.install(patches)
    made = _fsdp_common._chunk_with_empty(torch.ones(6, 4), 3, dim=1)
    assert (type(made), made[1].shape, made[2].shape) == (Chunks, (6, 2), (0,))
    patches.undo()
    assert _fsdp_common._chunk_with_empty is plain
