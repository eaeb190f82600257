"""Tasks of a chunk: receive, blocks, send; backward whole or in two halves."""

from __future__ import annotations

from chakrakit.workloads.layers import INPUT, Block, BlockNode
from chakrakit.workloads.program import OWN, Template, TextTables
from chakrakit.workloads.program.task_templates import (
    BACKWARD,
    BEFORE,
    FORWARD,
    BlockTables,
    Chunk,
    Link,
)

BOOK = TextTables()
BEFORE_US, AFTER_US = Link(0, 100), Link(2, 100)


def block() -> Block:
    forward = [BlockNode("f", "matmul", deps=[INPUT])]
    backward = [
        BlockNode("dx", "matmul", deps=[INPUT], saved=[0]),
        BlockNode("dw", "matmul", deps=[INPUT, 0], weight=True, saved=[0]),
    ]
    return Block("layer", forward, backward, [], 8, 0, 0)


def chunk(source: Link | None = BEFORE_US, sink: Link | None = AFTER_US) -> Chunk:
    """Two blocks between the stages before and after."""
    tables = BlockTables.of(block(), BOOK)
    return Chunk([tables, tables], [3, 4], source, sink, 1, BOOK)


def names(template: Template) -> list[str]:
    return [BOOK.names.texts[n] for n in template.columns["name"]]


def pairs(template: Template, source: int) -> list[tuple[int, int]]:
    return sorted((int(a), int(b)) for a, b in template.edges[source])


def test_a_forward_receives_runs_its_blocks_and_sends() -> None:
    found = chunk().forward()
    assert names(found) == ["recv_forward", "f", "f", "send_forward"]
    assert pairs(found, OWN) == [(0, 1), (1, 2), (2, 3)]
    assert found.columns["layer"].tolist() == [-1, 3, 4, -1]
    assert found.end == 2
    roles = [BOOK.roles.texts[r] for r in found.columns["role"]]
    assert roles == ["pp:0", "", "", "pp:2"]


def test_a_chunk_on_the_same_rank_waits_for_the_one_before_it() -> None:
    here = Link(None, 100)
    found = chunk(source=here, sink=None).forward()
    assert names(found) == ["f", "f"]
    assert pairs(found, BEFORE) == [(-1, 0)]
    assert pairs(chunk(source=None, sink=None).forward(), BEFORE) == []


def test_a_backward_goes_from_the_last_block_to_the_first() -> None:
    one = chunk()
    one.forward()
    found = one.backward("B")
    assert names(found) == ["recv_backward", "dx", "dw", "dx", "dw", "send_backward"]
    assert found.columns["layer"].tolist() == [-1, 4, 4, 3, 3, -1]
    assert (1, 3) in pairs(found, OWN)  # the first block waits for the last one's gradient
    assert pairs(found, FORWARD) == [(1, 3), (1, 4), (2, 1), (2, 2)]
    assert found.grads == [{0: 3, 1: 4}, {0: 1, 1: 2}]


def test_a_backward_in_halves_puts_the_weights_off() -> None:
    one = chunk()
    one.forward()
    inputs, weights = one.backward("I"), one.weights()
    assert names(inputs) == ["recv_backward", "dx", "dx", "send_backward"]
    assert names(weights) == ["dw", "dw"]
    assert (1, 0) in pairs(weights, BACKWARD)  # of the last block
    assert (2, 1) in pairs(weights, BACKWARD)
    assert weights.grads == [{1: 1}, {1: 0}]
