"""Decode steps of Llama 3.1 8B and 3.2 1B as measured on one H200: time and power by batch and locked clock.

All with a context of 2,048 tokens in bf16, by the energy counter over a second and more; `graph` replays a
CUDA graph, `eager` launches every kernel. Rows of batch 1 and 64 are of one program, those of batch 16 and
256 of another with more kernels a layer, whose launches take the host longer.
"""

from __future__ import annotations

from typing import NamedTuple

from chakrakit.published import Case


class MeasuredSetting(NamedTuple):
    """One setting."""

    model: str
    batch: int
    how: str
    mhz: int
    """0 for no lock."""
    ms: float
    watts: float


ROWS = [
    MeasuredSetting(*row)
    for row in (
        ("8b", 1, "eager", 0, 5.571, 446.6),
        ("8b", 1, "graph", 0, 4.833, 501.3),
        ("8b", 1, "eager", 1410, 7.327, 310.1),
        ("8b", 1, "graph", 1410, 5.367, 397.8),
        ("8b", 1, "eager", 1005, 8.949, 266.1),
        ("8b", 1, "graph", 1005, 7.960, 289.0),
        ("8b", 64, "eager", 0, 9.767, 658.4),
        ("8b", 64, "graph", 0, 9.113, 692.7),
        ("8b", 64, "eager", 1410, 10.515, 499.6),
        ("8b", 64, "graph", 1410, 9.821, 522.2),
        ("8b", 64, "eager", 1005, 15.760, 344.3),
        ("8b", 64, "graph", 1005, 14.824, 359.8),
        ("1b", 1, "eager", 0, 3.368, 211.3),
        ("1b", 1, "graph", 0, 1.134, 394.0),
        ("1b", 1, "eager", 1410, 2.950, 184.7),
        ("1b", 1, "graph", 1410, 1.323, 295.1),
        ("1b", 1, "eager", 1005, 3.088, 170.8),
        ("1b", 1, "graph", 1005, 1.944, 222.7),
        ("8b", 16, "graph", 0, 7.090, 473.4),
        ("8b", 16, "eager", 0, 22.964, 226.3),
        ("8b", 16, "graph", 1410, 7.482, 401.2),
        ("8b", 16, "eager", 1410, 18.136, 223.2),
        ("8b", 16, "graph", 1005, 11.215, 277.5),
        ("8b", 16, "eager", 1005, 21.857, 181.0),
        ("8b", 256, "graph", 0, 25.036, 682.3),
        ("8b", 256, "eager", 0, 25.839, 717.7),
        ("8b", 256, "graph", 1410, 26.143, 559.4),
        ("8b", 256, "eager", 1410, 27.712, 565.9),
        ("8b", 256, "graph", 1005, 39.358, 397.8),
        ("8b", 256, "eager", 1005, 41.727, 375.9),
        ("1b", 16, "graph", 0, 1.995, 380.3),
        ("1b", 16, "eager", 0, 6.907, 193.8),
        ("1b", 16, "graph", 1410, 2.175, 294.1),
        ("1b", 16, "eager", 1410, 7.009, 156.6),
        ("1b", 16, "graph", 1005, 3.143, 222.0),
        ("1b", 16, "eager", 1005, 7.139, 146.8),
        ("1b", 256, "graph", 0, 6.134, 704.7),
        ("1b", 256, "eager", 0, 6.769, 620.6),
        ("1b", 256, "graph", 1410, 6.708, 523.2),
        ("1b", 256, "eager", 1410, 7.290, 483.0),
        ("1b", 256, "graph", 1005, 10.057, 367.5),
        ("1b", 256, "eager", 1005, 10.733, 327.4),
    )
]


def measured(case: Case, mhz: int) -> MeasuredSetting | None:
    """The row of a model, batch and way to launch; None where it was not measured at this clock."""
    asked = case["model"], case["batch"], case["how"], mhz
    return next((row for row in ROWS if row[:4] == asked), None)


HOST_BINDS = 1.15
"""An eager step that takes this many times as long as its graph waits for the host, whose time no clock of
the device explains: it was 5.6 and 7.3 ms for one program. Gaps between kernels are at most 13 %."""


def host_time(case: Case, mhz: int) -> float:
    """Milliseconds that the host takes for an eager step at this clock where it binds, else 0."""
    graph, eager = (measured({**case, "how": how}, mhz) for how in ("graph", "eager"))
    if case["how"] == "graph" or graph is None or eager is None:
        return 0.0
    return eager.ms if eager.ms > HOST_BINDS * graph.ms else 0.0
