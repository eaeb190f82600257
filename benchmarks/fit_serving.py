"""Fits the constants of serving engines: `python benchmarks/fit_serving.py FILE.parquet [OUT.json]`.

One set of constants for each system and backend, from the published runs of the even half (see
accuracy/serving_silicon.py, which tests on the others) that neither decode speculatively nor fill their
cache. A closed loop in its steady state is two kinds of steps: those that only decode, and those with a
prompt beside the decodes. That is quick enough to try thousands of constants; how far it is from the engine
itself is found out by serving the rows with the constants so far, and the fit is repeated with that ratio.
Errors of logarithms are minimised, large ones counting less, so that single rows that are off by a factor do
not decide. Each constant is held near what is usual with the weight of `PRIOR`, so that one that the rows
say little of stays plausible.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "accuracy"))

from serving_silicon import (
    MACHINES,
    MODELS,
    by_inferencemax,
    is_compiling,
    is_speculative,
    layout,
    machine,
    quantization,
    rows_of,
    serve_row,
    session_of,
)

from chakrakit.errors import ChakraError
from chakrakit.serving.calibration import Constants, Region
from chakrakit.serving.session import attention_kind
from chakrakit.serving.steps import StepOperators, times_on
from chakrakit.workloads.description import Mesh
from chakrakit.workloads.models import model_named

NAMES = Constants.__struct_fields__
RANGES: dict[str, tuple[float, float, float, float]] = {
    "compute_efficiency": (0.1, 1.0, 0.6, 1.0),
    "memory_efficiency": (0.3, 1.0, 0.8, 2.0),
    "kernel_overhead_us": (0.3, 10.0, 2.0, 1.0),
    "attention_compute_efficiency": (0.05, 1.0, 0.4, 1.0),
    "attention_memory_efficiency": (0.3, 1.0, 0.8, 2.0),
    "attention_overhead_us": (1.0, 60.0, 12.0, 1.0),
    "cache8_efficiency": (0.4, 1.0, 0.7, 1.0),
    "expert_compute_efficiency": (0.05, 1.0, 0.5, 1.0),
    "expert_memory_efficiency": (0.2, 1.0, 0.7, 2.0),
    "expert_overhead_us": (0.3, 80.0, 8.0, 0.5),
    "serial_ms": (0.01, 8.0, 1.0, 0.5),
    "serial_per_request_ms": (0.0005, 0.2, 0.01, 0.5),
    "prompt_kernel_us": (1.0, 200.0, 15.0, 0.5),
    "prompt_expert_us": (1.0, 4000.0, 100.0, 0.5),
    "frontend_ms": (1.0, 400.0, 30.0, 0.5),
}
"""Of each constant the lowest and highest value, what is usual (kernels of attention take 10 µs at least and
products reach 0.6 to 0.8 of peak rate and bandwidth in the tables of one H200), and how firmly that holds."""
LOW, HIGH, USUAL, FIRM = (
    np.array(column) for column in zip(*(RANGES[n] for n in NAMES), strict=True)
)
PRIOR = 0.05
"""Weight of one unit of logarithm off the usual, against one of a row's error of time per token."""
TTFT_WEIGHT = 0.5
"""Times to the first token differ by 20 % between equal configurations, times per token by 5."""
SMALL = 0.08
"""Errors above this count less and less."""
MOST_SERVED = 4e6
"""Rows with more tokens to generate than this are not served to correct the quick model: they take long."""
ROUNDS = 4
WAVES = 10


@dataclass
class Case:
    """A row, and what its two kinds of steps consist of."""

    row: dict[str, Any]
    steps: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]]
    """Of each kind: times of arithmetic and of traffic at the data sheet's rates, counts, whether it is a
    product of experts; then collectives."""
    attention: np.ndarray
    batch: int
    isl: float
    osl: float
    narrow: bool
    """Whether the cache has one byte for each number."""
    kernels: int
    expert_products: int
    ratio: tuple[float, float] = (1.0, 1.0)
    """TTFT and TPOT of the engine over those of the quick model."""


def case_of(row: dict[str, Any]) -> Case | None:
    """The operators of a decoding step and of one with a prompt; None where the cache is too small."""
    place = machine(MACHINES[row["system"]])
    session = session_of(row, 1)
    operators = session.operators(session.layout.tp)
    batch = max(1, round(row["concurrency"] / session.layout.dp))
    share = 0.9 if by_inferencemax(row) else 1.0
    isl, osl = share * row["isl"], share * row["osl"]
    if batch * (isl + osl) > session.capacity(operators).tokens:
        return None
    narrow = session.engine.cache_dtype == "fp8"
    kinds = [_work(operators, place, tokens, batch) for tokens in (batch, isl + batch)]
    device = place.devices[0]
    bandwidth = device.memory_bandwidth
    attention = np.array(
        [
            (
                a.layers,
                a.layers * a.flops_per_pair / device.peak_rate(a.dtype),
                a.layers * a.bytes_per_token / bandwidth,
                a.layers * a.bytes_per_context / bandwidth,
            )
            for a in operators.attention
        ]
    ).sum(axis=0)
    return Case(
        row, kinds, attention, batch, isl, osl, narrow, operators.kernels, operators.expert_products
    )


