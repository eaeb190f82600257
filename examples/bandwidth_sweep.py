"""How fast must the network be? The same step with links from 1/16 to 4 times as fast, and a plot.

Run as it stands: `python examples/bandwidth_sweep.py [plot.svg]`
"""

import sys
from pathlib import Path

from data_parallel import training_step

from chakrakit.machines import load_machine
from chakrakit.simulator.engine import with_bandwidth
from chakrakit.simulator.results import simulate
from chakrakit.views.lines import Line, line_chart


def main(target: str = "bandwidth_sweep.svg") -> None:
    """Seven speeds of the network."""
    traces, machine = training_step(64), load_machine("dgx-h100:8")
    points = []
    for factor in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4):
        done = simulate(traces, with_bandwidth(machine, factor))
        exposed = done.summary.ranks[0].exposed_comm_ns / 1e6
        ms = done.makespan_ns / 1e6
        points.append((factor, ms))
        print(
            f"{factor:7.4f}×  step {ms:8.3f} ms  exposed {exposed:8.3f} ms  {'█' * round(ms / 3)}"
        )
    title = "Step time by bandwidth of all links, as a multiple of theirs"
    chart = line_chart(title, [Line("step", points)], "× bandwidth", "ms", log_x=True)
    Path(target).write_text(chart)
    print(f"wrote {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
