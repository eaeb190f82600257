"""Advice for programs that were recorded or captured: passes over the run, timed again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from chakrakit.errors import ChakraError
from chakrakit.insight.advice.advice import UNTRIED, Advice
from chakrakit.insight.advice.trials import Setting, setting_of
from chakrakit.insight.rank import RankView, rank_view
from chakrakit.machines import preset_on, recorded_on
from chakrakit.machines.device import operations_of
from chakrakit.machines.residuals import kernel_group, residual_table
from chakrakit.operators import on_float32, on_tf32
from chakrakit.passes import (
    Ahead,
    ChannelsLast,
    FusedAttention,
    FusedOptimizer,
    Graphed,
    Launched,
    Recost,
    Unsync,
)
from chakrakit.passes.base import map_bodies, names_of, parse, with_own_ns
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import outcome_of
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import (
    FILLED,
    LINKED,
    RECORDED_DEVICE,
    RecordedStep,
    Run,
    TraceSet,
    recorded_step_of,
)

_MOST_ROWS = 400_000
"""Nodes of a run on which passes are tried: some seconds for each."""
_FLOAT32_SHARE = 0.1
"""The share of the devices' time in products of float32 tensors from which another precision is tried."""


JITTER = 0.02
"""The share of a step that the device bounds by which steps differ from each other: the standard deviation of
stretches of a quarter of a second is at most 0.03 in 13 of 15 programs on one H200, 0.002 in most."""
JITTER_OF_HOST = 1.645 * 0.083
"""The same of steps that the host bounds, in 90 of 100 cases: 13 programs there, its other cores at work."""


BETWEEN_SESSIONS = 1.645 * 0.15
"""By how much of its logarithm a step that the host bounds differs from one session to another, in 90 of 100
cases: the standard deviation is that of 19 programs timed on one H200 in two or three sessions each
(tests/data/h200_launch_bound.json)."""


class PassTrial(NamedTuple):
    """A pass to try, and the same with its assumptions as bad and as good as they may be."""

    what: str
    spec: str
    worst: str = ""
    best: str = ""


def tried_programs(run: Run, source: str, machine: str) -> tuple[list[Advice], str] | None:
    """Passes over a recorded or captured program, tried; None for other runs."""
    program = _program(run, machine)
    if program is None:
        return None
    if program.rows > _MOST_ROWS:
        return [], f"{UNTRIED}: {program.rows:,} nodes; {_MOST_ROWS:,} is the most"
    try:
        before = program.timed(run)
    except ChakraError as error:
        return [], f"{UNTRIED}: the run cannot be scheduled again ({error})"
    advice = [_tried(program, before, c, source) for c in changes(run)]
    return [a for a in advice if a is not None], ""


class _Timed(NamedTuple):
    """A run scheduled again, a step of it in ns."""

    step_ns: float
    busy_ns: float
    """The devices' work in a step."""

    @property
    def device_bound(self) -> bool:
        return self.busy_ns >= FILLED * self.step_ns


class _Program:
    """A program and how it is timed: on a machine, or with all times as they were recorded."""

    def __init__(self, run: Run, setting: Setting | None, recording: RecordedStep | None) -> None:
        self.run, self.setting = run, setting
        self.step_ns = recording.program_step_ns if recording else 0
        """A step of the program itself; 0 where only the run's own is known."""
        self.may_be_ns: tuple[float, ...] = ()
        """The ends of where that lies, where recording's cost is an estimate."""
        self.host_spread: tuple[float, ...] = ()
        """Between which multiples of its time in the run the host's lies; empty where that is not known."""
        if recording and recording.least_host_percent:
            ends = recording.least_host_percent, recording.most_host_percent
            self.host_spread = tuple(end / 100 for end in ends)
        if recording and recording.least_step_ns and not recording.unprofiled_step_ns:
            self.may_be_ns = (recording.least_step_ns, recording.most_step_ns)
        self.rows = sum(len(run.body_at(i)) for i in range(run.body_count))
        view = rank_view(run, run.ranks[0])
        steps = view.trace.step[view.works_on_device]
        self.steps = max(len(np.unique(steps[steps >= 0])), 1)

    def timed(self, traces: TraceSet) -> _Timed:
        """Traces scheduled again; the wait for the first kernel of a recording is no part of a step.

        Nor are kernels without a step: those that a recording's first step found still running. Where nothing
        runs on a device, steps begin with their first row and end with what computes last.
        """
        setting = self.setting
        machine = setting.machine if setting else None
        options = setting.options if setting else SimulationOptions(communication="measured")
        outcome = outcome_of(traces, machine, compute="measured", options=options)
        first, last, busy = math.inf, 0, 0
        for c in range(outcome.classes.count):
            trace, rows = outcome.program(c).trace, outcome.rows(c)
            start, end = outcome.start[rows], outcome.end[rows]
            device = ~on_host(trace)
            stepping = device & (trace.step >= 0)
            if not device.any():
                works = RankView(0, trace, start, end, False).works_on_device & (trace.step >= 0)
                if works.any():
                    first = min(first, int(start[trace.step >= 0].min()))
                    last = max(last, int(end[works].max()))
                    continue
            counted = stepping if stepping.any() else device
            if counted.any():
                first = min(first, int(start[counted].min()))
                busy = max(busy, int((end - start)[counted].sum()))
            last = max(last, int(end[counted if stepping.any() else slice(None)].max(initial=0)))
        begin = first if first < math.inf else 0
        return _Timed((last - begin) / 1e3 / self.steps, busy / 1e3 / self.steps)

    def commands(self, spec: str, source: str) -> list[str]:
        """Command lines that make the change and time it."""
        changed = f"{source}.changed"
        where = self.setting.flags if self.setting else ("--communication", "measured")
        timing = ["--compute", "measured", *where]
        return [
            shlex.join(["chakra", "transform", source, "--pass", spec, "-o", changed]),
            shlex.join(["chakra", "simulate", changed, *timing, "-o", f"{source}.new"]),
        ]


