"""What a sweep of a small space finds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

import chakrakit as ck
from chakrakit.exploration.bound import Bounds
from chakrakit.exploration.search import TRAINING
from chakrakit.exploration.sweep import findings, grid, read_study, sweep
from chakrakit.machines import load_machine
from chakrakit.machines.device import work_model
from chakrakit.workloads.description import Lengths, Plan, Step, Workload
from chakrakit.workloads.models import model_named
from support.commands import chakra, data
from support.damaged import compare_outcomes, damages
from support.kept_results import checksums, compare
from support.random_plans import random_workload


@pytest.mark.slow
def test_kept_sweep(tmp_path: Path, study_text: str) -> None:
    (tmp_path / "study.yaml").write_text(study_text)
    result = data("sweep", tmp_path / "study.yaml", "-o", tmp_path / "out")
    compare("swept", without_seconds(result))


def without_seconds(result: dict[str, object]) -> dict[str, object]:
    """The result without how long it took and where it lies."""
    return {
        k: v for k, v in result.items() if k not in ("seconds", "output", "folder", "table", "page")
    }


def even(seed: int) -> Workload:
    """A random workload whose ranks and micro-batches are alike, as a search's are."""
    drawn = random_workload(random.Random(seed))
    step = drawn.step.replace(lengths=Lengths(), imbalance=0)
    return drawn.replace(step=step, plan=drawn.plan.replace(strict=True))


MACHINES = ["dgx-h100:16", "ethernet-100g:128", "tpu-v5p:128", "gb200-nvl72:2", "dgx-a100:16"]


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 70), marks=pytest.mark.slow)], ids=["first", "others"]
)
def test_kept_bounds_of_random_plans(seeds: range) -> None:
    """What no simulation of a plan goes below, by profile and by data sheet."""
    figures = {}
    for seed in seeds:
        workload, machine = even(seed), load_machine(MACHINES[seed % len(MACHINES)])
        for compute in ("auto", "roofline"):
            try:
                bound = Bounds(machine, work_model(compute)).of(workload)
            except ck.ChakraError as refusal:
                figures[f"{seed} {compute}"] = str(refusal)
            else:
                figures[f"{seed} {compute}"] = {n: getattr(bound, n) for n in FIGURES}
    compare(f"bounds-{seeds.start}", checksums(figures))


FIGURES = ("step_ps", "compute_ps", "memory_bytes")
PLANS = {
    "sharded": Plan(dp=4, tp=2, pp=2, data="fsdp", recompute="full"),
    "plain": Plan(dp=8),
    "pipeline": Plan(dp=2, tp=2, pp=4, schedule="interleaved", chunks=2, data="zero1"),
    "context": Plan(dp=2, cp=4, tp=2, data="zero2", recompute="selective"),
    "alone": Plan(),
}
MODELS = ["llama-3.1-8b", "mixtral-8x7b", "gpt3-1.3b", "deepseek-v3-16b"]


def test_kept_configurations_of_plans() -> None:
    """What training frameworks and engines are told of plans of all kinds."""
    figures = {}
    for model in MODELS:
        for name, plan in PLANS.items():
            step = Step(seq=2048, global_batch=64, micro_batch=2)
            workload = Workload(model=model_named(model), plan=plan, step=step)
            for framework, written in TRAINING.items():
                figures[f"{framework}, {model}, {name}"] = told(lambda w=workload, f=written: f(w))
    compare("configurations", checksums(figures))


def told(written: Callable[[], object]) -> object:
    """What is written, or why it cannot be."""
    try:
        return msgspec.to_builtins(written())
    except ck.ChakraError as refusal:
        return str(refusal)


SEARCHES = {
    "step": "--model gpt3-1.3b --gpus 8 --machine dgx-h100 --batch 16 --seq 512 --pp 1,2 --runners-up 4",
    "energy": "--model gpt3-125m --gpus 4 --machine dgx-h200 --batch 8 --seq 64 --tp 1,2 --pp 1 "
    "--data ddp,fsdp --objective energy",
    "price": "--model gpt3-125m --gpus 2,4 --machine dgx-a100 --batch 8 --seq 256 --objective price "
    "--price-per-hour 2.5",
    "experts": "--model mixtral-8x7b --gpus 8 --machine dgx-h200 --batch 8 --seq 256 --data fsdp --pp 1",
    "roofline": "--model gpt3-350m --gpus 4 --machine mi300x --batch 8 --seq 128 --compute roofline",
    "too large": "--model llama-3.1-70b --gpus 1 --machine l40s-pcie --batch 1 --seq 128",
    "served": "--serve --model llama-3.1-8b --gpus 4 --machine dgx-h100 --slo ttft=200,tpot=15 "
    "--requests poisson{rate=40,n=40,prompt=lognormal:300:1,output=20} --attain 0.9",
    "served apart": "--serve --model llama-3.1-8b --gpus 3 --machine dgx-h100 --slo ttft=300,tpot=12 "
    "--pools apart --requests poisson{rate=30,n=30,prompt=900,output=30}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_kept_searches(name: str) -> None:
    """The best, those after it with what they lose by, and how many were looked at."""
    done = chakra("search", *SEARCHES[name].split(), "--json")
    text = json.loads(done.stdout) if done.exit_code == 0 else {"refused": done.stderr}
    compare(f"searched-{name.replace(' ', '-')}", without_seconds(text))


SERVED = """\
name: served
workload:
  serve:
    model: llama-3.1-8b
    requests: poisson{rate=10,n=30,prompt=lognormal:256:1,output=16}
    slo: ttft=60,tpot=30
axes:
  rate_scale: [1, 8]
  engine.max_num_seqs: [4, 64]
machines: [dgx-h100]
"""


@pytest.mark.slow
def test_kept_sweep_of_served_streams(tmp_path: Path) -> None:
    (tmp_path / "served.yaml").write_text(SERVED)
    done = sweep(read_study(tmp_path / "served.yaml"), tmp_path / "out", jobs=1)
    table = pq.read_table(done.table)
    rows = [{k: v for k, v in r.items() if k not in ("seconds", "key")} for r in table.to_pylist()]
    best = [row["rate_scale"] for row in findings.served_rows(table)]
    compare("swept-served", {"best": best, **checksums({str(i): r for i, r in enumerate(rows)})})


@damages(20, 150)
def test_kept_outcomes_of_damaged_studies(numbers: range, tmp_path: Path) -> None:
    """The points of studies, and what is said to damaged ones."""

    def outcome(folder: Path) -> object:
        found = grid(read_study(folder / "study.yaml"))
        return [found.skipped, [[p.parameters, p.passes, p.weight] for p in found.points]]

    compare_outcomes("study", tmp_path, outcome, numbers)
