"""Convolutions: weights that fit the input, gradients of the shape that the forward pass gives."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from chakrakit.replayer.runner.guard.convolution import CONVOLUTION

torch = pytest.importorskip("torch")


def f(*shape):
    return torch.zeros(shape)


def given(**changes):
    """Three channels of 8 × 8 and four filters of 3 × 3: four channels of 6 × 6 come out."""
    plain = {"stride": [1], "padding": [0, 0], "dilation": [1, 1], "groups": 1}
    return {"input": f(2, 3, 8, 8), "weight": f(4, 3, 3, 3), **plain, **changes}


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (2, 4, 6, 6)),
        ({"padding": [1, 1]}, (2, 4, 8, 8)),
        ({"stride": [2]}, (2, 4, 3, 3)),
        ({"dilation": [2]}, (2, 4, 4, 4)),
        ({"weight": f(3, 5, 3, 3), "transposed": True}, (2, 5, 10, 10)),
        ({"weight": f(3, 1, 3, 3), "groups": 3}, (2, 3, 6, 6)),
    ],
)
def test_a_gradient_must_have_the_shape_that_pytorch_gives(changes, shape):
    backward = CONVOLUTION["convolution_backward"]
    backward(given(grad_output=f(*shape), **changes))
    with pytest.raises(Refused, match="a gradient of another shape"):
        backward(given(grad_output=f(*shape[:3], shape[3] + 1), **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weight": f(4, 5, 3, 3)}, "3 channels for a weight of 5"),
        ({"weight": f(4, 3, 3)}, "an input of other dimensions"),
        ({"weight": f(4, 3, 9, 9)}, "a kernel larger than its input"),
        ({"weight": f(4, 3, 0, 3)}, "a weight without elements"),
        ({"stride": [0]}, "no stride"),
        ({"stride": [1, 1, 1]}, "stride has 3 numbers"),
        ({"groups": 3, "weight": f(4, 1, 3, 3)}, "do not divide into groups"),
        ({"bias": f(3)}, "not one bias per filter"),
    ],
)
def test_what_does_not_fit_is_refused(changes, said):
    with pytest.raises(Refused, match=said):
        CONVOLUTION["convolution"](given(**changes))
