"""A06, GraphFlash: serverless graph processing by subgraphs, with one object per pair of workers.

Workers find connected components and share labels through an object store with milliseconds per operation
(`serverless_graphs.py`). The idea goes on inside a subgraph until nothing changes and writes one object per
neighbour. The comparator keeps a key per vertex; both choose workers and connections. Workers that stay
in memory and send messages are shown beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.memory.serverless_graphs import Functions, supersteps
from chakrakit.simulator import live

STORE = {"bandwidth": "1 GB/s", "latency": "5 ms", "operations": 64}
"""Of the object store. Assumed: a fast object store's operation and a limit of requests at once."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds, worker-seconds, supersteps and operations of the store."""
    workers = setting["workers"]
    graph = (case["vertices"], case["blocks"], case["crossing"])
    steps = supersteps(*graph, workers, setting["whole"], seed)
    switch = {"topology": "switch", "size": workers + 1, "bandwidth": "10 Gb/s", "latency": "50 us"}
    objects = {"kind": "remote", "nodes": [workers], **STORE}
    world = live.World(
        {"network": [switch], "storage": {"objects": objects}}, seed=seed, record=False
    )
    functions = Functions(steps, workers, setting["connections"], setting["resident"])
    for number in range(workers):
        world.actor(functions.worker, number, rank=number, name=f"worker {number}")
    seconds = world.run().end_ns / live.S
    paid = workers * seconds if setting["resident"] else sum(functions.busy)
    operations = sum(int(s.writes.sum() + s.reads.sum()) for s in steps)
    return {
        "seconds": seconds,
        "worker_s": paid,
        "supersteps": float(len(steps)),
        "operations": 0.0 if setting["resident"] else float(operations),
        "speed": case["vertices"] / seconds,
    }


def cases(quick: bool) -> Sequence[Case]:
    """Vertices, and how many edges cross between workers; where none does there is nothing to share."""
    sizes = (400,) if quick else (400, 1600)
    crossing = (0.05, 0.2) if quick else (0.05, 0.2, 1.0)
    graphs = [{"vertices": v, "blocks": 32, "crossing": c} for v in sizes for c in crossing]
    return [*graphs, {"vertices": sizes[0], "blocks": sizes[0], "crossing": 0.0}]


def _settings(whole: bool, resident: bool = False) -> list[dict[str, object]]:
    return [
        {"whole": whole, "resident": resident, "workers": w, "connections": c}
        for w, c in ((4, 16), (8, 16), (16, 16))
    ]


STUDY = Study(
    id="A06",
    system="GraphFlash",
    family="memory",
    strength="direction",
    claims=[
        Claim("up to 127 times faster than serverless by vertex", 127, 127),
        Claim("up to 98 % fewer resources", 0.98, 0.98, kind="not simulable"),
        Claim("48 times with limited resources", 48, 48, kind="not simulable"),
    ],
    rests_on={
        "operations that take time and slots at a store": "simulator/live/planning.py",
        "workers that wait for each other": "simulator/live/verbs.py",
    },
    cases=cases,
    sides={
        "by subgraph": _settings(whole=True),
        "by vertex": _settings(whole=False),
        "resident workers": _settings(whole=True, resident=True),
    },
    idea="by subgraph",
    untuned=["resident workers"],
    measure=measure,
    better=("seconds", "min"),
    health="speed",
    gone=lambda case: bool(case["crossing"] == 0),
    ablate={"whole subgraphs and one object per neighbour": {"whole": False}},
    predictions={
        "fewer supersteps by subgraph": lambda t: least(
            t.figure("supersteps", "by vertex", blocks=32) - t.figure("supersteps", blocks=32)
        ),
        "over 3 times faster where a fifth crosses": lambda t: (
            least(t.gains("by vertex", crossing=0.2)) - 3
        ),
        "less than 127 times at these sizes": lambda t: 127 - most(t.gains("by vertex")),
        "resident workers are faster still": lambda t: (
            1 - most(t.gains("resident workers", blocks=32))
        ),
        "1 times where nothing crosses": lambda t: 0.02 - most(abs(t.gains(crossing=0.0) - 1)),
    },
    decides="the number of keys: it grows with the graph by vertex and not by subgraph, so that 127 times is "
    "a question of size; graphs here have hundreds of vertices, since every operation is simulated.",
    amended="The sizes of the cases were chosen here after trials, and workers that stay send one message "
    "to a neighbour, which is shown and not judged.",
    cannot_say="Graphs of millions of vertices, and what functions and requests cost in money.",
)
