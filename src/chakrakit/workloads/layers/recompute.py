"""Activation recompute: forward nodes done again in backward instead of keeping what they made."""

from __future__ import annotations

from dataclasses import replace

from chakrakit.workloads.layers.tape import INPUT, Block, Node


def recomputed(block: Block, how: str) -> Block:
    """A block that keeps less: `full` keeps only its input, `selective` all but the attention core's."""
    if how == "full":
        return _full(block)
    return _selective(block)


def _full(block: Block) -> Block:
    """All forward nodes again at the start of backward, once the gradient is there."""
    held = block.input_bytes
    forward = [replace(n, alloc=0) for n in block.forward]
    forward[0].alloc = held
    again = [_clone(n, {i: i for i in range(len(block.forward))}) for n in block.forward]
    shift = len(again)
    kept = _first_keeper(block)
    again[kept].alloc -= held  # the input was held all along
    backward = [_shifted(n, shift) for n in block.backward]
    weights = block.weights
    for weight in weights:
        weight.grad_node += shift
    return replace(
        block,
        forward=forward,
        backward=[*again, *backward],
        backward_end=_moved(block.backward_end, shift),
    )


def _first_keeper(block: Block) -> int:
    """The node that is charged with the input; blocks keep it for their first norm."""
    return next(i for i, n in enumerate(block.forward) if n.alloc >= block.input_bytes)


def _clone(node: Node, place: dict[int, int]) -> Node:
    deps = [place.get(d, INPUT) for d in node.deps]
    return node.again(
        name=f"{node.name}.again", deps=deps or [INPUT], alloc=node.alloc, recompute=True
    )


def _shifted(node: Node, shift: int) -> Node:
    """What was read from forward is read from the clones, which are at the same places."""
    deps = [_moved(d, shift) for d in node.deps]
    return replace(node, deps=sorted({*deps, *node.saved}), saved=[])


def _moved(place: int, shift: int) -> int:
    return place + shift if place >= 0 else place


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
