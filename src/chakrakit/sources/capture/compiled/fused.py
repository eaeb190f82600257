"""A recording whose compiled calls run as kernels: one for every group of operators, and libraries' own."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from itertools import pairwise

import msgspec

from chakrakit.operators import Operand
from chakrakit.sources.capture.compiled.grouping import FusionGroup, groups_of
from chakrakit.sources.capture.compiled.memory import CompiledMemory
from chakrakit.sources.capture.compiled.pieces import GraphPiece, PieceKind, Value, pieces_of
from chakrakit.sources.capture.compiled.stored import Sources, StorageRule
from chakrakit.sources.capture.recording import CapturedRank, Op, Signature

_LONGEST = 120
"""Letters of a kernel's name; all of its operators are in an attribute."""
_NORMS_BACKWARD = ("native_layer_norm_backward", "_fused_rms_norm_backward")
_PERSISTENT = 1024
"""Elements of a row that Inductor still keeps whole in a block (`triton.persistent_reductions`)."""


def fused(recording: CapturedRank) -> CapturedRank:
    """The recording with the kernels of its compiled calls; itself where nothing is compiled."""
    if all(op.compiled < 0 for op in recording.ops):
        return recording
    return _Fusion(recording).result()


class _Fusion:
    def __init__(self, recording: CapturedRank) -> None:
        self.recording = recording
        self.pieces = pieces_of(recording)
        self.groups = groups_of(self.pieces)
        self.stored = StorageRule(self.pieces, self.groups, recording.lifetimes)
        self.memory = CompiledMemory(recording, self.pieces)
        self.signatures = list(recording.signatures)
        self._numbers: dict[Signature, int] = {}

    def result(self) -> CapturedRank:
        kernels = {g: self._kernel(g) for g in dict.fromkeys(self.groups.values())}
        self._move_memory(kernels)
        ops: list[Op] = []
        places: dict[int, int] = {}
        for item in self._order():
            if isinstance(item, FusionGroup):
                made = [k for k in (kernels[item], *self._column_kernels(item)) if k is not None]
                self.memory.hand_over(item.pieces, made[:1], ops[-1:])
                ops += made
            elif _vanishes(item):
                self.memory.hand_over([item], [], ops[-1:])
            else:
                op = msgspec.structs.replace(self.recording.ops[item.place], alloc=0, free=0)
                self.memory.hand_over([item], [op], [])
                places[item.place] = len(ops)
                ops.append(op)
        for op in ops:
            op.waits_for = places.get(op.waits_for, -1)
            op.after = [places[i] for i in op.after if i in places]
        peak = self.memory.peak_after(ops)
        return msgspec.structs.replace(
            self.recording, ops=ops, signatures=self.signatures, peak_bytes=peak
        )

    # --- kernels --------------------------------------------------------------------------------

    def _kernel(self, group: FusionGroup) -> Op | None:
        """The kernel of a group; None where nobody needs what it would write."""
        columns = {id(v) for p in group.pieces for v in _weight_gradients(p)}
        writes: Sources = dict(self.stored.statistics.get(group, {}))
        for piece in group.pieces:
            for value in piece.writes:
                if self.stored(value) and id(value) not in columns:
                    writes[value.storage] = value.operand
        if not writes:
            return None
        inside = [*group.pieces, *self.stored.computed_again(group)]
        return self._op(group, inside, self.stored.reads(group), writes)

    def _column_kernels(self, group: FusionGroup) -> list[Op]:
        """The kernel that sums a norm's gradient over rows, for its weights."""
        kernels = []
        for piece in group.pieces:
            writes = {v.storage: v.operand for v in _weight_gradients(piece) if self.stored(v)}
            if writes:
                alone = FusionGroup(group.graph, piece.space, closed=True, pieces=[piece])
                kernels.append(self._op(alone, [piece], self.stored.reads(alone), writes))
        return kernels

    def _op(
        self, group: FusionGroup, inside: list[GraphPiece], reads: Sources, writes: Sources
    ) -> Op:
        last = self.recording.ops[group.pieces[-1].place]
        signature = self._signature(group, inside, reads, writes)
        number = self._numbers.get(signature)
        if number is None:
            number = self._numbers[signature] = len(self.signatures)
            self.signatures.append(signature)
        return Op(
            signature=number,
            module=last.module,
            phase=last.phase,
            step=last.step,
            reads=[s for s in reads if s >= 0],
            writes=[s for s in writes if s >= 0],
            micro_batch=last.micro_batch,
            compiled=last.compiled,
            stream=last.stream,
        )

    def _signature(
        self, group: FusionGroup, inside: list[GraphPiece], reads: Sources, writes: Sources
    ) -> Signature:
        """As PyTorch records a generated kernel: tensors read and written, then the index space."""
        tensors = [*reads.values(), *writes.values()]
        space = _index_space(group)
        plain: list[list[int]] = [[] for _ in space]
        work = (self.recording.signatures[self.recording.ops[p.place].signature] for p in inside)
        largest = max(writes.values(), key=lambda o: o.elements)
        return Signature(
            name=_name(group, inside),
            inputs_shapes=_text([*map(_shape, tensors), *plain]),
            inputs_types=_text([*map(_type, tensors), *("Int" for _ in space)]),
            inputs_strides=_text([*map(_strides, tensors), *plain]),
            outputs_shapes=_text([_shape(o) for o in writes.values()]),
            outputs_types=_text([_type(o) for o in writes.values()]),
            outputs_strides=_text([_strides(o) for o in writes.values()]),
            inputs_values=_text([*("<Tensor>" for _ in tensors), *space]),
            flops=0,
            vector_ops=sum(s.vector_ops for s in work),
            moved=sum(o.touched for o in tensors),
            dtype=self.memory.dtype_of(largest),
            op_type="vector",
            is_host=False,
            operators=_listed(inside),
        )

    # --- order and memory -----------------------------------------------------------------------

    def _move_memory(self, kernels: dict[FusionGroup, Op | None]) -> None:
        """Take back memory of what is not written, and keep what is computed again from."""
        kept = {v.storage for p in self.pieces for v in p.writes if self.stored(v)}
        for piece in self.pieces:
            for value in piece.writes:
                if value.storage not in kept:
                    self.memory.take_back(value)
        for group, kernel in kernels.items():
            for storage in kernel.reads if kernel is not None else ():
                self.memory.keep_until(storage, group.pieces[-1].place)

    def _order(self) -> list[GraphPiece | FusionGroup]:
        """Pieces with kernels of their own in their order, and groups as late as they may be."""
        items: list[GraphPiece | FusionGroup] = list(
            dict.fromkeys(self._item(p) for p in self.pieces)
        )
        waits: dict[GraphPiece | FusionGroup, set[GraphPiece | FusionGroup]] = {
            item: set() for item in items
        }
        singles = [item for item in items if isinstance(item, GraphPiece) and not _vanishes(item)]
        for earlier, later in pairwise(singles):
            waits[later].add(earlier)
        for piece in self.pieces:
            item = self._item(piece)
            places = [v.writer for _, _, v in piece.reads if v is not None] + piece.before
            waits[item] |= {self._item(self.pieces[p]) for p in places} - {item}
        return _sorted(items, waits)

    def _item(self, piece: GraphPiece) -> GraphPiece | FusionGroup:
        return self.groups.get(piece.place, piece)


