"""Tape: records what a block does to one micro-batch; communication and backward follow from it.

A block of a model is a function that calls operators on a tape. Each operator says how it wants its
inputs cut; where they are cut otherwise the tape inserts the collective (`sharding.py`). Backward is
the tape read from its end: an operator's gradients are cut as its arithmetic makes them, and are
brought to the cutting of the tensor they belong to by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from math import ceil
from typing import Any, TypeAlias

from chakrakit.operators import element_bytes
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import Format
from chakrakit.workloads.layers.exchange import Exchange
from chakrakit.workloads.layers.sharding import Degrees, Dim, Move, Tensor, moves

INPUT = -1
"""A dependency on the block's own input, or in backward on the gradient of its output."""


@dataclass(eq=False)
class BlockNode:
    """One node of a block's forward or backward list. Sizes are what one rank has, in bytes.

    `deps` are places in the same list or INPUT; `saved` are places in the forward list that a
    backward node reads. `alloc` bytes stay held after the node, `free` bytes are released by it.
    """

    name: str
    op: str
    flops: int = 0
    vector_ops: int = 0
    bytes: int = 0
    dtype: str = ""
    comm: CollectiveType | None = None
    comm_size: int = 0
    out_size: int = 0
    role: str = ""
    """Group of a collective, peer of a message."""
    deps: list[int] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    alloc: int = 0
    free: int = 0
    keeps: list[tuple[int, int]] = field(default_factory=list)
    """Tensors of `alloc`: the places in the forward list that made them, or INPUT, and their bytes."""
    stays: int = 0
    """Bytes of gathered parameters that a pipeline keeps for all micro-batches: the part of `alloc`, or less
    than 0 the part of `free`."""
    weight: bool = False
    """Belongs to the gradient of weights, which a schedule may put off."""
    routed: bool = False
    """Grows with the tokens routed to this rank's experts."""
    core: bool = False
    """Attention itself: what selective recompute does twice, and what documents change."""
    replicas: int = 1
    """Ranks of one data-parallel replica that do this very same work."""
    recompute: bool = False
    shapes: str = ""
    """Shapes of the operands on this rank, as recorded traces have them."""
    inner: int = 0
    """The part of `alloc` that only this node's own backward needs: scores."""
    reach: Any = None
    """Which keys attention meets; its work grows with them."""
    key_bytes: float = 0.0
    """Bytes that attention reads of each cached key that it meets."""
    per_sequence: int = 0
    """The part of `bytes` that every sequence adds, however many tokens it has: a recurrence's state."""

    def again(self, **changes: Any) -> BlockNode:
        """Returns a node of the same cost without dependencies and without memory of its own."""
        fresh: dict[str, Any] = {
            "deps": [],
            "saved": [],
            "alloc": 0,
            "free": 0,
            "keeps": [],
            "stays": 0,
            "inner": 0,
        }
        return replace(self, **{**fresh, **changes})


@dataclass(eq=False)
class Weight:
    """A parameter, or all of one kind of a layer. `tensor` is how it is cut."""

    name: str
    tensor: Tensor
    kind: str = "matrix"
    """matrix (matmul), vector (norms, biases) or table (lookups)."""
    expert: bool = False
    partial: frozenset[str] = frozenset()
    """Axes besides data that its gradient must be summed over."""
    grad_node: int = -1
    """The backward node that completes its gradient."""
    tied: bool = False
    """A second copy of a table that another stage holds."""
    format: Format | None = None
    """How it is kept where that is not the step's element type."""
    wide: bool = False
    """Whether training multiplies it in the step's element type where other products are narrow."""

    @property
    def all_elements(self) -> int:
        """Elements over all ranks."""
        return self.tensor.elements({})

    def bytes(self, degrees: Degrees) -> int:
        """Bytes one rank holds, scales included."""
        if self.format is None:
            return self.tensor.bytes(degrees)
        return self.format.size(*(ceil(d.local(degrees)) for d in self.tensor.dims))


