"""Figures of a workload before anything is written: parameters, FLOPs, memory, bytes, bubble.

List of models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.results import Result
from chakrakit.trace.memory import fit_fields, fit_of
from chakrakit.trace.model import CollectiveType, Edges
from chakrakit.trace.timing import schedule
from chakrakit.workloads.description import EXCHANGES, PipelineSchedule, PipelineTask, Workload
from chakrakit.workloads.generate.model_figures import PrecisionUsed, model_figures, parameters
from chakrakit.workloads.generate.programs import Generated, RankClass
from chakrakit.workloads.models import catalog
from chakrakit.workloads.program import TextTables, memory
from chakrakit.workloads.samples import tokens_of_unit


class CommunicationFigures(Result, msgspec.Struct, frozen=True):
    """Collectives (or messages) of one type on one group, of one rank in one step."""

    type: str
    group: str
    ranks: int
    count: int
    bytes: int


class ClassFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What each rank of a class does. `flops` counts matrix work, `vector_ops` everything else."""

    rank_class: str
    ranks: int
    first_rank: int
    nodes: int
    flops: int
    vector_ops: int
    memory: dict[str, int]
    comm: list[CommunicationFigures]


class Replicated(Result, msgspec.Struct, frozen=True):
    """Matrix work that several ranks of a replica each do in full."""

    name: str
    times: int
    flops: int
    """FLOPs over all ranks beyond doing it once."""


class SampleFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What a batcher made of samples, over all steps and replicas."""

    samples: int
    tokens: int
    padded_tokens: int
    """Tokens with padding, which all computation but attention within documents is done for."""
    padding: float
    """The share of padding in `padded_tokens`."""
    imbalance: float
    """How much more than the mean the busiest replica computes, as a mean over steps."""
    shapes: int
    """Micro-batches that differ in rows, length or documents."""


class BlockFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """How ranks share documents in blocks, over all micro-batches and replicas."""

    assignment: str
    blocks: int
    """Pieces of documents, each of which one rank works on."""
    imbalance: float
    """How much longer than with even work the busiest rank takes for its FLOPs of a micro-batch, as a mean.

    Work is even where every rank has as much of it as its speed is of all speeds.
    """
    token_imbalance: float
    """How many more tokens than the mean the fullest rank has."""
    keys_sent: float
    """Tokens whose keys and values are sent, per token; cp - 1 of them in a ring."""


class SectionFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A section of a model of several, in one step."""

    section: str
    model: str
    parameters: int
    """Of what is run: without the head, where hidden states are handed on."""
    ranks: int
    first_rank: int
    samples: int
    """Those that do not skip it."""
    micro_batches: int
    """Of the replica that has the most."""
    flops: int
    handed_bytes: int
    """Its results and their gradients that cross between ranks."""


class Figures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run of `chakra generate` prints."""

    model: str
    parameters: int
    active_parameters: int
    ranks: int
    micro_batches: int
    tokens: int
    flops_total: int
    replicated: list[Replicated]
    bubble_fraction: float
    """The share of the pipeline's time in which stages wait, with tasks as long as their FLOPs."""
    per_rank: list[ClassFigures]
    fits: bool | None = None
    """Whether every rank fits its device's memory; None where no machine was named."""
    needs_bytes: int | None = None
    """What the fullest rank needs, and what the smallest device has."""
    has_bytes: int | None = None
    vision_parameters: int = 0
    """Of a vision tower, which is not generated; not among `parameters`."""
    mtp_layers: int = 0
    """Layers that predict further tokens; not among `parameters` and not generated."""
    precision: PrecisionUsed | None = None
    steps: int = 1
    """Training steps in the trace; `tokens` and FLOPs are those of all."""
    samples: SampleFigures | None = None
    """Where a batcher makes the micro-batches."""
    blocks: BlockFigures | None = None
    """Where ranks share documents in blocks."""
    sections: list[SectionFigures] | None = None
    """Of a model of several sections, each of them."""


def dry_run(programs: Generated) -> Figures:
    """The figures of a workload, read off its programs."""
    workload = programs.workload
    about = model_figures(workload.model, workload.step)
    per_rank = [_class_figures(c) for c in programs.classes]
    return Figures(
        model=about.name,
        parameters=about.parameters,
        active_parameters=about.active_parameters,
        vision_parameters=about.vision_parameters,
        mtp_layers=about.mtp_layers,
        precision=about.precision,
        ranks=programs.size,
        micro_batches=programs.passes,
        tokens=programs.tokens,
        flops_total=sum(c.flops * c.ranks for c in per_rank),
        replicated=replicated(programs),
        bubble_fraction=bubble_fraction(programs),
        per_rank=per_rank,
        steps=programs.layout.steps,
        samples=sample_figures(programs),
        blocks=block_figures(programs),
    )


