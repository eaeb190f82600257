"""The end of a step: gradients are reduced, clipped and applied, and sharded parameters gathered again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from chakrakit.operators import ADAM, SGD
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import Step
from chakrakit.workloads.layers import BYTES, BlockNode
from chakrakit.workloads.program.layout import HeldWeight, WorkloadLayout

# --- bytes of an optimizer ----------------------------------------------------------------------


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

    node: BlockNode
    phase: str
    grads: tuple[HeldWeight, ...] = ()
    after: tuple[int, ...] = ()


@dataclass
class _StepEnd:
    """Collects the nodes of one stage's end."""

    layout: WorkloadLayout
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

    def elements(self, weights: Sequence[HeldWeight]) -> int:
        """Elements of weights on this rank."""
        return self.layout.unsharded_elements([h.weight for h in weights])

    def collective(
        self,
        name: str,
        kind: CollectiveType,
        role: str,
        elements: int,
        dtype: str = "",
        weights: Sequence[HeldWeight] = (),
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
        node = BlockNode(
            name, "collective", comm=kind, comm_size=size, out_size=out, role=role, dtype=dtype
        )
        self.nodes.append(StepEndNode(node, phase, tuple(weights), tuple(after)))
        return len(self.nodes) - 1


def step_end_nodes(
    layout: WorkloadLayout, stage: int, weights: Sequence[HeldWeight]
) -> list[StepEndNode]:
    """What a stage does after its last task; nothing, where it only goes forward."""
    if layout.workload.step.kind != "train":
        return []
    end = _StepEnd(layout, stage)
    weights = [h for h in weights if not (h.weight.tied and layout.tie_is_local)]
    weights = sorted(weights, key=lambda h: layout.schedule.pieces[stage][h.chunk])
    gathers = _reduce(end, weights)
    _reduce_over_tp(end, weights)
    _reduce_tied(end, weights)
    _reduce_loss(end, weights)
    _clip(end, weights)
    updates = _update(end, weights)
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


def _reduce(end: _StepEnd, weights: Sequence[HeldWeight]) -> list[tuple[str, str, int]]:
    """Reduces gradients over data; returns what must be gathered again after the update."""
    gathers: list[tuple[str, str, int]] = []
    data = end.layout.workload.plan.data
    if data == "none":
        return gathers
    for expert in (False, True):
        role = end.layout.sync_role(expert)
        mine = [h for h in weights if h.weight.expert == expert]
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
    count, reductions = end.elements(bucket), []
    if plan.data == "ddp":
        end.gates.append(
            end.collective(name, CollectiveType.ALL_REDUCE, role, count, weights=bucket)
        )
        return
    if not end.layout.sync_each:
        reductions = [
            end.collective(name, CollectiveType.REDUCE_SCATTER, role, count, weights=bucket)
        ]
    if role == "shard" and end.ranks("replica") > 1:
        part = -(-count // end.ranks("shard"))
        reductions = [
            end.collective(
                f"{name}.replicas",
                CollectiveType.ALL_REDUCE,
                "replica",
                part,
                weights=() if reductions else bucket,
                after=reductions,
            )
        ]
    end.gates.extend(reductions)


def _buckets(end: _StepEnd, weights: Sequence[HeldWeight]) -> Iterator[list[HeldWeight]]:
    """Weights from the last to the first, a bucket closed once it is full; FSDP has one bucket per block."""
    plan = end.layout.workload.plan
    limit = _bucket_bytes(end)
    bucket: list[HeldWeight] = []
    for i, weight in enumerate(reversed(weights)):
        bucket.append(weight)
        last = i == len(weights) - 1
        following = None if last else weights[len(weights) - 2 - i]
        apart = following is None or _apart(end, weight, following)
        full = end.elements(bucket) * BYTES[end.grad_dtype] >= limit and plan.data != "fsdp"
        if apart or full:
            yield bucket
            bucket = []


def _apart(end: _StepEnd, first: HeldWeight, second: HeldWeight) -> bool:
    """Whether two weights cannot share a bucket: other FSDP units, or pieces that have copies."""
    if end.layout.workload.plan.data == "fsdp":
        return (first.chunk, first.block) != (second.chunk, second.block)
    return end.layout.has_copies and first.chunk != second.chunk


def _bucket_bytes(end: _StepEnd) -> float:
    plan = end.layout.workload.plan
    if plan.bucket_mb:
        return plan.bucket_mb * 2**20
    return 25 * 2**20 if plan.data == "ddp" else 4 * max(40_000_000, 1_000_000 * plan.dp)


def _reduce_over_tp(end: _StepEnd, weights: Sequence[HeldWeight]) -> None:
    """Reduces gradients of weights that every tp rank has while tp cuts their tokens, in one all-reduce."""
    plan = end.layout.workload.plan
    mine = [h for h in weights if "tp" in h.weight.partial]
    if plan.tp > 1 and mine:
        _all_reduce_gradients(end, "tp", "tp", mine)


def _reduce_tied(end: _StepEnd, weights: Sequence[HeldWeight]) -> None:
    """A table that the first and the last stage both have."""
    layout = end.layout
    if layout.tie_is_local or end.stage not in layout.mesh.ends or not _is_tied(layout):
        return
    mine = [h for h in weights if h.weight.tied or h.weight.name == "embedding.weight"]
    _all_reduce_gradients(end, "tied", "embedding", mine)


def _all_reduce_gradients(
    end: _StepEnd, name: str, role: str, weights: Sequence[HeldWeight]
) -> None:
    """One all-reduce of these weights' gradients, after the one before, which later nodes wait for."""
    count = end.elements(weights)
    kind = CollectiveType.ALL_REDUCE
    end.gates.append(
        end.collective(
            f"gradients.{name}", kind, role, count, weights=weights, after=end.gates[-1:]
        )
    )


def _is_tied(layout: WorkloadLayout) -> bool:
    return any(w.tied for name in layout.last for w in layout.stack.block(name).weights)


def _reduce_loss(end: _StepEnd, weights: Sequence[HeldWeight]) -> None:
    """Averages the loss over data-parallel ranks, for logging, after the last block."""
    layout = end.layout
    reports_loss = layout.workload.step.loss_reduce and end.stage == layout.mesh.ends[1]
    if reports_loss and end.ranks("dp") > 1:
        last = [h for h in weights if (h.chunk, h.block) == (weights[-1].chunk, weights[-1].block)]
        end.collective("loss", CollectiveType.ALL_REDUCE, "dp", 1, "fp32", weights=last)


def _clip(end: _StepEnd, weights: Sequence[HeldWeight]) -> None:
    """The norm of all gradients, over the ranks that have different ones."""
    layout = end.layout
    role = "mp" if layout.workload.plan.data in ("ddp", "none") else "world"
    if layout.has_copies or layout.workload.plan.ep > 1:
        role = "world"
    clips = layout.workload.step.clip and layout.workload.step.optimizer != "none"
    if clips and end.ranks(role) > 1:
        gate = end.collective(
            "clip", CollectiveType.ALL_REDUCE, role, 1, "fp32", weights=weights, after=end.gates
        )
        end.gates = [gate]


def _update(end: _StepEnd, weights: Sequence[HeldWeight]) -> list[int]:
    """The optimizer, one node per block."""
    step = end.layout.workload.step
    if step.optimizer == "none":
        return []
    updates: list[int] = []
    blocks: dict[tuple[int, int], list[HeldWeight]] = {}
    for h in weights:
        blocks.setdefault((h.chunk, h.block), []).append(h)
    for mine in blocks.values():
        count = sum(optimizer_share(end.layout, h) for h in mine)
        ops = ADAM if step.optimizer == "adam" else SGD
        node = BlockNode(
            "optimizer",
            "optimizer",
            vector_ops=ops * count,
            bytes=count * optimizer_bytes(step),
            dtype="fp32",
            shapes=_sharded_weights(end.layout, mine),
        )
        after = (*end.gates, *updates[-1:])
        end.nodes.append(StepEndNode(node, "optimizer", tuple(mine), after))
        updates.append(len(end.nodes) - 1)
    return updates


def _sharded_weights(layout: WorkloadLayout, weights: Sequence[HeldWeight]) -> str:
    """`dp 4096,16777216 edp 1024`: elements of weights by the group that shards them; "" where none does."""
    if layout.workload.plan.data in ("ddp", "none"):
        return ""
    counts_of_role: dict[str, list[int]] = {}
    for held_weight in weights:
        role = layout.sync_role(held_weight.weight.expert)
        counts_of_role.setdefault(role, []).append(layout.unsharded_elements([held_weight.weight]))
    return " ".join(
        f"{role} {','.join(map(str, counts))}" for role, counts in counts_of_role.items()
    )


def optimizer_share(layout: WorkloadLayout, held_weight: HeldWeight) -> int:
    """Elements of a weight this rank updates."""
    count = layout.unsharded_elements([held_weight.weight])
    if layout.workload.plan.data in ("ddp", "none"):
        return count
    return -(-count // layout.mesh.degree(layout.sync_role(held_weight.weight.expert)))
