"""Decode steps of Llama 3.1 8B and 3.2 1B as measured on one H200: time and power by batch and locked clock.

All with a context of 2,048 tokens in bf16, by the energy counter; `graph` replays a CUDA graph, `eager`
launches every kernel. The rows are of three programs, whose hosts take different times.
"""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from chakrakit.published import Case


class DecodeProgram(NamedTuple):
    """Who ran the steps."""

    name: str
    small: int
    """Kernels of a layer beyond those of the generated step, each over the queries: rotation, the cache's new
    token, and what a program does not fuse."""


FIRST = DecodeProgram("first", 0)
"""Ran for a second and more in each setting; what is in its layers is not known."""
KEPT = DecodeProgram("kept", 3)
"""benchmarks/decode_power.py, for 0.6 s in each setting; three kernels rotate and store."""
PLAIN = DecodeProgram("plain", 13)
"""Was not kept. The same benchmark with PyTorch's operators instead of compiled ones, measured later, takes
as long as a graph (1B 1.97 and 6.12 ms at batch 16 and 256, which was 2.00 and 6.13; 8B 6.98 and 25.1, which
was 7.09 and 25.0), and launches ten kernels in a layer more than `kept`. At 8B and batch 16 it drew 473 W,
and 507 later."""
KEPT_AGAIN, PLAIN_AGAIN = DecodeProgram("kept again", 3), DecodeProgram("plain again", 13)
"""Both in a later session, at a free clock, for 2 and 1 s in each setting."""


class MeasuredSetting(NamedTuple):
    """One setting."""

    program: DecodeProgram
    model: str
    batch: int
    how: str
    mhz: int
    """0 for no lock."""
    ms: float
    watts: float


_BY_PROGRAM: dict[DecodeProgram, tuple[tuple[str, int, str, int, float, float], ...]] = {
    FIRST: (
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
    ),
    KEPT: (
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
    ),
    PLAIN: (
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
    ),
    KEPT_AGAIN: (
        ("1b", 1, "graph", 0, 1.133, 400.1),
        ("1b", 1, "eager", 0, 6.877, 165.7),
        ("1b", 16, "graph", 0, 1.512, 450.0),
        ("1b", 16, "eager", 0, 4.974, 224.0),
        ("1b", 64, "graph", 0, 2.254, 611.6),
        ("1b", 64, "eager", 0, 5.739, 311.2),
        ("1b", 256, "graph", 0, 5.643, 692.5),
        ("1b", 256, "eager", 0, 8.685, 528.0),
        ("8b", 1, "graph", 0, 5.044, 492.3),
        ("8b", 1, "eager", 0, 12.589, 269.9),
        ("8b", 16, "graph", 0, 6.001, 563.6),
        ("8b", 16, "eager", 0, 13.239, 325.1),
        ("8b", 64, "graph", 0, 9.294, 693.4),
        ("8b", 64, "eager", 0, 12.457, 553.1),
        ("8b", 256, "graph", 0, 23.627, 691.8),
        ("8b", 256, "eager", 0, 24.027, 701.1),
    ),
    PLAIN_AGAIN: (
        ("1b", 1, "graph", 0, 1.425, 345.4),
        ("1b", 1, "eager", 0, 8.025, 162.1),
        ("1b", 16, "graph", 0, 1.966, 380.7),
        ("1b", 16, "eager", 0, 5.947, 208.2),
        ("1b", 64, "graph", 0, 2.724, 531.8),
        ("1b", 64, "eager", 0, 9.814, 229.7),
        ("1b", 256, "graph", 0, 6.124, 705.0),
        ("1b", 256, "eager", 0, 10.679, 447.0),
        ("8b", 1, "graph", 0, 5.774, 452.0),
        ("8b", 1, "eager", 0, 14.531, 253.7),
        ("8b", 16, "graph", 0, 6.984, 507.0),
        ("8b", 16, "eager", 0, 14.271, 312.2),
        ("8b", 64, "graph", 0, 10.298, 640.4),
        ("8b", 64, "eager", 0, 18.378, 407.0),
        ("8b", 256, "graph", 0, 25.145, 697.6),
        ("8b", 256, "eager", 0, 25.753, 699.2),
    ),
}
ROWS = [MeasuredSetting(program, *row) for program, rows in _BY_PROGRAM.items() for row in rows]
CLOCKS = (0, 1410, 1005)


def program_of(case: Case) -> DecodeProgram:
    """The program of a case: the one it names, else the one that its model and batch were measured with."""
    named = {p.name: p for p in _BY_PROGRAM}
    if "program" in case:
        return named[case["program"]]
    if case["batch"] in (1, 64):
        return FIRST
    return KEPT if case["model"] == "8b" else PLAIN


def measured(case: Case, mhz: int) -> MeasuredSetting | None:
    """The row of a case; None where it was not measured at this clock."""
    asked = program_of(case), case["model"], case["batch"], case["how"], mhz
    return next((row for row in ROWS if row[:5] == asked), None)


HOST_BINDS = 1.15
"""An eager step that takes this many times as long as its graph waits for the host, whose time no clock of
the device explains: it was 5.6 and 7.3 ms for one program. Gaps between kernels are at most 13 %."""


def host_time(case: Case, mhz: int) -> float:
    """Milliseconds that the host took for an eager step of a program at this clock; 0 where it never bound.

    Where it did not bind they are those of the smallest batch at which it did: a host launches the same
    kernels for all.
    """
    times = _host_times(case, mhz)
    return times.get(case["batch"], next(iter(times.values()), 0.0))


def usual_host_time(case: Case) -> float:
    """The median of a program's host times, which differ though no clock and no batch changes them."""
    return median([t for mhz in CLOCKS for t in _host_times(case, mhz).values()] or [0.0])


def _host_times(case: Case, mhz: int) -> dict[int, float]:
    """By batch, where the host of an eager step bound it, the smallest first."""
    if case["how"] == "graph":
        return {}
    program, model = program_of(case), case["model"]
    batches = sorted({r.batch for r in ROWS if (r.program, r.model) == (program, model)})
    alike = ({**case, "program": program.name, "batch": b} for b in batches)
    return {c["batch"]: time for c in alike if (time := _binding_time(c, mhz))}


def _binding_time(case: Case, mhz: int) -> float:
    """Milliseconds of an eager step that waits for its host, else 0."""
    graph, eager = (measured({**case, "how": how}, mhz) for how in ("graph", "eager"))
    if graph is None or eager is None or eager.ms <= HOST_BINDS * graph.ms:
        return 0.0
    return eager.ms
