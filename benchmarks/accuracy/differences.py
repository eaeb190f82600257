"""Differences of measured configurations: the sign of predicted ones, and whether they hold the measured."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import training
from claim import table

from chakrakit.errors import ChakraError
from chakrakit.insight.advice.programs import JITTER
from chakrakit.machines.device import clocks_of, work_model
from chakrakit.machines.residuals import difference, interval_in
from chakrakit.published.devices.decode_power import ROWS, program_of
from chakrakit.published.devices.decode_step import kernels
from chakrakit.results import three_digits
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import SimulationSummary, simulate

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")]
import library  # noqa: E402

MOST_GPUS = 16
"""Published steps on more GPUs take minutes to simulate."""
PER_TOKENS = 1e6


class Difference(NamedTuple):
    """Two configurations: what the second takes longer, predicted with its interval, and measured, in ms."""

    source: str
    a: str
    b: str
    predicted: float
    low: float
    high: float
    measured: float

    @property
    def sure(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    @property
    def held(self) -> bool:
        """Whether the measured difference lies in the interval."""
        return self.low <= self.measured <= self.high

    @property
    def right(self) -> bool:
        """Whether the sign is that of the measured difference."""
        return (self.predicted > 0) == (self.measured > 0)


class _Side(NamedTuple):
    """One configuration: its simulation, by how much its times are scaled, and what was measured in ms."""

    name: str
    summary: SimulationSummary
    share: float
    measured: float


def _pair(source: str, a: _Side, b: _Side) -> Difference | None:
    """The difference of two predictions; None where one of them has no interval."""
    sides = [interval_in(x.summary) for x in (a, b)]
    if sides[0] is None or sides[1] is None:
        return None
    delta = b.summary.makespan_ns * b.share - a.summary.makespan_ns * a.share
    low, high = difference(sides[0].scaled(a.share), sides[1].scaled(b.share), delta)
    milli = (x / 1e6 for x in (delta, low, high))
    return Difference(source, a.name, b.name, *milli, b.measured - a.measured)


def published(data: Path) -> Iterator[Difference | None]:
    """Rows of one model that no factor was fitted on, one after the other: ms for a million tokens a GPU."""
    models: dict[str, list[training.TrainingRow]] = {}
    for row in training.training_rows(data):
        if not row.fitted and row.dense and row.gpus <= MOST_GPUS:
            models.setdefault(row.row["model"], []).append(row)
    for rows in models.values():
        sides = [s for s in map(_published_side, rows) if s is not None]
        for a, b in itertools.pairwise(sides):
            yield _pair("published training", a, b)


def _published_side(row: training.TrainingRow) -> _Side | None:
    fields = (row.row[n] for n in ("model", "system", "gpus", "seq", "precision"))
    try:
        summary, step = row.simulated(row.framework).summary, row.workload().step
    except (ChakraError, KeyError):
        return None
    share = PER_TOKENS / (step.global_batch * step.seq / row.gpus)
    return _Side(" ".join(fields), summary, share, PER_TOKENS / row.published * 1e3)


def decoding() -> Iterator[Difference | None]:
    """Decode steps in a graph at free and at locked clocks, and of one batch and the next."""
    rows = [
        r
        for r in ROWS
        if r.how == "graph" and r.program is program_of({"model": r.model, "batch": r.batch})
    ]
    keyed = {(r.model, r.batch, r.mhz): r for r in rows}
    sides = {}
    for key, row in keyed.items():
        options = SimulationOptions(clocks=clocks_of([row.mhz] if row.mhz else (), None))
        traces = kernels(row.model, row.batch, row.program.small)
        done = simulate(traces, "dgx-h200:1", compute=work_model("auto"), options=options)
        name = f"{row.model}, batch {row.batch}, {row.mhz or 'free'} MHz"
        sides[key] = _Side(name, done.summary, 1.0, row.ms)
    for (model, batch, mhz), side in sides.items():
        slower = {0: 1410, 1410: 1005}.get(mhz)
        if slower and (other := sides.get((model, batch, slower))):
            yield _pair("decoding", side, other)


def edited() -> Iterator[Difference]:
    """Recorded programs, with time added on the device or on the host as it was in the program."""
    cases = json.loads((library.DATA / "counterfactual.json").read_text())["cases"]
    for name in library.MODULES:
        base = _edited_ms(name, {"device": 0, "host": 0})
        for edit in cases[name]["edits"]:
            added = {"device": edit["gpu_us"], "host": edit["host_us"]}
            if any(added.values()):
                found = _edited_ms(name, added)
                delta, doubt = found - base, JITTER * max(base, found)
                measured = edit["step_ms_back_to_back"] - cases[name]["base_ms"]
                more = ", ".join(f"{side} +{us} µs" for side, us in added.items() if us)
                bounds = (delta - doubt, delta + doubt)
                yield Difference("edited programs", name, more, delta, *bounds, measured)


def _edited_ms(name: str, added: dict[str, float]) -> float:
    options = SimulationOptions(communication="measured")
    done = simulate(library.edited(name, added), None, compute="measured", options=options)
    return done.summary.step_ns / 1e6


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    pairs = [d for d in (*published(data), *decoding(), *edited()) if d is not None]
    missed = [d for d in pairs if not d.held]
    tables = [table(SUMMARY, _summary(pairs)), MISSED, table(HEADS, map(_line, missed))]
    return "\n\n".join([TEXT, *tables])


def _summary(pairs: list[Difference]) -> Iterator[list[object]]:
    for source in dict.fromkeys(d.source for d in pairs):
        some = [d for d in pairs if d.source == source]
        sure = [d for d in some if d.sure]
        held = sum(d.held for d in some)
        yield [source, len(some), len(sure), sum(d.right for d in sure), held]


def _line(d: Difference) -> list[str]:
    said = "right" if d.right else "WRONG"
    return [
        d.source,
        d.a,
        d.b,
        "{} ({} to {})".format(*(three_digits(x, "+") for x in (d.predicted, d.low, d.high))),
        three_digits(d.measured, "+"),
        said if d.sure else "could be zero",
    ]


SUMMARY = ("pairs", "number", "interval without zero", "of those, sign right", "measured within")
MISSED = "Measured differences outside of their intervals:"
HEADS = ("pairs", "first", "second", "predicted difference, ms", "measured", "sign")
TITLE = "Differences of configurations"
TEXT = """\
What one configuration takes longer than another, as `chakra compare` and `chakra search` say it, with its
90 % interval: errors that both predictions have cancel, so that it is narrower than the intervals of the two.
Published training rows of one model that no factor was fitted on, each against the next, in ms for a million
tokens a GPU; decode steps of Llama in a CUDA graph on one H200 at clocks one below the other; two programs
recorded on one H200 to which time was added (measured again with the same change; the interval is that of
advice, 2 % of a step). That two machines with one profile have operations of their own was added after a pair
of GB200 and B200 had the wrong sign. What a lower clock costs is as sure as single kernels at locked clocks
were, on another day."""

if __name__ == "__main__":
    print(measure(Path(sys.argv[1])))
