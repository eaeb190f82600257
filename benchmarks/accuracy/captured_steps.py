"""Steps captured without the hardware: peak memory and step time against the programs on one H200."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from captured_programs import chakra
from claim import need, percent, table

import chakrakit as ck

HERE = Path(__file__).parent / "programs"
PROGRAMS = (
    ("gpt2.py", "gpt2_124m_b8_s1024"),
    ("llama.py", "llama_1b_b4_s2048"),
    ("resnet50.py", "resnet50_b128"),
)


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    return "\n\n".join([TEXT, table(HEADS, [_line(data, *both) for both in PROGRAMS])])


def _line(data: Path, script: str, name: str) -> list[str]:
    card = json.loads((need(data, "gpu_h200", name) / "card.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        peak, step = _captured(HERE / script, Path(folder) / "captured")
    truth, memory = card["step_ms_back_to_back"], card["peak_mem_bytes"]
    cells = [
        name,
        f"{memory / 1e9:.3f}",
        f"{peak / 1e9:.3f}",
        percent(peak / memory - 1, signed=True),
    ]
    return [*cells, f"{truth:.2f}", f"{step:.2f}", percent(step / truth - 1, signed=True)]


def _captured(script: Path, output: Path) -> tuple[int, float]:
    """Peak bytes and step time in ms of the second step."""
    options = ("--ranks", "1", "--device", "h200", "--steps", "1:2", "-o", str(output))
    chakra("capture", *options, "--", sys.executable, str(script))
    found = ck.simulate(output, machine="dgx-h200", compute="h200")
    return found.summary.ranks[0].peak_bytes, found.summary.step_ns / 1e6


HEADS = ("program", "peak GB", "captured", "error", "step ms", "captured and simulated", "error")
TITLE = "Captured steps against one H200"
TEXT = """\
The programs of `benchmarks/accuracy/programs` compute the same as the recorded ones, without their
libraries. They were captured by `chakra capture --ranks 1 --device h200 --steps 1:2` on a host without a
GPU and simulated on `dgx-h200` with the profile `h200`; the results are compared with the allocator's
peak and the un-profiled step of the real programs, steps back to back. Nothing was fitted on them. The
gaps between kernels (about 1.5 µs each in these recordings) are not modelled, and cuBLAS's workspaces
are not counted."""
