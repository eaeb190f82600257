"""Fits what frameworks add to kernels: `python benchmarks/fit_frameworks.py DATA [FRAMEWORK…]`.

Rows of published training runs whose configuration has an even CRC-32 (accuracy/training.py tests on the
others) are simulated once with kernels, and casts of narrow operands (`cast_bytes`, which is not fitted: 2
bytes read, 1 written as it lies and 1 transposed). The step is split along its critical path into classes of
work and the rest, communication; the factors that bring these sums closest to the published times are looked
for one at a time, each held near 1, and those that gain less than 2 % stay 1, so that a class that rows
hardly show stays as it is. Dense models alone give
the factors of `megatron`. Beside them experts that a host launches have a factor on their products
(`experts`) and on what streams around them (`expert_vector`), a least time for each operation (`experts_us`,
measured elsewhere) and for each expert of a narrow product (`expert_us`), and what both are multiplied with
where two passes take turns (`turns`), over the operations of a stage in the middle: of the choices within 2 %
of the least mean error, the one with the least median, because the mean is flat and some rows are regressions
of one release.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "accuracy"))

from training import TrainingRow, training_rows

from chakrakit.arrays import F64, I64, Mask
from chakrakit.errors import ChakraError
from chakrakit.machines.device.framework import Framework, frameworks, launches_of, of_experts
from chakrakit.simulator.engine import COMPUTE, Outcome, Program

NAMES = (
    "products",
    "narrow_products",
    "attention",
    "context_attention",
    "vector",
    "optimizer",
    "fp4_products",
)
REST = len(NAMES)
CASTS = {"megatron": 4.0}
"""Bytes that a framework moves for each element of a narrow product's operand."""
HELD = 0.002
"""What a factor's logarithm costs, in mean logarithms of errors."""
PEER = 5
"""The reason of rows that waited for a peer."""
CHOICES = {
    "experts": (1.0, 1.1, 1.2, 1.3, 1.4),
    "expert_vector": (1.0, 1.5, 2.0, 2.5, 3.0),
    "experts_us": (31.0,),
    "expert_us": (12.0, 18.0, 24.0, 30.0, 36.0, 42.0, 48.0),
    "turns": (1.0, 1.5, 2.0, 2.5, 3.0, 3.5),
}
"""What experts that a host launches are tried with. `experts_us` is what a host takes for an operator of
eager programs (docs/simulator.md), because rows of few tokens, which would show it, are on the other
half; left free it is the least that was tried (5 µs, a mean error of 10.0 instead of 11.7 %)."""
NEAR = 1.02
"""Mean errors up to this multiple of the least count as equal."""


class Case(NamedTuple):
    """A row's step in ms by class along its critical path, what was published, and single operations."""

    row: TrainingRow
    parts: F64
    published: float
    operations: F64
    """Milliseconds of computing rows of a stage in the middle."""
    of_experts: Mask
    """Which of them are of experts."""
    products: Mask
    """Which of them are products."""
    launches: I64
    """How many experts narrow products are of."""
    passes: float
    """How often the published step takes as long as they do."""
    beside: bool
    """Whether a forward and a backward take turns."""

    def step(self, factors: F64) -> float:
        p, f = self.parts, factors
        return float(
            p[0] * f[0] + (p[1] + p[6] * f[6]) * f[1] + (p[2] + p[3] * f[3]) * f[2]
            + p[4] * f[4] + p[5] * f[5] + p[REST]
        )  # fmt: skip

    def launched(self, experts: dict[str, float]) -> float:
        """Milliseconds that experts add which a host launches."""
        eager = self.row.framework == "megatron-eager"
        least = experts["experts_us"] * (self.of_experts | eager)
        least = (least + experts["expert_us"] * self.launches) * (
            experts["turns"] if self.beside else 1
        )
        factor = np.where(self.products, experts["experts"], experts["expert_vector"])
        longer = np.where(self.of_experts, factor, 1.0) * self.operations
        return float((np.maximum(least / 1e3, longer) - self.operations).sum() * self.passes)


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
    product = out == NAMES.index("products")
    for name, kind in (("narrow_products", "fp8"), ("fp4_products", "fp4")):
        narrow = np.isin(types, [i for i, n in enumerate(dtypes) if n == kind])
        out[product & narrow] = NAMES.index(name)
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


