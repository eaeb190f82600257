"""Where in the program a row belongs: its step, phase, module and layer.

Also what serving engines write into the names of their steps: the batch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames, inherit, nearest
from chakrakit.trace.model import nested

# Step annotations of serving engines.
_SUMS = r"sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)"
_FULL = re.compile(rf"^execute_(\d+)_context_(\d+)\({_SUMS}\)_generation_(\d+)\({_SUMS}\)$")
_OLD = re.compile(
    r"^execute_context_(\d+)\((\d+)(?:_(\d+))?\)_generation_(\d+)\((\d+)(?:_(\d+))?\)$"
)
_PASS = re.compile(r"^forward_context_(\d+)\(q(\d+)k(\d+)\)_generation_(\d+)\(k(\d+)\)$")
_SGLANG = re.compile(r"^step\[(DECODE|EXTEND|MIXED|IDLE) bs=(\d+)(?: toks=(\d+))?\]$")


@dataclass(frozen=True)
class BatchShare:
    """Requests of one phase in a step: their number, query tokens, keys, Σq² and Σq·k; -1 unknown."""

    requests: int = 0
    queries: int = 0
    keys: int = -1
    squared: int = -1
    products: int = -1


@dataclass(frozen=True)
class Batch:
    """A step's batch: tokens in all, requests in prefill (`context`) and in decode (`generation`)."""

    tokens: int
    context: BatchShare
    generation: BatchShare

    def columns(self) -> dict[str, int]:
        """Attributes for the node that stands for the step; unknown sums are left out."""
        out = {"batch_tokens": self.tokens}
        for name, share in (("context", self.context), ("generation", self.generation)):
            facts = {
                "requests": share.requests,
                "q": share.queries,
                "k": share.keys,
                "qq": share.squared,
                "qk": share.products,
            }
            out |= {f"{name}_{key}": value for key, value in facts.items() if value >= 0}
        return out


def read_batch(name: str) -> Batch | None:
    """The batch that an annotation's name describes; None for any other name."""
    match = _FULL.match(name)
    if match:
        n = [int(x) for x in match.groups()]
        return Batch(n[0], BatchShare(*n[1:6]), BatchShare(*n[6:11]))
    match = _OLD.match(name)
    if match:
        a, b, bb, c, d, dd = (-1 if x is None else int(x) for x in match.groups())
        context, generation = BatchShare(a, b, squared=bb), BatchShare(c, d, squared=dd)
        return Batch(b + d, context, generation)
    match = _PASS.match(name)
    if match:
        requests, queries, keys, decoding, contexts = (int(x) for x in match.groups())
        generation = BatchShare(decoding, decoding, contexts)
        return Batch(queries + decoding, BatchShare(requests, queries, keys), generation)
    match = _SGLANG.match(name)
    if match is None:
        return None
    size, tokens = int(match[2]), int(match[3] or match[2])
    if match[1] == "EXTEND":
        return Batch(tokens, BatchShare(size, tokens), BatchShare())
    return Batch(tokens, BatchShare(), BatchShare(size, tokens))


def batch_name(batch: Batch) -> str:
    """A step's name that `read_batch` reads, for recorders that count requests, tokens and keys alone."""
    context, generation = batch.context, batch.generation
    return (
        f"forward_context_{context.requests}(q{context.queries}k{context.keys})"
        f"_generation_{generation.requests}(k{generation.keys})"
    )


def batch_of(name: str) -> int | None:
    """Tokens in the batch of the step that a name annotates; None for other names."""
    batch = read_batch(name)
    return None if batch is None else batch.tokens


PHASES = ("forward", "backward", "optimizer", "other")
_STEP = re.compile(r"^ProfilerStep#(\d{1,18})$")
_PHASE_WORDS = (
    (2, re.compile(r"^Optimizer\.(step|zero_grad)|^#* ?optimi[sz]er ?#*$|optimizer[._]step", re.I)),
    (
        1,
        re.compile(
            r"^autograd::engine::evaluate|^#* ?backward ?#*$|^CompiledFunctionBackward", re.I
        ),
    ),
    (0, re.compile(r"^#* ?(forward|prefill|decode( \d+)?) ?#*$|\.forward$", re.I)),
)
_MODULE = re.compile(r"^nn\.Module: (.+)$|\((blocks?[.\w]+|layers?[.\w]+|[\w]+(\.[\w]+)+)\)$")
_IN_STACK = "nn.Module: "
_LAYER = re.compile(r"(?:layers?|blocks?|h|stages?)[._](\d+)")


@dataclass(frozen=True)
class StepRange:
    """One step: its number and when its range on the host began and ended."""

    number: int
    start: int
    end: int
    thread: int


@dataclass(frozen=True)
class Attribution:
    """One entry per row; -1 where the files do not say."""

    step: I64
    phase: I64
    module: I64
    layer: I64
    modules: list[str]
    steps: list[StepRange]


def attribute(
    line: Timeline, names: TimelineNames, observer: Observer | None, kineto: Kineto | None
) -> Attribution:
    """Read steps and phases from annotations, modules from stacks where they were recorded."""
    steps = find_steps(line, names, kineto)
    step = _steps_of(line, steps, kineto)
    # A range that another one fills holds nothing itself.
    held = set(np.unique(step).tolist())
    steps = [s for s in steps if s.number in held]
    modules, module = _modules(line, names, kineto)
    layers = np.array([layer_of(m) for m in modules] or [-1], np.int64)
    layer = np.where(module >= 0, layers[np.maximum(module, 0)], -1)
    return Attribution(step, _phases(line, names, observer), module, layer, modules, steps)


