"""Communication beside compute on one device: with and without stream priority, and with room left for it.

Claim (resource-aware overlap of computation and communication): a collective beside a compute kernel is
starved of multiprocessors. Limiting the occupancy of compute and raising the priority of the communication
stream together take up to 25.5 % off the total time; neither does alone.

Prediction, written before the first run:

1. Beside one long kernel that came first, plain overlap is no better than running one after the other; the
   remedy of launching the collective first costs nothing and is as good as any other, where it is possible.
2. Priority alone gets nearly all of the gain where a kernel runs in many waves, and little where it runs in
   one. Limiting occupancy alone gains nothing: kernels are let in in order. Both together are best for
   kernels of few waves, with the occupancy limit just at what communication leaves.
3. The most that is taken off plain overlap is under a half, and most where communication takes as long as
   compute; with a fifth of that, or five times as much, little is left to gain.
4. In a backward pass of many short kernels the gain over plain overlap vanishes: a collective waits for a
   kernel's end at most.

Fairness. All sides choose the multiprocessors that communication holds (its bandwidth grows with them up to
SATURATES of the device) and the pieces each collective is cut into. Plain overlap may launch collectives
first where nothing stands against it. Those with an occupancy limit choose it.

The device is the simulator's. A collective holds its share from start to end. Kernels of its own priority
that came before it are in its way until their last wave has begun; those of lower priority give up room
between two waves. In the first run they were in its way to their end; the rule was mended when the same had
been measured on an H200 (docs/accuracy.md), the predictions were not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from study import Row, Study, markdown, prediction, span

from chakrakit import Binding, CollectiveType, EdgeForm, EdgeKind, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import SimulationOptions, run, with_bandwidth
from chakrakit.views.lines import Line, line_chart

RANKS = 8
COMPUTE_NS = 8_000_000
"""Compute of a step, alone on the device."""
SATURATES = 0.15
"""The share of a device's multiprocessors with which communication fills its links: 20 of an H100's 132."""
EVENT_NS = 5_000
"""From a kernel's end to the start of what waits for it on another stream; its own stream goes on at once."""
BANDWIDTH = 100e9


@dataclass(frozen=True)
class Case:
    """A step: `beside` is one collective beside one kernel, `backward` a bucket after each of eight layers.

    A layer is `kernels` kernels of `waves` waves each; communication takes `ratio` times as long as compute.
    """

    workload: str
    ratio: float
    kernels: int
    waves: int


@dataclass(frozen=True)
class Setting:
    """How communication shares the device with compute."""

    side: str
    share: float = SATURATES
    pieces: int = 1
    occupancy: float = 1.0
    priority: int = 0
    first: bool = False


# --- the workload -----------------------------------------------------------------------------------


def step(case: Case, setting: Setting) -> TraceSet:
    """All ranks do the same; compute is stream 1 and communication stream 2."""
    t = TraceBuilder()
    layers = 8 if case.workload == "backward" else 1
    size = int(case.ratio * COMPUTE_NS * 1e-9 * BANDWIDTH / (2 * (RANKS - 1) / RANKS) / layers)
    reduced = _collectives(t, setting, size, None) if setting.first else []
    for _ in range(layers):
        last = _layer(t, case, setting, layers)
        if setting.side != "sequential" and not setting.first:
            reduced += _collectives(t, setting, size, last if case.workload == "backward" else None)
    if setting.side == "sequential":
        reduced = _collectives(t, setting, size * layers, last)
    t.comp("optimizer", duration_ns=1000, stream=1, deps=reduced)
    body = t.build()
    return TraceSet([body], {r: Binding(0) for r in range(RANKS)}, Groups({"": range(RANKS)}))


def _layer(t: TraceBuilder, case: Case, setting: Setting, layers: int) -> int:
    """Kernels one after another; the last one's id."""
    for _ in range(case.kernels):
        last = t.comp(
            "gemm",
            duration_ns=COMPUTE_NS // layers // case.kernels,
            stream=1,
            waves=case.waves,
            device_share=setting.occupancy,
        )
    return last


def _collectives(t: TraceBuilder, setting: Setting, size: int, after: int | None) -> list[int]:
    """A collective in pieces."""
    found = []
    for _ in range(setting.pieces):
        node = t.collective(
            "all-reduce",
            CollectiveType.ALL_REDUCE,
            size // setting.pieces,
            stream=2,
            device_share=setting.share,
            comm_priority=setting.priority,
        )
        if after is not None:
            t.edge(after, node, EdgeKind.EVENT, form=EdgeForm.FINISH_START, lag_ns=EVENT_NS)
        found.append(node)
    return found


