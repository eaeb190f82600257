"""Fully sharded parameters: gathered before use, freed after, gradients scattered."""

from __future__ import annotations

from dataclasses import replace

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers import (
    INPUT,
    Block,
    BlockNode,
    Dim,
    GatherUnit,
    Tensor,
    Weight,
    elements,
    sharded,
)

UNIT = GatherUnit(
    elements=10,
    role="dp",
    ranks=4,
    param_dtype="bf16",
    grad_dtype="fp32",
    reshard=True,
    scatter=True,
)


def block() -> Block:
    """Two operators forward; back through the second, then the gradient of the first one's weight."""
    forward = [BlockNode("a", "matmul", deps=[INPUT]), BlockNode("b", "matmul", deps=[0])]
    backward = [
        BlockNode("b.dx", "matmul", deps=[INPUT], saved=[1]),
        BlockNode("a.dw", "matmul", deps=[0], weight=True),
    ]
    weight = Weight("w", Tensor((Dim(10),), "bf16"), grad_node=1)
    return Block("layer", forward, backward, [weight], 8, 1, 0)


def test_a_shard_is_rounded_up_and_what_is_gathered_is_held() -> None:
    gather, scatter = UNIT.gather("layer"), UNIT.scatter_gradients("layer")
    assert (gather.comm, gather.comm_size, gather.out_size) == (CollectiveType.ALL_GATHER, 6, 20)
    assert gather.alloc == 20
    assert (scatter.comm_size, scatter.out_size) == (40, 12)
    assert elements(block().weights, {}) == 10


def test_parameters_are_gathered_for_forward_and_again_for_backward() -> None:
    found = sharded(block(), [UNIT])
    assert [(n.name, n.deps) for n in found.forward] == [
        ("layer.gather", []),
        ("a", [INPUT, 0]),
        ("b", [1]),
    ]
    assert [(n.name, n.deps) for n in found.backward] == [
        ("layer.gather", []),
        ("b.dx", [INPUT, 0]),
        ("a.dw", [1]),
        ("layer.scatter", [2]),
    ]
    assert found.backward[1].saved == [2]  # forward has moved up by the gather
    assert [n.free for n in found.forward] == [0, 0, 20]
    assert [n.free for n in found.backward] == [0, 20, 0, 0]  # gradients of weights need none
    assert found.weights[0].grad_node == 3
    assert (found.forward_end, found.backward_end) == (2, 1)


def test_a_unit_that_stays_gathered_is_freed_after_backward_alone() -> None:
    found = sharded(block(), [replace(UNIT, reshard=False, scatter=False)])
    assert [n.name for n in found.backward] == ["b.dx", "a.dw"]
    assert [n.free for n in found.forward] == [0, 0, 0]
    assert [n.free for n in found.backward] == [20, 0]
    assert found.weights[0].grad_node == 1


def test_without_units_a_block_stays_as_it_is() -> None:
    one = block()
    assert sharded(one, []) is one
