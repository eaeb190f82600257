"""Fits what frameworks add to kernels: `python benchmarks/fit_frameworks.py DATA [FRAMEWORK…]`.

Dense rows of published training runs whose configuration has an even CRC-32 (accuracy/training.py tests
on the others) are simulated once with kernels alone. A step is then the sum of its classes of work and
of the rest, communication and bubbles; the factors that bring these sums closest to the published times
are looked for one at a time, each held near 1, so that a class that no row shows stays as it is.
Megatron's are fitted on H100 and GB300 alone, whose power is modelled or does not limit; what B200 and
GB200 then still lose is their `sustained`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "accuracy"))

from training import TrainingRow, training_rows

from chakrakit.arrays import F64
from chakrakit.errors import ChakraError
from chakrakit.simulator.engine import COMPUTE

NAMES = ("products", "narrow_products", "attention", "vector", "optimizer")
HELD = 0.002
"""What a factor's logarithm costs, in mean logarithms of errors."""
HELD_CLOCK = ("DGX-H100", "DGX-GB300")
"""Systems of Megatron's rows whose power is modelled, or whose limit does not show."""
MOST_GPUS = 128
"""Larger rows take minutes to simulate."""


class Case(NamedTuple):
    """A row's step in ms by class, the rest of it, what was published, and the system."""

    parts: F64
    rest: float
    published: float
    system: str

    def step(self, factors: F64) -> float:
        return float(self.parts @ factors) + self.rest


def case_of(row: TrainingRow) -> Case:
    """The parts of a row's step on rank 0."""
    simulation = row.simulated("")
    outcome = simulation.outcome
    program = outcome.program(0)
    trace, works = program.trace, program.kind == COMPUTE
    ms = outcome.durations[outcome.rows(0)] * 1e-9
    kinds, names = trace.texts("op_type")
    types, dtypes = trace.texts("dtype")
    narrow = np.isin(types, [i for i, name in enumerate(dtypes) if name in ("fp8", "fp4")])

    def total(*wanted: str) -> float:
        codes = [i for i, name in enumerate(names) if name in wanted]
        return float(ms[works & np.isin(kinds, codes)].sum())

    eight = float(ms[works & narrow].sum())
    parts = np.array(
        [
            total("matmul") - eight,
            eight,
            total("attention"),
            total("vector", "lookup"),
            total("optimizer"),
        ]
    )
    whole = simulation.makespan_ns * 1e-6
    step = row.workload().step
    published = step.global_batch * step.seq / row.published / row.gpus * 1e3
    return Case(parts, whole - float(parts.sum()), published, row.row["system"])


def fitted(cases: list[Case]) -> F64:
    """The factors with the least mean error of logarithms."""

    def loss(x: F64) -> float:
        missed = [abs(np.log(c.step(x) / c.published)) for c in cases]
        return float(np.mean(missed) + HELD * np.abs(np.log(x)).sum())

    x, step = np.ones(len(NAMES)), 0.5
    while step > 0.01:
        trials = [
            x * np.where(np.arange(len(x)) == k, change, 1.0)
            for k in range(len(x))
            for change in (1 + step, 1 / (1 + step))
        ]
        trials = [np.maximum(trial, 1.0) for trial in trials]  # a framework adds to kernels
        best = min(trials, key=loss)
        x, step = (best, step) if loss(best) < loss(x) - 1e-6 else (x, step / 2)
    return x


def main(data: str, *frameworks: str) -> int:
    """Prints the factors of each framework and what systems sustain beside them."""
    for framework in frameworks or ("llm-foundry", "torchtitan", "megatron"):
        cases = []
        for row in training_rows(Path(data)):
            wanted = (
                row.framework == framework and row.fitted and row.dense and row.gpus <= MOST_GPUS
            )
            if not wanted or "rowwise" in row.row["precision"]:
                continue
            try:
                cases.append(case_of(row))
            except (ChakraError, KeyError) as error:
                print(row.row["model"], row.row["system"], error, file=sys.stderr)
        own = [c for c in cases if framework != "megatron" or c.system in HELD_CLOCK]
        factors = fitted(own)
        print(framework, len(own), dict(zip(NAMES, factors.round(2).tolist(), strict=True)))
        for system in sorted({c.system for c in cases}):
            left = [c.step(factors) / c.published for c in cases if c.system == system]
            print("  ", system, len(left), f"predicted over published {np.median(left):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
