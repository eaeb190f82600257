"""Fits the constants of serving engines: `python benchmarks/fit_serving.py FILE.parquet [OUT.json]`.

One set of constants for each system and backend, from the published rows whose id has an even CRC-32 (see
accuracy/serving_silicon.py, which tests on the others). A closed loop in its steady state is two kinds
of steps: those that only decode, and those with a prompt beside the decodes. That is quick enough to try
thousands of constants; how far it is from the engine itself is found out by serving every row with the
constants so far, and the fit is repeated with that ratio. Absolute errors of logarithms are minimised, so
that single rows that are off by a factor do not decide.
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
    MOST_FOR_TTFT,
    layout,
    machine,
    quantization,
    rows_of,
    serve_row,
)

from chakrakit.errors import ChakraError
from chakrakit.serving import EngineLayout
from chakrakit.serving.calibration import Constants
from chakrakit.serving.plan import serving_step
from chakrakit.serving.steps import StepOperators, times_on
from chakrakit.workloads.description import Mesh
from chakrakit.workloads.models import model_named

NAMES = Constants.__struct_fields__
LOW = np.array([0.2, 0.3, 0.5, 0.05, 0.3, 0.0, 0.0, 0.0])
HIGH = np.array([1.0, 1.0, 10.0, 1.0, 1.0, 8.0, 0.2, 400.0])
"""Between these constants are looked for, in the order and the units of `Constants`."""
MOST_SERVED = 64
"""Rows of a larger concurrency are not served to correct the quick model: they take minutes."""
ROUNDS = 3


@dataclass
class Case:
    """A row, and what its two kinds of steps consist of."""

    row: dict[str, Any]
    steps: list[tuple[np.ndarray, np.ndarray, np.ndarray, float]]
    """Of each kind: times of arithmetic and of traffic at the data sheet's rates, counts, collectives."""
    attention: Any
    batch: int
    ratio: tuple[float, float] = (1.0, 1.0)
    """TTFT and TPOT of the engine over those of the quick model."""

    @property
    def is_for_ttft(self) -> bool:
        return self.row["concurrency"] <= MOST_FOR_TTFT


def case_of(row: dict[str, Any]) -> Case:
    """The operators of a decoding step and of one with a prompt, at a row's sizes."""
    place = machine(MACHINES[row["system"]])
    device = place.devices[0]
    model = model_named(next(name for part, name in MODELS.items() if part in row["model_path"]))
    degrees = layout(row)
    plan = EngineLayout(**degrees).plan(degrees["tp"], model)
    kind = quantization(row)
    operators = StepOperators(model, plan, serving_step("bf16", kind), kind == "fp4")
    mesh, together = Mesh(plan), times_on(place)
    batch = max(1, round(row["concurrency"] / degrees["dp"]))
    steps = []
    for tokens, sampled in ((batch, batch), (row["isl"] + batch, batch)):
        at = (
            np.array([float(tokens)]),
            np.array([float(sampled)]),
            operators.experts_met(np.array([float(tokens)])),
        )
        work, comm = [], 0.0
        for o in operators.operators:
            if o.comm >= 0:
                size, members = o.comm_size.at(*at), mesh.members(o.role)[0]
                comm += o.count * float(together.seconds(o.comm, size, members)[0])
            elif o.op not in ("send", "recv"):
                rate = device.peak_rate(o.dtype)
                moved = o.bytes.at(*at)[0] / device.memory_bandwidth
                work.append((o.flops.at(*at)[0] / rate, moved, o.count))
        steps.append((*(np.array(column) for column in zip(*work, strict=True)), comm))
    a = operators.attention
    rate, bandwidth = device.peak_rate(a.dtype), device.memory_bandwidth
    sizes = (a.layers, a.flops_per_pair / rate, a.bytes_per_token / bandwidth, a.bytes_per_context / bandwidth)  # fmt: skip # noqa: E501
    return Case(row, steps, sizes, batch)


