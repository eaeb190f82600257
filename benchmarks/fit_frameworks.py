"""Fits what frameworks add to kernels: `python benchmarks/fit_frameworks.py DATA [FRAMEWORK…]`.

Rows of published training runs whose configuration has an even CRC-32 (accuracy/training.py tests on the
others) are simulated once with kernels alone. The step is split along its critical path into classes of
work and the rest, communication; the factors that bring these sums closest to the published times are
looked for one at a time, each held near 1, so that a class that no row shows stays as it is. Dense models
alone give the factors of `megatron`. Beside them experts that a host launches have a factor on what they
compute (`experts`), a least time for each operation (`experts_us`), and one for each expert of a product
(`expert_us`), over the operations of a stage in the middle: of the triples within 2 % of the least mean
error, the one with the least median, because the mean is flat and some rows are regressions of one release.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "accuracy"))

from training import TrainingRow, training_rows

from chakrakit.arrays import F64, I64, Mask
from chakrakit.errors import ChakraError
from chakrakit.machines.device.framework import launches_of, of_experts
from chakrakit.simulator.engine import COMPUTE, Outcome, Program

NAMES = ("products", "narrow_products", "attention", "context_attention", "vector", "optimizer")
REST = len(NAMES)
HELD = 0.002
"""What a factor's logarithm costs, in mean logarithms of errors."""
MOST_GPUS = 512
"""Larger rows take minutes to simulate."""
PEER = 5
"""The reason of rows that waited for a peer."""
EACH_US = range(10, 120, 10)
"""Times of a host for an operation that are tried; none launches one for nothing."""
EXPERT_US = range(0, 80, 4)
"""Times of a host for an expert's product that are tried."""
EXPERTS = np.arange(1.0, 2.4, 0.1).round(1).tolist()
"""Factors on what experts compute that are tried."""
NEAR = 1.02
"""Mean errors up to this multiple of the least count as equal."""


class Case(NamedTuple):
    """A row's step in ms by class along its critical path, what was published, and single operations."""

    row: TrainingRow
    parts: F64
    published: float
    operations: F64
    """Milliseconds of computing rows of a stage in the middle, each kind once."""
    count: I64
    """How often each kind comes."""
    of_experts: Mask
    """Which of them are of experts."""
    launches: I64
    """How many experts their products are of."""

    def step(self, factors: F64) -> float:
        on_attention = self.parts[2:4].sum() * factors[2]
        shared = self.parts[3] * factors[2] * (factors[3] - 1)
        others = self.parts[[0, 1, 4, 5]] @ factors[[0, 1, 4, 5]]
        return float(others + on_attention + shared + self.parts[REST])


def classes_of(program: Program) -> I64:
    """The class of every row of a program: an index into NAMES, or REST."""
    trace = program.trace
    kinds, names = trace.texts("op_type")
    types, dtypes = trace.texts("dtype")
    labels, titles = trace.texts("name")
    shapes, texts = trace.texts("inputs_shapes")
    experts = np.array([".moe." in t for t in titles])[labels]
    out = np.full(len(trace), REST)
    for name, kind in (("products", "matmul"), ("attention", "attention"), ("vector", "vector"),
                       ("vector", "lookup"), ("optimizer", "optimizer")):  # fmt: skip
        out[np.isin(kinds, [i for i, n in enumerate(names) if n == kind])] = NAMES.index(name)
    narrow = np.isin(types, [i for i, n in enumerate(dtypes) if n in ("fp8", "fp4")])
    out[(out == NAMES.index("products")) & narrow] = NAMES.index("narrow_products")
    cut = np.array([*[_is_cut(t) for t in texts], False])[shapes]
    out[(out == NAMES.index("attention")) & cut] = NAMES.index("context_attention")
    out[(out == NAMES.index("vector")) & experts] = REST
    return np.where(program.kind == COMPUTE, out, REST)


def _is_cut(shapes: str) -> bool:
    sizes = [part.split(",") for part in shapes.strip("[]").split("],[")]
    return len(sizes) == 3 and len(sizes[0]) == 4 and int(sizes[0][2]) < int(sizes[1][2])


