"""What commands print, to the letter: a line for every way in which each answers.

What they read is in `folder` (conftest.py).
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.replayer.result import (
    IterationSpread,
    RankResult,
    Replaced,
    ReplayReport,
    Share,
    compare_with_recording,
)
from support.commands import chakra, succeeded
from support.kept_results import compare
from support.launched import launched_product

SECTIONS = """
sections:
  vision:   {model: vit-l-16, plan: {dp: 2}, share: 0.5, micro_batch: 2}
  teacher:  {model: llama3.2-1b, plan: {tp: 2}, trains: false, output: logits}
  language: {model: gpt3-125m, plan: {tp: 2}, after: [vision, teacher], ranks_of: vision}
order: wavefront
step: {seq: 256, global_batch: 8}
"""
SERVICE = "--model gpt3-125m --machine dgx-h100 --requests"
POISSON = "poisson:rate=40,n=30,prompt=lognormal:300:1,output=lognormal:20:1"
SCREENS: dict[str, list[str]] = {
    "generate": [
        "generate --model gpt3-125m --dp 2 --tp 2 --pp 2 --seq 128 --global-batch 16 --micro-batch 2",
        "generate --model mixtral-8x7b --layers 2 --ep 4 --dp 4 --seq 256 --dry-run --imbalance 1.5",
        "generate --model gpt3-125m --cp 4 --context blocks --seq 2048 --distribution lognormal --mean 300",
        "generate --model gpt3-125m --kind decode --tp 2 --concurrency 12 --cached 900 --new-tokens 3",
        "generate --model gpt3-125m --pp 4 --schedule zb-h1 --seq 128 --global-batch 8 --memory-gib 2",
        "generate sections.yaml",
        "generate attention.yaml",
        "generate spatial.yaml",
        "generate gnn.yaml",
        "generate --model gpt3-125m --seq 64 --dp 2 --distribution uniform --series --steps 2 -o series",
    ],
    "simulate": [
        "simulate w --machine dgx-h100",
        "simulate w --machine dgx-a100:2 --compute roofline --network analytical",
        "simulate w --machine mi300x --jitter 0.1 --seed 3 --straggler 1=1.3 --detail full -o full",
        "simulate w w --machine dgx-h100 -o together",
        "simulate linked --machine dgx-h100",
        "simulate linked --compute measured --communication measured",
        "simulate w --machine dgx-h100 --power-cap 400 --clock 1200 --algorithm all-reduce=double-tree",
    ],
    "analyze": [
        "analyze run",
        "analyze slow --full --no-advice",
        "analyze slow --faster compute=2 --faster communication=4 --rank 1 --no-advice",
        "analyze linked",
        "analyze linked --full --rows 3 --no-advice",
        "analyze linked --csv --section operators",
        "analyze served",
        "analyze jobs/w",
    ],
    "compare": [
        "compare run slow",
        "compare run slow --full --rows 4",
        "compare run run",
        "compare linked run",
        "compare run slow --fail-if 'step>5%'",
    ],
    "serve": [
        f"serve {SERVICE} {POISSON}",
        f"serve {SERVICE} {POISSON} --tp 2 --replicas 2 --router least --slo ttft=200,tpot=20 --first 20",
        f"serve {SERVICE} {POISSON} --prefill 1 --decode 1 --rate-scale 2 --power-cap 400",
        f"serve {SERVICE} {POISSON} --compute roofline --kv-blocks 3000 --engine sglang --seed 4",
    ],
    "search": [
        "search --model gpt3-125m --gpus 4 --machine dgx-h100 --seq 64 --batch 8 --data ddp --tp 1,2 --pp 1",
        "search --model gpt3-125m --gpus 2 --machine dgx-a100 --seq 64 --batch 2 --tp 1 --pp 1 --data ddp"
        " --objective energy",
        f"search --serve {SERVICE} poisson:rate=9,n=12,prompt=64,output=4 --gpus 2 --slo ttft=500,tpot=30",
    ],
    "files": [
        "info run",
        "info w",
        "info linked",
        "info library/run.chakra",
        "validate run",
        "validate linked",
        "convert linked portable --portable",
        "convert w converted",
        "get --from library",
        "score library",
        "transform w --pass scale-ranks:ranks=8 --pass compact -o passed",
        "link recordings -o linked_again",
        "conformance",
    ],
    "query": [
        "query run 'SELECT type, count(*) AS n FROM nodes GROUP BY ALL ORDER BY ALL'",
        "query linked 'SELECT name, row, duration_ns / 1e3 AS us FROM nodes ORDER BY ALL LIMIT 7'",
        "query run 'SELECT * FROM nodes ORDER BY rank, row LIMIT 1'",
    ],
    "exports": [
        "export run run.pftrace",
        "export linked chrome.json --chrome",
        "export one.et graph.graphml",
        "export one.et graph.dot",
        "export w out.goal --to goal",
        "export w layers.txt --to simai",
        "export w layers1.txt --to astra1",
        "export run spans.json --to otlp",
        "report run -o run.html",
        "report linked -o linked.md",
        "report B06 -o study.html",
        "report job.yaml -o job.html",
    ],
    "machines": [
        "machines",
        "machines dgx-h100",
        "machines gb200-nvl72",
        "machines tpu-v5p",
        "models",
        "collective all-reduce --machine dgx-h200 --members 8 --sizes 1KiB:64MiB",
        "collective all-to-all --machine dgx-a100:2 --members 16 --sizes 1MiB --kernels fastest",
        "collective broadcast --machine tpu-v5e --members 16 --sizes 4KiB,1MiB",
        "collective dispatch --machine dgx-h200:2 --members 16 --tokens 128:512 --low-latency",
        "collective combine --machine dgx-h200:2 --members 16 --tokens 4096 --most-nodes 1 --sms 20",
        "calibrate micro.json -o profile.json",
        "live program.py --machine dgx-h100",
    ],
    "studies": [
        "studies",
        "studies --family sites",
        "study B06 --quick",
        "campaign job.yaml --histories 3",
        "campaign failing.yaml --histories 4 --seed 2",
    ],
    "sweep": ["sweep study.yaml --jobs 1 -o swept", "report swept -o swept.html"],
}
SLOW = {"sweep", "search"}
ELSEWHERE = re.compile(r"[0-9a-f]{64}|file://\S+")
"""What differs from one folder or time to another: checksums of whole files, and where they are."""


@pytest.fixture(scope="module")
def furnished(folder: Path) -> Path:
    """The folder with a few files more."""
    files = {
        "sections": SECTIONS,
        "attention": "attention: {documents: [4096, 512], ranks: 4, assignment: mixed}",
        "spatial": "spatial: {network: mobilenet-v2, plan: {rows: 2, columns: 2}}",
        "gnn": "gnn: {graph: {vertices: 1000, degree: 8, partitions: 4}}",
        "failing": "{step_seconds: 9, steps: 40000, cluster: {nodes: 64}, failures: {node_mtbf_hours: 900}}",
    }
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    ck.write(launched_product(), folder / "one.et")
    service = shlex.split(f"{SERVICE} {POISSON}")
    succeeded("serve", *service, "-o", folder / "served")
    workload = folder / "w"
    succeeded("simulate", workload, workload, "--machine", "dgx-h100", "-o", folder / "jobs")
    return folder


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in SCREENS]
)
def test_kept_screens(name: str, furnished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "query":
        pytest.importorskip("duckdb")
    monkeypatch.chdir(furnished)
    compare(f"printed-{name}", {line: printed(line) for line in SCREENS[name]})


def printed(line: str) -> dict[str, str]:
    """The lines that a command prints, by number; how it ended comes first."""
    done = chakra(*shlex.split(line))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    lines = f"{done.stdout}\n{done.stderr}".rstrip().splitlines()
    numbered = {f"{i:03}": ELSEWHERE.sub("…", text) for i, text in enumerate(lines, 1)}
    return {"000": f"ended with {done.exit_code}", **numbered}


def test_kept_screen_of_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks, more stand-ins than are listed, and a recording to compare with; nothing is run."""
    ranks = [
        RankResult(r, 1 - r, Share(0.75, 0.5 + r / 4), IterationSpread(2_345_678, 2 * 10**6, 3 * 10**6),
                   10**6, 1_500_000 + r, 777_777, 0)
        for r in (0, 1)
    ]  # fmt: skip
    compared = compare_with_recording(
        step_ns=2_000_000, kernel_ns=700_000, kernels=[({"a": 2, "b": 1}, {"a": 1})],
        replayed_step_ns=2_345_678, replayed_kernel_ns=777_777,
    )  # fmt: skip
    stand_ins = [Replaced(f"aten::op{i}", i, 1000 * i, "not known here") for i in range(30)]
    report = ReplayReport(
        "full",
        "cuda",
        Share(0.875, 0.625),
        stand_ins,
        ranks[0].step_ns,
        777_777,
        7,
        ranks,
        compared,
    )
    monkeypatch.setattr("chakrakit.commands.replay.replay", lambda *_, **__: report)
    compare("printed-replay", {"replay run": printed("replay run -o again")})
