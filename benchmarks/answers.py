"""Whether answers hold: the bound and the cause that are named, against runs where both are known.

python answers.py bounds [200]   random simulated runs: the bound that is named against simulating each
                                 resource twice as fast
python answers.py blame          30 pairs that differ by one known edit: what `compare` says first
python answers.py advice         ten generated steps with one thing done badly: whether advice undoes it
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.insight import advise, analyze, compare
from chakrakit.insight.critical_path.bound import MARGIN
from chakrakit.passes.edit import Edit
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges
from chakrakit.trace.placement import is_communication
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.workloads.generate import generate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.random_plans import random_workload
from support.random_workloads import launched_case
from support.recorded import linked

HALVED = {
    "device": Edit(scale=0.5, classes=("compute",)),
    "communication": Edit(scale=0.5, classes=("communication",)),
    "host": Edit(scale=0.5, on="host"),
}
MACHINES = ("dgx-h100:8", "dgx-a100:8", "dgx-b200:8")


def as_measured(traces: TraceSet) -> Run:
    """The run of traces whose times are taken as they are."""
    return ck.simulate(traces, compute="measured", communication="measured").run()


# --- the bound ------------------------------------------------------------------------------------


def random_run(seed: int) -> Run:
    """A generated step on a machine, or ranks whose host launches kernels."""
    rng = Random(seed)
    if seed % 4 == 3:
        return ck.simulate(launched_case(seed), "dgx-h100").run()
    traces = generate(random_workload(rng))
    return ck.simulate(traces, rng.choice(MACHINES), compute="roofline").run()


def check_bounds(count: int) -> None:
    """Prints how many bounds are those that save most, how many are balanced, and every wrong one."""
    right = balanced = wrong = 0
    for seed in range(count):
        run = random_run(seed)
        found = analyze(run)
        saved = {name: share for name in HALVED if (share := _saved(run, name)) is not None}
        best = max(saved, key=lambda name: saved[name], default="")
        if found.bound in ("balanced", "unexplained"):
            balanced += 1
            close = sorted(saved.values())[-2:]
            if found.bound == "balanced" and close[0] < 0.5 * MARGIN * close[-1]:
                print(f"seed {seed}: balanced, but {_shares(saved)}")
        elif found.bound == best:
            right += 1
        else:
            wrong += 1
            print(
                f"seed {seed}: {found.bound or 'nothing'} by {_shares(found.bound_saves)}; {_shares(saved)}"
            )
    print(f"{count} random runs: {right} right, {balanced} balanced or unexplained, {wrong} wrong")


def _saved(run: Run, resource: str) -> float | None:
    """The share that simulating a run with a resource twice as fast saves; None where it has none of it."""
    try:
        edited = run | HALVED[resource]
    except ChakraError:
        return None
    return 1 - as_measured(edited).makespan_ns / run.makespan_ns


def _shares(saves: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in saves.items())


# --- blame ----------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two runs, and what the first line of their comparison should say."""

    name: str
    a: Run
    b: Run
    change: str
    kind: str
    text: str = ""


RECORDED = ("gpt2_124m_b8_s1024", "resnet50_b128")
PLANS: tuple[dict[str, int], ...] = (
    {"dp": 4},
    {"tp": 4},
    {"dp": 2, "tp": 2},
    {"dp": 2, "tp": 4},
    {"dp": 8},
    {"tp": 2},
)


def pairs() -> Iterator[Pair]:
    """Thirty pairs, six for each kind of edit."""
    for number, plan in enumerate(PLANS):
        step = {"seq": 512, "global_batch": 2 * plan.get("dp", 1), "micro_batch": 1}
        machine = ("dgx-h100", "dgx-a100")[number % 2]
        traces = ck.generate(model="gpt3-125m", **plan, **step).traces
        run = ck.simulate(traces, machine, compute="roofline").run()
        yield from _of_a_plan(number, plan, step, machine, traces, run)
    yield from _with_less_overlap()
    for number in range(6):
        run = as_measured(linked(RECORDED[number % 2]))
        yield from _of_a_recording(number, run)


