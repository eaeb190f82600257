"""A dispatch policy in thirty lines: what a free device runs next, longest tail first."""

from chakrakit import TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import simulate


class LongestTailFirst:
    """Runs the row after which most work is still to come."""

    def __init__(self, traces: TraceSet) -> None:
        trace = traces.trace(0)
        self.tail = trace.duration_ns.copy()
        for row in reversed(range(len(trace))):
            after = trace.edges.dst[trace.edges.src == row]
            self.tail[row] += self.tail[after].max(initial=0)

    def pick(self, ready, now_ps):
        """The index of the ready row to run."""
        return max(range(len(ready)), key=lambda i: self.tail[ready[i].row])


def workload() -> TraceSet:
    """Four short rows, and one that a long host row waits for."""
    t = TraceBuilder()
    for i in range(4):
        t.comp(f"short {i}", duration_ns=1_000)
    first = t.comp("first of many", duration_ns=1_000)
    t.comp("host follows", duration_ns=9_000, is_cpu_op=True, deps=[first])
    return TraceSet([t.build()])


if __name__ == "__main__":
    machine = parse_machine(
        {"network": [{"topology": "switch", "size": 1, "bandwidth": "1 GB/s"}]}, "one"
    )
    traces = workload()
    for name, policy in (
        ("as they get ready", None),
        ("longest tail first", LongestTailFirst(traces)),
    ):
        done = simulate(traces, machine, options=SimulationOptions(dispatch=policy))
        print(f"{name:20} {done.makespan_ns:8,.0f} ns")
