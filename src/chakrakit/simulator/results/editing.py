"""Edits of a run, scheduled while somebody waits: passes and options as a command line would take them.

An edit is a text. `edit{scale=0.5, classes=[gemm]}` and the other passes change the traces;
`--straggler 3=0.5`, `--algorithm all-reduce=ring` and `--fault link:0-1@0=2` are options of `simulate`. While
no edit concerns the network, transfers keep their times and the run is scheduled again from arrays that
stay in memory.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines import load_machine, parse_name
from chakrakit.machines.fabric import Machine
from chakrakit.passes import Edit, Unsync
from chakrakit.passes.base import Pass, parse, with_run_times
from chakrakit.passes.base import transform as apply_passes
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import (
    ClassSchedule,
    Disturbance,
    Fault,
    FixedTransfers,
    SimulationOptions,
)
from chakrakit.simulator.results.simulation import simulate, split_fault
from chakrakit.trace.placement import nested_ends
from chakrakit.trace.sets import PS_PER_NS, Run, Times, TraceSet

Value = TypeVar("Value")
_KEPT = 8
"""Layouts of changed graphs, and edited runs, that stay in memory, for going back and forth."""
_SELECTIONS = 64
"""Selections whose rows are remembered: moving a slider selects the same rows again and again."""
OPTIONS = ("--straggler", "--algorithm", "--fault")


@dataclass(frozen=True)
class Edits:
    """Texts of edits, told apart."""

    texts: tuple[str, ...] = ()
    passes: tuple[Pass, ...] = ()
    stragglers: dict[int, float] = field(default_factory=dict)
    algorithms: dict[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    @property
    def concern_network(self) -> bool:
        """Whether transfers take other times than they did."""
        return bool(self.algorithms or self.faults)

    @property
    def graph(self) -> tuple[Pass, ...]:
        """The passes up to the last one that changes more than times and waits on the device."""
        last = max((i for i, p in enumerate(self.passes, 1) if not _is_quick(p)), default=0)
        return self.passes[:last]

    def command_lines(self, run: str, machine: str) -> list[str]:
        """Command lines that make the edited run."""
        words = [
            "chakra",
            "transform",
            run,
            *_each("--pass", map(str, self.passes)),
            "-o",
            f"{run}.edited",
        ]
        lines = [shlex.join(words)] if self.passes else []
        source = f"{run}.edited" if self.passes else run
        timing = ["--compute", "measured"]
        timing += (
            ["--machine", machine] if self.concern_network else ["--communication", "measured"]
        )
        options = [
            word for text in self.texts if text.startswith("--") for word in shlex.split(text)
        ]
        again = ["chakra", "simulate", source, *timing, *options, "-o", f"{run}.new"]
        return [*lines, shlex.join(again), shlex.join(["chakra", "compare", run, f"{run}.new"])]


def _each(option: str, values: Any) -> list[str]:
    return [word for value in values for word in (option, value)]


def _is_quick(step: Pass) -> bool:
    return isinstance(step, Unsync) or (isinstance(step, Edit) and step.on == "device")


def read_edits(texts: Sequence[str]) -> Edits:
    """Tells edits apart; a ConfigError says what is wrong with one."""
    edits = Edits(tuple(texts))
    for text in texts:
        if not text.startswith("--"):
            edits = replace(edits, passes=(*edits.passes, _pass(text)))
            continue
        option, _, value = text.partition(" ")
        if option == "--straggler":
            edits.stragglers.update([_straggler(value)])
        elif option == "--algorithm":
            collective, _, algorithm = value.partition("=")
            edits.algorithms[collective] = algorithm
        elif option == "--fault":
            edits = replace(edits, faults=(*edits.faults, split_fault(value)))
        else:
            raise ConfigError(f"{option} is not an edit; {nearest(option, OPTIONS)}")
    return edits


_OTHER_RANKS = ("scale-ranks", "replicate", "shard")


def _pass(text: str) -> Pass:
    """A pass, unless it makes other ranks: with a million of them somebody would wait for minutes."""
    step = parse(text)
    if step.name in _OTHER_RANKS:
        raise ConfigError(
            f"{step.name} makes other ranks, which is no edit of this run; `chakra transform RUN --pass "
            "'PASS' -o OUT` makes another run of it"
        )
    return step


def _straggler(value: str) -> tuple[int, float]:
    rank, _, factor = value.partition("=")
    try:
        return int(rank), float(factor)
    except ValueError:
        raise ConfigError(f"--straggler {value}: write it as RANK=FACTOR") from None


@dataclass(eq=False)
class EditedRun:
    """What became of a run under edits."""

    edits: Edits
    original_ns: float
    makespan_ns: float
    _make: Callable[[], Run]
    rank_times: Callable[[int], tuple[I64, I64] | None] = lambda _rank: None
    """Start and end of a rank's rows in ps; None where its rows are not those of the original."""

    took_ms: float = 0.0
    """How long scheduling took, by the clock on the wall."""

    @property
    def keeps_ranks_alike(self) -> bool:
        """Whether ranks that were alike still are."""
        return not (self.edits.stragglers or self.edits.concern_network)

    @cached_property
    def run(self) -> Run:
        """The run with its new times, made when it is first looked at."""
        return self._make()