def case_of(row: TrainingRow, casts: float) -> Case:
    """The parts of a row's step."""
    frameworks()["casts"] = Framework(about="casts alone", cast_bytes=casts)
    weights = row.micro_batches()
    outcomes = {n: row.simulated("casts", n).outcome for n in weights}
    parts = np.sum([path_parts(outcomes[n]) * weights[n] for n in weights], axis=0)
    count, outcome = max(outcomes.items())
    middle = outcome.classes.count // 2
    program = outcome.program(middle)
    works, trace = program.kind == COMPUTE, program.trace
    kinds, names = trace.texts("op_type")
    products = np.array([*(n == "matmul" for n in names), False])[kinds]
    w = row.workload()
    narrow = launches_of(trace) * bool(w.step.matmul_dtype)
    tokens = w.step.global_batch * w.step.seq
    micro_batches = w.step.global_batch / (w.plan.dp * w.step.micro_batch)
    passes = (micro_batches + (w.plan.pp - 1) / w.plan.chunks) / count
    durations = outcome.durations[outcome.rows(middle)][works] * 1e-9
    return Case(
        row,
        parts,
        tokens / row.published / row.gpus * 1e3,
        durations,
        of_experts(trace)[works],
        products[works],
        narrow[works],
        passes,
        w.plan.exchange_overlap,
    )


def fitted(cases: list[Case]) -> F64:
    """The fewest factors with about the least mean error of logarithms; the others are 1."""
    free = np.ones(len(NAMES), np.bool_)
    best, factors = _found(cases, free, np.ones(len(NAMES)))
    while True:
        fewer = [free & (np.arange(len(free)) != k) for k in np.flatnonzero(factors != 1.0)]
        tried = [(*_found(cases, mask, factors), mask) for mask in fewer]
        loss, x, mask = min(tried, key=lambda t: t[0], default=(np.inf, factors, free))
        if loss > NEAR * best:
            return factors
        factors, free = x, mask


def _found(cases: list[Case], free: Mask, start: F64) -> tuple[float, F64]:
    """The least mean error, with what keeps factors near 1, and the factors that have it."""

    def loss(x: F64) -> float:
        missed = [abs(np.log(c.step(x) / c.published)) for c in cases]
        return float(np.mean(missed) + HELD * np.abs(np.log(x)).sum())

    x, step = np.where(free, start, 1.0), 0.5
    while step > 0.01:
        trials = [
            x * np.where(np.arange(len(x)) == k, change, 1.0)
            for k in np.flatnonzero(free)
            for change in (1 + step, 1 / (1 + step))
        ]
        trials = [np.maximum(trial, 1.0) for trial in trials]  # a framework adds to kernels
        best = min(trials, key=loss, default=x)
        x, step = (best, step) if loss(best) < loss(x) - 1e-6 else (x, step / 2)
    return loss(x), x


def experts_of(cases: list[Case], factors: F64) -> dict[str, float]:
    """What experts take that a host launches."""
    published = np.array([c.published for c in cases])
    kernels = np.array([c.step(factors) for c in cases])
    tried = []
    for values in itertools.product(*CHOICES.values()):
        choice = dict(zip(CHOICES, values, strict=True))
        steps = kernels + [c.launched(choice) for c in cases]
        tried.append((np.abs(np.log(steps / published)), choice))
    least = min(float(off.mean()) for off, _ in tried)
    near = [t for t in tried if t[0].mean() <= NEAR * least]
    return min(near, key=lambda t: float(np.median(t[0])))[1]


def cases_of(data: Path, names: tuple[str, ...], dense: bool) -> list[Case]:
    """The rows of frameworks that are fitted on."""
    cases = []
    for row in training_rows(data):
        if row.framework not in names or row.dense != dense or not row.fitted:
            continue
        try:
            cases.append(case_of(row, CASTS.get(names[0].partition("-")[0], 0.0)))
        except (ChakraError, KeyError) as error:
            print(row.row["model"], row.row["system"], error, file=sys.stderr)
    return cases


def main(data: str, *frameworks: str) -> int:
    """Prints the factors of each framework, and the host's time for experts beside them."""
    for framework in frameworks or ("llm-foundry", "torchtitan", "torchtitan-rowwise", "megatron"):
        cases = cases_of(Path(data), (framework,), dense=True)
        factors = fitted(cases)
        print(framework, len(cases), dict(zip(NAMES, factors.round(2).tolist(), strict=True)))
        for system in sorted({c.row.row["system"] for c in cases}):
            left = [c.step(factors) / c.published for c in cases if c.row.row["system"] == system]
            print("  ", system, len(left), f"predicted over published {np.median(left):.3f}")
        if framework == "megatron":
            experts = cases_of(Path(data), ("megatron-eager", "megatron-layers"), dense=False)
            print("experts", len(experts), experts_of(experts, factors))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