def _vanishes(piece: GraphPiece) -> bool:
    """Whether it is a view inside of what is compiled, which runs nowhere and holds nothing up."""
    return piece.kind is PieceKind.STILL and piece.graph[0] >= 0


def _sorted(
    items: list[GraphPiece | FusionGroup],
    waits: dict[GraphPiece | FusionGroup, set[GraphPiece | FusionGroup]],
) -> list[GraphPiece | FusionGroup]:
    followers: dict[GraphPiece | FusionGroup, list[GraphPiece | FusionGroup]] = {
        item: [] for item in items
    }
    for item, before in waits.items():
        for earlier in before:
            followers[earlier].append(item)
    left = {item: len(before) for item, before in waits.items()}
    ready = [(_latest(item), i, item) for i, item in enumerate(items) if not left[item]]
    number = {item: i for i, item in enumerate(items)}
    heapq.heapify(ready)
    order = []
    while ready:
        *_, item = heapq.heappop(ready)
        order.append(item)
        for follower in followers[item]:
            left[follower] -= 1
            if not left[follower]:
                heapq.heappush(ready, (_latest(follower), number[follower], follower))
    assert len(order) == len(items), "kernels that wait for one another"
    return order


def _latest(item: GraphPiece | FusionGroup) -> float:
    if isinstance(item, GraphPiece):
        return item.place
    return min(item.pieces[-1].place, item.before - 0.5)


def _weight_gradients(piece: GraphPiece) -> list[Value]:
    """Results of a norm's backward that are sums over its rows."""
    if piece.call.short not in _NORMS_BACKWARD:
        return []
    return [v for v in piece.writes if v.operand.elements < piece.space]


def _index_space(group: FusionGroup) -> list[int]:
    """Results, and elements that are folded for each."""
    results = group.rows or (group.results if group.closed else 0)
    return [results, max(1, group.space // results)] if results else [group.space]


def _name(group: FusionGroup, inside: list[GraphPiece]) -> str:
    words = sorted({p.call.short.strip("_") for p in inside})
    space = _index_space(group)
    shape = "poi" if len(space) == 1 else "per" if space[1] <= _PERSISTENT else "red"
    name = f"triton_{shape}_fused_{'_'.join(words)}"
    return name if len(name) <= _LONGEST else name[:_LONGEST].rpartition("_")[0]


def _listed(inside: list[GraphPiece]) -> str:
    """`aten::add 2, aten::mul`: the operators in a kernel, and how often each."""
    counts = Counter(p.call.name for p in inside)
    return ", ".join(f"{name} {n}" if n > 1 else name for name, n in counts.items())


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _shape(operand: Operand) -> list[int]:
    return list(operand.shape)


def _strides(operand: Operand) -> list[int]:
    return list(operand.strides or ())


def _type(operand: Operand) -> str:
    return f"Tensor({operand.dtype})"
