"""DistributedDataParallel in Python: the same buckets, reduced in the same order."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from chakrakit.sources.capture.standins import data_parallel
from chakrakit.sources.capture.standins.data_parallel import (
    DistributedDataParallel,
    GradBucket,
    buckets_of,
)


def floats(*counts, kind=torch.float32):
    return [torch.empty(n, dtype=kind) for n in counts]


@pytest.mark.parametrize(
    ("counts", "limits", "buckets"),
    [
        ((1, 1, 1), [1 << 40], [[0, 1, 2]]),
        ((1, 1, 1, 1), [8], [[0, 1], [2, 3]]),
        ((1, 5, 1), [8], [[0, 1], [2]]),  # a bucket may go past its limit
        ((1, 2, 2, 2), [4, 12], [[0], [1, 2], [3]]),  # the first has a limit of its own
    ],
)
def test_buckets_grow_until_their_limit(counts, limits, buckets):
    assert buckets_of(floats(*counts), limits, in_order=True) == buckets


def test_each_type_has_buckets_of_its_own():
    """The singles fill a bucket later than the doubles that came between them."""
    mixed = [*floats(1), *floats(2, kind=torch.float64), *floats(3)]
    assert buckets_of(mixed, [16], in_order=True) == [[1], [0, 2]]
    assert buckets_of(mixed, [16], in_order=False) == [[0, 2], [1]]


@pytest.mark.parametrize("seed", range(5))
def test_buckets_are_those_of_pytorch_itself(seed):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 40, (20,), generator=generator).tolist()
    tensors, limits = floats(*counts), [64, 200]
    wanted, _ = dist._compute_bucket_assignment_by_size(tensors, limits, [False] * len(tensors))
    assert buckets_of(tensors, limits, in_order=False) == wanted


@pytest.fixture
def world():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    dist.destroy_process_group()


def test_gradients_are_averaged_before_they_are_summed(world):
    """The fake group sums nothing, so that what comes back is this rank's share."""
    model = torch.nn.Linear(2, 1, bias=False)
    wrapped = DistributedDataParallel(model)
    wrapped(torch.tensor([[4.0, 8.0]])).sum().backward()
    assert model.weight.grad.tolist() == [[1.0, 2.0]]


def test_a_model_without_anything_to_train_is_refused_as_pytorch_does(world):
    model = torch.nn.Linear(2, 1).requires_grad_(False)
    with pytest.raises(RuntimeError, match="doesn't have any parameters that require a gradient"):
        DistributedDataParallel(model)


def test_nothing_is_reduced_without_synchronisation(world):
    model = torch.nn.Linear(2, 1, bias=False)
    wrapped = DistributedDataParallel(model)
    with wrapped.no_sync():
        wrapped(torch.tensor([[4.0, 8.0]])).sum().backward()
    assert model.weight.grad.tolist() == [[4.0, 8.0]]


def test_a_hook_is_given_every_bucket(world):
    seen = []

    def hook(state, bucket: GradBucket):
        seen.append((state, bucket.index(), bucket.is_last(), bucket.buffer().numel()))
        future = torch.futures.Future()
        future.set_result(bucket.buffer() * 10)
        return future

    model = torch.nn.Linear(2, 1, bias=False)
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook("mine", hook)
    wrapped(torch.tensor([[4.0, 8.0]])).sum().backward()
    assert seen == [("mine", 0, True, 2)]
    assert model.weight.grad.tolist() == [[40.0, 80.0]]


def test_whoever_asks_for_pytorch_s_class_gets_the_stand_in(patches):
    plain = torch.nn.parallel.DistributedDataParallel
    data_parallel.install(patches)
    assert torch.nn.parallel.DistributedDataParallel is DistributedDataParallel
    assert issubclass(DistributedDataParallel, plain)
    patches.undo()
    assert torch.nn.parallel.DistributedDataParallel is plain
