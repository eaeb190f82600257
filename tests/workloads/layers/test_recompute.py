"""Recompute: forward nodes again in backward, and less to keep."""

import pytest

from chakrakit import generate
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers import INPUT, Block, BlockNode
from chakrakit.workloads.layers.recomputation import recomputed


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


@pytest.fixture
def layer():
    """A norm, three products in a row around attention and an activation; what each keeps and who made it."""
    forward = [
        BlockNode("norm", "vector", alloc=8, keeps=[(INPUT, 8)], deps=[INPUT]),
        BlockNode("qkv", "matmul", dtype="bf16", alloc=6, keeps=[(0, 6)], deps=[0]),
        BlockNode("core", "attention", alloc=9, inner=1, core=True, deps=[1]),
        BlockNode("up", "matmul", dtype="bf16", alloc=4, keeps=[(2, 4)], deps=[2]),
        BlockNode("act", "vector", alloc=3, keeps=[(3, 3)], deps=[3]),
        BlockNode("down", "matmul", dtype="bf16", alloc=2, keeps=[(4, 2)], deps=[4]),
    ]
    forward[2].keeps = [(1, 5), (2, 3)]
    backward = [
        BlockNode("down.dx", "matmul", deps=[INPUT]),
        BlockNode("down.dw", "matmul", deps=[INPUT], saved=[4], free=2),
        BlockNode("act.grad", "vector", deps=[0], saved=[3], free=3),
        BlockNode("up.dw", "matmul", deps=[2], saved=[2], free=4),
        BlockNode("core.grad", "attention", core=True, deps=[2], saved=[1, 2], free=9),
        BlockNode("qkv.dw", "matmul", deps=[4], saved=[0], free=6),
        BlockNode("norm.grad", "vector", deps=[4], free=8),
    ]
    return Block("layer", forward, backward, [], 8, 5, 6)


def again(block):
    return [n.name.removesuffix(".again") for n in block.backward if n.recompute]


def held(block):
    return sum(n.alloc - n.free for n in (*block.forward, *block.backward))


def test_what_no_gradient_reads_is_not_computed_again(layer):
    found = recomputed(layer, "needed")
    assert again(found) == ["norm", "qkv", "core", "up", "act"]
    assert sum(n.alloc for n in found.forward) == 8
    assert held(found) == 0


def test_clones_wait_for_the_gradient_and_gradients_for_the_clones_they_read(layer):
    found = recomputed(layer, "needed")
    named = {n.name: (i, n) for i, n in enumerate(found.backward)}
    assert named["norm.again"][1].deps == [INPUT]
    assert named["norm.again"][0] in named["qkv.dw"][1].deps
    assert named["qkv.dw"][1].saved == []
    assert found.backward_end == named["norm.grad"][0]


def test_attention_and_every_other_product_are_saved(layer):
    found = recomputed(layer, "operators")
    assert again(found) == ["norm", "up", "act"]
    assert named(found)["up.again"].saved == [2]
    assert held(found) == 0


def named(block):
    return {n.name: n for n in block.backward}


def test_narrow_products_all_run_again_as_the_policy_does_not_name_them(layer):
    for node in layer.forward:
        node.dtype = node.dtype and "fp8"
    assert again(recomputed(layer, "operators")) == ["norm", "qkv", "up", "act"]


def test_a_product_whose_sum_is_saved_does_not_run_again(layer):
    scatter = BlockNode(
        "scatter", "collective", comm=CollectiveType.REDUCE_SCATTER, out_size=7, deps=[3]
    )
    layer.forward.insert(4, scatter)
    layer.forward[5] = BlockNode("act", "vector", alloc=3, keeps=[(4, 3)], deps=[4])
    layer.forward[6] = BlockNode("down", "matmul", dtype="bf16", alloc=2, keeps=[(5, 2)], deps=[5])
    for node in layer.backward:
        node.saved = [s + 1 if s > 2 else s for s in node.saved]
    found = recomputed(layer, "operators")
    assert again(found) == ["norm", "act"]
    assert held(found) == 0


def test_a_saved_sum_that_only_clones_read_is_held_until_they_have(layer):
    layer.forward[3] = BlockNode(
        "scatter", "collective", comm=CollectiveType.REDUCE_SCATTER, out_size=7, deps=[2]
    )
    layer.forward[4] = BlockNode("act", "vector", deps=[3])
    layer.backward[2].saved, layer.backward[2].free = [], 0
    layer.backward[3].saved, layer.backward[3].free = [], 0
    found = recomputed(layer, "operators")
    assert again(found) == ["norm", "act"]
    assert found.forward[3].alloc == 7
    assert named(found)["act.again"].free == 7


@pytest.mark.parametrize("how", ["needed", "operators", "others"])
@pytest.mark.parametrize("overlap", [False, True])
def test_steps_that_keep_less_hold_less_and_compute_more(how, overlap):
    plan = {"model": "llama3-8b", "layers": 4, "tp": 4, "seq": 4096, "tp_overlap": overlap}
    kept, less = (generate(**plan, recompute=r) for r in ("none", how))
    full = generate(**plan, recompute="full")
    work = [g.traces[0].column("num_ops", 0).sum() for g in (kept, less, full)]
    assert work[0] < work[1] < work[2]
    memory = [g.figures.per_rank[0].memory["activations"] for g in (full, less, kept)]
    assert memory[0] <= memory[1] < memory[2]


def test_all_but_products_run_again(layer):
    found = recomputed(layer, "others")
    assert again(found) == ["norm", "core", "act"]
    assert held(found) == 0
