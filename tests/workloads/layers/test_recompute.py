"""Recompute: forward nodes again in backward, and less to keep."""

import pytest

from chakrakit.workloads.layers import INPUT, Block, BlockNode
from chakrakit.workloads.layers.stack import recomputed


@pytest.fixture
def block():
    """A norm that keeps the input (8 bytes), an attention core that keeps 5 of its own, a matmul."""
    forward = [
        BlockNode("norm", "vector", alloc=8, deps=[INPUT]),
        BlockNode("core", "attention", alloc=20, inner=5, core=True, deps=[0]),
        BlockNode("out", "matmul", alloc=4, deps=[1]),
    ]
    backward = [
        BlockNode("out.grad", "matmul", deps=[INPUT], saved=[1]),
        BlockNode("core.grad", "attention", core=True, deps=[0], saved=[0]),
        BlockNode("norm.grad", "vector", deps=[1], saved=[]),
    ]
    return Block("layer", forward, backward, [], 8, 2, 2)


def test_full_keeps_only_the_input(block):
    found = recomputed(block, "full")
    assert [n.alloc for n in found.forward] == [8, 0, 0]
    assert [n.name for n in found.backward[:3]] == ["norm.again", "core.again", "out.again"]
    assert all(n.recompute for n in found.backward[:3])
    assert found.backward_end == 5


def test_backward_reads_the_clones_where_it_read_the_forward_pass(block):
    found = recomputed(block, "full")
    assert found.backward[3].deps == [INPUT, 1]
    assert found.backward[3].saved == []


def test_selective_does_the_core_again_just_before_its_own_backward(block):
    found = recomputed(block, "selective")
    assert [n.name for n in found.backward] == ["out.grad", "core.again", "core.grad", "norm.grad"]
    assert [n.alloc for n in found.forward] == [8, 15, 4]
    assert found.backward[1].alloc == 5
    assert 1 in found.backward[2].deps


def test_a_block_without_attention_stays_as_it_is(block):
    for node in (*block.forward, *block.backward):
        node.core = False
    assert recomputed(block, "selective") is block
