"""Iteration times of Megatron-LM, generated and simulated on `dgx-a100` with the framework `megatron-lm`.

`python benchmarks/megatron.py` prints the ten rows of Narayanan et al. 2021 (arXiv 2104.04473, table 1)
beside a constant rate of 142 TFLOP/s, with the parts of each step. `python benchmarks/megatron.py fit` prints
where the framework's factor on products comes from: rows of another paper, Korthikanti et al. 2022 (arXiv
2205.05198, table 5: full recompute, and sequence parallelism with selective recompute).
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from chakrakit import load_machine
from chakrakit.arrays import F64
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import Simulation, simulate
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named
from fit_frameworks import NAMES, path_parts

CONSTANT = 142e12


class Row(NamedTuple):
    """A published step; micro-batches and chunks are those of Megatron-LM's examples/sc21/run_table_1.sh."""

    size: str
    tp: int
    pp: int
    dp: int
    batch: int
    micro_batch: int
    chunks: int
    seconds: float

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    def workload(self) -> Workload:
        """The step as Megatron-LM of 2021 ran it; gradients are reduced after backward, not beside it."""
        plan = Plan(
            tp=self.tp,
            pp=self.pp,
            dp=self.dp,
            schedule="interleaved" if self.chunks > 1 else "1f1b",
            chunks=self.chunks,
            sequence_parallel=False,
            weight_grads="separate",
            recompute="full",
            bucket_mb=1e6,
        )
        step = Step(
            global_batch=self.batch, micro_batch=self.micro_batch, dtype="fp16", grad_dtype="fp16"
        )
        return Workload(model=model_named(f"megatron-{self.size}"), plan=plan, step=step)


TABLE = [
    Row("1.7b", 1, 1, 32, 512, 16, 1, 3.528),
    Row("3.6b", 2, 1, 32, 512, 16, 1, 3.697),
    Row("7.5b", 4, 1, 32, 512, 16, 1, 3.696),
    Row("18.4b", 8, 1, 32, 1024, 8, 1, 9.399),
    Row("39.1b", 8, 2, 32, 1536, 4, 1, 14.45),
    Row("76.1b", 8, 4, 32, 1792, 2, 3, 16.06),
    Row("145.6b", 8, 8, 24, 2304, 2, 2, 24.82),
    Row("310.1b", 8, 16, 15, 2160, 1, 2, 37.61),
    Row("529.6b", 8, 35, 9, 2520, 1, 3, 54.09),
    Row("1008b", 8, 64, 6, 3072, 1, 1, 102.6),
]
# size, pp, chunks, batch, micro-batch, seconds with full and with selective recompute
LATER_TABLE = [
    ("22b", 1, 1, 4, 4, 1.42, 1.10),
    ("175b", 8, 3, 64, 1, 18.13, 13.75),
    ("530b", 35, 3, 280, 1, 49.05, 37.83),
    ("1t", 64, 1, 512, 1, 94.42, 71.49),
]


def simulated(workload: Workload, framework: str = "megatron-lm") -> Simulation:
    """One iteration on as many nodes of eight as it needs."""
    machine = load_machine(f"dgx-a100:{workload.plan.world // 8}")
    options = SimulationOptions(framework=framework)
    return simulate(generate(workload), machine, options=options)


def seconds(row: Row) -> float:
    """A row's step as simulated."""
    return simulated(row.workload()).makespan_ns / 1e9


def flops(row: Row) -> float:
    """Equation 3 of the paper: four passes."""
    m, s = row.workload().model, row.workload().step.seq
    d, layers = m.hidden, m.layers
    return 96 * row.batch * s * layers * d**2 * (1 + s / (6 * d) + m.vocab / (16 * layers * d))


def table() -> None:
    """Every row with the error of either estimate, and its parts in seconds along the critical path."""
    names = [n for n in NAMES if n not in ("narrow_products", "context_attention")]
    heads = ("GPUs", "published s", "simulated s", "error", "constant", *names, "rest")
    print(f"{'model':<8}" + "".join(f"{h:>12}" for h in heads))
    errors, constants = [], []
    for row in TABLE:
        result = simulated(row.workload())
        time = result.makespan_ns / 1e9
        errors.append(time / row.seconds - 1)
        constants.append(flops(row) / row.gpus / CONSTANT / row.seconds - 1)
        parts = dict(zip((*NAMES, "rest"), path_parts(result.outcome) / 1e3, strict=True))
        cells = (f"{row.gpus}", f"{row.seconds:.3f}", f"{time:.3f}")
        off = (f"{errors[-1]:+.1%}", f"{constants[-1]:+.1%}")
        shares = (f"{parts[n]:.3f}" for n in (*names, "rest"))
        print(f"{row.size:<8}" + "".join(f"{c:>12}" for c in (*cells, *off, *shares)), flush=True)
    mean = [float(np.abs(e).mean()) for e in (errors, constants)]
    print(f"mean of the errors' sizes: {mean[0]:.1%}; with a constant rate {mean[1]:.1%}")


def fit() -> None:
    """The factor on products that brings each row of the later table to its published time; their median."""
    factors = []
    for size, pp, chunks, batch, micro, *published in LATER_TABLE:
        for recompute, truth in zip(("full", "selective"), published, strict=True):
            plan = Plan(
                tp=8,
                pp=pp,
                schedule="interleaved" if chunks > 1 else "1f1b",
                chunks=chunks,
                recompute=recompute,
                sequence_parallel=recompute == "selective",
                save_gathered=False,
                bucket_mb=1e6,
            )
            step = Step(global_batch=batch, micro_batch=micro, dtype="fp16")
            workload = Workload(model=model_named(f"megatron-{size}"), plan=plan, step=step)
            parts: F64 = path_parts(simulated(workload, "").outcome) / 1e3
            products = float(parts[0])
            factors.append((products + truth - float(parts.sum())) / products)
            print(f"{size} {recompute}: {factors[-1]:.3f}", flush=True)
    print(f"median {np.median(factors):.3f}")


if __name__ == "__main__":
    fit() if sys.argv[1:] == ["fit"] else table()