def block_figures(programs: Generated) -> BlockFigures | None:
    """Balance and exchange of attention in blocks; None where ranks do not share documents so."""
    plan = programs.workload.plan
    if plan.context != "blocks" or plan.cp == 1:
        return None
    shapes = [shape for r in range(plan.dp) for shape in programs.shapes_of(r)]
    shared = [programs.shared.assignment(shape.attended) for shape in shapes]
    return BlockFigures(
        assignment=plan.assignment,
        blocks=sum(len(a.blocks) for a in shared),
        imbalance=_block_imbalance(programs),
        token_imbalance=float(np.mean([a.tokens.max() / a.tokens.mean() for a in shared])) - 1,
        keys_sent=sum(a.keys_sent for a in shared) / sum(float(a.tokens.sum()) for a in shared),
    )


def _block_imbalance(programs: Generated) -> float:
    """How much longer the busiest rank of cp takes than if work was shared by speed, as a mean."""
    plan, layout = programs.workload.plan, programs.layout
    speeds = programs.shared.terms.speeds
    work = np.zeros((plan.dp, plan.cp, layout.steps * layout.micro_batches))
    for c in programs.classes:
        columns = c.program.columns
        inside = columns["micro_batch"] >= 0
        flops = np.bincount(columns["micro_batch"][inside], columns["flops"][inside], work.shape[2])
        dp, cp = (c.mesh.coordinates[axis][c.ranks] for axis in ("dp", "cp"))
        np.add.at(work, (dp, cp), flops)
    even = work.sum(axis=1) / speeds.sum()
    longest = (work / speeds[:, None]).max(axis=1)
    return float((longest / even)[even > 0].mean() - 1)


def sample_figures(programs: Generated) -> SampleFigures | None:
    """Padding and balance of the micro-batches; None for sequences of one length."""
    if programs.dealt is None:
        return None
    shapes = [shape for c in programs.classes for shape in set(c.layout.shapes)]
    unit = tokens_of_unit(programs.workload.model)
    of_replica = [programs.shapes_of(r) for r in range(programs.workload.plan.dp)]
    padded = sum(s.rows * s.length for replica in of_replica for s in replica) * unit
    return SampleFigures(
        samples=sum(len(batch.samples) for batch in programs.dealt.batches()),
        tokens=programs.tokens,
        padded_tokens=padded,
        padding=1 - programs.tokens / padded,
        imbalance=imbalance(programs),
        shapes=len(set(shapes)),
    )


def imbalance(programs: Generated) -> float:
    """How much more than the mean the busiest replica computes in a step, as a mean over steps."""
    work = np.zeros((programs.workload.plan.dp, programs.layout.steps))
    for c in programs.classes:
        columns, per_step = c.program.columns, c.layout.micro_batches
        inside = columns["micro_batch"] >= 0
        step = columns["micro_batch"][inside] // per_step
        flops = np.bincount(step, columns["flops"][inside], programs.layout.steps)
        np.add.at(work, c.mesh.coordinates["dp"][c.ranks], flops)
    return float((work.max(axis=0) / work.mean(axis=0)).mean() - 1)


def _class_figures(rank_class: RankClass) -> ClassFigures:
    columns = rank_class.program.columns
    return ClassFigures(
        rank_class=rank_class.name,
        ranks=len(rank_class.ranks),
        first_rank=int(rank_class.ranks[0]) + rank_class.mesh.first,
        nodes=len(rank_class.program),
        flops=int(columns["flops"].sum()),
        vector_ops=int(columns["vector_ops"].sum()),
        memory=memory(rank_class.layout, rank_class.program),
        comm=communication(columns, rank_class.layout.book, rank_class.mesh.degree),
    )


def communication(
    columns: Mapping[str, I64], book: TextTables, degree: Callable[[str], int]
) -> list[CommunicationFigures]:
    """Bytes by type and group, sorted by name; `degree` gives the size of a role's groups."""
    talks = columns["comm_size"] > 0
    shared = {n for n, role in enumerate(book.roles.texts) if role.startswith(EXCHANGES)}
    alike = _first_of_kind(book.roles.texts)
    keys = np.stack([columns["op"], columns["comm"], alike[columns["role"]]])[:, talks]
    distinct, inverse, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    sizes = np.zeros(len(counts), np.int64)
    np.add.at(sizes, inverse.reshape(-1), columns["comm_size"][talks])
    rows = []
    for (op, comm, role), count, size in zip(distinct.T.tolist(), counts, sizes, strict=True):
        group = (
            book.roles.texts[role].partition(":")[0] if role in shared else book.roles.texts[role]
        )
        kind = CollectiveType(comm).name if comm >= 0 else book.ops.texts[op].upper()
        ranks = degree(group) if comm >= 0 else 2
        rows.append(CommunicationFigures(kind, group, ranks, int(count), int(size)))
    return sorted(rows, key=lambda c: (c.type, c.group))


def _first_of_kind(roles: Sequence[str]) -> I64:
    """For each role its number; of keys and gradients, which have many peers, the first one's."""
    first: dict[str, int] = {}
    kinds = [r.partition(":")[0] if r.startswith(EXCHANGES) else r for r in roles]
    return np.array([first.setdefault(kind, n) for n, kind in enumerate(kinds)], np.int64)


