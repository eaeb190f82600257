"""Lists of sharded tensors taken apart element by element."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from chakrakit.sources.capture.observing.recorder import fits, run

ADD, ADD_IN_PLACE = torch.ops.aten._foreach_add.List, torch.ops.aten._foreach_add_.List


@pytest.fixture
def sharded():
    """Makes a tensor of ones cut over two ranks, of which this is the first."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    mesh = torch.distributed.init_device_mesh("cpu", (2,))

    def make(placement=Shard(0)):  # noqa: B008 - immutable
        return DTensor.from_local(torch.ones(2, 3), mesh, [placement], run_check=False)

    yield make
    torch.distributed.destroy_process_group()


def test_only_operators_that_work_element_by_element_fit(sharded):
    lists = [sharded()], [sharded()]
    assert fits(ADD, lists)
    assert not fits(torch.ops.aten._foreach_norm.Scalar, lists)
    assert not fits(torch.ops.aten.add.Tensor, (sharded(), sharded()))


def test_lists_must_be_cut_the_same_way(sharded):
    assert not fits(ADD, ([sharded()], [sharded(Replicate())]))
    assert not fits(ADD, ([torch.ones(2)], [sharded()]))
    assert fits(ADD, ([sharded()], [torch.ones(2, 3)]))


def test_results_are_cut_as_the_first_list_is(sharded):
    (made,) = run(ADD, ([sharded()], [torch.ones(2, 3)]), {})
    assert isinstance(made, DTensor)
    assert (made.placements, tuple(made.shape)) == ((Shard(0),), (4, 3))
    assert made.to_local().eq(2).all()


def test_in_place_forms_give_back_what_they_were_given(sharded):
    given = [sharded()]
    run(ADD_IN_PLACE, (given, [torch.ones(2, 3)]), {})
    assert given[0].to_local().eq(2).all()
