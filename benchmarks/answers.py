"""Whether answers hold: the bound and the cause that are named, against runs where both are known.

python answers.py bounds [200]   random simulated runs: the bound that is named against simulating each
                                 resource twice as fast
python answers.py blame          44 pairs that differ by one known edit: what `compare` says first
python answers.py advice [10]    generated steps at rest with one thing done badly: whether advice undoes it
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
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
    """Thirty pairs, six for each of five kinds of edit; then 14 of other kinds."""
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
    yield from _of_a_plan_s_fields()
    yield from _of_one_machine()


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


_STEP: dict[str, Any] = {"model": "gpt3-350m", "seq": 512}


def _simulated(fields: Mapping[str, Any], machine: str = "dgx-h100", **options: Any) -> Run:
    traces = ck.generate(**{**_STEP, **fields}).traces
    return ck.simulate(traces, machine, **{"compute": "roofline", **options}).run()


def _of_a_plan_s_fields() -> Iterator[Pair]:
    """Steps with one field of their plan changed."""
    dp, pipeline = {"dp": 8, "global_batch": 8}, {"pp": 4, "dp": 2, "global_batch": 16}
    sharded = {**dp, "data": "fsdp"}
    edits: tuple[tuple[dict[str, Any], dict[str, Any], str, str], ...] = (
        ({**pipeline, "micro_batch": 1}, {"micro_batch": 2}, "work", "work"),
        ({"dp": 2, "global_batch": 2}, {"dtype": "fp32"}, "work", "work"),
        ({"dp": 2, "global_batch": 2, "kernel": "flash"}, {"kernel": "unfused"}, "work", "work"),
        (dp, {"recompute": "full"}, "work", "work"),
        (dp, {"data": "fsdp"}, "work", "work"),
        (sharded, {"prefetch": 0}, "overlap", "communication"),
        ({"tp": 2, "global_batch": 2}, {"tp": 4}, "", "compute"),
    )
    for fields, edit, change, kind in edits:
        yield Pair(
            f"{edit} of {fields}", _simulated(fields), _simulated({**fields, **edit}), change, kind
        )


def _of_one_machine() -> Iterator[Pair]:
    """The same step with a machine that does something otherwise, and recordings with a slower kernel."""
    dp = {"dp": 8, "global_batch": 8}
    run, far = _simulated(dp), {"dp": 16, "global_batch": 16}
    slow_link = {"faults": ["link:3-switch 0.0@0=0.2"]}
    algorithm = {"algorithms": {"all-reduce": "halving-doubling"}}
    yield Pair("algorithm", run, _simulated(dp, **algorithm), "durations", "communication")
    two = _simulated(far, "dgx-h100:2")
    slow = _simulated(far, "dgx-h100:2", **slow_link)
    yield Pair("a link of one of 16", two, slow, "durations", "communication")
    slower = _simulated(dp, stragglers={5: 1.5})
    yield Pair("a slow rank", run, slower, "durations", "compute")
    clocks = [_simulated(dp, compute="auto", clock=c) for c in ({}, {"": 1000.0})]
    yield Pair("a lower clock", *clocks, "durations", "compute")
    one_layer = as_measured(run | Edit(scale=2, names=("layers[.]3[.].*",)))
    yield Pair("one layer slower", run, one_layer, "durations", "compute")
    for name, kernels in zip(RECORDED, (".*layer_norm.*", ".*(batch_norm|bn_fw).*"), strict=True):
        recorded = as_measured(linked(name))
        edited = as_measured(recorded | Edit(scale=2, names=(kernels,)))
        yield Pair(f"{kernels} of {name}", recorded, edited, "durations", "compute")


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


BASES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"model": "llama3-8b", "layers": 4, "seq": 2048, "global_batch": 16}, "dgx-h100"),
    ({"model": "gpt3-6.7b", "layers": 4, "seq": 1024, "global_batch": 32}, "dgx-a100"),
    ({"model": "qwen3-8b", "layers": 6, "seq": 4096, "global_batch": 8}, "dgx-h200"),
    ({"model": "llama3-70b", "layers": 4, "seq": 2048, "global_batch": 16}, "dgx-b200"),
    ({"model": "gpt3-2.7b", "layers": 8, "seq": 2048, "global_batch": 16}, "dgx-h100:2"),
    ({"model": "qwen3-30b-a3b", "layers": 3, "seq": 4096, "global_batch": 16}, "dgx-h100"),
)
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"dp": 8},
    {"dp": 8, "data": "fsdp"},
    {"dp": 2, "tp": 4},
    {"dp": 4, "pp": 2},
    {"dp": 2, "tp": 2, "pp": 2},
)
"""A base and a layout are drawn for every case."""


def faults(w: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Ways in which a workload can be done badly, by what a plan has to have."""
    split = [w["layers"] - w.get("pp", 1) + 1, *[1] * (w.get("pp", 1) - 1)]
    found: dict[str, dict[str, Any] | None] = {
        "scores written to memory": {"kernel": "unfused"},
        "layers computed twice": {"recompute": "full"},
        "float32": {"dtype": "fp32"},
        "a pipeline of unlike stages": {"split": split} if w.get("pp", 1) > 1 else None,
        "gradients in small buckets": {"bucket_mb": 0.5} if w.get("data") != "fsdp" else None,
        "parameters gathered late": {"prefetch": 0} if w.get("data") == "fsdp" else None,
        "every token split again": {"tp": 8, "dp": 1, "pp": 1, "data": "ddp"},
        "one micro-batch in a pipeline": {"micro_batch": w["global_batch"] // w["dp"]}
        if w.get("pp", 1) > 1
        else None,
        "small micro-batches": {"micro_batch": 1},
    }
    return {name: fields for name, fields in found.items() if fields is not None}


COSTS = 0.05
"""The least share of a step that a planted fault has to cost to be one."""
UNDONE = 0.02
"""What the first advice may leave of a step, or of what the fault cost."""


def check_advice(cases: int = 10) -> None:
    """Plants faults at random in plans that no advice helps, and prints whether the first advice undoes them.

    What is advised for a drawn plan is done until nothing is advised, so that the fault is all there is to
    undo. It is undone where the step is as fast as before, whatever the advice is. A fault that costs less
    than `COSTS` is drawn again. Seeds are counted from 0.
    """
    right = asked = seed = 0
    while asked < cases:
        rng, seed = Random(seed), seed + 1
        workload, machine = rng.choice(BASES)
        at_rest = _at_rest({**workload, **rng.choice(LAYOUTS)}, machine)
        if at_rest is None:
            continue
        workload, best = at_rest
        name, fields = rng.choice(sorted(faults(workload).items()))
        run = _run({**workload, **fields}, machine)
        if run is None or _span(run) < (1 + COSTS) * best:
            continue
        asked += 1
        advice, note = advise(run)
        after = advice[0].after_ns if advice else _span(run)
        cost = _span(run) - best
        undone = after - best <= max(UNDONE * best, UNDONE * cost)
        right += undone
        said = [f"{a.what} {100 * a.share:.1f} %" for a in advice[:3]]
        print(
            f"{'right' if undone else 'WRONG'}  seed {seed - 1}, {name} (+{cost / best:.0%}), "
            f"{workload} on {machine}: {said} leaves {after / best - 1:+.1%} {note}",
            flush=True,
        )
    print(f"{right} of {asked} first pieces of advice undo what was planted")


def _run(workload: Mapping[str, Any], machine: str) -> Run | None:
    try:
        return ck.simulate(ck.generate(**workload).traces, machine).run()
    except ChakraError:
        return None


def _span(run: Run) -> float:
    low, high = run.span_ns
    return float(high - low)


def _at_rest(workload: dict[str, Any], machine: str) -> tuple[dict[str, Any], float] | None:
    """A workload after all advice that keeps what is trained, and its step in ns."""
    for _ in range(8):
        run = _run(workload, machine)
        if run is None:
            return None
        advice = [a for a in advise(run)[0] if a.same_training]
        if not advice:
            return workload, _span(run)
        changed = _advised(advice[0])
        if not changed:
            return workload, _span(run)
        workload = {**workload, **changed}
    return None


def _advised(advice: Any) -> dict[str, Any]:
    """The fields that a piece of advice changes, read off its first command; {} where it changes none."""
    words = advice.commands[0].split()
    if words[1] != "generate":
        return {}
    flags = words[3 : words.index("-o")]
    fields: dict[str, Any] = {}
    while flags:
        name = flags.pop(0).removeprefix("--")
        if not flags or flags[0].startswith("--"):
            on = not name.startswith("no-")
            fields[name.removeprefix("no-").replace("-", "_")] = on
            continue
        text = flags.pop(0)
        numbers = [_figure(part) for part in text.split(",")]
        fields[name.replace("-", "_")] = numbers if "," in text else numbers[0]
    return fields


def _figure(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


if __name__ == "__main__":
    if sys.argv[1:2] == ["blame"]:
        check_blame()
    elif sys.argv[1:2] == ["advice"]:
        check_advice(int(sys.argv[2]) if len(sys.argv) > 2 else 10)
    else:
        check_bounds(int(sys.argv[2]) if len(sys.argv) > 2 else 200)
