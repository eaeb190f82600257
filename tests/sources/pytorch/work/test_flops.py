"""Work from shapes, checked against sums that can be done in the head."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.work.flops import Call, flops, moves_bytes


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "values", "expected"),
    [
        ("aten::mm", [[2, 3], [3, 4]], [[2, 4]], [], 2 * 2 * 3 * 4),
        ("aten::bmm", [[5, 2, 3], [5, 3, 4]], [[5, 2, 4]], [], 5 * 48),
        (
            "aten::mkldnn_convolution",
            [[4, 3, 32, 32], [16, 3, 3, 3]],
            [[4, 16, 32, 32]],
            ["x", "w", None, [1, 1], [1, 1], [1, 1], 1],
            2 * 4 * 16 * 32 * 32 * 27,
        ),
        ("aten::addmm", [[4], [2, 3], [3, 4]], [[2, 4]], [], 48),
        ("aten::linear", [[7, 2, 3], [4, 3], [4]], [[7, 2, 4]], [], 7 * 48),
        (
            "aten::cudnn_convolution",
            [[1, 3, 8, 8], [16, 3, 3, 3]],
            [[1, 16, 6, 6]],
            [],
            2 * 16 * 36 * 27,
        ),
        (
            "aten::convolution_backward",
            [[1, 16, 6, 6], [1, 3, 8, 8], [16, 3, 3, 3]],
            [],
            [[True, True, False]],
            2 * 2 * 16 * 36 * 27,
        ),
        (
            "aten::convolution_backward",
            [[1, 16, 6, 6], [1, 3, 8, 8], [16, 3, 3, 3]],
            [],
            [[False, True, False]],
            2 * 16 * 36 * 27,
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            [[1, 2, 16, 8], [1, 2, 16, 8], [1, 2, 16, 8]],
            [],
            [0, 0, 0, 0.0, False],
            2 * 2 * 1 * 2 * 16 * 16 * 8,
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            [[1, 2, 16, 8], [1, 2, 16, 8], [1, 2, 16, 8]],
            [],
            [0, 0, 0, 0.0, True],
            2 * 2 * 16 * 16 * 8,
        ),
        # Not causal, though it is asked for the sums of exponentials.
        (
            "aten::_scaled_dot_product_cudnn_attention",
            [[1, 4, 16, 8], [1, 2, 16, 8], [1, 2, 16, 8]],
            [],
            [0, 0, 0, None, True, 0.0, False, False],
            2 * 2 * 4 * 16 * 16 * 8,
        ),
        (
            "aten::_cudnn_attention_forward",
            [[1, 4, 16, 8], [1, 2, 16, 8], [1, 2, 16, 8]],
            [],
            [0, 0, 0, None, None, None, 16, 16, True, 0.0, True],
            2 * 4 * 16 * 16 * 8,
        ),
        (
            "aten::_flash_attention_forward",
            [[1, 16, 4, 8], [1, 32, 2, 8], [1, 32, 2, 8]],
            [],
            [0, 0, 0, None, None, 16, 32, 0.0, False],
            2 * 2 * 4 * 16 * 32 * 8,
        ),
        (
            "aten::_cudnn_attention_backward",
            [[1, 4, 16, 8], [1, 4, 16, 8], [1, 2, 16, 8], [1, 2, 16, 8]],
            [],
            [],
            5 * 2 * 4 * 16 * 16 * 8,
        ),
        ("aten::native_layer_norm", [[10, 10]], [[10, 10]], [], 800),
        ("aten::add", [[10, 10], [10]], [[10, 10]], [], 100),
        ("aten::_fused_adamw_", [[[10], [20]]], [], [], 16 * 30),
        ("aten::embedding", [[100, 8], [4]], [[4, 8]], [], 0),
        ("aten::view", [[10, 10]], [[100]], [], 0),
        ("aten::copy_", [[10, 10]], [[10, 10]], [], 0),
        ("triton_poi_fused", [[10]], [], [], 0),
        ("aten::mm", [[], []], [], [], 0),
    ],
)
def test_flops(name, inputs, outputs, values, expected):
    assert flops(Call(name, inputs, outputs, values)) == expected


def test_views_move_no_bytes_and_copies_do():
    assert not moves_bytes("aten::view")
    assert not moves_bytes("aten::empty")
    assert moves_bytes("aten::copy_")
    assert moves_bytes("myops::view")
