"""Fits the constants of serving engines: `python benchmarks/fit_serving.py FILE.parquet [OUT.json]`.

One fit for each backend, from the published runs of the even half (see accuracy/serving_silicon.py, which
tests on the others) that neither decode speculatively nor fill their cache. What is published of two
systems differs also by day, version and client, and constants fitted for each alone make a chip lose to its
predecessor. So systems are fitted together, from the oldest to the newest: each has the constants of the
one before, held near them, and none that is worse: engine times that are no longer, and rates that are no
lower (shares may be). A closed loop in its steady state is two kinds of steps: those that only decode, and
those with a prompt beside the decodes. That is quick enough to try thousands of constants; how far it is
from the engine itself is found out by serving the rows with the constants so far, and the fit is repeated
with that ratio. Errors of logarithms are minimised, large ones counting less, so that single rows that are
off by a factor do not decide. Each constant is held near what is usual with the weight of `PRIOR`, so that
one that the rows say little of stays plausible.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
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
from chakrakit.serving.session import attention_kinds
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
SYSTEMS = ("h100_sxm", "h200_sxm", "b200_sxm")
"""From the oldest: each has at least the rates of those before it."""
RATES = {
    "compute_efficiency": "peak",
    "memory_efficiency": "memory",
    "attention_compute_efficiency": "peak",
    "attention_memory_efficiency": "memory",
    "cache8_efficiency": "",
    "expert_compute_efficiency": "peak",
    "expert_memory_efficiency": "memory",
}
"""Constants that are shares, and the rate of the data sheet that each is a share of; others are times."""
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
        """Errors of logarithms of TPOT and TTFT."""
        ttft, tpot = self.quick(values)
        ratio = np.array([case.ratio for case in self.cases]).T
        frontend = values[-1]
        each = np.log(tpot * ratio[1] / self.tpot)
        first = np.log(((ttft - frontend) * ratio[0] + frontend) / self.ttft)
        return np.concatenate([_small(each, SMALL), TTFT_WEIGHT * _small(first, 3 * SMALL)])


class Backend:
    """All systems of a backend.

    A point has the logarithms of the oldest system's constants, and for each newer one the logarithms by
    which its times are shorter and its rates higher than those of the one before, all 0 or more.
    """

    def __init__(self, groups: dict[str, Group]) -> None:
        self.groups = {s: groups[s] for s in SYSTEMS if s in groups}
        self.share = np.array([name in RATES for name in NAMES])
        devices = [machine(MACHINES[s]).devices[0] for s in self.groups]
        rates = [
            {"peak": d.peak_rate("bf16"), "memory": d.memory_bandwidth, "": 1.0} for d in devices
        ]
        self.faster = [
            np.array([np.log(new[RATES[n]] / old[RATES[n]]) if n in RATES else 0.0 for n in NAMES])
            for old, new in pairwise(rates)
        ]
        """By how much each system's rates are higher on the data sheet; shares are equal there."""
        steps = len(self.faster)
        self.low = np.concatenate([np.log(LOW), *[np.zeros(len(NAMES))] * steps])
        self.high = np.concatenate([np.log(HIGH), *[np.full(len(NAMES), np.log(10.0))] * steps])

    @property
    def start(self) -> np.ndarray:
        """What is usual, on every system."""
        return np.concatenate([np.log(USUAL), *self.faster])

    def constants(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """The constants of every system, in the order of `NAMES`."""
        here, *better = point.reshape(-1, len(NAMES))
        found = [here]
        for more, faster in zip(better, self.faster, strict=True):
            here = np.where(self.share, here + more - faster, here - more)
            here = np.minimum(here, np.log(HIGH))
            found.append(here)
        return {s: np.exp(x) for s, x in zip(self.groups, found, strict=True)}

    def residuals(self, point: np.ndarray) -> np.ndarray:
        """Errors of all rows, and how far constants are from what is usual and from the system before."""
        values = self.constants(point)
        errors = [g.residuals(values[s]) for s, g in self.groups.items()]
        held = (point - self.start).reshape(-1, len(NAMES)) * PRIOR * FIRM
        return np.concatenate([*errors, held.ravel()])


def _padded(values: np.ndarray, width: int) -> np.ndarray:
    return np.pad(values, (0, width - len(values)))


def _small(errors: np.ndarray, scale: float) -> np.ndarray:
    """Errors of which the square grows ever less beyond a scale, as in Cauchy's distribution."""
    return np.sign(errors) * scale * np.sqrt(np.log1p((errors / scale) ** 2))


def best_fit(backend: Backend, start: np.ndarray) -> np.ndarray:
    """The best of fits that begin with launches slow and quick: where they bind nothing, no slope shows."""
    launch = np.zeros(len(start))
    launch[: len(NAMES)] = [name.startswith("prompt_") for name in NAMES]
    starts = [start + np.log(f) * launch for f in (0.3, 1.0, 3.0, 8.0)]
    fits = [fitted(backend, np.clip(s, backend.low, backend.high)) for s in starts]
    return min(fits, key=lambda c: float(np.square(backend.residuals(c)).sum()))


def fitted(backend: Backend, start: np.ndarray) -> np.ndarray:
    """Levenberg's and Marquardt's method, within the ranges."""
    here, damping = start, 1e-2
    errors = backend.residuals(here)
    for _ in range(80):
        slopes = np.array([_slope(backend, here, i, errors) for i in range(len(here))]).T
        square, down = slopes.T @ slopes, slopes.T @ errors
        # What would leave its range stays where it is, so that the others still move.
        free = ~(((here <= backend.low) & (down > 0)) | ((here >= backend.high) & (down < 0)))
        part = square[np.ix_(free, free)]
        step = np.zeros(len(here))
        step[free] = np.linalg.solve(part + damping * np.diag(np.diag(part) + 1e-6), -down[free])
        there = np.clip(here + np.clip(step, -0.5, 0.5), backend.low, backend.high)
        found = backend.residuals(there)
        if found @ found < errors @ errors:
            gain = 1 - (found @ found) / (errors @ errors)
            here, errors, damping = there, found, max(damping / 3, 1e-6)
            if gain < 1e-5:
                break
        elif (damping := damping * 4) > 1e6:
            break
    return here


def _slope(backend: Backend, here: np.ndarray, i: int, errors: np.ndarray) -> np.ndarray:
    step = 1e-4 if here[i] + 1e-4 <= backend.high[i] else -1e-4
    there = here.copy()
    there[i] += step
    return (backend.residuals(there) - errors) / step


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
        attention=sorted({kind for m in models for kind in attention_kinds(m)}),
        experts=any(m.experts for m in models),
        precisions=sorted({quantization(c.row) or "bf16" for c in cases}),
    )


