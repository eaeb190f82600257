"""Who holds memory, from when to when, and how much there is at most."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.observing import Storages
from chakrakit.sources.capture.observing.storages import rounded
from chakrakit.sources.capture.recording import NeedsValue


def kibibytes(count):
    return torch.empty(count * 256)


@pytest.mark.parametrize(("size", "held"), [(0, 0), (1, 512), (512, 512), (513, 1024)])
def test_requests_are_rounded_as_the_caching_allocator_does(size, held):
    assert rounded(size) == held


def test_memory_is_held_until_the_storage_dies():
    storages = Storages()
    a, b = kibibytes(1), kibibytes(2)
    assert [storages.number(t) for t in (a, b, a, b[:5])] == [0, 1, 0, 1]
    assert (storages.live, storages.peak) == (3 << 10, 3 << 10)
    del a
    assert (storages.live, storages.freed, storages.peak) == (2 << 10, 1 << 10, 3 << 10)
    storages.restart()
    assert (storages.peak, storages.freed) == (2 << 10, 0)


def test_once_the_script_has_a_device_only_what_is_marked_counts():
    storages = Storages()
    host, device = kibibytes(1), kibibytes(2)
    storages.number(host)
    storages.only_device()
    number = storages.number(device)
    assert (storages.live, storages.on_device(number), storages.size(number)) == (0, False, 0)
    storages.mark(number)
    storages.mark(number)
    assert (storages.live, storages.on_device(number), storages.size(number)) == (2048, True, 2048)
    del host
    assert storages.freed == 0


def test_a_storage_that_is_resized_in_place_is_counted_anew():
    storages, tensor = Storages(), kibibytes(4)
    storages.number(tensor)
    tensor.untyped_storage().resize_(1024)
    storages.resized(tensor)
    assert (storages.live, storages.freed, storages.peak) == (1024, 3072, 4096)


def test_a_storage_is_seen_once_it_has_a_number():
    storages, tensor = Storages(), kibibytes(1)
    assert not storages.has_number(tensor)
    storages.number(tensor)
    assert storages.has_number(tensor.view(16, 16))


def test_a_sparse_tensor_is_refused_with_a_cure():
    with pytest.raises(NeedsValue, match=r"layout sparse_coo has a size.*sparse=False"):
        Storages().number(torch.eye(2).to_sparse())
