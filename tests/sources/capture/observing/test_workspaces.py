"""Memory that operators take while they run, as it was seen on an H200."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.observing.workspaces import workspace

aten = torch.ops.aten
MIB = 1 << 20


def empty(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    ("rows", "columns", "seen"),
    [
        (12608, 768, 73.875),
        (12608, 3072, 132.0),
        (8192, 768, 48.0),
        (25088, 576, 110.25),
        (100352, 96, 18.375),
        (100352, 288, 99.0),
        (1568, 768, 9.375),
    ],
)
def test_partial_sums_of_columns_are_those_of_the_devices_launch(rows, columns, seen):
    held = workspace(aten.sum.dim_IntList, (empty(rows, columns), [0], True), empty(columns), 132)
    assert held / MIB == pytest.approx(seen, rel=0.005)


def test_the_gradient_of_attention_holds_queries_in_single_precision():
    query, key = empty(4, 16, 1024, 64), empty(4, 4, 1024, 64)
    backward = aten._scaled_dot_product_cudnn_attention_backward.default
    assert workspace(backward, (query, query, key, key), None, 132) / MIB == pytest.approx(
        32.3, abs=0.1
    )
    assert workspace(backward, (query, query, query, query), None, 132) / MIB == pytest.approx(
        16.3, abs=0.1
    )


@pytest.mark.parametrize(
    ("image", "weight", "out", "seen"),
    [
        ((16, 64, 128, 128), (64, 64, 3, 3), (16, 64, 128, 128), 64.1),
        ((64, 3, 224, 224), (768, 3, 16, 16), (64, 768, 14, 14), 70.4),
        ((64, 256, 56, 56), (64, 256, 1, 1), (64, 64, 56, 56), 0.0),
    ],
)
def test_a_convolution_copies_images_whose_channels_come_first(image, weight, out, seen):
    arguments = (empty(*image), empty(*weight), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    held = workspace(aten.convolution.default, arguments, empty(*out), 132)
    assert held / MIB == pytest.approx(seen, abs=0.1)
