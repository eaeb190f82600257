"""Synchronised normalisation on the host."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.standins import batch_norm


@pytest.mark.parametrize(
    ("kind", "kept"), [(torch.float16, torch.float32), (torch.float64, torch.float64)]
)
def test_statistics_are_one_value_per_channel_in_single_precision_at_least(patches, kind, kept):
    batch_norm.install(patches)
    x = torch.empty(4, 6, 5, dtype=kind, device="meta")
    mean, deviation = torch.batch_norm_stats(x, 1e-5)
    assert mean.shape == deviation.shape == (6,)
    assert mean.dtype is deviation.dtype is kept


def test_gradients_are_made_where_they_are_wanted(patches):
    batch_norm.install(patches)
    x, one = torch.empty(4, 6, device="meta"), torch.empty(6, device="meta")
    made = torch.batch_norm_backward_reduce(x, x, one, one, one, True, True, False)
    assert [None if t is None else tuple(t.shape) for t in made[:3]] == [(6,), (6,), (6,)]


def test_outside_its_forward_nothing_is_pretended(patches):
    batch_norm.install(patches)
    name = torch._C._get_privateuse1_backend_name
    with batch_norm._admitted():
        asked = eval(
            compile(
                "torch._C._get_privateuse1_backend_name()", "torch/nn/modules/batchnorm.py", "eval"
            )
        )
        assert (asked, torch._C._get_privateuse1_backend_name()) == ("cpu", name())
        assert torch.cuda.is_current_stream_capturing()
    assert torch._C._get_privateuse1_backend_name is name
