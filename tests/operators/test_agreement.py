"""Whoever asks, gets the same: PyTorch's counter, a capture, and the texts that a capture writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.operators import TABLED, cost_of, operation_of, operator_of, read_call

torch = pytest.importorskip("torch")
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from chakrakit.sources.capture.observing.signatures import Signatures  # noqa: E402

aten = torch.ops.aten
SIZE = st.integers(1, 9)


def tensor(*shape):
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def signature(func, *args):
    """What a capture writes of a call, and what PyTorch's own counter says of it."""
    with FlopCounterMode(display=False) as counter:
        out = func(*args)
    signatures = Signatures()
    return signatures.listed[signatures.number(func, args, {}, out)], counter.get_total_flops()


def as_read(written):
    """The same call, read back from the texts."""
    return read_call(
        written.name,
        written.inputs_shapes,
        written.inputs_types,
        written.inputs_strides,
        written.inputs_values,
    )


def agree(func, *args, counted=True):
    """All agree; `counted` where PyTorch's counter knows the operator."""
    written, flops = signature(func, *args)
    assert operator_of(written.name).op_type == written.op_type
    if counted:
        assert written.flops == flops > 0
    operation, cost = operation_of(as_read(written)), cost_of(as_read(written))
    assert (cost.flops, cost.bytes) == (written.flops, written.moved)
    assert (operation.flops, operation.bytes) == (written.flops, written.moved)


@given(SIZE, SIZE, SIZE, SIZE)
def test_products(batch, m, n, k):
    agree(aten.mm.default, tensor(m, k), tensor(k, n))
    agree(aten.bmm.default, tensor(batch, m, k), tensor(batch, k, n))
    agree(aten.addmm.default, tensor(n), tensor(m, k), tensor(k, n))
    agree(aten.baddbmm.default, tensor(batch, m, n), tensor(batch, m, k), tensor(batch, k, n))
    agree(aten.mv.default, tensor(m, k), tensor(k), counted=False)


@given(SIZE, SIZE, SIZE, SIZE)
def test_grouped_products(groups, m, n, k):
    ends = torch.empty(groups, dtype=torch.int32, device="meta")
    rows, inner, columns = 8 * m, 8 * k, 8 * n  # whole runs of 16 bytes, or PyTorch refuses them
    agree(
        aten._grouped_mm.default,
        tensor(rows, inner),
        tensor(groups, inner, columns),
        ends,
        counted=False,
    )


@given(
    st.integers(1, 4), st.integers(8, 20), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2),
    st.integers(1, 2), st.booleans(), st.sampled_from([1, 2]),
)  # fmt: skip
def test_convolutions(batch, size, kernel, stride, padding, dilation, transposed, groups):
    x = tensor(batch, 4, size, size)
    w = tensor(4, 6, kernel, kernel) if transposed else tensor(6, 4 // groups, kernel, kernel)
    groups = 1 if transposed else groups
    lists = [stride] * 2, [padding] * 2, [dilation] * 2
    agree(aten.convolution.default, x, w, None, *lists, transposed, [0, 0], groups)
    if groups == 1:  # for the gradient of a grouped weight PyTorch counts all channels
        grad = aten.convolution.default(x, w, None, *lists, transposed, [0, 0], groups)
        more = (None, *lists, transposed, [0, 0], groups, [True, True, False])
        agree(aten.convolution_backward.default, grad, x, w, *more)


@given(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.integers(2, 20), st.integers(2, 20))
def test_attention(batch, heads, queries, keys):
    q, k, v = (tensor(batch, heads, s, 16) for s in (queries, keys, keys))
    agree(aten._scaled_dot_product_flash_attention.default, q, k, v, 0.0, False)
    agree(aten._scaled_dot_product_efficient_attention.default, q, k, v, None, False, 0.0, False)


def test_every_operator_of_pytorchs_counter_is_in_the_table():
    from torch.utils.flop_counter import flop_registry

    names = {str(op).partition(".")[2] for op in flop_registry if str(op).startswith("aten.")}
    assert len(names) > 15
    assert {n for n in names if not operator_of(f"aten::{n}").on_products} == set()
    assert names <= TABLED
