"""Convolutions: weights that fit the input, gradients of the shape that the forward pass gives."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from chakrakit.replayer.runner.guard.convolution import CONVOLUTION, _output

torch = pytest.importorskip("torch")


def given(source=(2, 6, 9, 9), weight=(8, 3, 3, 3), **more):
    """A convolution in two groups: weights have half of the six channels."""
    return {"input": torch.zeros(source), "weight": torch.zeros(weight), "groups": 2, **more}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"stride": [2, 2], "padding": [1, 1]},
        {"padding": [2], "dilation": [2, 1]},
        {"transposed": True, "stride": [2, 2], "output_padding": [1, 1]},
    ],
)
def test_the_shape_is_the_one_that_pytorch_gives(how):
    weight = (6, 4, 3, 3) if how.get("transposed") else (8, 3, 3, 3)
    call = given(weight=weight, **how)
    numbers = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "output_padding": [0, 0]}
    numbers |= {k: list(v) * (2 // len(v)) for k, v in how.items() if k != "transposed"}
    found = torch.ops.aten.convolution(
        call["input"],
        call["weight"],
        None,
        numbers["stride"],
        numbers["padding"],
        numbers["dilation"],
        how.get("transposed", False),
        numbers["output_padding"],
        2,
    )
    assert _output(call) == list(found.shape)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (given(source=(2, 5, 9, 9)), "5 channels for a weight of 6"),
        (given(source=(2, 6, 9)), "an input of other dimensions"),
        (given(stride=[0, 1]), "no stride"),
        (given(stride=[1, 1, 1]), "stride has 3 numbers"),
        (given(weight=(7, 3, 3, 3)), "filters that do not divide into groups"),
        (given(source=(2, 6, 2, 2)), "a kernel larger than its input"),
        (given(bias=torch.zeros(7)), "not one bias per filter"),
        (given(z=torch.zeros(2, 8, 7, 6)), "what is added has another shape"),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    with pytest.raises(Refused, match=said):
        CONVOLUTION["convolution"](call)


def test_a_gradient_has_the_shape_of_the_result():
    backward = CONVOLUTION["convolution_backward"]
    backward(given(grad_output=torch.zeros(2, 8, 7, 7), bias_sizes=[8]))
    with pytest.raises(Refused, match="a gradient of another shape"):
        backward(given(grad_output=torch.zeros(2, 8, 9, 9)))
    with pytest.raises(Refused, match="not one bias per filter"):
        backward(given(grad_output=torch.zeros(2, 8, 7, 7), bias_sizes=[9]))
