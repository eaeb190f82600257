"""The Python of the documentation runs as it stands, in a folder that has what it names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import chakrakit as ck
from support.paths import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LIVE = ("ck.capture(", "chakrakit.collect(", "Collector(")
"""Blocks around a training program of the reader's; tests of capturing and collecting run such programs."""
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


def blocks(page: Path) -> list[str]:
    return [b for b in BLOCK.findall(page.read_text()) if not any(word in b for word in LIVE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces, a run, a study and ASTRA-sim's files, under the names the pages use."""
    home = tmp_path_factory.mktemp("docs")
    traces = ck.generate(model="gpt3-125m", dp=8, seq=128, global_batch=8).traces
    ck.write(traces, home / "w.N.et")
    ck.simulate(traces, "dgx-h200", compute="roofline", output=home / "run")
    (home / "traces").mkdir()
    ck.write(traces, home / "traces" / "gpt.N.et")
    (home / "groups.json").write_bytes((home / "traces" / "gpt.json").read_bytes())
    (home / "system.json").write_text(json.dumps(SYSTEM))
    (home / "network.yml").write_text(
        "topology: [Ring]\nnpus_count: [8]\nbandwidth: [50.0]\nlatency: [500.0]\n"
    )
    (home / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    (home / "study.yaml").write_text(
        "workload: {model: gpt3-125m, step: {seq: 128, global_batch: 4}}\n"
        "axes: {plan.dp: [1, 2]}\nmachines: [dgx-h100]\n"
    )
    return home


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_the_code_of_a_page_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
