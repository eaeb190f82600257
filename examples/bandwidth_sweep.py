"""How fast must the network be? The same step with links from 1/16 to 4 times as fast, and a plot.

Run as it stands: `python examples/bandwidth_sweep.py [plot.svg]`
"""

import sys
from pathlib import Path

from data_parallel import training_step

from chakrakit.machines.load import load_machine
from chakrakit.simulator.native import with_bandwidth
from chakrakit.simulator.simulate import simulate


def plot(points: list[tuple[float, float]], path: Path) -> None:
    """Step time over bandwidth as an SVG line."""
    most = max(ms for _, ms in points)
    places = [
        (60 + 480 * i / (len(points) - 1), 260 - 220 * ms / most)
        for i, (_, ms) in enumerate(points)
    ]
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y in places)
    marks = "".join(
        f'<text x="{x:.0f}" y="285" text-anchor="middle">{f:g}×</text>'
        f'<text x="{x:.0f}" y="{y - 8:.0f}" text-anchor="middle">{ms:.1f}</text>'
        for (x, y), (f, ms) in zip(places, points, strict=True)
    )
    size = 'width="600" height="310" font-family="sans-serif" font-size="12"'
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
        f'<text x="60" y="20">step time in ms, by bandwidth of all links</text>'
        f'<polyline points="{line}" fill="none" stroke="steelblue" stroke-width="2"/>{marks}</svg>'
    )


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
    plot(points, Path(target))
    print(f"wrote {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
