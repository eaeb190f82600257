"""Ranks put where the topology wants them, against ranks put where they come.

Claim (AoiZora, an auto-parallel planner for diffusion transformers on TPU sub-slices): with the sharding and
the placement of ranks on the slice chosen together, a denoising step takes down to 1/1.42 of the time.

Prediction, written before the first run:

1. On a mesh without wrap-around, placement alone gives tens of percent where a group cannot be a line of its
   own: 2×16 more than 4×8, 4×8 more than 4×4. With wrap-around the gain is smaller.
2. Most of it is had without a search, by choosing the order of the axes well. What is left for tiles and
   snakes over the best order is under 20 %, as the best sharding under the default placement is
   one that fits the slice already.
3. On a fat tree the gain grows with oversubscription where the nodes of the job come in scattered order, and
   there is none where they come leaf by leaf, none without oversubscription, and none within a node.
4. A random placement is the worst of all, up to several times slower: beating it proves nothing.

Fairness. Every side chooses its collective algorithms and, on slices, its sharding.
`default` takes the axes in the usual order on the devices as they come; `ordered` all orders of the axes:
this is the comparator, as a careful user needs no tool for it. `aware`, the contender, also tries the ways
through the machine: tiles of all sizes, snakes, nodes sorted by leaf. `mapped` starts from `ordered` and
swaps ranks to lower the load of links that the traffic between ranks makes, told nothing of the machine but
its routes; it simulates only its result. `random` is the mean of three permutations with the choices of
`ordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product

import msgspec
import numpy as np
from placement_said import draw, table, verdict
from study import Row, Study

from chakrakit import TraceSet
from chakrakit.insight.communication import communication
from chakrakit.machines import parse_machine
from chakrakit.machines.device import Roofline
from chakrakit.machines.fabric import Machine
from chakrakit.passes.select import Select
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import Outcome, SimulationOptions, run
from chakrakit.simulator.results import to_run
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

Path = tuple[int, ...]
"""The device of each place; ranks take the places in order."""
REDUCING = ("all-reduce", "all-gather", "reduce-scatter")
ALGORITHMS: dict[str, dict[str, str]] = {
    "auto": {},
    "ring": dict.fromkeys(REDUCING, "ring"),
    "halving": dict.fromkeys(REDUCING, "halving-doubling"),
}
USUAL = ("tp", "cp", "dp", "pp")


@dataclass(frozen=True)
class Site:
    """Where a job runs: a machine, its devices as they come, and other ways through them.

    `kind` is mesh, torus, scattered, leaf by leaf, hashed or node; `kept` of the plans, the best under
    `ordered`, go on to all placements.
    """

    kind: str
    name: str
    oversubscription: float
    kept: int
    algorithms: tuple[str, ...]
    machine: Machine
    given: Path
    paths: dict[str, Path]
    plans: dict[str, Plan]
    make: Callable[[Plan], TraceSet]


@dataclass(frozen=True)
class Choice:
    """What a side chose, and the step it gets."""

    plan: str
    order: str
    algorithm: str
    path: str
    step_ms: float
    places: Path = field(repr=False)


# --- workloads --------------------------------------------------------------------------------------


def denoising(plan: Plan) -> TraceSet:
    """The forward pass of one of Wan 2.1's forty blocks, for a video with and without its prompt."""
    model = msgspec.structs.replace(model_named("wan2.1-14b"), layers=1, height=96)
    step = Step(global_batch=2, micro_batch=2 // plan.dp)
    return generate(Workload(model=model, plan=plan, step=step)) | Select(phases=("forward",))


def training(plan: Plan) -> TraceSet:
    """A training step of four of Llama 3.1 8B's layers; a pipeline gets four micro-batches."""
    model = msgspec.structs.replace(model_named("llama3.1-8b"), layers=4)
    step = Step(seq=2048, global_batch=plan.dp * plan.pp)
    return generate(Workload(model=model, plan=plan, step=step))


def shardings(devices: int) -> dict[str, Plan]:
    """All ways to spread a denoising step of two samples over the devices that its heads allow."""
    found = {}
    for tp, dp, context in product((1, 2, 4, 8), (1, 2), ("gather", "ulysses")):
        cp = devices // tp // dp
        heads = tp * cp if context == "ulysses" else tp
        if cp < 1 or 40 % heads or (cp == 1 and context == "ulysses"):
            continue
        plan = Plan(tp=tp, cp=cp, dp=dp, context=context, data="none", sequence_parallel=tp > 1)
        found[f"tp{tp} cp{cp} dp{dp} {context if cp > 1 else ''}".strip()] = plan
    return found


# --- machines and ways through them -----------------------------------------------------------------


def slice_site(dims: tuple[int, int], wraps: bool) -> Site:
    """A sub-slice of TPU v5e chips: a mesh, or a torus where it wraps around."""
    kind = "torus" if wraps else "mesh"
    network = {"topology": kind, "dims": list(dims), "bandwidth": "400 Gb/s", "latency": "500 ns"}
    name = f"{kind} {dims[0]}×{dims[1]}"
    machine = parse_machine({"name": name, "device": "tpu-v5e", "network": [network]}, name)
    rows = tuple(range(machine.size))
    kept = 5 if machine.size <= 32 else 2
    plans, paths = shardings(machine.size), dict(tiled(dims))
    return Site(kind, name, 1, kept, ("auto", "ring"), machine, rows, paths, plans, denoising)


def tree_site(name: str, plan: Plan, over: float, seed: int, hashed: bool = False) -> Site:
    """Sixteen nodes of four, four nodes a leaf, that come leaf by leaf, or scattered with a seed.

    A leaf's way up is one wide link, as if packets were spread over all of its cables, or `hashed`: as many
    cables as bandwidth asks for, and each pair of devices keeps to one of them.
    """
    inside = {"topology": "switch", "size": 4, "bandwidth": "300 GB/s", "latency": "300 ns"}
    outside = {
        "topology": "fat-tree",
        "size": 16,
        "arity": [16, 4],
        "joins": "flat",
        "bandwidth": "25 GB/s",
        "latency": "1 us",
        "oversubscription": over,
        "uplinks": [] if hashed else [1],
    }
    machine = parse_machine({"device": "a100-sxm-80gb", "network": [inside, outside]}, "tree")
    nodes = np.random.default_rng(seed).permutation(16) if seed else np.arange(16)
    given = tuple(int(4 * node + i) for node in nodes for i in range(4))
    kind = "hashed" if hashed else "scattered" if seed else "leaf by leaf"
    called = f"{name}, {kind}" + (f" {seed}" if seed else "")
    paths = {"by leaf": tuple(sorted(given))}
    return Site(
        kind, called, over, 1, tuple(ALGORITHMS), machine, given, paths, {name: plan}, training
    )


def node_site(plan: Plan) -> Site:
    """One node of eight."""
    inside = {"topology": "switch", "size": 8, "bandwidth": "300 GB/s", "latency": "300 ns"}
    machine = parse_machine({"device": "a100-sxm-80gb", "network": [inside]}, "node")
    given = tuple(int(i) for i in np.random.default_rng(1).permutation(8))
    paths = {"sorted": tuple(range(8))}
    return Site(
        "node",
        "one node",
        1,
        1,
        tuple(ALGORITHMS),
        machine,
        given,
        paths,
        {"tp2 dp4": plan},
        training,
    )


def tiled(dims: tuple[int, int]) -> Iterator[tuple[str, Path]]:
    """Ways through a grid tile by tile, in rows or columns, straight or as snakes."""
    wide, high = dims  # device = x + wide * y
    seen = set()
    for across, up in product(_divisors(wide), _divisors(high)):
        for inner, outer in product(_walks(across, up), _walks(wide // across, high // up)):
            path = tuple(
                (tx * across + x) + wide * (ty * up + y) for tx, ty in outer[1] for x, y in inner[1]
            )
            if path not in seen:
                seen.add(path)
                yield f"{across}×{up} {inner[0]}, {outer[0]}", path


def _walks(wide: int, high: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """Places of a grid row by row and column by column, and the same as snakes."""
    rows = [(x, y) for y in range(high) for x in range(wide)]
    columns = [(x, y) for x in range(wide) for y in range(high)]
    snake = [(x if y % 2 == 0 else wide - 1 - x, y) for x, y in rows]
    other = [(x, y if x % 2 == 0 else high - 1 - y) for x, y in columns]
    return [("rows", rows), ("row snake", snake), ("columns", columns), ("column snake", other)]


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


# --- sides ------------------------------------------------------------------------------------------


class Trials:
    """Simulates choices at a site, each once, and counts."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.known: dict[tuple[str, str, str, Path], float] = {}
        self.traces: dict[tuple[str, str], TraceSet] = {}

    def step_ms(self, plan: str, order: str, algorithm: str, places: Path) -> float:
        """Milliseconds of a step."""
        key = (plan, order, algorithm, places)
        if key not in self.known:
            self.known[key] = self.simulated(plan, order, algorithm, places).makespan_ps * 1e-9
        return self.known[key]

    def workload(self, plan: str, order: str) -> TraceSet:
        """The traces of a plan with its axes in this order."""
        if (plan, order) not in self.traces:
            chosen = msgspec.structs.replace(self.site.plans[plan], order=order)
            self.traces[plan, order] = self.site.make(chosen)
        return self.traces[plan, order]

    def best(self, plan: str, orders: Sequence[str], paths: dict[str, Path]) -> Choice:
        """The best of all orders, algorithms and paths."""
        tried = product(orders, self.site.algorithms, paths.items())
        return min(
            (
                Choice(plan, o, a, name, self.step_ms(plan, o, a, path), path)
                for o, a, (name, path) in tried
            ),
            key=lambda c: c.step_ms,
        )

    def simulated(self, plan: str, order: str, algorithm: str, places: Path) -> Outcome:
        """A step with each rank on its place."""
        options = SimulationOptions(
            work=Roofline(), algorithms=Algorithms(ALGORITHMS[algorithm]), placement=places
        )
        return run(self.workload(plan, order), self.site.machine, options)


def mapped(trials: Trials, start: Choice, tries: int) -> Choice:
    """Swaps places while that lowers the load of links, and simulates what it comes to."""
    done = trials.simulated(start.plan, start.order, start.algorithm, start.places)
    pairs = communication(to_run(done, trials.site.machine, {}, "summary")).pairs
    src, dst, moved = (np.array([getattr(p, n) for p in pairs]) for n in ("src", "dst", "bytes"))
    machine, rng = trials.site.machine, np.random.default_rng(0)

    def load(places: np.ndarray) -> float:
        """Seconds each link is busy, the longest by far the most important."""
        routes = machine.routes(places[src], places[dst])
        carried = np.bincount(routes.links, np.repeat(moved, np.diff(routes.offsets)))
        return float(((carried / machine.links.bandwidth[: len(carried)]) ** 4).sum())

    places = np.array(start.places)
    least = load(places)
    for _ in range(tries):
        a, b = rng.choice(len(places), 2, replace=False)
        other = places.copy()
        other[[a, b]] = other[[b, a]]
        if (found := load(other)) < least:
            places, least = other, found
    return trials.best(start.plan, [start.order], {"mapped": tuple(int(p) for p in places)})


def _orders(plan: Plan) -> list[str]:
    """All orders of the axes that the plan uses."""
    used = [axis for axis in USUAL if getattr(plan, axis) > 1]
    rest = [axis for axis in USUAL if axis not in used]
    return ["-".join([*order, *rest]) for order in permutations(used)]


def sides(site: Site, tries: int, seeds: int) -> Iterator[Row]:
    """One row per side and plan; `mapped` and `random` with the best plan only."""
    trials, given = Trials(site), {"as given": site.given}
    for plan in site.plans:
        yield _row(site, "default", trials, trials.best(plan, ["-".join(USUAL)], given))
    ordered = [trials.best(plan, _orders(site.plans[plan]), given) for plan in site.plans]
    ordered.sort(key=lambda c: c.step_ms)
    for choice in ordered:
        yield _row(site, "ordered", trials, choice)
    for choice in ordered[: site.kept]:
        orders = _orders(site.plans[choice.plan])
        yield _row(site, "aware", trials, trials.best(choice.plan, orders, given | site.paths))
    yield _row(site, "mapped", trials, mapped(trials, ordered[0], tries))
    for seed in range(seeds):
        places = tuple(int(p) for p in np.random.default_rng(seed).permutation(site.given))
        best = ordered[0]
        step = trials.step_ms(best.plan, best.order, best.algorithm, places)
        yield _row(site, "random", trials, replace(best, path=f"seed {seed}", step_ms=step))


def _row(site: Site, side: str, trials: Trials, c: Choice) -> Row:
    return {
        "kind": site.kind,
        "site": site.name,
        "oversubscription": site.oversubscription,
        "side": side,
        "plan": c.plan,
        "order": c.order,
        "algorithm": c.algorithm,
        "path": c.path,
        "simulated": len(trials.known),
        "step_ms": round(c.step_ms, 4),
    }


# --- the study --------------------------------------------------------------------------------------


def sites(quick: bool) -> Iterator[Site]:
    """Slices, a tree with ever narrower uplinks, and one node."""
    trees = {
        "tp4 dp16": Plan(tp=4, dp=16),
        "tp8 dp8": Plan(tp=8, dp=8),
        "tp4 dp4 pp4": Plan(tp=4, dp=4, pp=4),
    }
    if quick:
        yield replace(slice_site((2, 4), False), kept=1)
        yield replace(tree_site("tp4 dp16", trees["tp4 dp16"], 4, 1), algorithms=("auto",))
        return
    for dims in ((4, 4), (4, 8), (2, 16), (8, 8)):
        yield slice_site(dims, False)
    yield slice_site((4, 8), True)
    for (name, plan), seed, over in product(trees.items(), (0, 1), (1, 2, 4, 8)):
        yield tree_site(name, plan, over, seed)
    for seed, over in product((2, 3), (1, 2, 4, 8)):
        yield tree_site("tp4 dp16", trees["tp4 dp16"], over, seed)
    for over in (1, 4):
        yield tree_site("tp4 dp16", trees["tp4 dp16"], over, 1, hashed=True)
    yield node_site(Plan(tp=2, dp=4))


def measure(quick: bool) -> list[Row]:
    """All sides at all sites."""
    tries, seeds = (200, 1) if quick else (2000, 3)
    return [row for site in sites(quick) for row in sides(site, tries, seeds)]


STUDY = Study("placement", measure, table, verdict, draw)

if __name__ == "__main__":
    STUDY.main()