def _work(
    operators: StepOperators, place: Any, tokens: float, sampled: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    device, mesh, together = place.devices[0], Mesh(operators.plan), times_on(place)
    count = np.array([float(tokens)])
    at = (count, np.array([float(sampled)]), operators.experts_met(count))
    work, comm = [], 0.0
    for o in operators.operators:
        if o.comm >= 0:
            size, members = o.comm_size.at(*at), mesh.members(o.role)[0]
            comm += o.count * float(together.seconds(o.comm, size, members)[0])
        elif o.op not in ("send", "recv"):
            rate = device.peak_rate(o.dtype)
            moved = o.bytes.at(*at)[0] / device.memory_bandwidth
            work.append((o.flops.at(*at)[0] / rate, moved, o.count, o.routed and o.op == "matmul"))
    flops, moved, counts, routed = (np.array(column, float) for column in zip(*work, strict=True))
    return flops, moved, counts, routed, comm


class Group:
    """All cases of a system and backend as arrays, so that constants are tried on them at once."""

    def __init__(self, cases: list[Case]) -> None:
        self.cases = cases
        width = max(len(case.steps[0][0]) for case in cases)
        self.steps = [
            [np.array([_padded(c.steps[k][part], width) for c in cases]) for part in range(4)]
            + [np.array([c.steps[k][4] for c in cases])]
            for k in range(2)
        ]
        self.attention = np.array([case.attention for case in cases]).T
        self.batch, self.isl, self.osl, self.narrow, self.kernels, self.expert_products = (
            np.array([getattr(case, n) for case in cases], float)
            for n in ("batch", "isl", "osl", "narrow", "kernels", "expert_products")
        )
        self.ttft, self.tpot = (
            np.array([case.row[n] for case in cases], float) for n in ("ttft_ms", "tpot_ms")
        )

    def quick(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """TTFT and TPOT in milliseconds of the steady state; a prompt comes for every output that ends."""
        c = dict(zip(NAMES, values, strict=True))
        context = self.isl + self.osl / 2
        layers, per_pair, per_token, per_context = self.attention
        bandwidth = c["attention_memory_efficiency"] * np.where(
            self.narrow > 0, c["cache8_efficiency"], 1.0
        )
        times = []
        for (flops, moved, count, routed, comm), prompt in zip(
            self.steps, (0, self.isl), strict=True
        ):
            compute, memory, overhead = (
                np.where(routed > 0, c[f"expert_{n}"], c[usual])
                for n, usual in (
                    ("compute_efficiency", "compute_efficiency"),
                    ("memory_efficiency", "memory_efficiency"),
                    ("overhead_us", "kernel_overhead_us"),
                )
            )
            own = count * (np.maximum(flops / compute, moved / memory) + overhead * 1e-6)
            pairs = self.batch * context + prompt * prompt / 2
            traffic = (self.batch + prompt) * per_token + self.batch * context * per_context
            kernel = np.maximum(
                pairs * per_pair / c["attention_compute_efficiency"], traffic / bandwidth
            )
            whole = own.sum(axis=1) + comm + kernel + layers * c["attention_overhead_us"] * 1e-6
            times.append(whole * 1e3 + c["serial_ms"] + c["serial_per_request_ms"] * self.batch)
        launch = c["prompt_kernel_us"] * self.kernels + c["prompt_expert_us"] * self.expert_products
        decode, mixed = times[0], np.maximum(times[1], launch * 1e-3)
        first = mixed + 0.5 * decode + c["frontend_ms"]
        return first, decode + self.batch / self.osl * (mixed - decode)

    def residuals(self, values: np.ndarray) -> np.ndarray:
        """Errors of logarithms of TPOT and TTFT, and of the constants from what is usual."""
        ttft, tpot = self.quick(values)
        ratio = np.array([case.ratio for case in self.cases]).T
        frontend = values[-1]
        each = np.log(tpot * ratio[1] / self.tpot)
        first = np.log(((ttft - frontend) * ratio[0] + frontend) / self.ttft)
        held = PRIOR * FIRM * np.log(values / USUAL)
        return np.concatenate([_small(each, SMALL), TTFT_WEIGHT * _small(first, 3 * SMALL), held])


def _padded(values: np.ndarray, width: int) -> np.ndarray:
    return np.pad(values, (0, width - len(values)))


def _small(errors: np.ndarray, scale: float) -> np.ndarray:
    """Errors of which the square grows ever less beyond a scale, as in Cauchy's distribution."""
    return np.sign(errors) * scale * np.sqrt(np.log1p((errors / scale) ** 2))


def best_fit(group: Group, start: np.ndarray) -> np.ndarray:
    """The best of fits that begin with launches slow and quick: where they bind nothing, no slope shows."""
    launch = np.array([name.startswith("prompt_") for name in NAMES])
    starts = [start * np.where(launch, f, 1.0) for f in (0.3, 1.0, 3.0, 8.0)]
    fits = [fitted(group, np.clip(s, LOW, HIGH)) for s in starts]
    return min(fits, key=lambda c: float(np.square(group.residuals(c)).sum()))


def fitted(group: Group, start: np.ndarray) -> np.ndarray:
    """Levenberg's and Marquardt's method in the logarithms of the constants, within their ranges."""
    here, damping = np.log(start), 1e-2
    errors = group.residuals(np.exp(here))
    for _ in range(80):
        slopes = np.array([_slope(group, here, i, errors) for i in range(len(here))]).T
        square, down = slopes.T @ slopes, slopes.T @ errors
        step = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-6), -down)
        there = np.clip(here + np.clip(step, -0.5, 0.5), np.log(LOW), np.log(HIGH))
        found = group.residuals(np.exp(there))
        if found @ found < errors @ errors:
            gain = 1 - (found @ found) / (errors @ errors)
            here, errors, damping = there, found, max(damping / 3, 1e-6)
            if gain < 1e-5:
                break
        elif (damping := damping * 4) > 1e6:
            break
    return np.exp(here)


