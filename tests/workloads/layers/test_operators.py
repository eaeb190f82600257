"""Operators: FLOPs, bytes, what they keep and their backward, from shapes alone."""

from __future__ import annotations

import pytest

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers import Dim, Tape, Tensor, lookup, norm, vector
from chakrakit.workloads.layers.operators import cross_entropy, dropout, matmul
from chakrakit.workloads.layers.tape import Settings


def tape(**settings: object) -> Tape:
    return Tape("block", Settings({"tp": 2}, **settings))  # type: ignore[arg-type]


def test_a_product_counts_two_flops_per_pair_and_reads_both_sides() -> None:
    t = tape()
    x = t.input(Dim(2), Dim(8), Dim(16))
    weight = t.weight("w", Dim(16), Dim(32, ("tp",)))
    block = t.finish(matmul(t, "m", x, weight))
    [product] = block.forward
    assert product.flops == 2 * (2 * 8) * 16 * 16  # 32 columns on two ranks
    assert product.bytes == (2 * 8 * 16 + 16 * 16 + 2 * 8 * 16) * 2
    assert product.shapes == "[[16,16],[16,16]]"
    assert product.alloc == 2 * 8 * 16 * 2
    assert [n.name for n in block.backward] == ["m.dx", "m.dw", "block.grad.all_reduce_tp"]
    assert [n.flops for n in block.backward[:2]] == [product.flops] * 2
    assert block.backward[1].free == product.alloc
    assert (weight.grad_node, block.backward_end) == (1, 2)


def test_rows_cut_by_the_weights_axis_leave_an_open_sum() -> None:
    t = tape()
    x = t.input(Dim(8), Dim(16, ("tp",)))
    out = matmul(t, "m", x, t.weight("w", Dim(16, ("tp",)), Dim(32)))
    assert out.partial == {"tp"}
    assert len(t.forward) == 1  # nothing moves before


def test_products_in_one_byte_read_and_keep_their_input_in_one() -> None:
    t = tape(matmul_dtype="fp8")
    matmul(t, "m", t.input(Dim(8), Dim(16)), t.weight("w", Dim(16), Dim(32)))
    [product] = t.forward
    assert product.bytes == (8 * 16 + 16 * 32) * 1 + 8 * 32 * 2
    assert (product.alloc, product.dtype) == (8 * 16, "fp8")


def test_work_that_no_axis_cuts_is_done_by_all_of_them() -> None:
    t = tape()
    matmul(t, "m", t.input(Dim(8), Dim(16)), t.weight("w", Dim(16), Dim(32)))
    assert t.forward[0].replicas == 2


def test_a_vector_operation_counts_its_result_and_twice_that_in_backward() -> None:
    t = tape()
    x = t.input(Dim(8), Dim(16))
    block = t.finish(vector(t, "v", [x], ops=5, keeps=[x]))
    assert (block.forward[0].vector_ops, block.forward[0].bytes) == (5 * 128, 2 * 256)
    assert (block.backward[0].vector_ops, block.backward[0].free) == (10 * 128, 256)


def test_dropout_keeps_a_byte_per_element() -> None:
    t = tape()
    x = t.input(Dim(8), Dim(16))
    dropout(t, "d", x, x)
    assert t.forward[0].alloc == 128
    assert t.forward[0].vector_ops == 2 * 128


@pytest.mark.parametrize(
    ("kind", "names"), [("rms", ["n.weight"]), ("layer", ["n.weight", "n.bias"])]
)
def test_a_layer_norm_has_a_bias_too(kind: str, names: list[str]) -> None:
    t = tape()
    norm(t, "n", t.input(Dim(8), Dim(16)), kind)
    assert [w.name for w in t.weights] == names


def test_rows_of_a_cut_table_are_partial_sums() -> None:
    t = tape()
    table = t.weight("table", Dim(100, ("tp",)), Dim(16), kind="table")
    block = t.finish(lookup(t, "look", table, (Dim(2), Dim(8)), pooling=3))
    [node] = block.forward
    assert (node.vector_ops, node.bytes) == (3 * 256, 4 * 512)
    assert block.backward[-1].name == "look.dw"
    assert table.grad_node >= 0
    out = lookup(tape(), "look", table, (Dim(2), Dim(8)))
    assert out.partial == {"tp"}


def test_a_loss_over_a_cut_vocabulary_takes_three_sums_per_token() -> None:
    t = tape()
    logits = Tensor((Dim(2), Dim(8), Dim(100, ("tp",))), "bf16")
    cross_entropy(t, "loss", logits)
    assert [n.name for n in t.forward[1:]] == [
        f"loss.{what}.all_reduce_tp" for what in ("max", "target", "sum")
    ]
    assert {n.comm_size for n in t.forward[1:]} == {2 * 8 * 4}
    assert {n.comm for n in t.forward[1:]} == {CollectiveType.ALL_REDUCE}
    assert t.forward[0].alloc == 2 * 8 * 50 * 4  # kept in fp32