def main(path: str, output: str = "constants.json") -> None:
    """Prints what comes out, and writes the file of constants."""
    cases: dict[str, dict[str, list[Case]]] = defaultdict(lambda: defaultdict(list))
    for row in rows_of(path, "even"):
        if is_speculative(row) or is_compiling(row):
            continue
        try:
            case = case_of(row)
        except ChakraError:
            continue
        if case is not None:
            cases[row["backend"]][row["system"]].append(case)
    devices: dict[str, dict[str, Any]] = {}
    for name, by_system in sorted(cases.items()):
        backend = Backend({s: Group(c) for s, c in sorted(by_system.items())})
        point = best_fit(backend, backend.start)
        for _ in range(ROUNDS - 1):
            for system, values in backend.constants(point).items():
                correct(backend.groups[system], values)
            point = best_fit(backend, point)
        for system, values in backend.constants(point).items():
            _enter(devices, system, name, values, by_system[system])
        Path(output).write_text(
            json.dumps({"fitted_on": ABOUT, "devices": devices}, indent=1) + "\n"
        )


def _enter(
    devices: dict[str, dict[str, Any]],
    system: str,
    backend: str,
    values: np.ndarray,
    cases: list[Case],
) -> None:
    """Writes down the constants of a system, and the runs they were fitted on."""
    device = machine(MACHINES[system]).devices[0]
    sheet = {"peak": device.peak_rate("bf16"), "memory_bandwidth": device.memory_bandwidth}
    entry = devices.setdefault(device.name, {**sheet, "engines": {}})
    constants = {n: float(f"{v:.4g}") for n, v in zip(NAMES, values, strict=True)}
    region = region_of(cases)
    fields = {n: getattr(region, n) for n in region.__struct_fields__}
    entry["engines"][backend] = {"constants": constants, "region": fields}
    print(system, backend, len(cases), constants, flush=True)


ABOUT = (
    "Time to first token and time per output token of aggregated configurations of Llama-3.1, Qwen3 and "
    "DeepSeek-V3 and -R1 published with AIConfigurator (commit 095f58a, silicon_sample.csv, Apache-2.0): the "
    "half of the runs whose id has an even CRC-32, without those that decode speculatively or fill their "
    "cache; the other half is for testing. Fitted by benchmarks/fit_serving.py, with the engines' own "
    "all-reduce on the preset machines."
)

if __name__ == "__main__":
    main(*sys.argv[1:])