@dataclass(frozen=True)
class Settings:
    """What a tape must know about plan and step."""

    degrees: Degrees
    _: KW_ONLY
    dtype: str = "bf16"
    matmul_dtype: str = ""
    narrow_head: bool = False
    training: bool = True
    samples: bool = False
    """Whether the next tokens are drawn from the logits, which then must be whole."""
    save_gathered: bool = True
    shared_reduce: bool = True
    fused_weight_grads: bool = True
    """Whether input gradients are reduced beside the products of weights' gradients, not after them."""
    adds_weight_grads: bool = False
    """Whether a kernel of its own adds each product to the gradient of earlier micro-batches."""
    grad_dtype: str = ""
    """Element type of kept gradients; empty: dtype."""
    touched: float = 1.0
    """Part of the experts that the tokens at hand need, whose weights are read."""
    tp_overlap: bool = False
    reorders_tokens: bool = False
    """Whether a kernel brings what tp gathers, and what it is to scatter, into order."""
    folds_experts: bool = False
    """Whether expert parallelism takes in the ranks of tp, which then cut no expert."""
    exchange: Exchange | None = None
    """How tokens reach their experts; None for a copy for each of them."""
    cache_dtype: str = ""
    """Element type of cached keys and values; empty: dtype."""

    @property
    def cached_bytes(self) -> float:
        """Bytes of an element in the cache."""
        return element_bytes(self.cache_dtype or self.dtype)


@dataclass(eq=False)
class Block:
    """What a tape recorded: forward and backward nodes of one micro-batch, and the weights."""

    name: str
    forward: list[BlockNode]
    backward: list[BlockNode]
    weights: list[Weight]
    input_bytes: int
    forward_end: int
    """The node that makes the output."""
    backward_end: int
    """The node that makes the gradient of the input; -1 where nobody wants one."""


Grads: TypeAlias = "list[tuple[Tensor, Tensor]]"
"""Pairs of an input and its gradient."""


@dataclass(eq=False)
class _Op:
    output: Tensor
    backward: Callable[[Tensor], Grads]
    passes: bool
    """Whether gradients pass through unchanged, unreduced sums included, as in a change of sharding."""