def _of_a_plan(
    number: int,
    plan: dict[str, int],
    step: dict[str, int],
    machine: str,
    traces: TraceSet,
    run: Run,
) -> Iterator[Pair]:
    name = f"{plan} on {machine}"
    slow = ck.simulate(
        traces, machine, compute="roofline", faults=[f"link:{number % 2}-switch 0.0@0=0.3"]
    )
    yield Pair(f"link: {name}", run, slow.run(), "durations", "communication")
    more = step | (
        {"seq": 1024}
        if number % 2
        else {"micro_batch": 2, "global_batch": 2 * step["global_batch"]}
    )
    other = ck.generate(model="gpt3-125m", **plan, **more).traces
    yield Pair(
        f"batch: {name}", run, ck.simulate(other, machine, compute="roofline").run(), "work", "work"
    )


def _with_less_overlap() -> Iterator[Pair]:
    """Data parallel runs in which every collective is waited for before the next computation begins."""
    for dp, data in ((2, "ddp"), (4, "ddp"), (8, "ddp"), (2, "fsdp"), (4, "fsdp"), (8, "zero2")):
        traces = ck.generate(model="gpt3-350m", dp=dp, data=data, seq=256, global_batch=dp).traces
        run = as_measured(_serial(ck.simulate(traces, "dgx-a100", compute="roofline").run(), 0))
        yield Pair(
            f"overlap: dp {dp} {data}",
            run,
            as_measured(_serial(run, 1)),
            "overlap",
            "communication",
        )


