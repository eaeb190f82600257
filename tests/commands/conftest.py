"""Small traces in every form, and two runs of them, that the commands are tried on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit import Binding, CollectiveType, Groups, Run, Trace, TraceBuilder, TraceSet, write
from chakrakit.trace.library import entry_of, write_index
from support import recorded
from support.commands import succeeded


def program() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1_500)
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a], pg_name="tp")
    return t.build()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file, a prefix, a directory, and the same file in other forms."""
    write(program(), tmp_path / "one.et")
    for form in ("one.et.gz", "one.et.zst", "one.parquet", "two.json"):
        write(program(), tmp_path / form)
    write(TraceSet([program(), program()], groups=Groups({"tp": [0, 1]})), tmp_path / "t.N.et")
    write(TraceSet([program()], {0: Binding(0), 1: Binding(0)}), tmp_path / "d")
    return tmp_path


def run_of(compute_ns: int) -> Run:
    """Two ranks: a product, then an all-reduce of 2 µs that both begin when the product ends."""
    t = TraceBuilder()
    work = t.comp("gemm", duration_ns=compute_ns, start_ns=0, num_ops=10**6)
    t.collective(
        "sync",
        CollectiveType.ALL_REDUCE,
        64,
        deps=[work],
        pg_name="tp",
        start_ns=compute_ns,
        duration_ns=2000,
    )
    return Run([t.build()] * 2, groups=Groups({"tp": [0, 1]}))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`fast`, whose steps take 5 µs, and `slow`, whose products take 3 µs more."""
    home = tmp_path_factory.mktemp("runs")
    write(run_of(3000), home / "fast")
    write(run_of(6000), home / "slow")
    return home


@pytest.fixture
def traces() -> ck.TraceSet:
    t = ck.TraceBuilder()
    first = t.comp("gemm 1", duration_ns=1500)
    t.comp("gemm 2", duration_ns=500, deps=[first])
    return ck.TraceSet([t.build()] * 2)


MEASURED = [
    {"op": "add", "shape": [n], "us": 2 + n / 1e5, "bytes": n} for n in (10**3, 10**4, 10**6)
]
PROGRAM = """
from chakrakit.simulator import live

def hears(me):
    yield live.receive()

def speaks(me):
    yield live.send("hears", 1_000)

def program(world):
    world.actor(hears, name="hears")
    world.actor(speaks, name="speaks")
"""
TRAINING = """
import torch

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
STUDY = """
workload: {model: gpt3-125m, step: {seq: 128, global_batch: 4}}
ranks: 2
axes: {plan.tp: [1, 2]}
machines: [dgx-h100]
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Something for every command to work on: a workload, runs, recordings, a library, files of all kinds."""
    folder = tmp_path_factory.mktemp("eighty")
    plan = ("--model", "gpt3-125m", "--dp", "2", "--seq", "128", "--global-batch", "2")
    succeeded("generate", *plan, "-o", folder / "w")
    for name, more in (("run", ()), ("slow", ("--straggler", "1=1.5"))):
        succeeded("simulate", folder / "w", "--machine", "dgx-h100", *more, "-o", folder / name)
    (folder / "recordings").symlink_to(recorded.DATA / "cnn_ddp_2")
    succeeded("link", folder / "recordings", "-o", folder / "linked")
    (folder / "library").mkdir()
    succeeded("bundle", folder / "run", "-o", folder / "library" / "run.chakra")
    timed = {"machine": "dgx-h100", "step_ns": ck.read(folder / "run").makespan_ns}
    write_index(folder / "library", [entry_of(folder / "library" / "run.chakra", **timed)])
    (folder / "micro.json").write_text(json.dumps({"gpu": "X", "rows": MEASURED}))
    (folder / "program.py").write_text(PROGRAM)
    (folder / "train.py").write_text(TRAINING)
    (folder / "study.yaml").write_text(STUDY)
    (folder / "job.yaml").write_text("{step_seconds: 10, steps: 8640, cluster: {nodes: 16}}")
    return folder
