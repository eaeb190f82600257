"""A14, ShardTensor: one sample's domain over several devices, below a batch size of one for each.

Every device has a tile of the grid and exchanges halos before layers whose windows reach over its border.
One sample takes less time and less memory on a device, until exchanging halos takes longer than computing.
Cutting by layer gives one sample no speed, and cutting by channel gathers whole activations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.machines import load_machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.tools import seconds_of, unsure
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.spatial import SpatialPlan, generate_spatial, network_named

MOST_PARTS = 4
"""By layer: the networks have that many layers with windows at least."""
LAYERS = {"convolution": "convolutions", "attention": "grid-attention"}


@cache
def job(kind: str, image: int, split: str, rows: int, columns: int) -> TraceSet:
    """A forward pass of one sample."""
    plan = SpatialPlan(split=split, rows=rows, columns=columns)  # type: ignore[arg-type]
    return generate_spatial(network_named(LAYERS[kind], image), plan)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Samples per second, and the megabytes of activations that a device holds."""
    rows, columns = (case["ranks"], 1) if setting["rows"] else _square(case["ranks"])
    if setting["alone"]:
        rows = columns = 1
    if setting["split"] == "layers":
        rows, columns = 1, min(MOST_PARTS, case["ranks"])
    traces = job(case["kind"], case["image"], setting["split"], rows, columns)
    took = seconds_of(traces, unsure(load_machine("dgx-h100:2"), seed))
    trace = traces.trace(0)
    held, freed = trace.column("mem_alloc", 0), trace.column("mem_free", 0)
    peak = float((np.cumsum(held - freed) + freed).max())
    alone = seconds_of(job(case["kind"], case["image"], "domain", 1, 1), load_machine("dgx-h100:2"))
    return {"rate": 1 / took, "memory": peak / 1e6, "efficiency": alone / took / case["ranks"]}


def _square(ranks: int) -> tuple[int, int]:
    rows = max(n for n in range(1, int(ranks**0.5) + 1) if ranks % n == 0)
    return rows, ranks // rows


def cases(quick: bool) -> Sequence[Case]:
    """Strong scaling of large grids, weak scaling at a fixed tile, and a grid that is too small."""
    large = [("convolution", 2048, n) for n in ((4,) if quick else (2, 4, 8))]
    weak = (
        []
        if quick
        else [("convolution", 1024, 1), ("convolution", 4096, 16), ("attention", 2048, 4)]
    )
    rows = [*large, *weak, ("convolution", 64, 4)]
    return [{"kind": k, "image": i, "ranks": n} for k, i, n in rows]


def way(split: str, rows: int = 0, alone: int = 0) -> Setting:
    """A cutting; `rows`: tiles are strips of rows, and not as square as they can be; or one device alone."""
    return {"split": split, "rows": rows, "alone": alone}


STUDY = Study(
    id="A14",
    system="ShardTensor",
    family="training",
    strength="direction",
    claims=[Claim("one sample is faster on several devices", 1.02, 16.0)],
    rests_on={
        "tiles and halos": "workloads/spatial/halo.py",
        "messages and collectives": "simulator/engine/messages.py",
    },
    cases=cases,
    sides={
        "domain": [way("domain"), way("domain", 1)],
        "not by domain": [way("layers"), way("channels"), way("domain", 0, 1)],
    },
    idea="domain",
    measure=measure,
    better=("rate", "max"),
    health="efficiency",
    gone=lambda case: bool(case["image"] == 64 or case["ranks"] == 1),
    ablate={"cutting the domain": {"alone": 1}},
    predictions={
        "a large grid gets faster": lambda t: least(t.gains(image=2048)) - 1.02,
        "memory of a device is constant when the grid grows with the devices": lambda t: (
            0.1
            - most(
                abs(
                    t.figure("memory", image=4096, ranks=16)
                    / t.figure("memory", image=1024, ranks=1)
                    - 1
                )
            )
        ),
        "a grid that is too small gains nothing": lambda t: 1.02 - most(t.gains(image=64)),
    },
    decides="how long a halo's message takes against the work of a layer on a tile.",
    amended="After the first run one device alone was added to what it is held against, which is faster for "
    "one sample than cutting by layer or channel; gains fell from 10 to 3.4 on four devices.",
    cannot_say="Training with data parallelism beside it, and meshes that are not grids.",
)