MACHINE = parse_machine(
    {
        "network": [
            {"topology": "switch", "size": RANKS, "bandwidth": BANDWIDTH, "latency": "500 ns"}
        ],
        "software": {"collective_overhead": "10 us"},
    },
    "one switch",
)


def machine(share: float) -> Machine:
    """Links as fast as the multiprocessors that feed them."""
    return with_bandwidth(MACHINE, min(1.0, share / SATURATES))


def total_ms(case: Case, setting: Setting) -> float:
    """Milliseconds until all is done."""
    options = SimulationOptions(algorithms=Algorithms({"all-reduce": "ring"}))
    return run(step(case, setting), machine(setting.share), options).makespan_ps * 1e-9


# --- sides ------------------------------------------------------------------------------------------

SHARES = (0.05, 0.1, 0.15, 0.2)
PIECES = (1, 2, 4)
LIMITS = (0.7, 0.8, 0.85, 0.9, 0.95)


def settings(case: Case) -> dict[str, list[Setting]]:
    """What each side chooses among."""
    plain = [Setting("overlap", k, n) for k, n in product(SHARES, PIECES)]
    first = [replace(s, side="launched first", first=True) for s in plain]
    raised = [replace(s, side="priority", priority=1) for s in plain]
    limited = [replace(s, side="occupancy", occupancy=o) for s, o in product(plain, LIMITS)]
    both = [replace(s, side="both", priority=1) for s in limited]
    alone = [Setting("sequential", max(SATURATES, k)) for k in SHARES[-2:]]
    found = [alone, plain, raised, limited, raised + both]
    sides = dict(
        zip(("sequential", "overlap", "priority", "occupancy", "both"), found, strict=True)
    )
    return sides | ({"launched first": first} if case.workload == "beside" else {})


def bound_ms(case: Case) -> float:
    """No overlap beats this: links busy throughout, or compute on what communication leaves it."""
    compute, comm = COMPUTE_NS / 1e6, case.ratio * COMPUTE_NS / 1e6
    return max(comm, compute + min(comm, compute / (1 - SATURATES)) * SATURATES)


# --- the study --------------------------------------------------------------------------------------


def cases(quick: bool) -> Iterator[Case]:
    """Balance, kernels and waves."""
    if quick:
        yield Case("beside", 1.0, 1, 16)
        yield Case("backward", 1.0, 4, 4)
        return
    for ratio, waves in product((0.2, 0.5, 1.0, 2.0, 5.0), (1, 4, 16, 64)):
        yield Case("beside", ratio, 1, waves)
    for ratio, kernels, waves in product((0.2, 0.5, 1.0, 2.0), (1, 4, 16, 64), (1, 4, 16)):
        yield Case("backward", ratio, kernels, waves)


def measure(quick: bool) -> list[Row]:
    """Every side at its best setting."""
    rows = []
    for case in cases(quick):
        for side, found in settings(case).items():
            times = {s: total_ms(case, s) for s in (found[::7] if quick else found)}
            best = min(times, key=lambda s: times[s])
            chosen = {k: v for k, v in vars(best).items() if k != "side"}
            rows.append(
                {
                    **vars(case),
                    "side": side,
                    **chosen,
                    "total_ms": round(times[best], 4),
                    "bound_ms": round(bound_ms(case), 4),
                }
            )
    return rows


# --- what it says -----------------------------------------------------------------------------------

KEYS = ("workload", "ratio", "kernels", "waves")


def by_case(rows: list[Row]) -> dict[tuple, dict[str, Row]]:
    """Case → side → row."""
    found: dict[tuple, dict[str, Row]] = {}
    for r in rows:
        found.setdefault(tuple(r[k] for k in KEYS), {})[r["side"]] = r
    return found


def saving(by: dict[str, Row], side: str, against: str = "overlap") -> float:
    """What a side takes off another, as a share of it."""
    return 1 - by[side]["total_ms"] / by[against]["total_ms"]


def table(rows: list[Row]) -> str:
    """A case a line: total times, and what both controls take off plain overlap.

    Of the backward passes only those with four waves are shown; the others differ little.
    """
    sides = ("sequential", "overlap", "launched first", "priority", "occupancy", "both")
    lines = []
    for case, by in by_case(rows).items():
        if case[0] == "backward" and case[3] != 4:
            continue
        times = [f"{by[s]['total_ms']:.2f}" if s in by else "–" for s in sides]
        best = by["both"]
        chose = f"share {best['share']:g}, pieces {best['pieces']}, occupancy {best['occupancy']:g}"
        lines.append((*case, *times, f"{best['bound_ms']:.2f}", f"{saving(by, 'both'):.1%}", chose))
    return markdown((*KEYS, *sides, "bound", "both off overlap", "both chose"), lines)


