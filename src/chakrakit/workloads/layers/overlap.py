"""Tensor-parallel collectives beside the products that read or make their data.

Recipes of Megatron-Core (`tp_comm_overlap`) cut both into pieces and exchange one piece while another is
multiplied. Here a collective and its product start together, and what comes after waits for both: the time
of the longer one, which is what ever smaller pieces lead to.
"""

from __future__ import annotations

from collections.abc import Iterable

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers.tape import Block, Node


def overlapped(block: Block) -> Block:
    """The same block; its nodes are changed in place."""
    _overlap(block.forward, block.forward_end)
    _overlap(block.backward, block.backward_end)
    return block


def _overlap(nodes: list[Node], end: int) -> None:
    before = [list(node.deps) for node in nodes]
    for place, node in enumerate(nodes):
        if node.role != "tp" or node.weight:
            continue
        if node.comm is CollectiveType.ALL_GATHER:
            readers = [
                i for i, deps in enumerate(before) if place in deps and _is_product(nodes[i])
            ]
            for reader in (r for r in readers if r != end):
                nodes[reader].deps = _replaced(nodes[reader].deps, [place], node.deps)
                _wait_too(nodes, before, reader, [place])
        elif node.comm is CollectiveType.REDUCE_SCATTER and place != end:
            makers = [i for i in before[place] if i >= 0 and _is_product(nodes[i])]
            if makers:
                starts = [i for maker in makers for i in before[maker]]
                node.deps = _replaced(node.deps, makers, starts)
                _wait_too(nodes, before, place, makers)


def _is_product(node: Node) -> bool:
    return node.op == "matmul"


def _replaced(deps: Iterable[int], old: Iterable[int], new: Iterable[int]) -> list[int]:
    return sorted({*deps} - {*old} | {*new})


def _wait_too(nodes: list[Node], before: list[list[int]], place: int, others: list[int]) -> None:
    """Who waited for a node waits for these too."""
    for node, deps in zip(nodes, before, strict=True):
        if place in deps:
            node.deps = sorted({*node.deps, *others})
