"""Recomputation: forward nodes run again in backward, so that their results need not be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import ceil, prod

from chakrakit.machines.device import operand_sizes
from chakrakit.operators import element_bytes
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers.tape import INPUT, Block, BlockNode


def recomputed(block: Block, how: str) -> Block:
    """A block that keeps less, as `Plan.recompute` says."""
    if how == "full":
        return _full(block)
    if how == "selective":
        return _selective(block)
    return _needed(block, _SAVED[how](block))


# --- whole layers -------------------------------------------------------------------------------


def _full(block: Block) -> Block:
    """All forward nodes again at the start of backward, once the gradient is there."""
    input_bytes = block.input_bytes
    forward = [replace(n, alloc=0) for n in block.forward]
    forward[0].alloc = input_bytes
    again = [_clone(n, {i: i for i in range(len(block.forward))}) for n in block.forward]
    keeper = _first_keeper(block)
    again[keeper].alloc -= input_bytes  # the input was held all along
    return _with_clones(block, forward, again, {i: i for i in range(len(again))})


def _first_keeper(block: Block) -> int:
    """The node that is charged with the input; blocks keep it for their first norm."""
    return next(i for i, n in enumerate(block.forward) if n.alloc >= block.input_bytes)


def _clone(node: BlockNode, place: dict[int, int]) -> BlockNode:
    deps = [place.get(d, INPUT) for d in node.deps]
    return node.again(
        name=f"{node.name}.again", deps=deps or [INPUT], alloc=node.alloc, recompute=True
    )


def _with_clones(
    block: Block, forward: list[BlockNode], again: list[BlockNode], place: dict[int, int]
) -> Block:
    """The block with clones before its backward; `place` says where each is that was read from forward."""
    shift = len(again)
    for weight in block.weights:
        weight.grad_node += shift
    return replace(
        block,
        forward=forward,
        backward=[*again, *(_shifted(n, shift, place) for n in block.backward)],
        backward_end=_moved(block.backward_end, shift),
    )


def _shifted(node: BlockNode, shift: int, place: dict[int, int]) -> BlockNode:
    deps = {_moved(d, shift) for d in node.deps} | {place[s] for s in node.saved if s in place}
    return replace(node, deps=sorted(deps), saved=[s for s in node.saved if s not in place])


def _moved(place: int, shift: int) -> int:
    return place + shift if place >= 0 else place


# --- what gradients read ------------------------------------------------------------------------


def _saved_operators(block: Block) -> set[int]:
    """Nodes whose results torchtitan's policy saves: attention, reductions, every other product.

    It names PyTorch's product of 16 bits alone, so that narrow ones all run again.
    """
    products = [i for i, n in enumerate(block.forward) if n.op == "matmul" and _is_wide(n)]
    reduced = (CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_REDUCE)
    others = {i for i, n in enumerate(block.forward) if n.core or n.comm in reduced}
    return {*products[::2], *others}


def _saved_products(block: Block) -> set[int]:
    return {i for i, n in enumerate(block.forward) if n.op == "matmul"}


_SAVED: dict[str, Callable[[Block], set[int]]] = {
    "needed": lambda _: set(),
    "operators": _saved_operators,
    "others": _saved_products,
}
"""Which results each way of recomputing keeps."""


def _is_wide(node: BlockNode) -> bool:
    return element_bytes(node.dtype) > 1


def _needed(block: Block, saved: set[int]) -> Block:
    """The forward nodes that gradients read, as far back as results are saved, at the start of backward."""
    again = sorted(_read_again(block, saved))
    place = {node: at for at, node in enumerate(again)}
    made = dict.fromkeys(again, 0)
    forward = []
    for i, node in enumerate(block.forward):
        own = node.alloc - sum(size for _, size in node.keeps)  # masks and scores
        forgotten = own if i in place else 0
        for maker, size in node.keeps:
            if maker in place:
                made[maker] += size
                forgotten += size
        if i in place:
            made[i] += own
        forward.append(replace(node, alloc=node.alloc - forgotten))
    clones = []
    for i in again:
        node = block.forward[i]
        clone = node.again(name=f"{node.name}.again", alloc=made[i], recompute=True)
        clone.deps = sorted({place[d] for d in node.deps if d in place}) or [INPUT]
        clone.saved = sorted(d for d in node.deps if d >= 0 and d not in place)
        clones.append(clone)
    _hold(block, forward, clones, again)
    return _with_clones(block, forward, clones, place)


def _read_again(block: Block, saved: set[int]) -> set[int]:
    """Nodes that backward reads and that are not saved, and what these read."""
    found: set[int] = set()
    left = [place for node in block.backward for place in node.saved]
    while left:
        place = left.pop()
        if place >= 0 and place not in found | saved:
            found.add(place)
            left += block.forward[place].deps
    return found


def _hold(
    block: Block, forward: list[BlockNode], clones: list[BlockNode], again: Iterable[int]
) -> None:
    """Holds what clones read and nobody else keeps until the last of them has read it."""
    kept = {maker for node in block.forward for maker, _ in node.keeps}
    last: dict[int, BlockNode] = {}
    for clone, i in zip(clones, again, strict=True):
        for read in (*clone.saved, *(d for d in block.forward[i].deps if d == INPUT)):
            last[read] = clone
    for read, clone in last.items():
        if read not in kept:
            size = block.input_bytes if read == INPUT else _made_bytes(block.forward[read])
            forward[max(read, 0)].alloc += size
            clone.free += size


def _made_bytes(node: BlockNode) -> int:
    """Bytes of a saved node's result: of a collective, or of a product by its shapes."""
    if node.comm is not None:
        return node.out_size
    (*batch, rows, _), (*_, columns) = operand_sizes(node.shapes)
    return ceil(prod(batch) * rows * columns * max(_WIDE, element_bytes(node.dtype)))


_WIDE = 2
"""Bytes of an element that a narrow product makes."""


# --- attention alone ----------------------------------------------------------------------------


def _selective(block: Block) -> Block:
    """The attention core again, just before its own backward."""
    core = [i for i, n in enumerate(block.forward) if n.core]
    if not core:
        return block
    at = next(i for i, n in enumerate(block.backward) if n.core)
    place = {i: at + k for k, i in enumerate(core)}
    inner = _inner(block, core)
    forward = [replace(n, alloc=n.alloc - inner.get(i, 0)) for i, n in enumerate(block.forward)]
    again = []
    for i in core:
        clone = _clone(block.forward[i], place)
        clone.saved = [d for d in block.forward[i].deps if d not in place and d >= 0]
        clone.deps = sorted({*(d for d in clone.deps if d >= 0), *_gradient(block, at)})
        clone.alloc = inner.get(i, 0)
        again.append(clone)
    shift = {i: i if i < at else i + len(core) for i in range(-1, len(block.backward))}
    backward = [replace(n, deps=[shift[d] for d in n.deps]) for n in block.backward]
    backward[at].deps.append(at + len(core) - 1)
    for weight in block.weights:
        weight.grad_node = shift[weight.grad_node]
    return replace(
        block,
        forward=forward,
        backward=[*backward[:at], *again, *backward[at:]],
        backward_end=shift[block.backward_end],
    )


def _gradient(block: Block, at: int) -> list[int]:
    """What the core's backward waits for, so that recompute starts no earlier."""
    return block.backward[at].deps


def _inner(block: Block, core: list[int]) -> dict[int, int]:
    """Bytes that only the core's own backward needs: its scores."""
    return {i: block.forward[i].inner for i in core if block.forward[i].inner}