class EditSession:
    """A run that stays in memory and is scheduled again for every set of edits."""

    def __init__(self, run: Run, machine: str = "") -> None:
        self.run = run
        self.machine_name = machine or machine_of(run)
        self._lock = threading.RLock()
        self._layouts: RecentValues[FixedTransfers] = RecentValues(_KEPT)
        self._rows: RecentValues[list[Any]] = RecentValues(_SELECTIONS)
        self._waits: RecentValues[list[Mask]] = RecentValues(_SELECTIONS)
        self._edited: RecentValues[EditedRun] = RecentValues(_KEPT)

    @cached_property
    def timed(self) -> TraceSet:
        """The traces with the run's times."""
        return with_run_times(self.run)

    def edited(self, texts: Sequence[str]) -> EditedRun:
        """The run under these edits; the last ones asked for are kept."""
        with self._lock:
            return self._edited.get(tuple(texts), lambda: self._edit(read_edits(texts)))

    def _edit(self, edits: Edits) -> EditedRun:
        began = time.perf_counter()
        edited = self._on_machine(edits) if edits.concern_network else self._scheduled(edits)
        edited.took_ms = 1e3 * (time.perf_counter() - began)
        return edited

    # --- transfers that keep their times --------------------------------------------------------

    def _layout(self, edits: Edits) -> FixedTransfers:
        key = (tuple(map(str, edits.graph)), tuple(sorted(edits.stragglers)))
        return self._layouts.get(key, lambda: self._laid_out(edits))

    def _laid_out(self, edits: Edits) -> FixedTransfers:
        traces = apply_passes(self.timed, list(edits.graph))[0] if edits.graph else self.timed
        return FixedTransfers(traces, edits.stragglers)

    def _scheduled(self, edits: Edits) -> EditedRun:
        layout = self._layout(edits)
        own: list[I64] = list(layout.own)
        kept: list[Mask | None] = [None] * len(own)
        for step in edits.passes[len(edits.graph) :]:
            if isinstance(step, Edit):
                targets = self._rows.get(*self._selected(step, layout))
                own = [step.own_times(o, t) for o, t in zip(own, targets, strict=True)]
            elif isinstance(step, Unsync):
                kept = self._without(step, layout, kept)
        removes = any(mask is not None for mask in kept)
        schedule = layout.schedule(own, kept if removes else None, edits.stragglers)
        original = self._original_ns
        return EditedRun(
            edits,
            original,
            schedule.makespan_ps / PS_PER_NS,
            lambda: _run_of(self.run, layout, schedule, edits),
            lambda rank: None if edits.graph else _times(layout, schedule, layout.class_of[rank]),
        )

    @cached_property
    def _original_ns(self) -> float:
        return self._layout(Edits()).schedule().makespan_ps / PS_PER_NS

    def _selected(
        self, edit: Edit, layout: FixedTransfers
    ) -> tuple[Hashable, Callable[[], list[Any]]]:
        base = self._layout(Edits())
        chosen_from = base if _same_rows(base, layout) else layout

        def rows() -> list[Any]:
            return edit.rows(chosen_from.traces, [p.trace for p in chosen_from.programs])

        return (id(chosen_from), replace(edit, scale=0.0, add_us=0.0)), rows

    def _without(
        self, step: Unsync, layout: FixedTransfers, kept: list[Mask | None]
    ) -> list[Mask | None]:
        def waits() -> list[Mask]:
            step.refuse_absent(layout.traces)
            return [step.waits(program.trace) for program in layout.programs]

        masks = self._waits.get((id(layout), step), waits)
        return [~m if k is None else k & ~m for k, m in zip(kept, masks, strict=True)]

    # --- transfers on the machine ---------------------------------------------------------------

    @cached_property
    def machine(self) -> Machine:
        """The machine that the run was simulated on."""
        if not self.machine_name:
            raise ConfigError(
                "links and algorithms are those of a machine, and this run does not name one that can be "
                "found; give it with --machine"
            )
        return load_machine(self.machine_name)

    def _on_machine(self, edits: Edits) -> EditedRun:
        traces = apply_passes(self.timed, list(edits.passes))[0] if edits.passes else self.timed
        simulation = simulate(traces, self.machine, compute="measured", options=_options(edits))
        return EditedRun(edits, self._original_on_machine, simulation.makespan_ns, simulation.run)

    @cached_property
    def _original_on_machine(self) -> float:
        return simulate(self.timed, self.machine, compute="measured").makespan_ns

    def command_lines(self, edits: Edits, path: str) -> list[str]:
        """Command lines that make the edited run from the one at a path."""
        return edits.command_lines(path, self.machine_name)


