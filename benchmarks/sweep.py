"""A thousand points killed in the middle and resumed; the body cache with and without.

python sweep.py           the example's 1,128 points, and a hundred without the cache
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from chakrakit.exploration.sweep import grid, measure, read_study

STUDY = Path(__file__).parents[1] / "examples" / "sweep_llama.yaml"
COMMAND = [
    sys.executable,
    "-c",
    "from chakrakit.commands import main; main()",
    "sweep",
    str(STUDY),
    "--json",
]


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def killed_and_resumed(folder: Path) -> None:
    file = folder / "points.jsonl"
    began = time.monotonic()
    first = subprocess.Popen([*COMMAND, "-o", str(folder)], stdout=subprocess.DEVNULL)
    while not file.exists() or file.read_bytes().count(b"\n") < 500:
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = file.read_bytes().count(b"\n")
    done = subprocess.run([*COMMAND, "-o", str(folder)], capture_output=True, check=True)
    result = json.loads(done.stdout)
    keys = Counter(json.loads(line)["key"] for line in file.read_bytes().splitlines())
    print(
        f"{result['points']} points: killed after {kept}, resumed with {result['reused']} reused, "
        f"{result['done']} done, {result['failed']} failed, {max(keys.values()) - 1} repeated; "
        f"{time.monotonic() - began:.0f} s in all on this machine"
    )


def cached(folder: Path) -> None:
    """Four machines a workload: traces made once and read three times, or made four times."""
    points = grid(read_study(STUDY)).points[:100]
    for cache in (None, folder / "bodies"):
        began = cpu(resource.RUSAGE_SELF)
        for point in points:
            measure(point, cache)
        used = cpu(resource.RUSAGE_SELF) - began
        print(f"100 points, {'with' if cache else 'without'} shared traces: {used:.1f} s of CPU")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        cached(Path(folder))
        killed_and_resumed(Path(folder) / "out")
