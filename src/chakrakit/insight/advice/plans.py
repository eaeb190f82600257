"""Advice for generated workloads: the same model under another plan, generated and simulated again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from chakrakit.errors import ChakraError
from chakrakit.insight.advice.advice import NOTABLE, UNTRIED, Advice
from chakrakit.insight.advice.trials import Setting, is_same, saving, setting_of
from chakrakit.simulator.collectives import ALGORITHMS
from chakrakit.simulator.results import SimulationSummary
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.workloads.description import Plan, Workload, even_split
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import generated_from, workload_with

_MOST_ROWS = 200_000
"""Nodes of all trials together: some five seconds. Larger runs get fewer trials, the likeliest first."""
_BUCKETS_MB = (25.0, 100.0, 400.0)
"""Sizes of gradient buckets that are tried: PyTorch's default, and a few of its multiples."""


_UNKNOWN = (
    f"{UNTRIED}: the run's card does not say how to simulate it again; where its machine is a file, "
    "--machine FILE names it"
)


class PlanChange(NamedTuple):
    """Another plan, by fields of `chakra generate`."""

    family: str
    """Variants of one change have one family, of which the best is advised."""
    what: str
    fields: dict[str, Any]
    touches: str = "compute"
    """What of the run it could make shorter: `compute`, `exposed` communication, or `idle`."""
    work: float = 1.0
    """How many times the work of the run it does."""


def tried_plans(run: Run, source: str, machine: str) -> tuple[list[Advice], str] | None:
    """Other plans of a generated training step, tried; None for other runs."""
    workload = generated_from(run.card)
    if workload is None or workload.step.kind != "train" or run.card.passes:
        return None
    setting = setting_of(run, machine)
    if setting is None:
        return [], _UNKNOWN
    return _Trials(run, workload, setting, source).tried()


class _Trials:
    """A generated run, simulated again with one change after the other."""

    def __init__(self, run: Run, workload: Workload, setting: Setting, source: str) -> None:
        self.workload, self.setting, self.source = workload, setting, source
        self.rows = max(sum(len(run.body_at(i)) for i in range(run.body_count)), 1)
        low, high = run.span_ns
        self.span_ns = (high - low) * 1.0
        self.world = run.world_size
        self.traces: TraceSet = run

    def tried(self) -> tuple[list[Advice], str]:
        """The best of every family, and a note on what there was no room for."""
        room = _MOST_ROWS // self.rows - 1
        if room < 1:
            return [], f"{UNTRIED}: {self.rows:,} nodes; {_MOST_ROWS // 2:,} is the most"
        self.traces = generate(self.workload)
        before = self.setting.summary(self.traces)
        if not is_same(before, self.span_ns):
            return [], f"{UNTRIED}: simulated again, the run takes another time"
        trials = [*self._stragglers(), *self._plans(before), *self._algorithms(before)]
        weight = _shares(before)
        least = NOTABLE * before.makespan_ns * len(before.ranks)
        trials = [trial for trial in trials if weight[trial[0].touches] >= least]
        trials.sort(key=lambda trial: -weight[trial[0].touches])
        best: dict[str, Advice] = {}
        for change, setting in trials[:room]:
            advice = self._try(before, change, setting)
            if advice is not None and advice.saves_ns > 0:
                known = best.get(change.family)
                if known is None or advice.saves_ns > known.saves_ns:
                    best[change.family] = advice
        left = len(trials) - room
        note = (
            f"{left} of {len(trials)} changes were not tried: the run is large" if left > 0 else ""
        )
        return list(best.values()), note

    def _stragglers(self) -> Iterator[tuple[PlanChange, Setting]]:
        """Ranks that are slower than others of the run, as fast as those."""
        slow = {r: f for r, f in self.setting.options.disturbance.stragglers.items() if f > 1}
        if slow:
            each = ", ".join(f"rank {r}, {f:g} times as slow" for r, f in sorted(slow.items()))
            what = f"no rank slower than the others ({each})"
            yield PlanChange("stragglers", what, {}), self.setting.without_stragglers()

    def _plans(self, before: SimulationSummary) -> Iterator[tuple[PlanChange, Setting]]:
        return ((change, self.setting) for change in changes(self.workload))

    def _algorithms(self, before: SimulationSummary) -> Iterator[tuple[PlanChange, Setting]]:
        """Other algorithms for the collective that takes longest."""
        spent: dict[str, float] = {}
        for row in before.collectives:
            if row.collective in ALGORITHMS:
                on_all_ranks = row.count * row.members * row.mean_ns
                spent[row.collective] = spent.get(row.collective, 0.0) + on_all_ranks
        for collective in sorted(spent, key=lambda name: -spent[name])[:1]:
            fixed = self.setting.options.algorithms.fixed.get(collective, "auto")
            for name in ("auto", *ALGORITHMS[collective]):
                if name != fixed:
                    what = (
                        f"{collective} by {name}"
                        if name != "auto"
                        else f"{collective} as the library chooses"
                    )
                    change = PlanChange("algorithm", what, {}, "exposed")
                    yield change, self.setting.with_algorithm(collective, name)

    def _try(
        self, before: SimulationSummary, change: PlanChange, setting: Setting
    ) -> Advice | None:
        """A change with what it saves; None where it cannot be, or does not fit."""
        try:
            workload = workload_with(self.workload, change.fields)
            if workload.plan.world != self.world:
                return None
            after = setting.summary(generate(workload) if change.fields else self.traces)
        except ChakraError:
            return None
        if after.fits is False:  # also where the run itself does not
            return None
        saved, interval = saving(before, after, change.work)
        return Advice(
            what=change.what,
            commands=self._commands(change, setting),
            saves_ns=saved,
            interval_ns=interval,
            before_ns=before.makespan_ns,
            after_ns=before.makespan_ns - saved,
            same_training=change.work == 1,
        )

    def _commands(self, change: PlanChange, setting: Setting) -> list[str]:
        traces = self.source
        lines = []
        if change.fields:
            traces = f"{self.source}.changed"
            words = ["chakra", "generate", self.source, *_flags(change.fields), "-o", traces]
            lines = [shlex.join(words)]
        return [*lines, setting.command(traces, f"{self.source}.new")]


