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

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations, product

import msgspec
import numpy as np
from study import Row, Study, markdown, prediction, span

from chakrakit import TraceSet
from chakrakit.insight.communication import communication
from chakrakit.machines.device import Roofline
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import parse_machine
from chakrakit.passes.select import Select
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import Outcome, SimulationOptions, run
from chakrakit.simulator.results import to_run
from chakrakit.views.charts import Line, line_chart
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import named

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
    model = msgspec.structs.replace(named("wan2.1-14b"), layers=1, height=96)
    step = Step(global_batch=2, micro_batch=2 // plan.dp)
    return generate(Workload(model=model, plan=plan, step=step)) | Select(phases=("forward",))


def training(plan: Plan) -> TraceSet:
    """A training step of four of Llama 3.1 8B's layers; a pipeline gets four micro-batches."""
    model = msgspec.structs.replace(named("llama3.1-8b"), layers=4)
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


# --- what it says -----------------------------------------------------------------------------------


Key = tuple[str, str, float]
"""Kind, site and oversubscription."""
SLICES = ("mesh", "torus")
TREES = ("scattered", "leaf by leaf", "hashed")


def best_of(rows: list[Row]) -> dict[Key, dict[str, Row]]:
    """For each site and side the row with the least step; `random` has its mean."""
    found: dict[Key, dict[str, Row]] = {}
    for r in rows:
        by = found.setdefault((r["kind"], r["site"], r["oversubscription"]), {})
        by[r["side"]] = min(by.get(r["side"], r), r, key=lambda row: row["step_ms"])
    for key, by in found.items():
        some = [
            r["step_ms"]
            for r in rows
            if r["side"] == "random" and r["site"] == key[1] and r["oversubscription"] == key[2]
        ]
        by["random"] = {**by["random"], "step_ms": sum(some) / len(some)}
    return found


def gains(rows: list[Row]) -> dict[Key, dict[str, float]]:
    """For each site, how many times as long each side takes as `aware`."""
    return {
        key: {side: r["step_ms"] / by["aware"]["step_ms"] for side, r in by.items()}
        for key, by in best_of(rows).items()
    }


def by_plan(rows: list[Row], site: str) -> dict[str, dict[str, float]]:
    """On a slice, for each sharding, how many times as long each side takes as `aware` with the same."""
    steps: dict[str, dict[str, float]] = {}
    for r in rows:
        if r["site"] == site and r["side"] in ("default", "ordered", "aware"):
            steps.setdefault(r["plan"], {})[r["side"]] = r["step_ms"]
    known = {plan: by for plan, by in steps.items() if "aware" in by}
    return {plan: {side: v / by["aware"] for side, v in by.items()} for plan, by in known.items()}


def table(rows: list[Row]) -> str:
    """A site a line: how many times as long as `aware`."""
    factors, best = gains(rows), best_of(rows)
    lines = [
        (
            *key[1:],
            *(f"{g[s]:.3f}" for s in ("default", "ordered", "mapped", "random")),
            _told(best[key]["ordered"]),
            _told(best[key]["aware"]),
        )
        for key, g in factors.items()
    ]
    heads = ("default", "ordered", "mapped", "random", "ordered chose", "aware chose")
    return markdown(("site", "oversubscription", *heads), lines)


def _told(row: Row) -> str:
    sizes = dict(re.findall(r"([a-z]+)(\d+)", row["plan"]))
    axes = "-".join(a for a in row["order"].split("-") if int(sizes.get(a, 1)) > 1)
    return f"{row['plan']}; {axes}; {row['path']}"


def verdict(rows: list[Row]) -> list[str]:
    """What became of the predictions, and the figures behind it."""
    found = gains(rows)
    lines = _predictions(rows, found)
    lines += _slices(rows, [key for key in found if key[0] in SLICES])
    lines += [_tree(kind, found) for kind in TREES]
    beyond = [g["mapped"] for g in found.values()]
    lines.append(
        f"`mapped`, which simulates nothing on its way, takes {span(beyond)} times as long as `aware`."
    )
    return lines


def _tree(kind: str, found: dict[Key, dict[str, float]]) -> str:
    mine = {key: g["ordered"] for key, g in found.items() if key[0] == kind}
    told = [
        f"{over:g}: {span(g for key, g in mine.items() if key[2] == over)}"
        for over in sorted({key[2] for key in mine})
    ]
    return f"Fat tree, {kind}, ordered / aware by oversubscription: {'; '.join(told) or 'no case'}."


def _predictions(rows: list[Row], found: dict[Key, dict[str, float]]) -> list[str]:
    alone = {
        key[1]: max(by["default"] for by in by_plan(rows, key[1]).values())
        for key in found
        if key[0] in SLICES
    }
    meshes = [alone[key[1]] for key in found if key[0] == "mesh"]
    ranked = [alone[s] for s in ("mesh 2×16", "mesh 4×8", "mesh 4×4") if s in alone]
    free = [g["ordered"] for key, g in found.items() if key[0] in SLICES]
    kinds: dict[str, list[float]] = {}
    for key, g in sorted(found.items(), key=lambda item: item[0][2]):
        if key[0] == "scattered":
            kinds.setdefault(key[1], []).append(g["ordered"])
    scattered = list(kinds.values())
    grows = all(a <= b for g in scattered for a, b in pairwise(g))
    none = [
        g["ordered"]
        for key, g in found.items()
        if key[0] in ("node", "leaf by leaf") or (key[0] == "scattered" and key[2] == 1)
    ]
    worst = [
        key[1] for key, g in found.items() if g["random"] < max(g["default"], g["mapped"]) - 1e-6
    ]
    most = max(g["random"] for g in found.values())
    more = "grows" if grows else "does not always grow"
    return [
        prediction(
            1,
            min(meshes) > 1.1 and all(a > b for a, b in pairwise(ranked)),
            "by placement alone, at the sharding where it helps most, default / aware is "
            + ", ".join(f"{site} {g:.2f}" for site, g in alone.items()),
        ),
        prediction(
            2, max(free) < 1.2, f"with the sharding free ordered / aware is {span(free)} on slices"
        ),
        prediction(
            3,
            grows and all(g < 1.02 for g in none),
            f"with scattered nodes the gain {more} with oversubscription, to "
            f"{max((g[-1] for g in scattered), default=1):.2f}; leaf by leaf, without oversubscription and "
            f"within a node it is {span(none)}",
        ),
        prediction(
            4,
            not worst,
            f"random takes up to {most:.2f} times as long as aware, and is not the worst in {len(worst)} of "
            f"{len(found)} sites",
        ),
    ]


def _slices(rows: list[Row], keys: list[Key]) -> list[str]:
    lines, best = [], best_of(rows)
    for key in keys:
        site, plans = key[1], by_plan(rows, key[1])
        spans = []
        for side in ("default", "ordered"):
            some = [by[side] for by in plans.values()]
            spans.append(f"{side} / aware {min(some):.2f} to {max(some):.2f}")
        free = {
            side: best[key][side]["step_ms"] / best[key]["aware"]["step_ms"]
            for side in ("default", "ordered")
        }
        lines.append(
            f"{site}: at equal sharding {' and '.join(spans)} over {len(plans)} shardings; with the sharding "
            f"free, default / aware {free['default']:.2f} and ordered / aware {free['ordered']:.2f}."
        )
    return lines


def draw(rows: list[Row]) -> str:
    """The gain on the fat tree over its oversubscription."""
    found = {s: g for s, g in gains(rows).items() if s[0] in TREES[:2]}
    lines = []
    for name in dict.fromkeys(s[1] for s in found):
        points = sorted((s[2], g["ordered"]) for s, g in found.items() if s[1] == name)
        lines.append(Line(name, points, dashed="scattered" not in name))
    return line_chart(
        "Best order of axes on the nodes as they come, against topology-aware placement",
        lines,
        "oversubscription",
        "× aware",
        level=1.0,
    )


STUDY = Study("placement", measure, table, verdict, draw)

if __name__ == "__main__":
    STUDY.main()