def path_parts(outcome: Outcome) -> F64:
    """Milliseconds of each class on the way from the last end back to the beginning."""
    parts, classes = np.zeros(REST + 1), {}
    row, at = int(np.argmax(outcome.end)), int(outcome.end.max())
    while row >= 0:
        c = int(np.searchsorted(outcome.offset, row, "right")) - 1
        if c not in classes:
            classes[c] = classes_of(outcome.program(c))
        waited = int(outcome.reason[row]) == PEER
        begin = int(outcome.start[outcome.binding[row] if waited else row])
        parts[classes[c][row - int(outcome.offset[c])]] += at - begin
        at = begin
        row = int(outcome.binding[outcome.binding[row] if waited else row])
        if row >= 0:
            parts[REST] += max(0, at - int(outcome.end[row]))
            at = min(at, int(outcome.end[row]))
    return parts * 1e-9


def case_of(row: TrainingRow) -> Case:
    """The parts of a row's step."""
    outcome = row.simulated("").outcome
    middle = outcome.classes.count // 2
    works = outcome.program(middle).kind == COMPUTE
    trace = outcome.program(middle).trace
    kinds = np.stack(
        [
            outcome.durations[outcome.rows(middle)][works],
            of_experts(trace)[works],
            launches_of(trace)[works],
        ]
    )
    (operations, experts, launches), count = np.unique(kinds, axis=1, return_counts=True)
    step = row.workload().step
    published = step.global_batch * step.seq / row.published / row.gpus * 1e3
    parts = path_parts(outcome)
    return Case(row, parts, published, operations * 1e-9, count, experts > 0, launches)


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


def experts_of(cases: list[Case], factors: F64) -> tuple[float, int, int]:
    """The factor on what experts compute, and a host's microseconds for an operation and for an expert."""

    def missed(factor: float, us: float, expert_us: float) -> F64:
        steps = []
        for c in cases:
            least = (us + expert_us * c.launches) / 1e3
            longer = np.maximum(least, np.where(c.of_experts, factor, 1.0) * c.operations)
            steps.append(c.step(factors) + (longer - c.operations) @ c.count)
        return np.abs(np.log(np.array(steps) / [c.published for c in cases]))

    off = {(f, us, e): missed(f, us, e) for f in EXPERTS for us in EACH_US for e in EXPERT_US}
    least = min(float(o.mean()) for o in off.values())
    near = [triple for triple, o in off.items() if o.mean() <= NEAR * least]
    return min(near, key=lambda triple: float(np.median(off[triple])))


def cases_of(data: Path, framework: str, dense: bool) -> list[Case]:
    """The rows of a framework that are fitted on."""
    cases = []
    for row in training_rows(data):
        if (
            (row.framework, row.dense) != (framework, dense)
            or not row.fitted
            or row.gpus > MOST_GPUS
        ):
            continue
        try:
            cases.append(case_of(row))
        except (ChakraError, KeyError) as error:
            print(row.row["model"], row.row["system"], error, file=sys.stderr)
    return cases


def main(data: str, *frameworks: str) -> int:
    """Prints the factors of each framework, and the host's time for experts beside them."""
    for framework in frameworks or ("llm-foundry", "torchtitan", "torchtitan-rowwise", "megatron"):
        cases = cases_of(Path(data), framework, dense=True)
        factors = fitted(cases)
        print(framework, len(cases), dict(zip(NAMES, factors.round(2).tolist(), strict=True)))
        for system in sorted({c.row.row["system"] for c in cases}):
            left = [c.step(factors) / c.published for c in cases if c.row.row["system"] == system]
            print("  ", system, len(left), f"predicted over published {np.median(left):.3f}")
        if framework == "megatron":
            experts = cases_of(Path(data), "megatron-eager", dense=False)
            print(
                "megatron-eager",
                len(experts),
                "experts, experts_us, expert_us",
                experts_of(experts, factors),
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
