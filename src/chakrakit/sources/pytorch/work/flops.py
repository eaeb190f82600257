"""Work per operator from its shapes: floating-point operations and bytes moved.

A multiply-add is two operations. Bytes are what an ideal kernel reads and writes once: all tensors
in and out, and nothing for operators that only look at memory differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chakrakit.sources.pytorch.read import json_list

Shape = Sequence[int]


@dataclass(frozen=True)
class Call:
    """An operator call: argument shapes ([] for what is no tensor), results, and plain values."""

    name: str
    inputs: list[Any]
    outputs: list[Any]
    values: list[Any]

    def shape(self, index: int) -> Shape:
        """Shape of an argument; () where there is none."""
        found = self.inputs[index] if index < len(self.inputs) else []
        return found if _is_shape(found) else ()

    def result(self, index: int = 0) -> Shape:
        """Shape of a result; () where there is none."""
        found = self.outputs[index] if index < len(self.outputs) else []
        return found if _is_shape(found) else ()


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, int) for x in value)


_NESTED = 8
"""How deep lists of lists of tensors are looked into; PyTorch's have two levels."""


def elements(shapes: Any, nested: int = _NESTED) -> int:
    """Elements of a shape, or of all shapes in a list of them."""
    if _is_shape(shapes):
        return math.prod(shapes) if shapes else 0
    if not isinstance(shapes, list) or not nested:
        return 0
    return sum(elements(s, nested - 1) for s in shapes)


def _matmul(left: Shape, right: Shape) -> int:
    if len(left) < 1 or len(right) < 1:
        return 0
    columns = right[-1] if len(right) > 1 else 1
    return 2 * math.prod(left) * columns


def _mm(call: Call) -> int:
    return _matmul(call.shape(0), call.shape(1))


def _addmm(call: Call) -> int:
    """The product alone: what generators, closed forms and other counters call its work."""
    return _matmul(call.shape(1), call.shape(2))


def _linear(call: Call) -> int:
    weight = call.shape(1)
    return 2 * math.prod(call.shape(0)) * weight[0] if len(weight) == 2 else 0


def _convolution(call: Call) -> int:
    weight = call.shape(1)
    if len(weight) < 3:
        return 0
    # Transposed: every input element meets the whole kernel. A number there is mkldnn's groups.
    if len(call.values) > 6 and call.values[6] is True:
        return 2 * math.prod(call.shape(0)) * math.prod(weight[1:])
    return 2 * math.prod(call.result()) * math.prod(weight[1:])


def _convolution_backward(call: Call) -> int:
    """One pass for the gradient of the input and one for that of the weight, as asked for."""
    grad, weight = call.shape(0), call.shape(2)
    wanted = next((v for v in call.values if _is_flags(v)), [True, True, False])
    each = 2 * math.prod(grad) * math.prod(weight[1:]) if len(weight) > 2 else 0
    return each * (bool(wanted[0]) + bool(wanted[1]))


def _is_flags(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(v, bool) for v in value)


def _attention(causal: int, backward: bool = False, by_rows: bool = False) -> Callable[[Call], int]:
    """Two products of sequence × sequence × head size; five backward, where the scores are made again.

    `causal` is the argument that says whether half of the scores are masked. Tensors are batch × heads ×
    sequence × head size, or `by_rows` batch × sequence × heads × head size.
    """
    first, products = (1, 5) if backward else (0, 2)
    sequence = 1 if by_rows else 2

    def work(call: Call) -> int:
        query, key, value = (call.shape(first + i) for i in range(3))
        if not len(query) == len(key) == len(value) == 4:
            return 0
        each = math.prod(query[:3]) * key[sequence] * (query[3] + value[3])
        masked = causal < len(call.values) and call.values[causal] in (True, 1)
        return each * products // (2 if masked else 1)

    return work


def _per_element(count: int, of_results: bool = False) -> Callable[[Call], int]:
    def work(call: Call) -> int:
        return count * (elements(call.outputs) if of_results else elements(call.inputs[:1]))

    return work


def _pointwise(call: Call) -> int:
    return elements(call.outputs) or elements(call.inputs[:1])


def _nothing(_: Call) -> int:
    return 0


