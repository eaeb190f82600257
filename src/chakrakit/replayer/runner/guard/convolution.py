"""Convolutions: weights that fit the input, gradients of the shape that the forward pass gives."""

from __future__ import annotations

from collections.abc import Callable

from .refusal import Given, Refused, count, need, sizes


def _output(given: Given) -> list[int]:
    """The shape a convolution gives, by its own arithmetic."""
    source = given.get("input", given.get("self"))
    weight = given["weight"]
    if source is None:
        raise Refused("no input")
    space = weight.dim() - 2
    need(
        space >= 1 and source.dim() == weight.dim(), "an input of other dimensions than the weight"
    )
    stride, padding, dilation = (
        _spread(given, name, space, default)
        for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    extra = _spread(given, "output_padding", space, 0)
    groups, transposed = int(given.get("groups", 1)), bool(given.get("transposed", False))
    need(groups > 0 and min(stride) > 0 and min(dilation) > 0 and min(padding) >= 0, "no stride")
    need(min(sizes(weight)) > 0, "a weight without elements")
    need(weight.shape[0] % groups == 0, "filters that do not divide into groups")
    taken = weight.shape[0] if transposed else weight.shape[1] * groups
    need(source.shape[1] == taken, f"{source.shape[1]} channels for a weight of {taken}")
    made = weight.shape[1] * groups if transposed else weight.shape[0]
    out = [int(source.shape[0]), int(made)]
    for i in range(space):
        span = dilation[i] * (int(weight.shape[2 + i]) - 1)
        size = int(source.shape[2 + i])
        if transposed:
            out.append((size - 1) * stride[i] - 2 * padding[i] + span + extra[i] + 1)
        else:
            out.append((size + 2 * padding[i] - span - 1) // stride[i] + 1)
    need(min(out[2:]) > 0, "a kernel larger than its input")
    return out


def _spread(given: Given, name: str, space: int, default: int) -> list[int]:
    value = given.get(name)
    found = [int(v) for v in value] if isinstance(value, list | tuple) and value else [default]
    need(len(found) in (1, space), f"{name} has {len(found)} numbers")
    return found if len(found) == space else found * space


def _forward(given: Given) -> None:
    made = _output(given)
    bias = given.get("bias")
    need(bias is None or sizes(bias) == [made[1]], "not one bias per filter")
    rest = given.get("z")
    need(rest is None or sizes(rest) == made, "what is added has another shape")


def _backward(given: Given) -> None:
    need(sizes(given["grad_output"]) == _output(given), "a gradient of another shape")
    bias = given.get("bias_sizes")
    made = _output(given)[1]
    need(bias is None or [int(n) for n in bias] in ([made], [0]), "not one bias per filter")
    need(count(given["input"]) > 0, "an empty input")


CONVOLUTION: dict[str, Callable[[Given], None]] = {
    "convolution": _forward,
    "_convolution": _forward,
    "cudnn_convolution": _forward,
    "cudnn_convolution_relu": _forward,
    "cudnn_convolution_add_relu": _forward,
    "cudnn_convolution_transpose": lambda given: _forward({**given, "transposed": True}),
    "convolution_backward": _backward,
}