def find_steps(
    line: Timeline, names: TimelineNames, kineto: Kineto | None = None
) -> list[StepRange]:
    """The steps, in order: the profiler's own ranges, else a serving engine's, else a format's own."""
    ranges = names.where(_STEP.match) & line.is_host & (line.event >= 0)
    steps = []
    for row in np.flatnonzero(ranges).tolist():
        match = _STEP.match(names[row])
        assert match is not None
        steps.append(_step(line, row, int(match[1])))
    if steps:
        return sorted(steps, key=lambda s: s.start)
    return _serving_steps(line, names) or _format_steps(line, kineto)


def _step(line: Timeline, row: int, number: int) -> StepRange:
    return StepRange(number, int(line.start[row]), int(line.end[row]), int(line.thread[row]))


def _serving_steps(line: Timeline, names: TimelineNames) -> list[StepRange]:
    """The outermost ranges whose names describe a batch, counted from 0."""
    ranges = names.where(lambda name: read_batch(name) is not None) & line.is_host
    above = nearest(line, ranges)
    rows = np.flatnonzero(ranges)
    outer = [r for r in rows.tolist() if line.parent[r] < 0 or above[line.parent[r]] < 0]
    return [_step(line, row, i) for i, row in enumerate(outer)]


def _format_steps(line: Timeline, kineto: Kineto | None) -> list[StepRange]:
    if kineto is None or kineto.steps is None:
        return []
    step = _event_steps(line, kineto.steps)
    out = []
    for number in np.unique(step[step >= 0]).tolist():
        rows = np.flatnonzero(step == number)
        out.append(StepRange(number, int(line.start[rows].min()), int(line.end[rows].max()), -1))
    return out


def _event_steps(line: Timeline, steps: I64) -> I64:
    return np.where(line.event >= 0, steps[line.event], -1)


def _steps_of(line: Timeline, steps: list[StepRange], kineto: Kineto | None) -> I64:
    """The step of each row: as the format gives it where it numbers steps, else by the steps' ranges."""
    from_format = kineto is not None and all(s.thread < 0 for s in steps)
    if from_format and kineto is not None and kineto.steps is not None:
        return _event_steps(line, kineto.steps)
    return _step_of(line, steps)


def _step_of(line: Timeline, steps: list[StepRange]) -> I64:
    """The step in which a row began, or a device row was launched, so that late kernels stay in theirs."""
    out = np.full(len(line), -1, np.int64)
    device = line.lane >= 0
    launched = device & (line.parent >= 0)
    when = line.start.copy()
    when[launched] = line.start[line.parent[launched]]
    for step in steps:
        inside = (when >= step.start) & (when <= step.end) & (launched | ~device)
        out[inside] = step.number
    return out


def _phases(line: Timeline, names: TimelineNames, observer: Observer | None) -> I64:
    out = np.full(len(line), -1, np.int64)
    for phase, pattern in reversed(_PHASE_WORDS):
        out[names.where(pattern.search) & line.is_host] = phase
    if observer is not None:
        observed = line.operator >= 0
        backward = np.zeros(len(line), np.bool_)
        backward[observed] = observer.scope[line.operator[observed]] == 1
        out[backward & (out < 0)] = 1
    return inherit(line, out)


def _modules(line: Timeline, names: TimelineNames, kineto: Kineto | None) -> tuple[list[str], I64]:
    """Modules from Python's stack (`nn.Module: Block_3`), else from annotations that name one."""
    module = np.full(len(line), -1, np.int64)
    numbers: dict[str, int] = {}
    for row in np.flatnonzero(names.where(_MODULE.search) & line.is_host).tolist():
        match = _MODULE.search(names[row])
        assert match is not None
        module[row] = numbers.setdefault(match[1] or match[2], len(numbers))
    if kineto is not None:
        _from_stack(line, kineto, module, numbers)
    return list(numbers), inherit(line, module)


def _from_stack(line: Timeline, kineto: Kineto, module: I64, numbers: dict[str, int]) -> None:
    """Give rows the path of the innermost module range of their thread that encloses their start."""
    is_module = kineto.texts.where(lambda s: s.startswith(_IN_STACK))
    events = np.flatnonzero((kineto.kind == Kind.PYTHON) & is_module[kineto.name])
    number = {name: i for i, name in enumerate(line.thread_names)}
    threads = np.array([number.get((int(kineto.pid[e]), int(kineto.tid[e])), -1) for e in events])
    order = np.lexsort((-kineto.end[events], kineto.start[events], threads))
    events, threads = events[order], threads[order].astype(np.int32)
    outer, _ = nested(threads, kineto.start[events], kineto.end[events])
    paths: list[str] = []
    for event, thread, above in zip(events.tolist(), threads.tolist(), outer.tolist(), strict=True):
        name = kineto.texts[kineto.name[event]].removeprefix(_IN_STACK)
        paths.append(f"{paths[above]}/{name}" if above >= 0 else name)
        first = np.searchsorted(line.start, kineto.start[event])
        last = np.searchsorted(line.start, kineto.end[event])
        inside = line.thread[first:last] == thread
        module[first:last][inside] = numbers.setdefault(paths[-1], len(numbers))


def layer_of(module: str) -> int:
    """The number of the layer that a module's path names, or -1."""
    match = _LAYER.search(module)
    if match:
        return int(match[1])
    tail = re.search(r"(?:Block|Layer|Bottleneck)\w*_(\d+)(?:/|$)", module)
    return int(tail[1]) if tail else -1
