"""B22, AMDP: several asynchronous pipelines over the same stages, each with two mini-batches under way.

An asynchronous pipeline applies gradients after every mini-batch and never drains, but weights change between
a forward and its backward. With one pipeline, full stages need as many mini-batches under way as there are
stages, and weights are stale by as many updates. Several pipelines, which enter at different stages, need two
each, and weights change once at most. Synchronous schedules are never stale and drain after every step.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.machines import machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.planning import NS, Pipeline, ReadyFirst, seconds
from chakrakit.published.training.async_pipelines import BATCHES, job, stale
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import simulate


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The share of time in which stages work, which counts where weights are stale by one update at most."""
    stages, spread = case["stages"], case["spread"]
    ideal = 3 * NS * 1e-9 * BATCHES
    if setting["plan"] != "async":
        shape = Pipeline(stages, BATCHES, stages, "task", spread)
        split = "halves" if setting["plan"] == "zb-h1" else "whole"
        took = seconds(shape, setting["plan"], split, False, seed)
        return {"busy": ideal / took, "kept": ideal / took, "stale": 0.0}
    line = {"topology": "switch", "size": stages, "bandwidth": 1e9, "latency": 0}
    traces = job(stages, setting["pipelines"], setting["ahead"], spread, seed)
    options = SimulationOptions(fold=False, dispatch=ReadyFirst("backward first", None))
    done = simulate(traces, machine({"network": [line]}), options=options)
    stale_by = stale(done.run("summary"), setting["pipelines"])
    busy = ideal / (done.makespan_ns * 1e-9)
    return {"busy": busy, "kept": busy if stale_by <= 1 else 0.0, "stale": float(stale_by)}


def cases(quick: bool) -> Sequence[Case]:
    """One stage, and pipelines of four and eight, with equal and with varied tasks."""
    found = [{"stages": s, "spread": x} for s, x in ((1, 0.0), (4, 0.0), (4, 0.3))]
    return found if quick else [*found, {"stages": 8, "spread": 0.0}, {"stages": 8, "spread": 0.3}]


def way(plan: str, pipelines: int = 1, ahead: int = 2) -> Setting:
    """A schedule, or asynchronous pipelines with so many mini-batches under way in each."""
    return {"plan": plan, "pipelines": pipelines, "ahead": ahead}


STUDY = Study(
    id="B22",
    system="AMDP",
    family="training",
    strength="direction",
    claims=[Claim("fewer bubbles than synchronous pipelines", 1.02, 2.0, where={"spread": 0.0})],
    rests_on={
        "tasks that run when they are ready": "simulator/engine/planner.py",
        "synchronous schedules": "workloads/description/schedules.py",
    },
    cases=cases,
    sides={
        "AMDP": [way("async", d) for d in (2, 4, 8)],
        "synchronous": [way(name) for name in ("1f1b+0", "zb-h1", "gpipe")],
        "one asynchronous pipeline": [way("async", 1, 8)],
    },
    idea="AMDP",
    untuned=["one asynchronous pipeline"],
    measure=measure,
    better=("kept", "max"),
    health="busy",
    gone=lambda case: bool(case["stages"] == 1),
    ablate={"several pipelines": {"pipelines": 1}},
    predictions={
        "weights are stale by one update at most": lambda t: 1.5 - most(t.figure("stale")),
        "one pipeline is staler": lambda t: (
            least(t.figure("stale", "one asynchronous pipeline", stages=lambda s: s > 1)) - 1.5
        ),
        "nothing is gained with one stage": lambda t: 0.02 - most(abs(t.gains(stages=1) - 1)),
        "bubbles are smaller than those of ZB-H1 and its kin": lambda t: (
            least(t.gains(stages=4)) - 1.02
        ),
    },
    decides="how much tasks vary: with two mini-batches under way in a pipeline, one that takes long stops "
    "it, where a synchronous step has others to go on with.",
    amended="After the first run the claim was limited to tasks of equal length, busy time came to count "
    "only where weights are at most one step old, and pipelines of eight stages were added. "
    "Without the limit the synchronous side holds the claim as well when labels are swapped.",
    cannot_say="Convergence with stale weights, and the memory of several pipelines' weights on a device.",
)
