"""B04, AoiZora: the sharding of a model and the places of its ranks on the machine chosen together.

On a slice of TPU chips the idea tries tiles and snakes; on a tree of nodes that come in scattered order it
sorts them by leaf. The comparator needs no tool: it tries the orders in which the axes of a plan are laid
over the devices as they come. Both choose between two plans. The seed scatters the nodes and varies the
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.planning.placements import (
    ALGORITHMS,
    DIMS,
    Path,
    scattered,
    snake,
    step,
    tiles,
)

ORDERS = ("tp-cp-dp-pp", "dp-tp-cp-pp", "tp-dp-cp-pp")
PATHS = ("as given", "sorted", "tiles 2×2", "snake")


def places(case: Case, path: str, seed: int) -> Path:
    """The device of each rank."""
    if case["site"] in DIMS:
        wide, high = DIMS[case["site"]]
        walks = {"tiles 2×2": tiles(wide, high, 2, 2), "snake": snake(wide, high)}
        return walks.get(path, tuple(range(wide * high)))
    given = scattered(case["nodes"], seed)
    keeps = case["site"] == "scattered" and path == "as given"
    return given if keeps else tuple(sorted(given))


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step."""
    kind = case["site"] if case["site"] in DIMS else "tree"
    order = setting["order"]
    if kind not in DIMS:  # no axis cp: wherever it stands is the same
        order = order.replace("cp-", "").replace("-pp", "-cp-pp")
    size = [case[k] for k in ("oversubscription", "nodes", "layers")]
    where = places(case, setting["path"], seed)
    seconds, share = step(kind, *size, setting["plan"], order, setting["algorithm"], where, seed)
    return {"seconds": seconds, "compute_share": share}


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
    health="compute_share",
    gone=lambda case: bool(case["site"] == "leaf by leaf"),
    ablate={"the places": {"path": "as given"}},
    predictions={
        "on slices under 20 % is left for tiles and snakes": lambda t: (
            1.2 - most(t.gains(on="slice"))
        ),
        "scattered nodes gain more with fewer links above the leaves": lambda t: (
            least(t.gains(site="scattered", oversubscription=8))
            - most(t.gains(site="scattered", oversubscription=1))
        ),
        "none is gained leaf by leaf": lambda t: 1.02 - most(t.gains(site="leaf by leaf")),
    },
    decides="the order of the nodes: on a slice a planner that may choose the sharding takes one that fits, "
    "and little is left for places; on a tree rings of scattered nodes cross the narrow links.",
    amended="the sides, which were designed again after a first run; claims and predictions were not.",
    cannot_say="How libraries order their rings, adaptive routing, and other jobs on the same tree.",
)