def replicated(programs: Generated) -> list[Replicated]:
    """Matrix work done several times over, by operator."""
    names = programs.layout.book.names.texts
    extra: Counter[tuple[str, int]] = Counter()
    for rank_class in programs.classes:
        columns = rank_class.program.columns
        rows = np.flatnonzero((columns["replicas"] > 1) & (columns["flops"] > 0))
        times, flops = columns["replicas"][rows], columns["flops"][rows]
        for name, n, f in zip(
            columns["name"][rows].tolist(), times.tolist(), flops.tolist(), strict=True
        ):
            extra[names[name], n] += f * len(rank_class.ranks) * (n - 1) // n
    return [Replicated(name, n, f) for (name, n), f in sorted(extra.items())]


# --- the bubble ---------------------------------------------------------------------------------


def bubble_fraction(programs: Generated) -> float:
    """Returns the share of a pipeline's time in which stages wait, with tasks as long as their FLOPs.

    Of all stages together, from the first task to the end of the last, whatever the schedule: also where a
    stage with more work than the others keeps them waiting.
    """
    layout = programs.layout
    if programs.workload.plan.pp == 1 or not programs.workload.step.in_micro_batches:
        return 0.0
    firsts = {c.program.stage: c for c in reversed(programs.classes)}
    work = [_task_work(firsts[s], layout.schedule) for s in range(programs.workload.plan.pp)]
    return waiting_share(layout.schedule, work)


def _task_work(rank_class: RankClass, plan: PipelineSchedule) -> list[int]:
    """FLOPs of each task of a stage, in order."""
    columns = rank_class.program.columns
    work = np.zeros(len(plan.tasks[rank_class.program.stage]), np.int64)
    inside = columns["task"] >= 0
    np.add.at(work, columns["task"][inside], columns["flops"][inside])
    return [int(w) for w in work]


def waiting_share(plan: PipelineSchedule, work: list[list[int]]) -> float:
    """The share of all stages' time in which they wait, if each task of a stage takes this long."""
    rows = [(s, c) for s, tasks in enumerate(plan.tasks) for c in tasks]
    number = {(s, c): i for i, (s, c) in enumerate(rows)}
    homes, pairs = plan.homes(), []
    for (stage, task), row in number.items():
        pairs += [
            (number[source], row)
            for source in _sources(plan, homes, stage, task)
            if source in number
        ]
    edges = np.array(pairs, np.int32).reshape(-1, 2)
    lanes = np.array([s for s, _ in rows])
    durations = np.array([w for stage in work for w in stage])
    times = schedule(len(rows), Edges.of(edges[:, 0], edges[:, 1]), durations, resource=lanes)
    time = len(work) * int(times.end.max(initial=0))
    return 1 - float(durations.sum()) / time if time else 0.0


def _sources(
    plan: PipelineSchedule,
    homes: dict[tuple[int, int], tuple[int, int]],
    stage: int,
    task: PipelineTask,
) -> list[tuple[int, PipelineTask]]:
    """Returns the tasks that a task waits for, also alternatives (B, I) of which only one exists."""
    kind, m, chunk = task
    piece = plan.pieces[stage][chunk]
    if kind == "W":
        return [(stage, PipelineTask("I", m, chunk))]
    neighbour = homes.get((piece - 1 if kind == "F" else piece + 1, m))
    tasks = (
        []
        if neighbour is None
        else [
            (neighbour[0], PipelineTask(k, m, neighbour[1])) for k in ("F" if kind == "F" else "BI")
        ]
    )
    return tasks if kind == "F" else [*tasks, (stage, PipelineTask("F", m, chunk))]


def with_fit(figures: Figures, capacity: int) -> Figures:
    """The figures with the verdict on devices that have so many bytes."""
    needs = {c.first_rank: c.memory["total"] for c in figures.per_rank}
    fit = fit_of(needs, dict.fromkeys(needs, capacity))
    return msgspec.structs.replace(figures, **fit_fields(fit))


def refuse_over_capacity(figures: Figures, capacity: int, machine: str) -> None:
    """A ConfigError if a rank needs more memory than its device has."""
    worst = max(figures.per_rank, key=lambda c: c.memory["total"])
    need = worst.memory["total"]
    if need > capacity:
        kinds = ", ".join(f"{k} {v / 2**30:,.1f}" for k, v in worst.memory.items() if k != "total")
        raise ConfigError(
            f"{worst.rank_class} needs {need / 2**30:,.1f} GiB ({kinds}) and {machine} has "
            f"{capacity / 2**30:,.1f}; shard more (tp, pp, data fsdp), recompute, or use a smaller "
            "micro_batch"
        )


# --- the catalog of models ----------------------------------------------------------------------


class ModelRow(Result, msgspec.Struct, frozen=True):
    """A model of the catalog."""

    name: str
    family: str
    parameters: int
    active_parameters: int
    """Those one token meets."""


class ModelList(Result, msgspec.Struct, frozen=True):
    """All models of the catalog."""

    models: list[ModelRow]


def model_list() -> ModelList:
    """The catalog's models in its order."""
    rows = []
    for name, model in catalog().items():
        total, active = parameters(Workload(model=model))
        family = str(msgspec.to_builtins(model)["family"])
        rows.append(ModelRow(name, family, total, active))
    return ModelList(rows)
