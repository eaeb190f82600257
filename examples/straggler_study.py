"""One slow rank, or all of them a little unsteady: what it costs, and who is waited for.

Run as it stands: `python examples/straggler_study.py`
"""

from collections import Counter

from data_parallel import training_step

from chakrakit.simulator.engine import Disturbance, SimulationOptions
from chakrakit.simulator.results import simulate
from chakrakit.trace.timing import Reason


def main() -> None:
    """Five cases of the same step."""
    traces = training_step(32)
    cases = {
        "as planned": Disturbance(),
        "rank 5 10 % slower": Disturbance(stragglers={5: 1.1}),
        "rank 5 50 % slower": Disturbance(stragglers={5: 1.5}),
        "5 % jitter everywhere": Disturbance(jitter=0.05, seed=1),
        "both": Disturbance(jitter=0.05, seed=1, stragglers={5: 1.5}),
    }
    for name, disturbance in cases.items():
        done = simulate(traces, "dgx-h100:4", options=SimulationOptions(disturbance=disturbance))
        times = done.run("full").times_of(0)
        blamed = Counter(times.binding_rank[times.reason == Reason.PEER].tolist()).most_common(1)
        who = (
            f"rank 0 waits mostly for rank {blamed[0][0]} ({blamed[0][1]} times)" if blamed else ""
        )
        print(
            f"{name:22}  {done.makespan_ns / 1e6:7.3f} ms  folded {done.summary.fold.factor:4.1f}  {who}"
        )


if __name__ == "__main__":
    main()
