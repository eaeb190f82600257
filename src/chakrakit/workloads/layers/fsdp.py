"""Sharded parameters and gradients: weights are gathered before use, gradients scattered where they arise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers.sharding import BYTES, Degrees
from chakrakit.workloads.layers.tape import Block, BlockNode, Weight


@dataclass(frozen=True, kw_only=True)
class GatherUnit:
    """What is gathered at once: elements this rank needs, the group that shares them, and when."""

    elements: int
    role: str
    ranks: int
    param_dtype: str
    grad_dtype: str
    reshard: bool
    scatter: bool
    """Whether gradients are reduced in the block itself, or at the end of the step."""
    expert: bool = False
    in_pipeline: bool = False
    """Whether what is not resharded stays until no micro-batch of the step needs it any more."""

    @property
    def stays(self) -> int:
        """Bytes that all micro-batches of a step share."""
        return self.gathered if self.in_pipeline and not self.reshard else 0

    @property
    def gathered(self) -> int:
        """Bytes of the gathered parameters."""
        return self.elements * BYTES[self.param_dtype]

    def gather(self, name: str) -> BlockNode:
        """The node that gathers."""
        shard = -(-self.elements // self.ranks) * BYTES[self.param_dtype]
        return BlockNode(
            f"{name}.gather",
            "collective",
            comm=CollectiveType.ALL_GATHER,
            comm_size=shard,
            out_size=self.gathered,
            role=self.role,
            dtype=self.param_dtype,
            alloc=self.gathered,
            stays=self.stays,
        )

    def scatter_gradients(self, name: str) -> BlockNode:
        """The node that reduces gradients and leaves each rank its part."""
        size = self.elements * BYTES[self.grad_dtype]
        shard = -(-self.elements // self.ranks) * BYTES[self.grad_dtype]
        return BlockNode(
            f"{name}.scatter",
            "collective",
            comm=CollectiveType.REDUCE_SCATTER,
            comm_size=size,
            out_size=shard,
            role=self.role,
            dtype=self.grad_dtype,
            weight=True,
        )


def elements(weights: Sequence[Weight], degrees: Degrees) -> int:
    """Elements a rank has of these weights before any are sharded over data."""
    return sum(w.tensor.elements(degrees) for w in weights)


def sharded(block: Block, units: Sequence[GatherUnit]) -> Block:
    """The block with its units gathered before forward and backward, and gradients scattered after."""
    if not units:
        return block
    again = [u.gather(block.name) for u in units if u.reshard]
    forward = _gathered(block.forward, [u.gather(block.name) for u in units])
    _frees(forward, len(forward) - 1, [u for u in units if u.reshard])
    backward = _gathered(block.backward, again, len(units))
    users = [
        i for i, n in enumerate(backward) if not n.weight
    ]  # gradients of weights need no weights
    _frees(backward, users[-1] if users else len(backward) - 1, units)
    weights = [replace(w, grad_node=w.grad_node + len(again)) for w in block.weights]
    end = block.backward_end + len(again) if block.backward_end >= 0 else -1
    gathered = replace(
        block,
        forward=forward,
        backward=backward,
        weights=weights,
        backward_end=end,
        forward_end=block.forward_end + len(units),
    )
    return scattered(gathered, units)


def scattered(block: Block, units: Sequence[GatherUnit]) -> Block:
    """The block with the gradients scattered of those units that do so in every backward pass."""
    if not any(unit.scatter for unit in units):
        return block
    backward, weights = list(block.backward), [replace(w) for w in block.weights]
    grad_nodes = {e: sorted({w.grad_node for w in weights if w.expert == e}) for e in (False, True)}
    for unit in units:
        if unit.scatter:
            node = unit.scatter_gradients(block.name)
            node.deps = grad_nodes[unit.expert]
            backward.append(node)
            for weight in (w for w in weights if w.expert == unit.expert):
                weight.grad_node = len(backward) - 1  # complete only once it is reduced
    return replace(block, backward=backward, weights=weights)


def _frees(nodes: list[BlockNode], at: int, units: Sequence[GatherUnit]) -> None:
    freed = sum(u.gathered for u in units)
    stays = sum(u.stays for u in units)
    nodes[at] = replace(nodes[at], free=nodes[at].free + freed, stays=-stays)


def _gathered(
    nodes: Sequence[BlockNode], gathers: list[BlockNode], forward_shift: int = 0
) -> list[BlockNode]:
    """Nodes after gathers; whatever had nothing to wait for inside now waits for all gathers."""
    shift = len(gathers)
    moved = [_moved(n, shift, forward_shift) for n in nodes]
    for node in moved:
        if not any(d >= shift for d in node.deps):
            node.deps = [*node.deps, *range(shift)]
    return [*gathers, *moved]


def _moved(node: BlockNode, shift: int, forward_shift: int) -> BlockNode:
    deps = [d + shift if d >= 0 else d for d in node.deps]
    return replace(node, deps=deps, saved=[s + forward_shift for s in node.saved])