def verdict(rows: list[Row]) -> list[str]:
    """What became of the predictions, and the figures behind it."""
    found = by_case(rows)
    beside = {c: by for c, by in found.items() if c[0] == "beside"}
    backward = {c: by for c, by in found.items() if c[0] == "backward"}
    top = max(found, key=lambda c: saving(found[c], "both"))
    lines = [*_predictions(beside, backward), *_beside(beside)]
    lines.append(
        f"The most that both controls take off plain overlap is {saving(found[top], 'both'):.1%} "
        f"({_named(top)})."
    )
    for ratio in sorted({c[1] for c in found}):
        told = [
            f"{w} {max(saving(by, 'both') for c, by in found.items() if c[:2] == (w, ratio)):.1%}"
            for w in ("beside", "backward")
            if any(c[:2] == (w, ratio) for c in found)
        ]
        lines.append(
            f"Communication {ratio:g} times compute: at most {', '.join(told)} off plain overlap."
        )
    return lines + _backward(backward)


def _predictions(
    beside: dict[tuple, dict[str, Row]], backward: dict[tuple, dict[str, Row]]
) -> list[str]:
    plain = [saving(by, "overlap", "sequential") for by in beside.values()]
    first = [saving(by, "launched first", "both") for by in beside.values()]
    many = [saving(by, "priority") - saving(by, "both") for c, by in beside.items() if c[3] >= 16]
    one = [saving(by, "priority") for c, by in beside.items() if c[3] == 1]
    alone = [saving(by, "occupancy") for by in beside.values()]
    top = max(beside, key=lambda c: saving(beside[c], "both"))
    most = saving(beside[top], "both")
    odd = [saving(by, "both") for c, by in beside.items() if c[1] in (0.2, 5.0)]
    short = [saving(by, "both") for c, by in backward.items() if c[2] >= 16]
    return [
        prediction(
            1,
            max(plain) < 0.02 and min(first) > -0.005,
            f"beside one kernel plain overlap takes {span(plain, '.1%')} off running one after the other, "
            f"and launching the collective first {span(first, '.1%')} off both controls",
        ),
        prediction(
            2,
            min(many, default=0) > -0.02 and max(one, default=0) < 0.02 and max(alone) < 0.01,
            f"priority alone takes {span(one, '.1%')} off plain overlap beside a kernel of one wave and "
            f"differs from both by {span(many, '.1%')} from 16 waves on; occupancy alone takes "
            f"{span(alone, '.1%')} off",
        ),
        prediction(
            3,
            most < 0.5 and top[1] == 1.0 and max(odd, default=0) < 0.1,
            f"the most is {most:.1%}, with communication {top[1]:g} times compute; with a fifth or five "
            f"times as much it is {span(odd, '.1%')}",
        ),
        prediction(
            4,
            max(short, default=0) < 0.02,
            f"with 16 or more kernels per layer {span(short, '.1%')} are left",
        ),
    ]


def _beside(found: dict[tuple, dict[str, Row]]) -> list[str]:
    lines = []
    for waves in sorted({c[3] for c in found}):
        some = [by for c, by in found.items() if c[3] == waves]
        told = ", ".join(
            f"{s} {max(saving(by, s) for by in some):.1%}"
            for s in ("priority", "occupancy", "both")
        )
        lines.append(
            f"Beside one kernel of {waves} waves, taken off plain overlap at most: {told}."
        )
    return lines


def _backward(found: dict[tuple, dict[str, Row]]) -> list[str]:
    told = []
    for kernels in sorted({c[2] for c in found}):
        some = [saving(by, "both") for c, by in found.items() if c[2] == kernels]
        told.append(f"{kernels}: {min(some):.1%} to {max(some):.1%}")
    return [f"Backward pass, taken off plain overlap by kernels per layer: {'; '.join(told)}."]


def _named(case: tuple) -> str:
    return ", ".join(f"{k} {v}" for k, v in zip(KEYS, case, strict=True))


def draw(rows: list[Row]) -> str:
    """Beside one kernel with as much communication as compute: total time over its waves, side by side."""
    found = {c: by for c, by in by_case(rows).items() if c[:2] == ("beside", 1.0)}
    lines = []
    for side in ("sequential", "overlap", "occupancy", "priority", "both", "launched first"):
        points = sorted((c[3], by[side]["total_ms"]) for c, by in found.items())
        lines.append(Line(side, points, dashed=side in ("sequential", "overlap")))
    bound = next(iter(found.values()))["both"]["bound_ms"]
    return line_chart(
        "A collective beside one kernel, each 8 ms alone",
        lines,
        "waves of the kernel",
        "ms",
        log_x=True,
        level=bound,
    )


STUDY = Study("stream_priority", measure, table, verdict, draw)

if __name__ == "__main__":
    STUDY.main()
