"""The attention core: one kernel or three, and the three ways to cut a sequence."""

from __future__ import annotations

from fractions import Fraction

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers import Block, Core, Dim, Tape, Tensor
from chakrakit.workloads.layers.attention import attention
from chakrakit.workloads.layers.tape import Settings

PAIRS = Fraction(32)  # half of eight tokens' square


def attended(cp: int = 1, kernel: str = "flash", context: str = "gather", **more: object) -> Block:
    """Four heads of four over eight tokens, in bf16."""
    tape = Tape("block", Settings({"cp": cp, "tp": 1}))
    x = tape.input(Dim(1), Dim(8, ("cp",)), Dim(4, ("tp",)), Dim(4))
    q, k, v = (Tensor(x.dims, x.dtype, node=x.node) for _ in range(3))
    for one in (q, k, v):
        tape.record(one, lambda grad: [(x, grad)])
    return tape.finish(attention(tape, "core", q, k, v, Core(PAIRS, kernel, context, **more)))  # type: ignore[arg-type]


def test_flash_attention_is_one_kernel_that_keeps_a_number_per_row() -> None:
    block = attended()
    [core] = block.forward
    assert core.flops == 2 * 32 * 4 * (4 + 4)
    assert core.bytes == 4 * 8 * 4 * 4 * 2  # q, k, v and the result
    assert core.inner == 4 * 8 * 4
    assert core.alloc == 4 * 256 + core.inner  # q, k, v, the result, and the rows' numbers
    assert core.shapes == "[[1,4,8,4],[1,4,8,4],[1,4,8,4]]"
    assert block.backward[0].flops == 2 * core.flops
    assert block.backward[0].free == core.alloc


def test_unfused_attention_hands_the_scores_on_through_memory() -> None:
    scores = 8 * 4 * 8 * 2
    first, softmax, values = attended(kernel="unfused").forward
    assert [n.name for n in (first, softmax, values)] == [
        "core.scores",
        "core.softmax",
        "core.values",
    ]
    assert first.flops == values.flops == 32 * 4 * 8
    assert (softmax.flops, softmax.bytes) == (0, 2 * scores)
    assert values.inner == scores
    assert attended(kernel="unfused", dropout=True).forward[2].inner == 2 * scores + scores // 2


def test_gathering_brings_keys_and_values_and_their_gradients_back() -> None:
    block = attended(cp=2)
    kinds = [n.comm for n in block.forward if n.comm is not None]
    assert kinds == [CollectiveType.ALL_GATHER] * 2
    assert block.forward[0].out_size == 8 * 4 * 4 * 2
    core = next(n for n in block.forward if n.op == "attention")
    assert core.flops == 2 * 32 * 4 * 8 // 2  # half of the queries
    back = [n.comm for n in block.backward if n.comm is not None]
    assert back
    assert set(back) == {CollectiveType.REDUCE_SCATTER}


def test_a_ring_computes_a_block_of_keys_while_the_next_one_comes() -> None:
    block = attended(cp=2, context="ring")
    assert [(n.name, n.op) for n in block.forward] == [
        ("core.0", "attention"),
        ("core.ring0.send", "send"),
        ("core.ring0.recv", "recv"),
        ("core.1", "attention"),
    ]
    assert block.forward[1].comm_size == 2 * 4 * 4 * 4 * 2  # this rank's keys and values
    assert block.forward[0].flops + block.forward[3].flops == 2 * 32 * 4 * 8 // 2
    assert 2 in block.forward[3].deps
    assert (block.forward[1].role, block.forward[2].role) == ("cp_next", "cp_prev")
    sent = [n.comm_size for n in block.backward if n.op == "send"]
    assert sent == [2 * block.forward[1].comm_size]  # with their gradients


def test_heads_are_traded_for_sequence_and_back() -> None:
    kinds = [n.comm for n in attended(cp=2, context="ulysses").forward if n.comm is not None]
    assert kinds == [CollectiveType.ALL_TO_ALL] * 4


def test_a_cache_is_read_on_top() -> None:
    assert attended(cached=1000).forward[0].bytes == attended().forward[0].bytes + 1000
