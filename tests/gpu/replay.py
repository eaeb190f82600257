"""Replay exported recordings on a GPU and compare the kernels with those recorded.

On a machine with chakrakit, export every recording (a folder with et.json.gz, kineto.json.gz and card.json):

    chakra link RECORDING/et.json.gz RECORDING/kineto.json.gz -o run
    chakra replay run --device cuda --export OUT/NAME

On the GPU, where only PyTorch is:   python OUT/NAME/run.py --iterations 20 --warmup 5
Then, anywhere:                      python tests/gpu/replay.py RECORDING OUT/NAME
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import median

DEVICE_ROWS = ("kernel", "gpu_memcpy", "gpu_memset")


def recorded_kernels(path: Path) -> tuple[Counter[str], float]:
    """Kernels by name, and their time in ms."""
    with gzip.open(path) as stream:
        events = json.load(stream)["traceEvents"]
    rows = [e for e in events if e.get("cat") in DEVICE_ROWS]
    return Counter(e["name"] for e in rows), sum(e["dur"] for e in rows) / 1e3


def main(recording: Path, folder: Path) -> None:
    """One line of docs/accuracy.md."""
    card = json.loads((recording / "card.json").read_text())
    found = json.loads((folder / "result" / "rank_0.json").read_text())
    before, time_before = recorded_kernels(recording / "kineto.json.gz")
    after = Counter({name: count for name, (count, _) in found["kernels"].items()})
    time_after = found["kernel_ns"] / 1e6
    step, wanted = median(found["steps_ns"]) / 1e6, card["step_ms_back_to_back"]
    same = sum((before & after).values())
    print(
        f"{folder.name}: {same} of {sum(before.values())} kernels the same, {sum(after.values())} in all"
    )
    print(
        f"  kernels {time_before:.2f} -> {time_after:.2f} ms ({time_after / time_before - 1:+.1%})"
    )
    print(f"  step {wanted:.2f} -> {step:.2f} ms ({step / wanted - 1:+.1%})")
    host = median(found["host_ns"]) / 1e6
    print(f"  kernels take {time_after / step:.0%} of the step; the host {host:.2f} ms")
    if "peak_mem_bytes" in card:
        print(f"  memory {found['memory_bytes'] / card['peak_mem_bytes'] - 1:+.2%}")
    for name, count in (before - after).most_common(5):
        print(f"  - {count} {name[:100]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
