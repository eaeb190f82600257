"""Decode steps of Llama 3.1 8B and 3.2 1B as measured on one H200: time and power by batch and locked clock.

All with a context of 2,048 tokens in bf16, by the energy counter; `graph` replays a CUDA graph, `eager`
launches every kernel. The rows are of three programs, whose hosts take different times:

- batch 1 and 64 of one that ran for a second and more in each setting;
- 8B at batch 16 and 256 of benchmarks/decode_power.py, for 0.6 s in each. Beside the first program, at a free
  clock, it draws 7, 5 and 11 % less (8B at 1 and 64, 1B at 1) and takes 1, 0 and 6 % longer;
- 1B at batch 16 and 256 of one that was not kept, with more kernels in a layer: at 8B and batch 16 it took
  7.1 ms as a graph, where benchmarks/decode_power.py takes 6.0.
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
        ("8b", 16, "graph", 0, 6.018, 537.4),
        ("8b", 16, "eager", 0, 25.046, 214.4),
        ("8b", 16, "graph", 1410, 6.539, 382.4),
        ("8b", 16, "eager", 1410, 20.292, 198.5),
        ("8b", 16, "graph", 1005, 9.784, 280.3),
        ("8b", 16, "eager", 1005, 26.588, 151.7),
        ("8b", 256, "graph", 0, 23.173, 667.0),
        ("8b", 256, "eager", 0, 26.490, 673.7),
        ("8b", 256, "graph", 1410, 24.101, 579.1),
        ("8b", 256, "eager", 1410, 26.591, 529.5),
        ("8b", 256, "graph", 1005, 36.235, 381.5),
        ("8b", 256, "eager", 1005, 37.337, 372.8),
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
PROGRAMS = ((1, 64), (16, 256))
"""Batches of one program: its host launches the same kernels for both."""


def host_time(case: Case, mhz: int) -> float:
    """Milliseconds that the host takes for an eager step of a program at this clock; 0 where it never binds.

    They are those of the smallest batch at which it binds.
    """
    if case["how"] == "graph":
        return 0.0
    batches = next(b for b in PROGRAMS if case["batch"] in b)
    return next((t for b in batches if (t := _binding_time({**case, "batch": b}, mhz))), 0.0)


def _binding_time(case: Case, mhz: int) -> float:
    """Milliseconds of an eager step that waits for its host, else 0."""
    graph, eager = (measured({**case, "how": how}, mhz) for how in ("graph", "eager"))
    if graph is None or eager is None or eager.ms <= HOST_BINDS * graph.ms:
        return 0.0
    return eager.ms