def _program(run: Run, machine: str) -> _Program | None:
    """How a run is timed again; None for what was neither recorded nor captured."""
    if run.card.tool == LINKED and run.times is None:
        return _Program(run, None, recorded_step_of(run.card))
    setting = setting_of(run, machine)
    if run.times is None or setting is None or not _has_launches(run):
        return None
    return _Program(run, setting, None)


def _has_launches(run: Run) -> bool:
    """Whether a host launches the run's kernels: passes here change that."""
    return any(on_host(run.body_at(i)).any() for i in range(run.body_count))


def _tried(program: _Program, before: _Timed, change: PassTrial, source: str) -> Advice | None:
    """A change with what it saves of a step; None where it cannot be made."""
    whole = program.step_ns or before.step_ns
    try:
        changed = [
            program.run | parse(spec)
            for spec in dict.fromkeys((change.spec, change.worst, change.best))
            if spec
        ]
        runs = [program.timed(traces) for traces in changed]
    except ChakraError:
        return None
    saved = whole - _step_after(before, runs[0], whole)[0]
    others = [
        step - after
        for step in (whole, *program.may_be_ns)
        for run in runs
        for after in _step_after(before, run, step)
    ]
    if before.device_bound and program.host_spread:
        others += [whole - after for after in _with_other_hosts(program, changed[0], runs[0])]
    jitter = (JITTER if before.device_bound else JITTER_OF_HOST) * whole
    return Advice(
        what=change.what,
        commands=program.commands(change.spec, source),
        saves_ns=saved,
        interval_ns=(min(others) - jitter, min(max(others) + jitter, whole)),
        before_ns=whole,
        after_ns=whole - saved,
    )


def _with_other_hosts(program: _Program, changed: TraceSet, after: _Timed) -> tuple[float, float]:
    """A changed step with a host as fast and as slow as recording leaves open.

    The step before was the device's, so that it does not tell how fast the host is without recording.
    """
    alone = program.timed(map_bodies(changed, _without_device_time)).step_ns
    fast, slow = (
        alone
        * math.exp(math.copysign(math.hypot(math.log(factor), BETWEEN_SESSIONS), math.log(factor)))
        for factor in program.host_spread
    )
    return max(min(after.busy_ns, after.step_ns), fast), max(after.step_ns, slow)


def _without_device_time(trace: Trace) -> Trace:
    return with_own_ns(trace, np.where(on_host(trace), trace.own_ns, 0))


def _step_after(before: _Timed, after: _Timed, whole: float) -> tuple[float, float]:
    """A step that takes `whole` after a change, likeliest first, and what else it may be.

    A recorded host is slowed by recording. Where the device bounds the changed step, that does not matter;
    where the host still does, the step is as much too long as the one before, or by as many microseconds.
    Where the device bounded the step before as well, the change saves what it saves there.
    """
    scaled = after.step_ns * whole / before.step_ns
    least = min(after.busy_ns, after.step_ns)  # streams work side by side
    shorter = max(whole - (before.step_ns - after.step_ns), least)
    if after.device_bound:
        return shorter if before.device_bound else after.step_ns, max(scaled, least)
    return scaled, shorter


# --- the changes of a program -------------------------------------------------------------------


_GRAPH_OF_PYTORCH = (
    "a CUDA graph of the step (torch.cuda.graph, or torch.compile's reduce-overhead)"
)
_GRAPH = "a graph of the step's kernels (CUDA or HIP graphs; XLA: --xla_gpu_enable_command_buffer)"