class Tape:
    """Records one block. Make it, call operators on tensors, then `finish(output)`."""

    def __init__(
        self, name: str, settings: Settings, formats: Mapping[str, Format] | None = None
    ) -> None:
        self.name = name
        self.formats = formats or {}
        self._learns = settings.training
        self.settings = settings
        self.degrees = settings.degrees
        self.forward: list[BlockNode] = []
        self.backward: list[BlockNode] = []
        self.weights: list[Weight] = []
        self._ops: list[_Op] = []
        self._saved: dict[int, Tensor] = {}
        self._grads: dict[int, list[Tensor]] = {}
        self._regathered: dict[int, int] = {}
        self._cuts: dict[tuple[object, ...], tuple[Tensor, Tensor]] = {}
        self._input: Tensor | None = None

    # --- what operators use ---------------------------------------------------------------------

    def input(self, *dims: Dim, needs_grad: bool = True) -> Tensor:
        """What the block gets from the one before it."""
        self._input = Tensor(dims, self.settings.dtype, needs_grad=needs_grad)
        return self._input

    def weight(self, name: str, *dims: Dim, kind: str = "matrix", expert: bool = False) -> Weight:
        """A parameter of the block."""
        weight = Weight(name, Tensor(dims, self.settings.dtype), kind, expert)
        weight.format = self.formats.get(name.removesuffix(".weight"))
        weight.grad_node = 0 if self.settings.training and not self._learns else -1
        self.weights.append(weight)
        return weight

    def emit(self, node: BlockNode, inputs: Iterable[Tensor]) -> int:
        """Adds a forward node that reads these tensors; returns its place."""
        node.deps = sorted({t.node for t in inputs})
        self.forward.append(node)
        return len(self.forward) - 1

    def emit_backward(
        self, node: BlockNode, grads: Iterable[Tensor] = (), reads: Iterable[Tensor] = ()
    ) -> int:
        """Adds a backward node that waits for gradients and reads what forward made."""
        node.deps = sorted({g.node for g in grads} | set(node.deps))
        node.saved = sorted({t.node for t in reads if t.node >= 0})
        self.backward.append(node)
        return len(self.backward) - 1

    def record(
        self, output: Tensor, backward: Callable[[Tensor], Grads], passes: bool = False
    ) -> Tensor:
        """Remembers how to go back through an operator."""
        if self._learns and output.needs_grad:
            self._ops.append(_Op(output, backward, passes))
        return output

    def keep(self, node: int, *tensors: Tensor, dtype: str = "") -> int:
        """Keeps tensors for backward, each once; the node that first asks allocates them.

        Returns the bytes.
        """
        if not self._learns:
            return 0
        total = 0
        for tensor in tensors:
            stored = self._stored(tensor)
            if id(stored) not in self._saved:
                self._saved[id(stored)] = stored
                width = element_bytes(dtype or stored.dtype)
                size = ceil(stored.elements(self.degrees) * width)
                self.forward[node].keeps.append((stored.node, size))
                total += size
        self.forward[node].alloc += total
        return total

    def _stored(self, tensor: Tensor) -> Tensor:
        """What is kept of a tensor: the cut one it was gathered from, if it can be gathered again."""
        if self.settings.save_gathered or tensor.gathered_from is None:
            return tensor
        return tensor.gathered_from

    def reshard(self, have: Tensor, want: Tensor, name: str = "", routed: bool = False) -> Tensor:
        """Returns `have` sharded like `want`, with the collectives this takes.

        Every caller shares one result.
        """
        key = (id(have), tuple(d.axes for d in want.dims), want.partial)
        if key not in self._cuts:
            same = [d.axes for d in have.dims] == [d.axes for d in want.dims]
            plain = same and have.partial == want.partial
            self._cuts[key] = (have, have if plain else self._moved(have, want, name, routed))
        return self._cuts[key][1]

    def _moved(self, have: Tensor, want: Tensor, name: str, routed: bool) -> Tensor:
        place, last = have.node, None
        for last in self._moves(have, want):
            node = self._collective(
                name or self.name, last.kind, last.axis, last.size, last.out_size
            )
            node.dtype, node.routed, node.deps = have.dtype, routed, [place]
            place = self._in_order(self.forward, node, last, have.dtype)
        gathered = last is not None and last.kind is CollectiveType.ALL_GATHER and last.axis == "tp"
        dims = tuple(Dim(h.size, w.axes) for h, w in zip(have.dims, want.dims, strict=True))
        after = Tensor(
            dims, have.dtype, want.partial, place, have if gathered else None, have.needs_grad
        )
        return self.record(after, lambda grad: [(have, grad)], passes=True)

    def _in_order(self, nodes: list[BlockNode], node: BlockNode, move: Move, dtype: str) -> int:
        """Adds a collective and, where tokens do not lie as it needs or leaves them, a copy of all."""
        kinds = (CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER)
        copied = self.settings.reorders_tokens and move.axis == "tp" and move.kind in kinds
        copy = BlockNode(
            f"{node.name}.order", "vector", bytes=2 * max(move.size, move.out_size), dtype=dtype
        )
        pair = (node, copy) if move.kind is CollectiveType.ALL_GATHER else (copy, node)
        deps = node.deps
        for each in pair if copied else (node,):
            each.deps = deps
            nodes.append(each)
            deps = [len(nodes) - 1]
        return deps[0]

    def _moves(self, have: Tensor, want: Tensor) -> Iterator[Move]:
        exchange = self.settings.exchange
        for move in moves(have, want, self.degrees):
            yield from exchange.moves(move) if exchange else (move,)

    def _collective(
        self, name: str, kind: CollectiveType, axis: str, size: int, out_size: int
    ) -> BlockNode:
        label = f"{name}.{kind.name.lower()}_{axis}"
        return BlockNode(
            label, "collective", comm=kind, comm_size=size, out_size=out_size, role=axis
        )

    def regather(self, tensor: Tensor, name: str) -> int:
        """For backward: the place where a tensor kept cut is gathered again; -1 if it was kept whole."""
        stored = self._stored(tensor)
        if stored is tensor:
            return -1
        if id(tensor) not in self._regathered:
            for move in moves(stored, tensor, self.degrees):
                node = self._collective(
                    f"{name}.again", move.kind, move.axis, move.size, move.out_size
                )
                node.dtype, node.weight, node.deps = stored.dtype, True, [INPUT]
                node.saved = [stored.node] if stored.node >= 0 else []
                self.backward.append(node)
            self._regathered[id(tensor)] = len(self.backward) - 1
        return self._regathered[id(tensor)]

    @contextmanager
    def without_gradient(self) -> Iterator[None]:
        """Operators inside keep nothing for backward and have no gradient."""
        learned, self._learns = self._learns, False
        yield
        self._learns = learned

    # --- going back -----------------------------------------------------------------------------

    def finish(self, output: Tensor, starts_backward: bool = False) -> Block:
        """Closes the tape. `starts_backward`: the output is the loss, no gradient comes from outside."""
        if self.settings.training:
            first = Tensor(output.dims, output.dtype, node=INPUT)
            self._grads[id(output)] = [first]
            for op in reversed(self._ops):
                self._step_back(op)
            if starts_backward:
                self.backward[0].deps = []
        end = self._input_gradient()
        block_input = self._input.bytes(self.degrees) if self._input else 0
        return Block(
            self.name, self.forward, self.backward, self.weights, block_input, output.node, end
        )

    def _step_back(self, op: _Op) -> None:
        arrived = self._grads.get(id(op.output))
        if not arrived:
            return
        grads = arrived if op.passes else [self._brought(arrived, op.output)]
        for tensor, piece in (pair for g in grads for pair in op.backward(g)):
            if tensor.needs_grad:
                if not self.settings.shared_reduce and piece.partial:
                    piece = self._brought([piece], tensor)
                self._grads.setdefault(id(tensor), []).append(piece)

    def _brought(self, arrived: Sequence[Tensor], target: Tensor) -> Tensor:
        """The sum of gradients, cut as the tensor they belong to."""
        goal = Tensor(target.dims, target.dtype)
        alike = _alike(arrived)
        parts = [arrived[0]] if alike else [self._moved_back(g, goal) for g in arrived]
        nodes = sorted({g.node for g in (arrived if alike else parts)})
        if not alike:
            return self._joined(goal, nodes)
        return self._moved_back(parts[0], goal, nodes)

    def _joined(self, goal: Tensor, nodes: list[int]) -> Tensor:
        """One gradient that waits for several nodes; the last of them stands for all."""
        if len(nodes) > 1:
            last = self.backward[nodes[-1]]
            last.deps = sorted(set(last.deps) | set(nodes[:-1]))
        return Tensor(goal.dims, goal.dtype, node=nodes[-1])

    def _moved_back(self, grad: Tensor, goal: Tensor, nodes: Sequence[int] | None = None) -> Tensor:
        places = list(nodes) if nodes else [grad.node]
        for move in self._moves(grad, goal):
            node = self._collective(
                f"{self.name}.grad", move.kind, move.axis, move.size, move.out_size
            )
            node.dtype, node.deps = grad.dtype, places
            node.routed = self._is_routed(places)
            places = [self._in_order(self.backward, node, move, grad.dtype)]
        return self._joined(goal, places)

    def _is_routed(self, places: Sequence[int]) -> bool:
        return any(p >= 0 and self.backward[p].routed for p in places)

    def _input_gradient(self) -> int:
        if self._input is None or not self._grads.get(id(self._input)):
            return -1
        return self._brought(self._grads[id(self._input)], self._input).node


def _alike(grads: Sequence[Tensor]) -> bool:
    """Whether gradients are cut the same, so that they can be added where they are."""
    first = grads[0]
    return all(
        g.partial == first.partial and [d.axes for d in g.dims] == [d.axes for d in first.dims]
        for g in grads[1:]
    )