def _slope(group: Group, here: np.ndarray, i: int, errors: np.ndarray) -> np.ndarray:
    step = 1e-4 if here[i] + 1e-4 <= np.log(HIGH[i]) else -1e-4
    there = here.copy()
    there[i] += step
    return (group.residuals(np.exp(there)) - errors) / step


def correct(group: Group, c: np.ndarray) -> None:
    """Finds the ratio of engine and quick model for rows that are served in about a second."""
    constants = Constants(**dict(zip(NAMES, c.tolist(), strict=True)))
    for case, first, each in zip(group.cases, *group.quick(c), strict=True):
        if case.row["concurrency"] * case.row["osl"] * WAVES > MOST_SERVED:
            continue
        try:
            ttft, tpot = serve_row(case.row, constants, WAVES)
        except ChakraError:
            continue
        case.ratio = (max(ttft - c[-1], 1e-3) / max(first - c[-1], 1e-3), tpot / each)


def region_of(cases: list[Case]) -> Region:
    """The runs that constants are fitted on."""
    models = [
        model_named(next(n for part, n in MODELS.items() if part in c.row["model_path"]))
        for c in cases
    ]

    def span(values: list[int]) -> tuple[int, int]:
        return min(values), max(values)

    return Region(
        runs=len(cases),
        requests=span([c.batch for c in cases]),
        prompt=span([c.row["isl"] for c in cases]),
        output=span([c.row["osl"] for c in cases]),
        tp=span([layout(c.row)["tp"] for c in cases]),
        attention=sorted({attention_kind(m) for m in models}),
        experts=any(m.experts for m in models),
        precisions=sorted({quantization(c.row) or "bf16" for c in cases}),
    )


def main(path: str, output: str = "constants.json") -> None:
    """Prints what comes out, and writes the file of constants."""
    groups: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for row in rows_of(path, "even"):
        if is_speculative(row) or is_compiling(row):
            continue
        try:
            case = case_of(row)
        except ChakraError:
            continue
        if case is not None:
            groups[row["system"], row["backend"]].append(case)
    devices: dict[str, dict[str, Any]] = {}
    for (system, backend), cases in sorted(groups.items()):
        group = Group(cases)
        c = best_fit(group, USUAL)
        for _ in range(ROUNDS - 1):
            correct(group, c)
            c = best_fit(group, c)
        device = machine(MACHINES[system]).devices[0]
        entry = devices.setdefault(
            device.name,
            {
                "peak": device.peak_rate("bf16"),
                "memory_bandwidth": device.memory_bandwidth,
                "engines": {},
            },
        )
        constants = {n: float(f"{v:.3g}") for n, v in zip(NAMES, c, strict=True)}
        region = region_of(cases)
        fields = {n: getattr(region, n) for n in region.__struct_fields__}
        entry["engines"][backend] = {"constants": constants, "region": fields}
        print(system, backend, len(cases), constants, flush=True)
        Path(output).write_text(
            json.dumps({"fitted_on": ABOUT, "devices": devices}, indent=1) + "\n"
        )


ABOUT = (
    "Time to first token and time per output token of aggregated configurations of Llama-3.1, Qwen3 and "
    "DeepSeek-V3 and -R1 published with AIConfigurator (commit 095f58a, silicon_sample.csv, Apache-2.0): the "
    "half of the runs whose id has an even CRC-32, without those that decode speculatively or fill their "
    "cache; the other half is for testing. Fitted by benchmarks/fit_serving.py, with the engines' own "
    "all-reduce on the preset machines."
)

if __name__ == "__main__":
    main(*sys.argv[1:])