def _flags(fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        else:
            listed = value if isinstance(value, list) else [value]
            texts = (f"{v:g}" if isinstance(v, float) else str(v) for v in listed)
            yield from (f"--{flag}", ",".join(texts))


def _shares(summary: SimulationSummary) -> dict[str, float]:
    """How much of the ranks' time each part is."""
    ranks = summary.ranks
    return {
        "compute": sum(r.compute_ns for r in ranks),
        "exposed": sum(r.exposed_comm_ns for r in ranks),
        "idle": sum(r.idle_ns + r.exposed_comm_ns for r in ranks),
    }


# --- the changes of a plan ----------------------------------------------------------------------


def changes(workload: Workload) -> Iterator[PlanChange]:
    """Every change of a plan that could be tried; whether it can be is for the generator to say."""
    for part in (
        _kernels,
        _pipeline,
        _micro_batches,
        _gradients,
        _tensor_parallel,
        _sharded,
        _layout,
    ):
        yield from part(workload)
    step = workload.step
    larger = {"global_batch": 2 * step.global_batch}
    yield PlanChange(
        "batch", f"twice the batch, {2 * step.global_batch} sequences", larger, "idle", 2.0
    )


_LESS_RECOMPUTED = {
    "full": ("none", "selective"),
    "needed": ("none", "selective"),
    "selective": ("none",),
    "operators": ("none",),
    "others": ("none",),
}


def _kernels(w: Workload) -> Iterator[PlanChange]:
    if getattr(w.model, "kernel", "") == "unfused":
        yield PlanChange("attention", "attention in one fused kernel", {"kernel": "flash"})
    if w.step.dtype == "fp32":
        yield PlanChange("dtype", "bf16 instead of fp32", {"dtype": "bf16"})
    for less in _LESS_RECOMPUTED.get(w.plan.recompute, ()):
        what = "no recomputation" if less == "none" else "recompute attention alone"
        yield PlanChange("recompute", what, {"recompute": less})


def _pipeline(w: Workload) -> Iterator[PlanChange]:
    plan = w.plan
    if plan.pp == 1 or plan.tasks:
        return
    for chunks in (2, 4):
        if (plan.schedule, plan.chunks) != ("interleaved", chunks):
            fields = {"schedule": "interleaved", "chunks": chunks}
            yield PlanChange(
                "schedule", f"interleaved schedule, {chunks} chunks a stage", fields, "idle"
            )
    for name in ("1f1b", "zb-h1"):
        if plan.schedule != name:
            yield PlanChange(
                "schedule", f"schedule {name}", {"schedule": name, "chunks": 1}, "idle"
            )
    layers = sum(plan.split)
    if plan.split and plan.split != even_split(layers, len(plan.split)):
        yield PlanChange(
            "split",
            "layers spread evenly over stages",
            {"split": even_split(layers, len(plan.split))},
            "idle",
        )


def _micro_batches(w: Workload) -> Iterator[PlanChange]:
    size, each = w.step.micro_batch, w.step.global_batch // max(w.plan.dp, 1)
    smaller = [size // k for k in (2, 4) if size % k == 0]
    # Larger ones have fewer nodes, so that all of them together cost less than the run itself.
    larger = [size << k for k in range(1, (each // size).bit_length())] if size else []
    for other in smaller + larger:
        if 0 < other <= each and each % other == 0:
            what = f"micro-batches of {other} instead of {size}"
            yield PlanChange(
                "micro-batch", what, {"micro_batch": other}, "idle" if other < size else "compute"
            )


def _gradients(w: Workload) -> Iterator[PlanChange]:
    plan = w.plan
    if plan.dp * plan.cp == 1:
        return
    if plan.data in ("ddp", "zero1", "zero2"):
        for size in _BUCKETS_MB:
            if size != plan.bucket_mb:
                yield PlanChange(
                    "buckets", f"gradient buckets of {size:g} MiB", {"bucket_mb": size}, "exposed"
                )
    if plan.sync == "micro_batch":
        yield PlanChange("sync", "gradients reduced once a step", {"sync": "step"}, "exposed")


def _tensor_parallel(w: Workload) -> Iterator[PlanChange]:
    if w.plan.tp == 1:
        return
    if not w.plan.tp_overlap:
        what = "tensor-parallel communication beside its products"
        yield PlanChange("tp-overlap", what, {"tp_overlap": True}, "exposed")
    if not w.plan.sequence_parallel:
        what = "sequence parallelism between tensor-parallel parts"
        yield PlanChange("sequence", what, {"sequence_parallel": True}, "exposed")


def _sharded(w: Workload) -> Iterator[PlanChange]:
    plan = w.plan
    if plan.data == "fsdp":
        if plan.prefetch < 2:
            what = f"parameters gathered {plan.prefetch + 1} units ahead"
            yield PlanChange("prefetch", what, {"prefetch": plan.prefetch + 1}, "exposed")
        if plan.reshard != "never":
            yield PlanChange(
                "reshard", "parameters kept after forward", {"reshard": "never"}, "exposed"
            )
        yield PlanChange(
            "data", "the optimizer sharded alone (zero1)", {"data": "zero1"}, "exposed"
        )
    if plan.ep > 1 and plan.exchange != "once":
        yield PlanChange(
            "exchange", "every token sent once to a rank", {"exchange": "once"}, "exposed"
        )


def _layout(w: Workload) -> Iterator[PlanChange]:
    """Where ranks are, and how many of them share a layer, a stage or a batch."""
    plan = w.plan
    usual = msgspec.structs.fields(type(plan))
    order = next(f.default for f in usual if f.name == "order")
    if plan.order != order:
        yield PlanChange("placement", f"ranks in the order {order}", {"order": order}, "exposed")
    for axis in ("tp", "pp"):
        yield from _other_layouts(plan, axis, getattr(plan, axis))


def _other_layouts(plan: Plan, axis: str, ranks: int) -> Iterator[PlanChange]:
    """Twice as many ranks along an axis, half as many and again down to one, with as many replicas."""
    fewer = [2**halvings for halvings in range(1, ranks.bit_length()) if ranks % 2**halvings == 0]
    for other, replicas in (
        *((ranks // parts, plan.dp * parts) for parts in fewer),
        (ranks * 2, plan.dp / 2),
    ):
        if replicas % 1 or (axis == "pp" and plan.split):
            continue
        fields: dict[str, Any] = {axis: other, "dp": int(replicas)}
        if axis == "pp" and other == 1:
            fields |= {"schedule": "1f1b", "chunks": 1}
        what = f"{axis} {other} and dp {replicas:g} instead of {ranks} and {plan.dp}"
        yield PlanChange("layout", what, fields, "exposed")