_EXACT: dict[str, Callable[[Call], int]] = {
    "mm": _mm,
    "bmm": _mm,
    "matmul": _mm,
    "_scaled_mm": _mm,
    "dot": _mm,
    "mv": _mm,
    "addmm": _addmm,
    "addmv": _addmm,
    "baddbmm": _addmm,
    "_addmm_activation": _addmm,
    "linear": _linear,
    "mkldnn_linear": _linear,
    "convolution": _convolution,
    "_convolution": _convolution,
    "cudnn_convolution": _convolution,
    "miopen_convolution": _convolution,
    "mkldnn_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention": _attention(4),
    "_scaled_dot_product_flash_attention_backward": _attention(11, backward=True),
    "_scaled_dot_product_flash_attention_for_cpu": _attention(4),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention(7, backward=True),
    "_scaled_dot_product_efficient_attention": _attention(6),
    "_scaled_dot_product_efficient_attention_backward": _attention(11, backward=True),
    "_scaled_dot_product_cudnn_attention": _attention(6),
    "_scaled_dot_product_cudnn_attention_backward": _attention(14, backward=True),
    "_cudnn_attention_forward": _attention(10),
    "_cudnn_attention_backward": _attention(14, backward=True),
    "_flash_attention_forward": _attention(8, by_rows=True),
    "_flash_attention_backward": _attention(11, backward=True, by_rows=True),
    "_efficient_attention_forward": _attention(9, by_rows=True),
    "native_layer_norm": _per_element(8),
    "native_layer_norm_backward": _per_element(14),
    "native_group_norm": _per_element(8),
    "native_group_norm_backward": _per_element(14),
    "native_batch_norm": _per_element(8),
    "cudnn_batch_norm": _per_element(8),
    "_native_batch_norm_legit": _per_element(8),
    "native_batch_norm_backward": _per_element(14),
    "cudnn_batch_norm_backward": _per_element(14),
    "_fused_rms_norm": _per_element(5),
    "_softmax": _per_element(5),
    "_log_softmax": _per_element(5),
    "_softmax_backward_data": _per_element(4),
    "_log_softmax_backward_data": _per_element(4),
    "_fused_adam_": _per_element(14),
    "_fused_adamw_": _per_element(16),
    "_fused_sgd_": _per_element(4),
    "embedding": _nothing,
    "index_select": _nothing,
    "embedding_dense_backward": _per_element(1),
    "gelu": _per_element(10),
    "gelu_backward": _per_element(15),
    "silu": _per_element(5),
    "silu_backward": _per_element(8),
}
_MOVES = (
    "copy_",
    "clone",
    "cat",
    "fill_",
    "zero_",
    "index",
    "gather",
    "scatter",
    "_to_copy",
    "repeat",
    "_foreach_copy_",
    "_foreach_zero_",
    "arange",
    "stack",
    "where",
    "masked_fill_",
)
_VIEWS = (
    "view",
    "reshape",
    "t",
    "transpose",
    "permute",
    "as_strided",
    "slice",
    "select",
    "expand",
    "unsqueeze",
    "squeeze",
    "detach",
    "alias",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "split",
    "chunk",
    "unbind",
    "narrow",
    "_unsafe_view",
    "_reshape_alias",
    "resolve_conj",
    "to",
    "resolve_neg",
    "result_type",
    "resize_",
    "set_",
    "contiguous",
    "item",
    "lift_fresh",
    "new_empty_strided",
    "split_with_sizes",
    "_local_scalar_dense",
    "view_as",
    "expand_as",
    "flatten",
    "movedim",
    "diagonal",
    "unfold",
    "as_strided_",
)


_MOST = 1 << 62
"""Work beyond this is that of no call: the shapes that say so are taken for damage."""


def flops(call: Call) -> int:
    """Floating-point operations of one call; element-wise ones count one per result."""
    space, _, name = call.name.partition("::")
    if space != "aten" or name in _VIEWS or name in _MOVES:
        return 0
    count = _EXACT.get(name, _pointwise)(call)
    return count if 0 <= count <= _MOST else 0


_PRODUCTS = (_mm, _addmm, _linear, _convolution, _convolution_backward)
_CONTRACTIONS = frozenset(n for n, rule in _EXACT.items() if rule in _PRODUCTS or "attention" in n)


def is_contraction(name: str) -> bool:
    """Whether an operator is a matrix product, a convolution or an attention."""
    space, _, short = name.partition("::")
    return space == "aten" and short in _CONTRACTIONS


def moves_bytes(name: str) -> bool:
    """Whether an operator touches memory at all; views and allocations do not."""
    space, _, short = name.partition("::")
    return short not in _VIEWS or space != "aten"


def parse_shapes(text: str) -> list[Any]:
    """Shapes as PyTorch writes them; [] for what cannot be read."""
    return json_list(text)
