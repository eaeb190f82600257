"""Sizes that PyTorch takes on trust."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from support.replayed import examined

torch = pytest.importorskip("torch")


def f(*shape):
    return torch.zeros(shape)


def i(*values):
    return torch.tensor(values)


BAD = {
    "layer norm, a mean too few": (
        torch.ops.aten.native_layer_norm_backward.default,
        (f(4, 8), f(4, 8), [8], f(1, 1), f(4, 1), None, None, [True, False, False]),
    ),
    "group norm, sizes beside the tensor": (
        torch.ops.aten.native_group_norm.default,
        (f(1, 4, 2, 2), None, None, 1, 4, 1 << 20, 2, 1e-5),
    ),
    "embedding's gradient of other rows": (
        torch.ops.aten.embedding_dense_backward.default,
        (f(2, 8), torch.zeros(1000, dtype=torch.long), 10, -1, False),
    ),
    "bags that are neither summed nor averaged": (
        torch.ops.aten._embedding_bag_forward_only.default,
        (f(8, 4), i(1, 2), i(0), False, 9),
    ),
    "a view of more elements than memory could hold": (
        torch.ops.aten.sum.default,
        (torch.zeros(1).expand(1 << 40),),
    ),
    "nothing to count": (torch.ops.aten.bincount.default, (None,)),
    "lists of different lengths": (torch.ops.aten._foreach_add_.List, ([f(4), f(4)], [f(4)])),
    "lists of different shapes": (torch.ops.aten._foreach_mul_.List, ([f(4)], [f(400)])),
    "an empty list": (torch.ops.aten._foreach_copy_.default, ([], [f(4)])),
    "a convolution's weight of other channels": (
        torch.ops.aten.convolution.default,
        (f(1, 3, 8, 8), f(4, 5, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ),
    "a convolution's gradient of another shape": (
        torch.ops.aten.convolution_backward.default,
        (
            f(1, 4, 60, 60),
            f(1, 3, 8, 8),
            f(4, 3, 3, 3),
            [4],
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
            [True, True, True],
        ),
    ),
    "attention's sums of other queries": (
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
        (f(1, 2, 64, 8), *[f(1, 2, 64, 8)] * 3, f(1, 2, 64, 8), f(1, 2, 1), 0.0, False),
    ),
    "a pooled gradient of other windows": (
        torch.ops.aten.max_pool2d_with_indices_backward.default,
        (
            f(1, 1, 64, 64),
            f(1, 1, 4, 4),
            [2, 2],
            [2, 2],
            [0, 0],
            [1, 1],
            False,
            torch.zeros(1, 1, 64, 64, dtype=torch.long),
        ),
    ),
    "a spectrum of another length": (
        torch.ops.aten._fft_c2r.default,
        (torch.zeros(4, dtype=torch.complex64), [0], 0, 1 << 20),
    ),
    "a transform along a dimension that is not there": (
        torch.ops.aten._fft_r2c.default,
        (f(4), [3], 0, True),
    ),
    "weights of other classes": (
        torch.ops.aten.nll_loss_forward.default,
        (f(4, 10), torch.zeros(4, dtype=torch.long), f(2), 1, -100),
    ),
    "unscaling by a list": (
        torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default,
        ([f(4)], f(0), f(1)),
    ),
    "a number of nothing": (torch.ops.aten._local_scalar_dense.default, (f(0),)),
}


@pytest.mark.parametrize("case", BAD)
def test_arguments_that_do_not_fit_together(case):
    with pytest.raises(Refused):
        examined(*BAD[case])
