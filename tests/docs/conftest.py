"""A folder with everything that the pages name: traces, runs, recordings, files a reader would write."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import chakrakit as ck
from support.paths import DATA, ROOT
from support.recorders import write_dumps

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 1,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
}
NCCL_LOG = "\n".join(
    [
        "# Collective test starting: all_reduce_perf",
        *(
            f"#  Rank {rank:2} Group  0 Pid 1 on node{rank // 8} device {rank % 8}"
            for rank in range(16)
        ),
        *(f" {2**p} {2**p // 4} float sum -1 {60 + 2**p / 2e5:.2f} 0 0 0" for p in range(10, 28)),
        "",
    ]
)
FILES = {
    "all_reduce_perf.log": NCCL_LOG,
    "network.yml": "topology: [Ring]\nnpus_count: [8]\nbandwidth: [50.0]\nlatency: [500.0]\n",
    "memory.json": '{"memory-type": "NO_MEMORY_EXPANSION"}',
    "study.yaml": "workload: {model: gpt3-125m, step: {seq: 128, global_batch: 4}}\n"
    "axes: {plan.dp: [1, 2]}\nmachines: [dgx-h100]\n",
    "workload.yaml": "model: {base: llama3.1-8b, layers: 4}\nplan: {tp: 2, dp: 2}\n"
    "step: {seq: 512, global_batch: 4}\n",
    "JOB.yaml": "step_seconds: 10\nsteps: 864\ncluster: {nodes: 16, spares: 1, repair_hours: 24}\n"
    "failures: {node_mtbf_hours: 500}\ncheckpoint: {interval_steps: 100, seconds: 5}\n"
    "recovery: {policy: restart, detection_seconds: 60, restart_seconds: 300}\n",
    "passes.yaml": "- compact\n- edit{scale=0.5, classes=[gemm]}\n"
    "- recost: {machine: dgx-a100, measured_on: dgx-h200, scale: {attention: 0.8}}\n",
    "card.yaml": "description: a small run\n",
    "train.sh": "torchrun train.py\n",
}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; each page works on a copy."""
    home = tmp_path_factory.mktemp("docs") / "home"
    (home / "traces").mkdir(parents=True)
    traces = ck.generate(model="gpt3-125m", dp=8, seq=128, global_batch=8).traces
    ck.write(traces, home / "w.N.et")
    ck.write(traces, home / "traces" / "gpt.N.et")
    for name in ("W", "PATH"):
        ck.write(traces, home / name)
    for name, machine in (("run", "dgx-h200"), ("A", "dgx-h100"), ("B", "dgx-a100")):
        ck.simulate(traces, machine, compute="roofline", output=home / name)
    shutil.copytree(home / "run", home / "RUN")
    for name in ("DIR", "raw"):
        shutil.copytree(DATA / "pytorch" / "gpt_pp_2", home / name)
    for name in ("et.json.gz", "kineto.json.gz", "kineto_only.json.gz"):
        shutil.copy(DATA / "pytorch" / "resnet50_b128" / name, home / name)
    shutil.copy(ROOT / "tests/sources/capture/programs/ddp.py", home / "train.py")
    shutil.copytree(ROOT / "examples/campaigns", home / "examples/campaigns")
    write_dumps(home / "dumps", 4, 8)
    (home / "groups.json").write_bytes((home / "traces" / "gpt.json").read_bytes())
    (home / "system.json").write_text(json.dumps(SYSTEM))
    for name, text in FILES.items():
        (home / name).write_text(text)
    return home


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in, and the current folder."""
    home = tmp_path / "home"
    shutil.copytree(prepared, home)
    monkeypatch.chdir(home)
    return home