def changes(run: Run) -> Iterator[PassTrial]:
    """Every pass that could be tried; whether it can be is for the pass to say."""
    bodies = [run.body_at(i) for i in range(run.body_count)]
    device = run.card.settings.get(RECORDED_DEVICE)
    profile = _profile(device) if isinstance(device, str) else ""
    waiting = sorted(set().union(*map(_waiting_calls, bodies)))
    pytorch = any(map(_of_pytorch, bodies))
    if not waiting and not all(map(_mostly_graphs, bodies)):
        what = _GRAPH_OF_PYTORCH if pytorch else _GRAPH
        eager = Launched().gap_us
        yield PassTrial(what, str(Graphed()), f"graphed{{gap_us={eager}}}", "graphed{gap_us=0}")
    if not pytorch:  # the other changes are made in programs of PyTorch
        return
    if waiting:
        what = "no waiting for the device inside the step (such as .item())"
        waits, unasked = (str(Unsync(names=tuple(waiting), unasked=u)) for u in (False, True))
        yield PassTrial(what, unasked, waits)
    more = "more " if any(map(_loaded_by_processes, bodies)) else ""
    what = f"{more}processes that load batches ahead (DataLoader(num_workers=…))"
    yield PassTrial(what, str(Ahead("loading")))
    what = "batches copied ahead from pinned memory (pin_memory=True, non_blocking=True, a stream for it)"
    yield PassTrial(what, str(Ahead("copies")))
    what = "images with channels last (memory_format=torch.channels_last)"
    yield _with_kernels(what, ChannelsLast.name, profile, "matmul")
    what = "a fused optimizer (fused=True)"
    yield _with_kernels(what, FusedOptimizer.name, profile, "vector")
    what = "attention in one fused kernel (scaled_dot_product_attention)"
    yield _with_kernels(what, FusedAttention.name, profile, "attention", "backend=flash, ")
    if isinstance(device, str) and any(_float32_share(b) > _FLOAT32_SHARE for b in bodies):
        yield _in_bf16(
            preset_on(device), profile, sorted(set().union(*map(_product_classes, bodies)))
        )


def _profile(device: str) -> str:
    known = recorded_on(device).device
    return known.profile if known is not None else ""


def _with_kernels(what: str, name: str, profile: str, kind: str, worst: str = "") -> PassTrial:
    """A pass whose new kernels may be off by what kernels of the kind were.

    `worst` are settings of the pass at its worst.
    """
    group = kernel_group("measured profile", profile, kind, 1e-3, False)
    spread = residual_table().spread(*group)
    if spread is None:
        return PassTrial(what, name)
    ends = (max(spread.high, 0.0), min(spread.low, 0.0))
    high, low = (f"slower={math.exp(x):.3f}" for x in ends)
    return PassTrial(what, name, f"{name}{{{worst}{high}}}", f"{name}{{{low}}}")


def _in_bf16(preset: str, profile: str, classes: list[str]) -> PassTrial:
    """Products in bf16, as autocast runs them, whose times may be off by what measured products were.

    At best everything else moves half the bytes too, as in a model that is bf16 throughout; at worst nothing
    does, and products are slow.
    """
    group = kernel_group("measured profile", profile, "matmul", 1e-3, False)
    spread = residual_table().spread(*group)
    slow, fast = (
        (math.exp(x) for x in (max(spread.high, 0.0), min(spread.low, 0.0)))
        if spread
        else (1.0, 1.0)
    )

    def spec(names: list[str], scale: float) -> str:
        scales = {name: round(scale, 3) for name in classes if scale != 1}
        return str(
            Recost(preset, measured_on=preset, dtypes=dict.fromkeys(names, "bf16"), scale=scales)
        )

    what = "bf16 instead of float32 (torch.autocast, or model.to(torch.bfloat16))"
    return PassTrial(what, spec(classes, 1), spec(classes, slow), spec(["compute"], fast))


def _product_classes(trace: Trace) -> set[str]:
    """The classes of work that product units do."""
    return {work.operation.kind for work in operations_of(trace) if work.operation.flops}


def _of_pytorch(trace: Trace) -> bool:
    """Whether PyTorch's operators launch the kernels: other programs have other switches."""
    return any(name.startswith("aten::") for name in trace.texts("name")[1])


def _mostly_graphs(trace: Trace) -> bool:
    """Whether most kernels come from graphs already: few are launched one by one."""
    host, edges = on_host(trace), trace.edges
    launches = np.flatnonzero(host[edges.src] & ~host[edges.dst])
    names = names_of(trace)
    single = [e for e in launches.tolist() if "GraphLaunch" not in str(names[edges.src[e]])]
    return len(single) < len(launches) and 2 * len(np.unique(edges.dst[single])) < int(
        (~host).sum()
    )


def _waiting_calls(trace: Trace) -> set[str]:
    """The names of calls by which operators wait for the device, so that no graph can hold the step.

    A launch that waits until there is room in the device's queue is none.
    """
    waits = trace.edges.dst[trace.edges.kind == EdgeKind.SYNC]
    names = names_of(trace)
    inside = waits[trace.parent[waits] >= 0]
    return {
        str(names[row])
        for row in inside.tolist()
        if "Synchronize" in str(names[row]) and str(names[trace.parent[row]]).startswith("aten::")
    }


def _loaded_by_processes(trace: Trace) -> bool:
    """Whether other processes load the batches already, and still too slowly."""
    return any("_MultiProcessingDataLoaderIter" in name for name in trace.texts("name")[1])


def _float32_share(trace: Trace) -> float:
    """The share of the device's time in products of float32 tensors."""
    device = np.flatnonzero(~on_host(trace))
    own = trace.own_ns[device]
    plain = np.array(
        [on_float32(str(n)) or on_tf32(str(n)) for n in names_of(trace)[device]], np.bool_
    )
    return float(own[plain].sum() / max(own.sum(), 1)) if len(device) else 0.0