def _serial(run: Run, share: int) -> TraceSet:
    """The run's traces with its times; with 1, collectives are waited for before more is computed."""
    bodies = []
    for rank in run.ranks:
        trace, times = run.trace(rank), run.times_of(rank)
        assert times is not None
        start = np.asarray(times.start)
        comm = is_communication(trace)
        works = np.flatnonzero(~comm & ~trace.on_host)
        works = works[np.argsort(start[works], kind="stable")]
        rows = np.flatnonzero(comm)[: len(trace) * share]
        after = np.searchsorted(start[works], start[rows], "right")
        rows, after = rows[after < len(works)], after[after < len(works)]
        more = Edges.of(rows, works[after], EdgeKind.DATA, EdgeForm.FINISH_START)
        timed = trace.with_columns(
            {
                "start_time_ns": (np.asarray(times.start) // 1000).astype(np.int64),
                "duration_ns": ((np.asarray(times.end) - start) // 1000).astype(np.int64),
            }
        )
        bodies.append(timed.with_edges(Edges.concat([trace.edges, more])))
    return TraceSet(bodies, None, run.groups, run.card)


def _of_a_recording(number: int, run: Run) -> Iterator[Pair]:
    found = analyze(run)
    kernels = [k for k in found.operators.kernels if k.kind == "compute"]
    kernel = kernels[number // 2].name
    slower = as_measured(run | Edit(scale=1.5, names=(f"{re.escape(kernel)}$",)))
    yield Pair(f"kernel {kernel[:40]}: {run.card.name}", run, slower, "durations", "compute")
    operators = sorted(
        (o for o in found.operators.operators if o.host_ns), key=lambda o: -o.host_ns
    )
    chosen = operators[number // 2].name
    delayed = as_measured(run | Edit(add_us=300, on="host", names=(f"{re.escape(chosen)}$",)))
    yield Pair(f"host delay in {chosen}: {run.card.name}", run, delayed, "durations", "host")


def check_blame() -> None:
    """Prints the first line of every comparison, and how many of them are the edit."""
    right = 0
    cases = list(pairs())
    for pair in cases:
        first = compare(pair.a, pair.b).causes[0]
        kind = first.what.partition(":")[0]
        good = (first.change, kind) == (pair.change, pair.kind)
        right += good
        mark = "right" if good else "WRONG"
        print(
            f"{mark}  {pair.name}: {first.change}, {first.what} ({first.delta_ns / 1e6:+.3f} ms)",
            flush=True,
        )
    print(f"{right} of {len(cases)} first lines are the edit")


# --- advice ---------------------------------------------------------------------------------------


class Planted(NamedTuple):
    """A generated step with one thing done badly, and words of the advice that undoes it."""

    name: str
    workload: dict[str, Any]
    machine: str
    remedy: str
    options: Mapping[str, Any] = MappingProxyType({})


PLANTED = (
    Planted(
        "scores that are written to memory",
        {"model": "llama3.2-1b", "layers": 6, "kernel": "unfused", "tp": 2, "seq": 4096}
        | {"global_batch": 4, "micro_batch": 2},
        "dgx-a100",
        "one fused kernel",
    ),
    Planted(
        "layers computed twice",
        {"model": "qwen3-8b", "layers": 4, "recompute": "full", "dp": 4, "data": "fsdp"}
        | {"seq": 2048, "global_batch": 16, "micro_batch": 2},
        "dgx-h200",
        "recomput",
    ),
    Planted(
        "float32",
        {"model": "gpt3-1.3b", "layers": 6, "dtype": "fp32", "tp": 4, "seq": 1024}
        | {"global_batch": 4},
        "dgx-b200",
        "bf16 instead of fp32",
    ),
    Planted(
        "stages of unlike size",
        {"model": "gpt3-2.7b", "layers": 16, "pp": 4, "split": [7, 3, 3, 3], "seq": 1024}
        | {"global_batch": 32, "micro_batch": 1},
        "dgx-h100",
        "evenly",
    ),
    Planted(
        "tokens sent once for every expert",
        {"model": "mixtral-8x7b", "layers": 2, "dp": 8, "ep": 8, "seq": 4096, "global_batch": 8},
        "dgx-h100",
        "sent once",
    ),
    Planted(
        "gradients reduced after every micro-batch",
        {"model": "gpt3-760m", "layers": 8, "dp": 8, "sync": "micro_batch", "seq": 512}
        | {"global_batch": 64, "micro_batch": 1},
        "dgx-a100",
        "once a step",
    ),
    Planted(
        "one micro-batch in a pipeline",
        {"model": "megatron-3.6b", "layers": 16, "pp": 8, "seq": 1024}
        | {"global_batch": 16, "micro_batch": 16},
        "dgx-a100",
        "micro-batches of",
    ),
    Planted(
        "a slow algorithm",
        {"model": "gpt3-350m", "layers": 12, "dp": 8, "seq": 512, "global_batch": 8},
        "dgx-h100",
        "all-reduce",
        {"algorithms": {"all-reduce": "double-tree"}},
    ),
    Planted(
        "parameters gathered when they are needed",
        {"model": "llama3-8b", "layers": 4, "dp": 8, "data": "fsdp", "prefetch": 0}
        | {"seq": 2048, "global_batch": 8},
        "dgx-a100",
        "units ahead",
    ),
    Planted(
        "tensor parallelism across nodes",
        {"model": "gpt3-6.7b", "layers": 4, "tp": 4, "dp": 4, "order": "dp-cp-tp-pp"}
        | {"seq": 1024, "global_batch": 16, "micro_batch": 2},
        "dgx-a100:2",
        "in the order",
    ),
)
"""Written before any of them was run."""


def check_advice() -> None:
    """Prints the first advice for every planted fault, and how many of them undo it."""
    right = 0
    for planted in PLANTED:
        traces = ck.generate(**planted.workload).traces
        run = ck.simulate(traces, planted.machine, **planted.options).run()
        advice, note = advise(run)
        good = bool(advice) and planted.remedy in advice[0].what
        right += good
        said = [f"{a.what} {100 * a.share:.1f} %" for a in advice[:3]]
        print(f"{'right' if good else 'WRONG'}  {planted.name}: {said} {note}", flush=True)
    print(f"{right} of {len(PLANTED)} first pieces of advice undo what was planted")


if __name__ == "__main__":
    if sys.argv[1:2] == ["blame"]:
        check_blame()
    elif sys.argv[1:2] == ["advice"]:
        check_advice()
    else:
        check_bounds(int(sys.argv[2]) if len(sys.argv) > 2 else 200)
