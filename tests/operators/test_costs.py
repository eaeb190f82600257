"""FLOPs and bytes of calls equal closed forms that are written here, independently of the table.

A multiply-add is two operations, and a convolution counts its whole window for every element of the
result, padding included.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chakrakit.operators import Call, Operand, Work, cost_of, operator_of

Shapes = list[Any]
SIZE = st.integers(1, 9)


def operand(shape: Any) -> Any:
    """A bf16 tensor of a shape, a list of some, or nothing."""
    if shape is None:
        return None
    if shape and isinstance(shape[0], list | tuple):
        return [operand(s) for s in shape]
    return Operand(tuple(shape), 2, "c10::BFloat16")


def cost(name: str, inputs: Shapes, values: Any = (), outputs: Shapes = ()):
    call = Call(
        f"aten::{name}", [operand(s) for s in inputs], values, [operand(s) for s in outputs]
    )
    return cost_of(call)


# --- products ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "inputs", "flops"),
    [
        ("mm", [[2, 3], [3, 4]], 2 * 2 * 3 * 4),
        ("bmm", [[5, 2, 3], [5, 3, 4]], 5 * 48),
        ("addmm", [[4], [2, 3], [3, 4]], 48),
        ("addmm_", [[2, 4], [2, 3], [3, 4]], 48),
        ("_addmm_activation", [[4], [2, 3], [3, 4]], 48),
        ("baddbmm", [[5, 2, 4], [5, 2, 3], [5, 3, 4]], 5 * 48),
        ("addbmm", [[2, 4], [5, 2, 3], [5, 3, 4]], 5 * 48),
        ("matmul", [[7, 5, 2, 3], [5, 3, 4]], 7 * 5 * 48),
        ("matmul", [[2, 3], [7, 3, 4]], 7 * 48),
        ("matmul", [[3], [3, 4]], 2 * 3 * 4),
        ("linear", [[7, 2, 3], [4, 3], [4]], 7 * 48),
        ("mkldnn_linear", [[2, 3], [4, 3]], 48),
        ("mv", [[2, 3], [3]], 2 * 2 * 3),
        ("addmv", [[2], [2, 3], [3]], 2 * 2 * 3),
        ("dot", [[9], [9]], 18),
        ("vdot", [[9], [9]], 18),
        ("_int_mm", [[2, 3], [3, 4]], 48),
        ("_scaled_mm", [[2, 3], [3, 4], [], []], 48),
        ("_scaled_mm_v2", [[2, 3], [3, 4]], 48),
        ("_foreach_mm", [[[2, 3], [5, 6]], [[3, 4], [6, 7]]], 48 + 2 * 5 * 6 * 7),
        # Rows cut into groups with a matrix each; columns; the inner dimension; a batch.
        ("_grouped_mm", [[64, 32], [4, 32, 16], [4]], 2 * 64 * 32 * 16),
        ("_grouped_mm", [[4, 8, 32], [32, 64], [4]], 2 * 8 * 32 * 64),
        ("_grouped_mm", [[8, 64], [64, 16], [4]], 2 * 8 * 64 * 16),
        ("_grouped_mm", [[4, 8, 32], [4, 32, 16]], 4 * 2 * 8 * 32 * 16),
        ("_scaled_grouped_mm", [[64, 32], [4, 32, 16], [64], [64], [4]], 2 * 64 * 32 * 16),
        ("mm", [[], []], 0),
        ("mm", [[2, 3], None], 0),
        ("_grouped_mm", [[64], [4, 32, 16]], 0),
    ],
)
def test_products(name, inputs, flops):
    assert cost(name, inputs)[:2] == (flops, 0)
    assert operator_of(f"aten::{name}").work is Work.MATRIX


# --- attention --------------------------------------------------------------------------------------

HEADS_FIRST = {
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_flash_attention_for_cpu": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_cudnn_attention_forward": 10,
}
BACKWARD = {
    "_scaled_dot_product_flash_attention_backward": 11,
    "_scaled_dot_product_flash_attention_for_cpu_backward": 7,
    "_scaled_dot_product_efficient_attention_backward": 11,
    "_scaled_dot_product_cudnn_attention_backward": 14,
    "_cudnn_attention_backward": 14,
}
ROWS_FIRST = {"_flash_attention_forward": 8, "_efficient_attention_forward": 9}
ROWS_BACKWARD = {"_flash_attention_backward": 11, "_efficient_attention_backward": 14}
"""Where each has the argument that says whether it is causal."""


def flags(place: int, causal: bool) -> list[Any]:
    return [None] * place + [causal]


@pytest.mark.parametrize("name", HEADS_FIRST | BACKWARD | ROWS_FIRST | ROWS_BACKWARD)
@given(SIZE, st.sampled_from([(1, 1), (4, 1), (4, 2)]), st.integers(2, 9), SIZE, SIZE, SIZE)
def test_attention(name, batch, heads, queries, keys, width, value):
    """Scores are those of query heads, however few heads of keys there are; causality spares half."""
    many, few = heads
    by_rows = name in ROWS_FIRST | ROWS_BACKWARD
    order = (lambda h, s, d: [batch, s, h, d]) if by_rows else (lambda h, s, d: [batch, h, s, d])
    tensors = [order(many, queries, width), order(few, keys, width), order(few, keys, value)]
    place = (HEADS_FIRST | BACKWARD | ROWS_FIRST | ROWS_BACKWARD)[name]
    scores = batch * many * queries * keys
    expected = 2 * scores * width + 2 * scores * value
    if name in BACKWARD | ROWS_BACKWARD:
        tensors.insert(0, order(many, queries, value))
        # dV and dP by the value's width; dQ, dK and the scores once more by the key's.
        expected = 2 * 2 * scores * value + 3 * 2 * scores * width
    assert cost(name, tensors, flags(place, False)).flops == expected
    assert cost(name, tensors, flags(place, True)).flops == expected // 2
    assert operator_of(f"aten::{name}").work is Work.ATTENTION


@pytest.mark.parametrize("name", HEADS_FIRST)
def test_a_single_query_sees_all_keys(name):
    tensors = [[3, 8, 1, 16], [3, 2, 100, 16], [3, 2, 100, 16]]
    flops = 4 * 3 * 8 * 100 * 16
    assert cost(name, tensors, flags(HEADS_FIRST[name], True)).flops == flops


# --- convolutions -----------------------------------------------------------------------------------


def arguments(name: str, stride, padding, dilation, groups, transposed=False) -> list[Any]:
    """The plain arguments of a convolution as PyTorch's schema has them."""
    lists = [stride, stride], [padding, padding], [dilation, dilation]
    s, p, d = lists
    return {
        "convolution": [0, 0, None, s, p, d, transposed, [0, 0], groups],
        "_convolution": [0, 0, None, s, p, d, transposed, [0, 0], groups, False, False, True],
        "convolution_overrideable": [0, 0, None, s, p, d, transposed, [0, 0], groups],
        "cudnn_convolution": [0, 0, p, s, d, groups, False, False, True],
        "miopen_convolution": [0, 0, None, p, s, d, groups, False, False],
        "mkldnn_convolution": [0, 0, None, p, s, d, groups],
        "convolution_backward": [0, 0, 0, None, s, p, d, transposed, [0, 0], groups, [True] * 3],
    }[name]


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Places of a window, counted one by one."""
    reach = dilation * (kernel - 1) + 1
    return len(range(0, size + 2 * padding - reach + 1, stride))


FORWARD = sorted({"convolution", "_convolution", "convolution_overrideable", "cudnn_convolution",
                  "miopen_convolution", "mkldnn_convolution"})  # fmt: skip
KERNEL, STRIDE, PADDING, DILATION = (st.integers(a, b) for a, b in ((1, 4), (1, 3), (0, 3), (1, 2)))


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("recorded", [True, False], ids=["with its result", "without"])
@given(SIZE, st.integers(5, 20), KERNEL, STRIDE, PADDING, DILATION, st.sampled_from([1, 2, 6]))
def test_convolutions(name, recorded, batch, size, kernel, stride, padding, dilation, groups):
    assume(size + 2 * padding > dilation * (kernel - 1))
    out = windows(size, kernel, stride, padding, dilation)
    x, w = [batch, 6, size, size], [12, 6 // groups, kernel, kernel]
    result = [[batch, 12, out, out]] if recorded else []
    values = arguments(name, stride, padding, dilation, groups)
    expected = 2 * batch * 12 * out * out * (6 // groups) * kernel * kernel
    assert cost(name, [x, w], values, result).flops == expected


@given(SIZE, st.integers(2, 9), KERNEL, STRIDE, st.sampled_from([1, 2, 6]))
def test_a_transposed_convolution_spreads_every_element_of_the_image(
    batch, size, kernel, stride, groups
):
    x, w = [batch, 6, size, size], [6, 12 // groups, kernel, kernel]
    values = arguments("convolution", stride, 0, 1, groups, transposed=True)
    expected = 2 * batch * 6 * size * size * (12 // groups) * kernel * kernel
    assert cost("convolution", [x, w], values).flops == expected
    own = [0, 0, [0, 0], [0, 0], [stride, stride], [1, 1], groups]
    assert cost("cudnn_convolution_transpose", [x, w], own).flops == expected


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_a_convolution_are_one_pass_each(wanted, transposed):
    values = arguments("convolution_backward", 2, 1, 1, 1, transposed)
    values[-1] = [*wanted, True]
    image, grad, w = [3, 6, 10, 10], [3, 12, 5, 5], [12, 6, 3, 3]
    if transposed:
        image, grad, w = [3, 6, 5, 5], [3, 12, 9, 9], [6, 12, 3, 3]
    each = 2 * 3 * 25 * 12 * 6 * 9  # windows lie at the 25 places of the smaller of the two
    assert cost("convolution_backward", [grad, image, w], values).flops == sum(wanted) * each


def test_lines_and_volumes():
    line = [0, 0, None, [2], [1], [1], False, [0], 1]
    assert cost("convolution", [[2, 4, 9], [8, 4, 3]], line).flops == 2 * 2 * 5 * 8 * 4 * 3
    volume = [0, 0, None, [1] * 3, [1] * 3, [1] * 3, False, [0] * 3, 1]
    shapes = [[2, 4, 5, 5, 5], [8, 4, 3, 3, 3]]
    assert cost("convolution", shapes, volume).flops == 2 * 2 * 125 * 8 * 4 * 27
    strides = [0, 0, 0, None, [1] * 3, [1] * 3, [1] * 3, False, [0] * 3, 1]
    both = [[2, 8, 5, 5, 5], *shapes]
    assert cost("convolution_backward", both, strides).flops == 2 * 2 * 2 * 125 * 8 * 4 * 27


# --- recurrent layers -------------------------------------------------------------------------------


@given(SIZE, SIZE, SIZE, SIZE, st.sampled_from([1, 3, 4]), st.integers(1, 3), st.booleans())
def test_recurrent_layers(steps, batch, inputs, hidden, gates, layers, both):
    """Each step multiplies inputs and state by their matrices, for all gates, layers and directions."""
    ways = 2 if both else 1
    shapes, products = [], 0
    for layer in range(layers):
        width = inputs if layer == 0 else hidden * ways
        for _ in range(ways):
            shapes += [[gates * hidden, width], [gates * hidden, hidden], *[[gates * hidden]] * 2]
            products += 2 * steps * batch * gates * hidden * (width + hidden)
    buffer = [sum(math.prod(s) for s in shapes)]
    state = [layers * ways, batch, hidden]
    x = [steps, batch, inputs]
    plain = [2, hidden, 0, layers, False, 0.0, True, both, []]
    forward = [x, shapes, None, buffer, state, state]
    assert cost("_cudnn_rnn", forward, [None] * 6 + plain).flops == products
    back = [*forward, [steps, batch, hidden * ways], None, None, None]
    assert cost("_cudnn_rnn_backward", back, [None] * 10 + plain).flops == 2 * products


def test_a_layer_of_one_dnn_and_cells_whose_products_are_operators_of_their_own():
    x, weights = [5, 3, 7], ([32, 7], [32, 8])
    assert cost("mkldnn_rnn_layer", [x, *weights]).flops == 2 * 5 * 3 * 32 * (7 + 8)
    cell = cost("_thnn_fused_lstm_cell", [[3, 32], [3, 32], [3, 8]])
    # Four sums of gates, five activations, c = f·c + i·g, h = o·tanh(c).
    assert cell[:2] == (0, 3 * 8 * (4 + 5 + 3 + 1))


# --- everything else --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "inputs", "values", "outputs", "ops"),
    [
        ("native_layer_norm", [[10, 10]], [], [], 800),
        ("native_layer_norm_backward", [[10, 10], [10, 10]], [], [], 1400),
        ("_fused_rms_norm", [[10, 10]], [], [], 500),
        ("_softmax", [[10, 10]], [], [], 500),
        ("_log_softmax_backward_data", [[10, 10], [10, 10]], [], [], 400),
        ("cudnn_batch_norm", [[2, 5, 2, 5]], [], [], 800),
        ("add", [[10, 10], [10]], [], [[10, 10]], 100),
        ("mul_", [[10, 10], [10]], [], [], 100),
        ("exp", [[10, 10]], [], [[10, 10]], 100),
        ("gelu", [[100]], [], [[100]], 1000),
        ("gelu_backward", [[100], [100]], [], [[100]], 1500),
        ("silu", [[100]], [], [[100]], 500),
        ("silu_backward", [[100], [100]], [], [[100]], 800),
        ("_fused_adamw_", [[[10], [20]]] * 4, [], [], 16 * 30),
        ("_fused_adam_", [[[10], [20]]] * 4, [], [], 14 * 30),
        ("_foreach_add_", [[[10], [20]]], [], [], 30),
        ("sum", [[4, 25]], [None, [1]], [[4]], 96),
        ("sum", [[4, 25]], [None, [1]], [], 96),
        ("mean", [[4, 25]], [None, None], [[]], 99),
        ("amax", [[4, 25]], [None, [0]], [[25]], 75),
        ("cumsum", [[4, 25]], [None, 1], [[4, 25]], 100),
        ("embedding", [[100, 8], [4]], [], [[4, 8]], 0),
        ("embedding_dense_backward", [[4, 8], [4]], [0, 0, 100], [[100, 8]], 32),
        ("_embedding_bag", [[100, 8], [12], [3]], [], [[3, 8]], 96),
        ("index_add_", [[100, 8], None, [4], [4, 8]], [], [[100, 8]], 32),
        ("index_put_", [[100, 8], [[4]], [4, 8]], [0, 0, 0, False], [[100, 8]], 0),
        ("index_put_", [[100, 8], [[4]], [4, 8]], [0, 0, 0, True], [[100, 8]], 32),
        ("view", [[10, 10]], [], [[100]], 0),
        ("copy_", [[10, 10], [10, 10]], [], [[10, 10]], 0),
        ("zeros_like", [[10, 10]], [], [[10, 10]], 0),
        ("cat", [[[2, 3], [4, 3]]], [0, 0], [[6, 3]], 0),
    ],
)
def test_vector_operations(name, inputs, values, outputs, ops):
    assert cost(name, inputs, values, outputs)[:2] == (0, ops)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "elements"),
    [
        ("mm", [[2, 3], [3, 4]], [[2, 4]], 6 + 12 + 8),
        ("add", [[10, 10], [10, 10]], [[10, 10]], 300),
        ("add_", [[10, 10], [10, 10]], [[10, 10]], 300),
        ("copy_", [[10, 10], [10, 10]], [[10, 10]], 200),
        ("embedding", [[1000, 8], [4]], [[4, 8]], 4 * 8 + 4 * 8 + 4),
        ("view", [[10, 10]], [[100]], 0),
        ("empty_like", [[10, 10]], [[10, 10]], 0),
        ("_local_scalar_dense", [[]], [], 0),
        ("zeros", [], [[10, 10]], 100),
    ],
)
def test_bytes_are_those_that_are_touched(name, inputs, outputs, elements):
    assert cost(name, inputs, (), outputs).bytes == 2 * elements


def test_sizes_that_no_machine_has_count_nothing():
    huge = [1 << 40, 1 << 40]
    assert cost("mm", [huge, huge]) == (0, 0, 0)


@pytest.mark.parametrize("name", ["triton_poi_fused_add", "myops::view", "c10d::allreduce_"])
def test_of_others_operators_only_bytes_are_known(name):
    assert cost_of(Call(name, [operand([10])])) == (0, 0, 20)


def test_numbers_are_sizes_to_a_generated_kernel_and_to_no_other():
    """A rank among the arguments of somebody's operator says nothing of how much it touches."""
    table, result = operand([1000]), [operand([6])]
    assert cost_of(Call("triton_poi_fused_index", [table], [None, 4, 2])).bytes == 16
    ranks = {cost_of(Call("fsdp::copy_in", [table], [None, 4, r], result)) for r in range(3)}
    assert ranks == {(0, 0, 2 * 1006)}
