"""B04, AoiZora: the sharding of a model and the places of its ranks on the machine chosen together.

On a slice of TPU chips the idea tries tiles and snakes; on a tree of nodes that come in scattered order it
sorts them by leaf. The comparator needs no tool: it tries the orders in which the axes of a plan are laid
over the devices as they come. Both choose between two plans. The seed scatters the nodes and varies the
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import msgspec

from chakrakit.machines.fabric import Machine
from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Setting,
    Study,
    least,
    most,
    seconds_of,
    unsure,
)
from chakrakit.published.planning.placements import (
    ALGORITHMS,
    Path,
    denoising,
    flops_of,
    scattered,
    shardings,
    slice_of,
    snake,
    tiles,
    training,
    tree,
    tree_plans,
)
from chakrakit.trace.sets import TraceSet

DIMS = {"mesh 2×4": (2, 4), "mesh 4×4": (4, 4), "mesh 4×8": (4, 8), "torus 4×8": (4, 8)}
ORDERS = ("tp-cp-dp-pp", "dp-tp-cp-pp", "tp-dp-cp-pp")
PATHS = ("as given", "sorted", "tiles 2×2", "snake")


@cache
def site(name: str, oversubscription: float, nodes: int, seed: int) -> Machine:
    """The machine of a case, its constants varied."""
    if name in DIMS:
        return unsure(slice_of(*DIMS[name], name.startswith("torus")), seed)
    return unsure(tree(oversubscription, nodes), seed)


def places(case: Case, path: str, seed: int) -> Path:
    """The device of each rank."""
    if case["site"] in DIMS:
        wide, high = DIMS[case["site"]]
        walks = {"tiles 2×2": tiles(wide, high, 2, 2), "snake": snake(wide, high)}
        return walks.get(path, tuple(range(wide * high)))
    given = scattered(case["nodes"], seed)
    keeps = case["site"] == "scattered" and path == "as given"
    return given if keeps else tuple(sorted(given))


@cache
def traces(name: str, plan: int, order: str, layers: int, nodes: int) -> TraceSet:
    """A denoising step on a slice, a training step on a tree."""
    on_slice = name in DIMS
    plans = shardings(DIMS[name][0] * DIMS[name][1]) if on_slice else tree_plans(nodes)
    ordered = msgspec.structs.replace(plans[plan], order=order)
    return denoising(ordered) if on_slice else training(ordered, layers)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step."""
    where = places(case, setting["path"], seed)
    kind = case["site"] if case["site"] in DIMS else "tree"
    work = traces(kind, setting["plan"], setting["order"], case["layers"], case["nodes"])
    machine = site(kind, case["oversubscription"], case["nodes"], seed)
    how = ALGORITHMS[setting["algorithm"]]
    seconds = seconds_of(work, machine, algorithms=how, placement=where)
    peak = sum(machine.device(r).peak_rate("bf16") for r in work.ranks)
    return {"seconds": seconds, "mfu": flops_of(work) / seconds / peak}


def cases(quick: bool) -> Sequence[Case]:
    """Slices; trees whose nodes come scattered or leaf by leaf, with ever fewer links above the leaves."""
    if quick:
        shapes = [("mesh 2×4", 1), ("scattered", 8), ("leaf by leaf", 8)]
    else:
        shapes = [(name, 1) for name in DIMS]
        shapes += [(name, over) for name in ("scattered", "leaf by leaf") for over in (1, 2, 4, 8)]
    size = {"layers": 1, "nodes": 4} if quick else {"layers": 4, "nodes": 16}
    return [
        {"site": name, "on": "slice" if name in DIMS else "tree", "oversubscription": over, **size}
        for name, over in shapes
    ]


def ways(
    orders: tuple[str, ...], paths: tuple[str, ...], algorithms: tuple[str, ...]
) -> list[Setting]:
    """All combinations, with either plan."""
    return [
        {"plan": plan, "order": order, "path": path, "algorithm": algorithm}
        for plan in (0, 1)
        for order, path, algorithm in product(orders, paths, algorithms)
    ]


STUDY = Study(
    id="B04",
    system="AoiZora",
    family="planning",
    strength="strong",
    claims=[Claim("a denoising step up to 1.42 times as fast", 1.42, 1.42, where={"on": "slice"})],
    rests_on={
        "routes and links that collectives share": "machines/fabric/machine.py",
        "collectives in the order of their members": "simulator/collectives/choice.py",
    },
    cases=cases,
    sides={
        "aware": ways(ORDERS, PATHS[1:], ("auto",)),
        "best order of axes": ways(ORDERS, PATHS[:1], tuple(ALGORITHMS)),
        "usual order": ways(ORDERS[:1], PATHS[:1], ("auto",))[:1],
    },
    idea="aware",
    untuned=["usual order"],
    measure=measure,
    better=("seconds", "min"),
    health="mfu",
    gone=lambda case: bool(case["site"] == "leaf by leaf"),
    ablate={"the places": {"path": "as given"}},
    predictions={
        "on slices under 20 % is left for tiles": lambda t: 1.2 - most(t.gains(on="slice")),
        "scattered nodes gain more with fewer links above the leaves": lambda t: (
            least(t.gains(site="scattered", oversubscription=8))
            - most(t.gains(site="scattered", oversubscription=1))
        ),
        "none is gained leaf by leaf": lambda t: 1.02 - most(t.gains(site="leaf by leaf")),
    },
    decides="the order of the nodes: on a slice a planner that may choose the sharding takes one that fits, "
    "and little is left for places; on a tree rings of scattered nodes cross the narrow links.",
    cannot_say="How libraries order their rings, adaptive routing, and other jobs on the same tree.",
)