class Group:
    """All cases of a system and backend as arrays, so that constants are tried on them at once."""

    def __init__(self, cases: list[Case]) -> None:
        self.cases = cases
        width = max(len(case.steps[0][0]) for case in cases)
        self.steps = [
            [np.array([_padded(c.steps[k][part], width) for c in cases]) for part in range(3)]
            + [np.array([c.steps[k][3] for c in cases])]
            for k in range(2)
        ]
        self.attention = np.array([case.attention for case in cases]).T
        columns = ("isl", "osl", "ttft_ms", "tpot_ms")
        self.isl, self.osl, self.ttft, self.tpot = (
            np.array([case.row[n] for case in cases], float) for n in columns
        )
        self.batch = np.array([case.batch for case in cases], float)
        self.early = np.array([case.is_for_ttft for case in cases])

    def quick(self, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """TTFT and TPOT in milliseconds of the steady state; a prompt comes for every output that ends."""
        compute, memory, least, attention_compute, attention_memory, serial, each, frontend = c
        context = self.isl + self.osl / 2
        layers, per_pair, per_token, per_context = self.attention
        times = []
        for (flops, moved, count, comm), prompt in zip(self.steps, (0, self.isl), strict=True):
            own = count * np.maximum(np.maximum(flops / compute, moved / memory), least * 1e-6)
            pairs = self.batch * context + prompt * prompt / 2
            traffic = (self.batch + prompt) * per_token + self.batch * context * per_context
            kernel = np.maximum(pairs * per_pair / attention_compute, traffic / attention_memory)
            whole = own.sum(axis=1) + comm + layers * np.maximum(kernel, least * 1e-6)
            times.append(whole * 1e3 + serial + each * self.batch)
        decode, mixed = times
        return mixed + 0.5 * decode + frontend, decode + self.batch / self.osl * (mixed - decode)

    def loss(self, c: np.ndarray) -> float:
        """Mean absolute errors of logarithms, cut off at a factor of two; TPOT counts three times."""
        ttft, tpot = self.quick(c)
        ratio = np.array([case.ratio for case in self.cases]).T
        each = np.abs(np.log(tpot * ratio[1] / self.tpot))
        own = (ttft - c[-1]) * ratio[0] + c[-1]
        first = np.abs(np.log(own / self.ttft))[self.early]
        late = np.minimum(first, 0.7).mean() / 3 if len(first) else 0.0
        return float(np.minimum(each, 0.7).mean() + late)


def _padded(values: np.ndarray, width: int) -> np.ndarray:
    return np.pad(values, (0, width - len(values)))


def fitted(group: Group, start: np.ndarray, seed: int = 0) -> np.ndarray:
    """A search along one constant after another with ever smaller steps, from several places."""
    rng = np.random.default_rng(seed)
    best, least = start, group.loss(start)
    for trial in range(4):
        here = best if trial == 0 else LOW + (HIGH - LOW) * rng.random(len(LOW)) ** 2
        value, step = group.loss(here), 0.25
        while step > 0.004:
            moved = False
            for i in rng.permutation(len(LOW)):
                for sign in (1, -1):
                    there = here.copy()
                    there[i] = np.clip(there[i] + sign * step * (HIGH - LOW)[i], LOW[i], HIGH[i])
                    if (found := group.loss(there)) < value - 1e-6:
                        here, value, moved = there, found, True
            step = step if moved else step / 2
        if value < least:
            best, least = here, value
    return best


def correct(group: Group, c: np.ndarray) -> None:
    """Finds the ratio of engine and quick model for rows that are served in seconds."""
    constants = Constants(**dict(zip(NAMES, c.tolist(), strict=True)))
    for case, first, each in zip(group.cases, *group.quick(c), strict=True):
        if case.row["concurrency"] > MOST_SERVED:
            continue
        try:
            ttft, tpot = serve_row(case.row, constants, waves=3)
        except ChakraError:
            continue
        case.ratio = ((ttft - c[-1]) / max(first - c[-1], 1e-9), tpot / each)


def main(path: str, output: str = "constants.json") -> None:
    """Prints what comes out, and writes the file of constants."""
    groups: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for row in rows_of(path, "even"):
        groups[row["system"], row["backend"]].append(case_of(row))
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for (system, backend), cases in sorted(groups.items()):
        group = Group(cases)
        c = fitted(group, (LOW + HIGH) / 2)
        for turn in range(ROUNDS - 1):
            correct(group, c)
            c = fitted(group, c, turn + 1)
        name = machine(MACHINES[system]).devices[0].name
        found[name][backend] = {n: float(f"{v:.3g}") for n, v in zip(NAMES, c, strict=True)}
        print(system, backend, len(cases), f"{group.loss(c):.3f}", found[name][backend], flush=True)
        Path(output).write_text(json.dumps({"fitted_on": ABOUT, "systems": found}, indent=2) + "\n")


ABOUT = (
    "Time to first token and time per output token of aggregated configurations of Llama-3.1, Qwen3 and "
    "DeepSeek-V3 and -R1 published with AIConfigurator (commit 095f58a, silicon_sample.csv, Apache-2.0): the "
    "half of the rows whose id has an even CRC-32; the other half is for testing. Fitted by "
    "benchmarks/fit_serving.py, with the engines' own all-reduce on the preset machines."
)

if __name__ == "__main__":
    main(*sys.argv[1:])
