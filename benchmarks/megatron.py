"""Iteration times of Megatron-LM, generated and simulated on `dgx-a100`.

`python benchmarks/megatron.py` prints the ten rows of Narayanan et al. 2021 (arXiv 2104.04473, table 1)
beside a constant rate of 142 TFLOP/s. `python benchmarks/megatron.py fit` prints where the two constants
come from: the least squares over four rows of another paper, Korthikanti et al. 2022 (arXiv 2205.05198,
table 5: 22B and 175B, full recompute, and sequence parallelism with selective recompute).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import chakrakit
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

COMPUTE, MEMORY = 0.67, 0.65
"""Parts of the peak rate and of the memory's bandwidth that kernels reach: what `fit` finds."""
CONSTANT = 142e12

# billions, tp, pp, dp, batch, seconds
TABLE = [
    ("1.7b", 1, 1, 32, 512, 3.528),
    ("3.6b", 2, 1, 32, 512, 3.697),
    ("7.5b", 4, 1, 32, 512, 3.696),
    ("18.4b", 8, 1, 32, 1024, 9.399),
    ("39.1b", 8, 2, 32, 1536, 14.45),
    ("76.1b", 8, 4, 32, 1792, 16.06),
    ("145.6b", 8, 8, 24, 2304, 24.82),
    ("310.1b", 8, 16, 15, 2160, 37.61),
    ("529.6b", 8, 35, 9, 2520, 54.09),
    ("1008b", 8, 64, 6, 3072, 102.6),
]
# size, pp, chunks, batch, micro-batch, seconds with full and with selective recompute
OTHER_TABLE = [("22b", 1, 1, 4, 4, 1.42, 1.10), ("175b", 8, 3, 64, 1, 18.13, 13.75)]
COMMON = {"bucket_mb": 1e6}  # gradients were reduced after backward, not beside it


def machine(nodes: int, compute: float, memory: float) -> str:
    """The preset with this many nodes and these efficiencies, as a file."""
    import yaml

    preset = Path(chakrakit.__file__).parent / "machines" / "presets" / "dgx-a100.yaml"
    text = yaml.safe_load(preset.read_text())
    text["nodes"] = nodes
    text["device"] |= {"compute_efficiency": compute, "memory_efficiency": memory, "achieved": {}}
    path = Path(tempfile.mkdtemp()) / "machine.yaml"
    path.write_text(yaml.safe_dump(text))
    return str(path)


def seconds(workload: Workload, compute: float, memory: float) -> float:
    """One iteration on as many nodes of eight as it needs."""
    from chakrakit.simulator.results import simulate

    place = machine(workload.plan.world // 8, compute, memory)
    return simulate(generate(workload), place, compute="roofline").makespan_ns / 1e9


def shipped_seconds(workload: Workload) -> float:
    """The same on `dgx-a100` as it is shipped, kernels alone."""
    from chakrakit import load_machine
    from chakrakit.simulator.results import simulate

    place = load_machine(f"dgx-a100:{workload.plan.world // 8}")
    return simulate(generate(workload), place).makespan_ns / 1e9


def candidates(size: str, tp: int, pp: int, dp: int, batch: int) -> Iterator[Workload]:
    """The row with each micro-batch; the paper does not say which it took."""
    for micro in (1, 2, 4, 8) if pp < 8 else (1, 2) if pp < 16 else (1,):
        if (batch // dp) % micro == 0:
            plan = Plan(tp=tp, pp=pp, dp=dp, sequence_parallel=False, recompute="full", **COMMON)
            step = Step(global_batch=batch, micro_batch=micro, dtype="fp16", grad_dtype="fp16")
            yield Workload(model=model_named(f"megatron-{size}"), plan=plan, step=step)


def flops(workload: Workload) -> float:
    """Equation 3 of the paper: four passes."""
    m, b, s = workload.model, workload.step.global_batch, workload.step.seq
    d, layers = m.hidden, m.layers
    return 96 * b * s * layers * d**2 * (1 + s / (6 * d) + m.vocab / (16 * layers * d))


def table() -> None:
    """Every row, the fastest micro-batch, and the error of either estimate."""
    heads = ("GPUs", "micro", "published s", "simulated s", "error", "constant")
    print(f"{'model':<8}" + "".join(f"{h:>12}" for h in heads))
    errors, constants = [], []
    for size, tp, pp, dp, batch, published in TABLE:
        workloads = list(candidates(size, tp, pp, dp, batch))
        found = [(seconds(w, COMPUTE, MEMORY), w.step.micro_batch) for w in workloads]
        time, micro = min(found)
        plain = flops(workloads[0]) / (tp * pp * dp) / CONSTANT
        errors.append(time / published - 1)
        constants.append(plain / published - 1)
        cells = (
            f"{tp * pp * dp}",
            f"{micro}",
            f"{published:.3f}",
            f"{time:.3f}",
            f"{errors[-1]:+.1%}",
            f"{constants[-1]:+.1%}",
        )
        print(f"{size:<8}" + "".join(f"{c:>12}" for c in cells), flush=True)
    mean = [sum(map(abs, e)) / len(e) for e in (errors, constants)]
    print(f"mean of the errors' sizes: {mean[0]:.1%}; with a constant rate {mean[1]:.1%}")


def fit() -> None:
    """Root mean square error over the other paper's rows, best first."""
    rows = []
    for size, pp, chunks, batch, micro, full, selective in OTHER_TABLE:
        schedule = "interleaved" if chunks > 1 else "1f1b"
        step = Step(global_batch=batch, micro_batch=micro, dtype="fp16")
        for recompute, published in (("full", full), ("selective", selective)):
            sequence = recompute == "selective"
            plan = Plan(
                tp=8,
                pp=pp,
                schedule=schedule,
                chunks=chunks,
                recompute=recompute,
                sequence_parallel=sequence,
                save_gathered=False,
                **COMMON,
            )
            rows.append(
                (Workload(model=model_named(f"megatron-{size}"), plan=plan, step=step), published)
            )
    found = []
    for compute in (0.63, 0.64, 0.65, 0.66, 0.67, 0.68, 0.69, 0.70):
        for memory in (0.60, 0.65, 0.70, 0.75, 0.80):
            errors = [seconds(w, compute, memory) / published - 1 for w, published in rows]
            found.append(
                ((sum(e * e for e in errors) / len(errors)) ** 0.5, compute, memory, errors)
            )
    for size, compute, memory, errors in sorted(found)[:5]:
        print(
            f"compute {compute:.2f} memory {memory:.2f}: {size:.2%}", [f"{e:+.1%}" for e in errors]
        )


if __name__ == "__main__":
    fit() if sys.argv[1:] == ["fit"] else table()
