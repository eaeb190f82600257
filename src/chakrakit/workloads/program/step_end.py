"""The end of a step: gradients reduced, clipped, applied; parameters handed round again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from chakrakit.operators import ADAM, SGD
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import Step
from chakrakit.workloads.layers import BYTES, Node
from chakrakit.workloads.program.layout import HeldWeight, Layout

# Bytes of an optimizer: what it keeps for each parameter, and what an update moves.


def optimizer_state(step: Step) -> int:
    """Bytes per parameter: a master copy in fp32 unless parameters are, and Adam's two moments."""
    master = 0 if step.dtype == "fp32" else 4
    return {"adam": master + 8, "sgd": master, "none": 0}[step.optimizer]


def optimizer_bytes(step: Step) -> int:
    """Bytes a parameter's update moves: gradient in, state in and out, parameter out."""
    return BYTES[step.grad_dtype or "fp32"] + 2 * optimizer_state(step) + BYTES[step.dtype]


@dataclass(frozen=True)
class StepEndNode:
    """A node after the last task: the node, the gradients it waits for, and the tail nodes."""

    node: Node
    phase: str
    grads: tuple[HeldWeight, ...] = ()
    after: tuple[int, ...] = ()


@dataclass
class _StepEnd:
    """Collects the nodes of one stage's end."""

    layout: Layout
    stage: int
    nodes: list[StepEndNode] = field(default_factory=list)
    gates: list[int] = field(default_factory=list)
    """Nodes that must be done before the optimizer starts."""

    @property
    def grad_dtype(self) -> str:
        """Element type of gradients."""
        return self.layout.workload.step.grad_dtype or "fp32"

    def ranks(self, role: str) -> int:
        """Size of a role's groups."""
        return self.layout.mesh.degree(role)

    def elements(self, held: Sequence[HeldWeight]) -> int:
        """Elements of weights on this rank."""
        return self.layout.held([h.weight for h in held])

    def collective(
        self,
        name: str,
        kind: CollectiveType,
        role: str,
        elements: int,
        dtype: str = "",
        held: Sequence[HeldWeight] = (),
        after: Sequence[int] = (),
        phase: str = "sync",
    ) -> int:
        """A collective over elements of this rank; sizes follow from what it does to them."""
        dtype, ranks = dtype or self.grad_dtype, self.ranks(role)
        full, shard = elements * BYTES[dtype], -(-elements // ranks) * BYTES[dtype]
        sizes = {
            CollectiveType.ALL_GATHER: (shard, full),
            CollectiveType.REDUCE_SCATTER: (full, shard),
        }
        size, out = sizes.get(kind, (full, full))
        node = Node(
            name, "collective", comm=kind, comm_size=size, out_size=out, role=role, dtype=dtype
        )
        self.nodes.append(StepEndNode(node, phase, tuple(held), tuple(after)))
        return len(self.nodes) - 1


def step_end_nodes(layout: Layout, stage: int, held: Sequence[HeldWeight]) -> list[StepEndNode]:
    """What a stage does after its last task."""
    end = _StepEnd(layout, stage)
    held = [h for h in held if not (h.weight.tied and layout.tie_is_local)]
    held = sorted(held, key=lambda h: layout.schedule.pieces[stage][h.chunk])
    gathers = _reduce(end, held)
    _reduce_over_tp(end, held)
    _reduce_tied(end, held)
    _reduce_loss(end, held)
    _clip(end, held)
    updates = _update(end, held)
    for name, role, elements in gathers:
        end.collective(
            name,
            CollectiveType.ALL_GATHER,
            role,
            elements,
            layout.workload.step.dtype,
            after=updates[-1:],
            phase="optimizer",
        )
    return end.nodes


def _reduce(end: _StepEnd, held: Sequence[HeldWeight]) -> list[tuple[str, str, int]]:
    """Reduces gradients over data; returns what must be gathered again after the update."""
    gathers: list[tuple[str, str, int]] = []
    data = end.layout.workload.plan.data
    if data == "none":
        return gathers
    for expert in (False, True):
        role = end.layout.sync_role(expert)
        mine = [h for h in held if h.weight.expert == expert]
        if mine and end.ranks(role) > 1:
            for number, bucket in enumerate(_buckets(end, mine)):
                name = f"gradients.{role}.{number}"
                _reduce_bucket(end, name, role, bucket)
                if data in ("zero1", "zero2"):
                    gathers.append(
                        (name.replace("gradients", "parameters"), role, end.elements(bucket))
                    )
    return gathers


def _reduce_bucket(end: _StepEnd, name: str, role: str, bucket: Sequence[HeldWeight]) -> None:
    plan = end.layout.workload.plan
    count, done = end.elements(bucket), []
    if plan.data == "ddp":
        end.gates.append(end.collective(name, CollectiveType.ALL_REDUCE, role, count, held=bucket))
        return
    if not end.layout.sync_each:
        done = [end.collective(name, CollectiveType.REDUCE_SCATTER, role, count, held=bucket)]
    if role == "shard" and end.ranks("replica") > 1:
        part = -(-count // end.ranks("shard"))
        done = [
            end.collective(
                f"{name}.replicas",
                CollectiveType.ALL_REDUCE,
                "replica",
                part,
                held=() if done else bucket,
                after=done,
            )
        ]
    end.gates.extend(done)


def _buckets(end: _StepEnd, held: Sequence[HeldWeight]) -> Iterator[list[HeldWeight]]:
    """Weights from the last to the first, a bucket closed once it is full; FSDP has one bucket per block."""
    plan = end.layout.workload.plan
    limit = _bucket_bytes(end)
    bucket: list[HeldWeight] = []
    for i, one in enumerate(reversed(held)):
        bucket.append(one)
        last = i == len(held) - 1
        following = None if last else held[len(held) - 2 - i]
        apart = following is None or _apart(end, one, following)
        full = end.elements(bucket) * BYTES[end.grad_dtype] >= limit and plan.data != "fsdp"
        if apart or full:
            yield bucket
            bucket = []


def _apart(end: _StepEnd, one: HeldWeight, other: HeldWeight) -> bool:
    """Whether two weights cannot share a bucket: other FSDP units, or pieces that have copies."""
    if end.layout.workload.plan.data == "fsdp":
        return (one.chunk, one.block) != (other.chunk, other.block)
    return end.layout.has_copies and one.chunk != other.chunk


def _bucket_bytes(end: _StepEnd) -> float:
    plan = end.layout.workload.plan
    if plan.bucket_mb:
        return plan.bucket_mb * 2**20
    return 25 * 2**20 if plan.data == "ddp" else 4 * max(40_000_000, 1_000_000 * plan.dp)


def _reduce_over_tp(end: _StepEnd, held: Sequence[HeldWeight]) -> None:
    """Weights every tp rank has, whose tokens tp cuts: one all-reduce for all of them."""
    plan = end.layout.workload.plan
    mine = [h for h in held if "tp" in h.weight.partial]
    if plan.tp > 1 and mine:
        _all_reduce_gradients(end, "tp", "tp", mine)


def _reduce_tied(end: _StepEnd, held: Sequence[HeldWeight]) -> None:
    """A table that the first and the last stage both have."""
    layout = end.layout
    if layout.tie_is_local or end.stage not in layout.mesh.ends or not _is_tied(layout):
        return
    mine = [h for h in held if h.weight.tied or h.weight.name == "embedding.weight"]
    _all_reduce_gradients(end, "tied", "embedding", mine)


def _all_reduce_gradients(end: _StepEnd, name: str, role: str, held: Sequence[HeldWeight]) -> None:
    """One all-reduce of these weights' gradients, after the one before, which later nodes wait for."""
    count = end.elements(held)
    kind = CollectiveType.ALL_REDUCE
    end.gates.append(
        end.collective(f"gradients.{name}", kind, role, count, held=held, after=end.gates[-1:])
    )


def _is_tied(layout: Layout) -> bool:
    return any(w.tied for name in layout.stack.last for w in layout.stack.block(name).weights)


def _reduce_loss(end: _StepEnd, held: Sequence[HeldWeight]) -> None:
    """The loss of all data ranks, for people to see, once the last block is through."""
    layout = end.layout
    wanted = layout.workload.step.loss_reduce and end.stage == layout.mesh.ends[1]
    if wanted and end.ranks("dp") > 1:
        last = [h for h in held if (h.chunk, h.block) == (held[-1].chunk, held[-1].block)]
        end.collective("loss", CollectiveType.ALL_REDUCE, "dp", 1, "fp32", held=last)


def _clip(end: _StepEnd, held: Sequence[HeldWeight]) -> None:
    """The norm of all gradients, over the ranks that have different ones."""
    layout = end.layout
    role = "mp" if layout.workload.plan.data in ("ddp", "none") else "world"
    if layout.has_copies or layout.workload.plan.ep > 1:
        role = "world"
    wanted = layout.workload.step.clip and layout.workload.step.optimizer != "none"
    if wanted and end.ranks(role) > 1:
        gate = end.collective(
            "clip", CollectiveType.ALL_REDUCE, role, 1, "fp32", held=held, after=end.gates
        )
        end.gates = [gate]


def _update(end: _StepEnd, held: Sequence[HeldWeight]) -> list[int]:
    """The optimizer, one node per block."""
    step = end.layout.workload.step
    if step.optimizer == "none":
        return []
    made: list[int] = []
    blocks: dict[tuple[int, int], list[HeldWeight]] = {}
    for h in held:
        blocks.setdefault((h.chunk, h.block), []).append(h)
    for mine in blocks.values():
        count = sum(optimizer_share(end.layout, h) for h in mine)
        ops = ADAM if step.optimizer == "adam" else SGD
        node = Node(
            "optimizer",
            "optimizer",
            vector_ops=ops * count,
            bytes=count * optimizer_bytes(step),
            dtype="fp32",
            shapes=_sharded_weights(end.layout, mine),
        )
        after = (*end.gates, *made[-1:])
        end.nodes.append(StepEndNode(node, "optimizer", tuple(mine), after))
        made.append(len(end.nodes) - 1)
    return made


def _sharded_weights(layout: Layout, held: Sequence[HeldWeight]) -> str:
    """`dp 4096,16777216 edp 1024`: elements of weights by the group that shards them; "" where none does."""
    if layout.workload.plan.data in ("ddp", "none"):
        return ""
    found: dict[str, list[int]] = {}
    for one in held:
        role = layout.sync_role(one.weight.expert)
        found.setdefault(role, []).append(layout.held([one.weight]))
    return " ".join(f"{role} {','.join(map(str, counts))}" for role, counts in found.items())


def optimizer_share(layout: Layout, held: HeldWeight) -> int:
    """Elements of a weight this rank updates."""
    count = layout.held([held.weight])
    if layout.workload.plan.data in ("ddp", "none"):
        return count
    return -(-count // layout.mesh.degree(layout.sync_role(held.weight.expert)))
