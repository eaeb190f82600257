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

Fairness. Every side chooses its collective algorithm (automatic or ring) and, on slices, its sharding.
`default` takes the axes in the usual order on the devices as they come, `ordered` all orders of the axes (this is the
comparator: a careful user needs no tool for it), `aware` also the ways through the machine: tiles of all
sizes, snakes, nodes sorted by leaf. `searched` goes on from there by swapping blocks of ranks with the
simulator in the loop, to show what enumeration leaves. `random` is the mean of five permutations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product

import msgspec
import numpy as np
from study import Row, Study, markdown

from chakrakit import TraceSet
from chakrakit.machines.description import parse_machine
from chakrakit.machines.machine import Machine
from chakrakit.simulator.choice import Algorithms
from chakrakit.simulator.native import Options
from chakrakit.simulator.simulate import simulate
from chakrakit.views.line_chart import Line, line_chart
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import named

Path = tuple[int, ...]
"""The device of each place; ranks take the places in order."""
RINGS = {"all-reduce": "ring", "all-gather": "ring", "reduce-scatter": "ring"}
ALGORITHMS: dict[str, dict[str, str]] = {"auto": {}, "ring": RINGS}
USUAL = ("tp", "cp", "dp", "pp")


@dataclass(frozen=True)
class Site:
    """Where a job runs: a machine, its devices as they come, and other ways through them."""

    family: str
    name: str
    oversubscription: float
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
    """The forward pass of two of Wan 2.1's forty blocks, for a video with and without its prompt."""
    model = msgspec.structs.replace(named("wan2.1-14b"), layers=2, height=96)
    step = Step(global_batch=2, micro_batch=2 // plan.dp)
    traces = generate(Workload(model=model, plan=plan, step=step))
    body = traces.body_at(0)
    forward = np.array([p == "forward" for p in body.nodes.column("phase").to_pylist()])
    return TraceSet([body.select(forward)], traces.bindings, traces.groups)


def training(plan: Plan) -> TraceSet:
    """A training step of four of Llama 3.1 8B's layers."""
    model = msgspec.structs.replace(named("llama3.1-8b"), layers=4)
    return generate(Workload(model=model, plan=plan, step=Step(seq=2048, global_batch=4 * plan.dp)))


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
    network = {"topology": "torus" if wraps else "mesh", "dims": list(dims), "bandwidth": "400 Gb/s",
               "latency": "500 ns"}  # fmt: skip
    name = f"{network['topology']} {dims[0]}×{dims[1]}"
    machine = parse_machine({"name": name, "device": "tpu-v5e", "network": [network]}, name)
    rows = tuple(range(machine.size))
    paths = dict(tiled(dims))
    return Site("slice", name, 1, machine, rows, paths, shardings(machine.size), denoising)


def tree_site(name: str, plan: Plan, over: float, scattered: bool) -> Site:
    """Sixteen nodes of four, four nodes a leaf, that come leaf by leaf or scattered."""
    inside = {"topology": "switch", "size": 4, "bandwidth": "300 GB/s", "latency": "300 ns"}
    outside = {"topology": "fat-tree", "size": 16, "arity": [16, 4], "joins": "flat", "bandwidth": "25 GB/s",
               "latency": "1 us", "oversubscription": over, "routing": "modulo"}  # fmt: skip
    machine = parse_machine({"device": "a100-sxm-80gb", "network": [inside, outside]}, "tree")
    nodes = np.random.default_rng(1).permutation(16) if scattered else np.arange(16)
    given = tuple(int(4 * node + i) for node in nodes for i in range(4))
    called = f"{name}, {'scattered' if scattered else 'leaf by leaf'}"
    return Site(
        "tree",
        called,
        over,
        machine,
        given,
        {"by leaf": tuple(sorted(given))},
        {name: plan},
        training,
    )


def node_site(plan: Plan) -> Site:
    """One node of eight."""
    inside = {"topology": "switch", "size": 8, "bandwidth": "300 GB/s", "latency": "300 ns"}
    machine = parse_machine({"device": "a100-sxm-80gb", "network": [inside]}, "node")
    given = tuple(int(i) for i in np.random.default_rng(1).permutation(8))
    return Site(
        "node",
        "one node",
        1,
        machine,
        given,
        {"sorted": tuple(range(8))},
        {"tp2 dp4": plan},
        training,
    )


def tiled(dims: tuple[int, int]) -> Iterator[tuple[str, Path]]:
    """Ways through a grid, tile by tile: tiles and their insides in rows or columns, straight or as snakes."""
    wide, high = dims  # device = x + wide * y
    seen = set()
    for across, up in product(_divisors(wide), _divisors(high)):
        for inner, outer in product(_walks(across, up), _walks(wide // across, high // up)):
            path = tuple(
                (tx * across + x) + wide * (ty * up + y)
                for tx, ty in outer[1] for x, y in inner[1]
            )  # fmt: skip
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
            options = Options(algorithms=Algorithms(ALGORITHMS[algorithm]), placement=places)
            traces = self.workload(plan, order)
            done = simulate(traces, self.site.machine, compute="roofline", options=options)
            self.known[key] = done.makespan_ns / 1e6
        return self.known[key]

    def workload(self, plan: str, order: str) -> TraceSet:
        """The traces of a plan with its axes in this order."""
        if (plan, order) not in self.traces:
            chosen = msgspec.structs.replace(self.site.plans[plan], order=order)
            self.traces[plan, order] = self.site.make(chosen)
        return self.traces[plan, order]

    def best(self, plans: Sequence[str], all_orders: bool, paths: dict[str, Path]) -> list[Choice]:
        """For each plan its best choice, the best first."""
        found = []
        for plan in plans:
            orders = _orders(self.site.plans[plan]) if all_orders else ["-".join(USUAL)]
            found.append(min(
                (Choice(plan, order, algorithm, name, self.step_ms(plan, order, algorithm, path), path)
                 for order, algorithm, (name, path) in product(orders, ALGORITHMS, paths.items())),
                key=lambda c: c.step_ms,
            ))  # fmt: skip
        return sorted(found, key=lambda c: c.step_ms)

    def searched(self, start: Choice, tries: int) -> Choice:
        """Swaps two blocks of places at a time and keeps what is faster."""
        rng, best = np.random.default_rng(0), start
        for _ in range(tries):
            width = 2 ** int(rng.integers(3))
            a, b = (int(i) for i in rng.choice(len(best.places) // width, 2, replace=False))
            places = np.array(best.places).reshape(-1, width)
            places[[a, b]] = places[[b, a]]
            path = tuple(int(p) for p in places.reshape(-1))
            step = self.step_ms(best.plan, best.order, best.algorithm, path)
            if step < best.step_ms:
                best = Choice(best.plan, best.order, best.algorithm, "searched", step, path)
        return best


def _orders(plan: Plan) -> list[str]:
    """All orders of the axes that the plan uses."""
    used = [axis for axis in USUAL if getattr(plan, axis) > 1]
    rest = [axis for axis in USUAL if axis not in used]
    return ["-".join([*order, *rest]) for order in permutations(used)]


def sides(site: Site, kept: int, tries: int) -> Iterator[Row]:
    """A row a side; on slices the two best shardings go on to the placements."""
    trials, given = Trials(site), {"as given": site.given}
    yield _row(site, "default", trials, trials.best(list(site.plans), False, given)[0])
    ordered = trials.best(list(site.plans), True, given)
    yield _row(site, "ordered", trials, ordered[0])
    aware = trials.best([c.plan for c in ordered[:kept]], True, given | site.paths)
    yield _row(site, "aware", trials, aware[0])
    same = next(c for c in aware if c.plan == ordered[0].plan)
    yield _row(site, "aware, sharding of ordered", trials, same)
    yield _row(site, "searched", trials, trials.searched(aware[0], tries))
    for seed in range(5):
        places = tuple(int(p) for p in np.random.default_rng(seed).permutation(site.given))
        o = ordered[0]
        step = trials.step_ms(o.plan, o.order, o.algorithm, places)
        yield _row(
            site,
            "random",
            trials,
            Choice(o.plan, o.order, o.algorithm, f"seed {seed}", step, places),
        )


def _row(site: Site, side: str, trials: Trials, c: Choice) -> Row:
    return {
        "family": site.family, "site": site.name, "oversubscription": site.oversubscription, "side": side,
        "plan": c.plan, "order": c.order, "algorithm": c.algorithm, "path": c.path,
        "simulated": len(trials.known), "step_ms": round(c.step_ms, 4),
    }  # fmt: skip


# --- the study --------------------------------------------------------------------------------------


def sites(quick: bool) -> Iterator[Site]:
    """Slices, a tree with ever narrower uplinks, and one node."""
    trees = {
        "tp4 dp16": Plan(tp=4, dp=16),
        "tp8 dp8": Plan(tp=8, dp=8),
        "tp4 dp4 pp4": Plan(tp=4, dp=4, pp=4),
    }
    if quick:
        yield slice_site((2, 4), False)
        yield tree_site("tp4 dp16", trees["tp4 dp16"], 4, True)
        return
    for dims in ((4, 4), (4, 8), (2, 16), (8, 8), (4, 16)):
        yield slice_site(dims, False)
    for dims in ((4, 8), (2, 16)):
        yield slice_site(dims, True)
    for (name, plan), scattered, over in product(trees.items(), (True, False), (1, 2, 4, 8)):
        yield tree_site(name, plan, over, scattered)
    yield node_site(Plan(tp=2, dp=4))


def measure(quick: bool) -> list[Row]:
    """All sides at all sites."""
    return [row for site in sites(quick) for row in sides(site, 2, 10 if quick else 60)]


# --- what it says -----------------------------------------------------------------------------------


def gains(rows: list[Row]) -> dict[tuple[str, str, float], dict[str, float]]:
    """For each site, how many times as long each side takes as `aware`."""
    steps: dict[tuple[str, str, float], dict[str, list[float]]] = {}
    for r in rows:
        key = (r["family"], r["site"], r["oversubscription"])
        steps.setdefault(key, {}).setdefault(r["side"], []).append(r["step_ms"])
    means = {site: {side: sum(v) / len(v) for side, v in by.items()} for site, by in steps.items()}
    return {site: {side: v / by["aware"] for side, v in by.items()} for site, by in means.items()}


def table(rows: list[Row]) -> str:
    """A site a line: how many times as long as `aware`."""
    chosen = {(r["family"], r["site"], r["oversubscription"], r["side"]): r for r in rows}
    lines = []
    for site, g in gains(rows).items():
        o, a = chosen[*site, "ordered"], chosen[*site, "aware"]
        lines.append((*site[1:], *(f"{g[s]:.3f}" for s in ("default", "ordered", "random", "searched")),
                      f"{o['plan']}; {_axes(o)}", f"{a['plan']}; {_axes(a)}; {a['path']}"))  # fmt: skip
    head = (
        "site",
        "oversubscription",
        "default",
        "ordered",
        "random",
        "searched",
        "ordered chose",
        "aware chose",
    )
    return markdown(head, lines)


def _axes(row: Row) -> str:
    return "-".join(
        a for a in row["order"].split("-") if a in row["plan"] and f"{a}1 " not in row["plan"] + " "
    )


def verdict(rows: list[Row]) -> list[str]:
    """Each prediction against the rows."""
    found = gains(rows)
    slices = {s: g for s, g in found.items() if s[0] == "slice"}
    lines = _slices(slices)
    for kind in ("scattered", "leaf by leaf"):
        trees = {s: g for s, g in found.items() if s[0] == "tree" and s[1].endswith(kind)}
        for over in sorted({s[2] for s in trees}):
            some = [g["ordered"] for s, g in trees.items() if s[2] == over]
            lines.append(f"Fat tree, nodes {kind}, oversubscription {over:g}: `ordered` takes "
                         f"{min(some):.3f} to {max(some):.3f} times as long as `aware`.")  # fmt: skip
    lines += [f"Within a node: {g['ordered']:.3f}." for s, g in found.items() if s[0] == "node"]
    most = max(g["random"] for g in found.values())
    left = min(g["searched"] for g in found.values())
    lines.append(f"`random` takes up to {most:.2f} times as long as `aware`; the search takes off at most "
                 f"{1 - left:.1%} more.")  # fmt: skip
    return lines


def _slices(slices: dict[tuple[str, str, float], dict[str, float]]) -> list[str]:
    lines = []
    for side, what in (("default", "the default placement"), ("ordered", "the best order of axes")):
        told = ", ".join(f"{s[1]} {g[side]:.2f}" for s, g in slices.items())
        lines.append(f"Slices, step under {what} over `aware`: {told}.")
    same = [g["ordered"] / g["aware, sharding of ordered"] for g in slices.values()]
    lines.append(f"With the sharding held at that of `ordered`, placement alone gives {min(same):.2f} to "
                 f"{max(same):.2f}.")  # fmt: skip
    return lines


def draw(rows: list[Row]) -> str:
    """The gain on the fat tree over its oversubscription."""
    found = {s: g for s, g in gains(rows).items() if s[0] == "tree"}
    lines = []
    for name in dict.fromkeys(s[1] for s in found):
        points = sorted((s[2], g["ordered"]) for s, g in found.items() if s[1] == name)
        lines.append(Line(name, points, dashed="scattered" not in name))
    return line_chart("Best order of axes on the nodes as they come, against topology-aware placement", lines,
                      "oversubscription", "× aware", level=1.0)  # fmt: skip


STUDY = Study("placement", measure, table, verdict, draw)

if __name__ == "__main__":
    STUDY.main()
