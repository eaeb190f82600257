"""Every operator that PyTorch dispatches, written down."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from chakrakit.sources.capture.observing import (
    KnownValues,
    RealValues,
    Recorder,
    Storages,
    Whereabouts,
)
from chakrakit.sources.capture.recording import NeedsValue, Patches


@pytest.fixture
def recorder():
    made = Recorder(Whereabouts(), Storages(), KnownValues(Patches()), RealValues(Patches()))
    made.recording = True
    with FakeTensorMode(allow_non_fake_inputs=True), made:
        yield made


def names(recorder):
    return [recorder.signatures.listed[op.signature].name for op in recorder.ops]


def test_what_is_handed_over_for_a_result_is_written(recorder):
    """Also by name, as FSDP2 hands over the parameters that it copies what it gathered into."""
    a, b = torch.empty(4, 4), torch.empty(4, 4)
    torch.mm(a, a, out=b)
    assert recorder.ops[-1].writes == [1]
    torch.split_with_sizes_copy(a, [2, 2], out=[torch.empty(2, 4), torch.empty(2, 4)])
    assert recorder.ops[-1].writes == [2, 3]


def test_what_fsdp_copies_in_is_written_before_it_is_gathered(recorder):
    import torch.distributed.fsdp

    shard, whole = torch.empty(4), torch.empty(8)
    torch.ops.fsdp.all_gather_copy_in([shard], whole, [4], 4, 0)
    assert recorder.ops[-1].writes == [1]


def test_operators_read_and_write_storages(recorder):
    a = torch.empty(2, 3)
    b = a.t()
    c = a @ b
    c.add_(1)
    assert names(recorder) == ["aten::empty", "aten::t", "aten::mm", "aten::add_"]
    empty, view, product, add = recorder.ops
    assert (empty.writes, view.reads, view.writes) == ([0], [0], [])
    assert (product.reads, product.writes) == ([0, 0], [1])
    assert (add.reads, add.writes) == ([1], [1])


def test_memory_is_taken_by_who_makes_it_and_given_back_by_who_was_last(recorder):
    a = torch.empty(256)
    b = a.neg()
    del b
    a.exp()
    assert [op.alloc for op in recorder.ops] == [1024, 1024, 1024]
    assert [op.free for op in recorder.ops][1] == 1024


def test_nothing_is_written_down_while_not_recording(recorder):
    recorder.recording = False
    a = torch.empty(256)
    recorder.recording = True
    a.neg()
    assert names(recorder) == ["aten::neg"]
    assert recorder.storages.live >= 1024


def test_a_result_that_depends_on_data_is_refused_with_the_operator(recorder):
    from_device = torch.empty(4)
    recorder.real_values.give(from_device, None)
    with pytest.raises(
        NeedsValue, match="aten::nonzero makes a result whose size or value depends"
    ):
        from_device.nonzero()


def test_counts_have_the_size_that_is_asked_for(recorder):
    assert torch.empty(8, dtype=torch.int64).bincount(minlength=4).shape == (4,)


def test_a_wait_names_what_it_completes(recorder):
    torch.empty(4).neg()
    recorder.wait(1, "c10d::wait")
    recorder.wait(99, "c10d::wait")  # nothing that was recorded
    assert names(recorder)[-1] == "c10d::wait"
    assert (recorder.ops[-1].waits_for, recorder.ops[-1].reads) == (1, recorder.ops[1].writes)


def test_an_operator_that_is_not_run_is_recorded_with_what_it_would_give(recorder):
    x = torch.empty(2, 3)
    made = recorder.as_one(torch.ops.aten.neg.default, (x,), lambda: x)
    assert made is x
    assert names(recorder)[-1] == "aten::neg"
