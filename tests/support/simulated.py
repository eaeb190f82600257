"""Small machines and workloads for tests of the simulator."""

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import native

GB = 1e9


def machine_of(topology, n, bandwidth=10 * GB, latency=1e-6, **more):
    return parse_machine(
        {
            "network": [
                {
                    "topology": topology,
                    "size": n,
                    "bandwidth": bandwidth,
                    "latency": latency,
                    **more,
                }
            ]
        },
        topology,
    )


def one_device(**software):
    """A machine of one device without a network to speak of."""
    return parse_machine(
        {"network": [{"topology": "switch", "size": 1, "bandwidth": 1e9}], "software": software},
        "one",
    )


def collective(kind, size, n, **attributes):
    t = TraceBuilder()
    t.collective("c", kind, size, **attributes)
    return TraceSet([t.build()], {i: Binding(0) for i in range(n)}, Groups({"": range(n)}))


def seconds(traces, machine, network="flow", **options):
    return (
        native.run(
            traces, machine, native.SimulationOptions(network=network, **options)
        ).makespan_ps
        * 1e-12
    )


def training(ranks: int, name: str = "layer", world: bool = True) -> TraceSet:
    """Each rank computes, reduces with all and sends to its neighbour, three times."""
    traces = []
    for rank in range(ranks):
        t, done = TraceBuilder(), []
        for i in range(3):
            last = t.comp(name, duration_ns=20_000 + 1_000 * i, deps=done)
            group = {} if world else {"pg_name": "all"}
            last = t.collective("sum", CollectiveType.ALL_REDUCE, 4 << 20, deps=[last], **group)
            done = [
                t.send("out", rank, (rank + 1) % ranks, 1 << 20, tag=i, deps=[last], stream=1),
                t.recv("in", (rank - 1) % ranks, rank, 1 << 20, tag=i, deps=[last], stream=2),
            ]
        traces.append(t.build())
    return TraceSet(traces, groups=None if world else Groups({"all": range(ranks)}))


def two(build):
    """Two ranks, each with a trace made by build(builder, rank)."""
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        build(t, rank)
        bodies.append(t.build())
    return TraceSet(bodies, None, Groups({"": (0, 1), "g": (0, 1)}))
