"""What simulations come to, on machines of every kind, with every way to disturb them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.simulator import live
from chakrakit.workloads.generate import generate
from support.commands import chakra
from support.damaged import compare_outcomes, damages, printed
from support.kept_results import checksum, checksums, compare, of_set
from support.random_plans import random_workload
from support.random_workloads import contended_case, crowded_case, random_case
from support.recorded import linked

QUICK = {"dgx-h100:8", "tpu-v5p", "flow", "measured"}
"""What `make check` tries: a switch and a torus, predicted and measured times."""
MACHINES = ["dgx-h100:8", "dgx-a100:8", "gb200-nvl72", "tpu-v5p", "mi300x:8", "dgx-h200:8"]
DISTURBED = {
    "flow": {"network": "flow"},
    "analytical": {"network": "analytical"},
    "jitter": {"jitter": 0.1, "seed": 3},
    "straggler": {"stragglers": ["1=1.5"]},
    "measured": {"compute": "measured"},
    "roofline": {"compute": "roofline"},
    "unfolded": {"fold": False},
}


def marked(names):
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in names]


@pytest.mark.parametrize("machine", marked(MACHINES))
def test_kept_summaries_of_random_workloads(machine: str) -> None:
    rng = Random(machine)
    figures = {}
    for number in range(6):
        try:
            simulation = ck.simulate(generate(random_workload(rng)), machine)
            figures[str(number)] = simulation.summary.to_dict()
        except ChakraError as refusal:
            figures[str(number)] = {"refused": str(refusal)}
    compare(f"simulated-{machine.partition(':')[0]}", figures)


WAYS: list[dict[str, Any]] = [
    {"network": "analytical"},
    {"stragglers": ["1=1.5", "2=2"], "fold": False},
    {"jitter": 0.2, "seed": 9},
    {"faults": ["device:1@2000=0.4"]},
    {"compute": "measured", "communication": "measured"},
    {"share_compute": True},
    {"algorithms": {"all-reduce": "halving-doubling", "all-gather": "direct"}},
    {},
]


@pytest.mark.parametrize(
    "numbers",
    [range(10), pytest.param(range(10, 160), marks=pytest.mark.slow)],
    ids=["first", "others"],
)
def test_kept_runs_of_random_traces(numbers: range) -> None:
    """Small workloads on small machines of every topology, each disturbed in one way."""
    cases = (random_case, crowded_case, contended_case)
    figures = {}
    for number in numbers:
        traces, machine, *_ = cases[number % 3](number)
        try:
            done = ck.simulate(traces, machine, **WAYS[number % len(WAYS)])
        except ChakraError as refusal:
            figures[str(number)] = str(refusal)
            continue
        run = done.run("full")
        times = [[run.start(r).tolist(), run.end(r).tolist()] for r in run.ranks]
        counters = {n: t.to_pydict() for n, t in run.counters.items()}
        figures[str(number)] = [done.summary.to_dict(), times, counters]
    compare(f"simulated-random-{numbers.start}", checksums(figures))


@pytest.mark.parametrize("name", marked(DISTURBED))
def test_kept_runs_of_a_recording(name: str) -> None:
    simulation = ck.simulate(linked("gpt_pp_2"), "dgx-h100", **DISTURBED[name])
    run = simulation.run("full")
    times = {f"rank {r}": [run.start(r).tolist(), run.end(r).tolist()] for r in run.ranks}
    for rank in run.ranks:
        of_rank = run.times_of(rank)
        causes = (of_rank.binding_row, of_rank.binding_rank, of_rank.reason)
        times[f"causes {rank}"] = [c.tolist() for c in causes if c is not None]
    counters = {n: t.to_pylist() for n, t in run.counters.items()}
    compare(
        f"rerun-{name}",
        {"summary": simulation.summary.to_dict(), **times, **counters, **of_set(run)},
    )


GIVEN = {
    "astra": "simulate {in}/w --astra {in}/system.json {in}/network.yaml {in}/memory.json "
    "--groups {in}/groups.json",
    "network-model": "simulate {in}/w --machine dgx-h100 --network-model {in}/model.json "
    "--placement {in}/placement.json",
}


@damages(20, 120)
@pytest.mark.parametrize("name", GIVEN)
def test_kept_outcomes_of_damaged_settings(name: str, numbers: range, tmp_path: Path) -> None:
    """What simulations come to with files of settings, and what is said to damaged ones."""
    compare_outcomes(name, tmp_path, printed(GIVEN[name]), numbers)


@damages(40, 200)
@pytest.mark.parametrize(
    ("name", "file", "kind", "ranks"),
    [("msccl", "a.xml", "ALL_GATHER", 3), ("mscclpp", "a.json", "ALL_REDUCE", 2)],
)
def test_kept_outcomes_of_damaged_algorithms(
    name: str, file: str, kind: str, ranks: int, numbers: range, tmp_path: Path
) -> None:
    """How long a collective takes with an algorithm in a file, and what is said to damaged ones."""
    builder = ck.TraceBuilder()
    builder.collective("c", ck.CollectiveType[kind], 1 << 20)
    bindings = {rank: ck.Binding(0) for rank in range(ranks)}
    traces = ck.TraceSet([builder.build()], bindings, ck.Groups({"": range(ranks)}))

    def simulated(folder: Path) -> object:
        algorithm = {kind.lower().replace("_", "-"): folder / file}
        return [ck.simulate(traces, "dgx-h100", algorithms=algorithm).summary.makespan_ns]

    compare_outcomes(name, tmp_path, simulated, numbers)


FAULTS = {
    "well": [],
    "slow": [live.Slow(1.7)],
    "late": [live.Delay(3_000, exponential=True)],
    "lossy": [live.Drop(0.5)],
    "down": [live.Crash(4_000, 9_000)],
}


def asks(me, pool, group):
    """Computes, sends, waits for an answer or for a timeout, and takes a place in a pool."""
    for number in range(4):
        yield live.compute(flops=1e9, bytes=1e6, name="think")
        yield live.send("answers", 4_000, number, wait=number % 2 == 0)
        yield live.receive(timeout=40_000)
        yield live.use(pool, 500, priority=number, deadline=1e6)
    yield live.all_of(live.compute(200, name="b"), live.compute(300, name="c", host=True))
    yield live.collective("all-reduce", 1e6, group)


def answers(me):
    while True:
        for message in (yield live.receive(timeout=100_000)):
            yield live.compute(800, name="look up")
            yield live.send(message.sender, 100, "answer")


def joins(me, pool, group):
    yield live.use(pool, 2_000)
    yield live.sleep(100)
    yield live.collective("all-reduce", 1e6, group)


@pytest.mark.parametrize("name", FAULTS)
def test_kept_runs_of_programs(name: str) -> None:
    """Messages, timeouts, pools, kernels and a sum, with a fault of the one who answers."""
    world = live.World("dgx-h100", seed=3)
    pool, group = world.pool("desk", 1, discipline="priority"), world.group(["asks", "joins"])
    world.actor(asks, pool, group, rank=0, name="asks")
    world.actor(answers, rank=1, name="answers", daemon=True, faults=FAULTS[name])
    world.actor(joins, pool, group, rank=2, name="joins")
    result = world.run(until=5e6)
    run = result.run()
    times = {f"rank {r}": [run.start(r).tolist(), run.end(r).tolist()] for r in run.ranks}
    counters = {n: t.to_pylist() for n, t in run.counters.items()}
    compare(
        f"acted-{name}", {"summary": result.summary.to_dict(), **times, **counters, **of_set(run)}
    )


FAILURES = {
    "a device": {"faults": ["device:5@300000=0"]},
    "a link": {"faults": ["link:3-switch 0.0@200000=0"]},
    "from the start": {"faults": ["device:1@0=0"]},
    "a slow one": {"faults": ["device:2@100000=0.3"], "stragglers": ["6=1.4@1"]},
}


def test_kept_simulations_that_fail(tmp_path: Path) -> None:
    """What runs up to a hang say, who is blamed, and what recorders would have written."""
    small = {"heads": 8, "hidden": 256, "layers": 1, "seq": 64, "global_batch": 4, "steps": 2}
    traces = ck.generate(model="gpt3-125m", **small, tp=4, dp=2).traces
    figures = {}
    for name, options in FAILURES.items():
        folder = tmp_path / name
        try:
            done = ck.simulate(traces, "dgx-h100", compute="roofline", records=folder, **options)
        except ck.DeadlockError as hang:
            done = hang.simulation
            figures[f"{name}, said"] = str(hang)
        run = done.run()
        figures[f"{name}, run"] = of_set(run)
        figures[f"{name}, times"] = [
            [run.start(r).tolist(), run.end(r).tolist()] for r in run.ranks
        ]
        figures[f"{name}, counters"] = {n: t.to_pylist() for n, t in run.counters.items()}
        figures[f"{name}, blamed"] = [[c.kind, c.rank, c.detail] for c in run.analyze().culprits]
        written = sorted(path for path in folder.rglob("*") if path.is_file())
        figures[f"{name}, records"] = {
            str(path.relative_to(folder)): checksum(path.read_text()) for path in written
        }
    compare("failed-simulations", figures)


EXPORTS = {
    "goal": ("goal",),
    "goal by rings": ("goal", "--algorithm", "all-reduce=ring"),
    "simai": ("simai",),
    "astra1": ("astra1",),
}


def test_kept_exports(tmp_path: Path) -> None:
    """What other tools are given of plans of several kinds, and what is said to those they cannot have."""
    plans = {
        "data": {"dp": 2},
        "tensors": {"tp": 2, "dp": 2},
        "stages": {"pp": 2},
        "sharded": {"dp": 4, "data": "fsdp"},
    }
    figures = {}
    for plan, degrees in plans.items():
        small = {"layers": 2, "seq": 32, "global_batch": 4}
        ck.write(ck.generate(model="gpt3-125m", **small, **degrees).traces, tmp_path / plan)
        for name, (kind, *options) in EXPORTS.items():
            file = tmp_path / f"{plan}.{kind}"
            done = chakra("export", tmp_path / plan, file, "--to", kind, *options)
            text = file.read_text() if done.exit_code == 0 else done.stderr
            figures[f"{plan} as {name}"] = text.replace(str(tmp_path), "")
    compare("exported-plans", figures)