def _same_rows(a: FixedTransfers, b: FixedTransfers) -> bool:
    """Whether two layouts have the same nodes in the same rows; which of them are chosen is then the same."""
    return len(a.programs) == len(b.programs) and all(
        np.array_equal(p.trace.ids, q.trace.ids)
        for p, q in zip(a.programs, b.programs, strict=True)
    )


def _options(edits: Edits) -> SimulationOptions:
    disturbance = Disturbance(stragglers=edits.stragglers, faults=edits.faults)
    return SimulationOptions(algorithms=Algorithms(edits.algorithms), disturbance=disturbance)


def machine_of(run: Run) -> str:
    """The machine that a run's card names, with its nodes, where it is a preset; else nothing."""
    name, devices = run.card.settings.get("machine"), run.card.settings.get("machine_devices")
    if not isinstance(name, str) or parse_name(name)[0] is None:
        return ""
    each = load_machine(f"{name}:1").size
    size = devices if isinstance(devices, int) and devices > 0 else run.world_size
    return f"{name}:{-(-size // each)}"


def _run_of(run: Run, layout: FixedTransfers, schedule: ClassSchedule, edits: Edits) -> Run:
    """The laid out traces with the times of a schedule."""
    times = [Times(*_times(layout, schedule, c)) for c in range(len(layout.programs))]
    card = run.card.replace(
        passes=[*run.card.passes, *edits.texts], tick_ps=1, epoch_ns=0, measured={}
    )
    traces = layout.traces
    return Run(
        traces.bodies, traces.bindings, traces.groups, card, times=times, timing=layout.class_of
    )


def _times(layout: FixedTransfers, schedule: ClassSchedule, c: int) -> tuple[I64, I64]:
    rows = layout.rows(c)
    start, end = schedule.start[rows], schedule.end[rows]
    ends: I64 = nested_ends(layout.programs[c].trace, start, end, per_ns=PS_PER_NS)
    return np.ascontiguousarray(start), np.ascontiguousarray(ends)


class RecentValues(OrderedDict[Hashable, Value]):
    """The values used last, up to a number of them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:  # type: ignore[override]
        """The value of a key, made if it is not kept."""
        if key not in self:
            self[key] = make()
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
        return self[key]
