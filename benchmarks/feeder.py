"""CPU seconds and peak memory to feed large traces, file read included.

chain, star (one root, all leaves into one end) and random (two parents among the last thousand) are
usual shapes; attributes is random with the ten attributes nodes from PyTorch have. The worst for
memory are reversed (a chain written last node first, all of which is resident) and sparse (ids all
over 64 bits).

python benchmarks/feeder.py [NODES ...]       default 1200000 5000000
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from chakrakit.trace.storage import Feeder, feeder_paths

KINDS = ("chain", "star", "random", "attributes", "reversed", "sparse")
HERE = Path(__file__).parent


def compile_driver(folder: Path) -> Path:
    driver = folder / "feeder"
    command = ["g++", "-O2", "-std=c++17", str(HERE / "feeder.cpp"), "-o", str(driver)]
    subprocess.run([*command, *feeder_paths().flags.split()], check=True)
    return driver


def python_seconds(path: Path) -> float:
    """CPU seconds of this process to take and finish everything in batches of 4,096."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    with Feeder(path) as feeder:
        while len(batch := feeder.take_batch(4096)["id"]):
            feeder.done_batch(batch)
        assert feeder.finished
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    sizes = [int(each) for each in sys.argv[1:]] or [1_200_000, 5_000_000]
    print(
        f"{'trace':10} {'nodes':>9} {'MB':>6} {'C: CPU s':>9} {'RSS MB':>7} {'Python: CPU s':>14}"
    )
    with tempfile.TemporaryDirectory() as name:
        driver, path = compile_driver(Path(name)), Path(name) / "trace.et"
        for n in sizes:
            for kind in KINDS:
                subprocess.run([driver, "write", kind, str(n), path], check=True)
                run = subprocess.run([driver, "drain", path], check=True, capture_output=True)
                nodes, cpu, rss = run.stdout.decode().split()
                size = path.stat().st_size / 1e6
                seconds = python_seconds(path)
                print(f"{kind:10} {nodes:>9} {size:6.0f} {cpu:>9} {rss:>7} {seconds:14.2f}")


if __name__ == "__main__":
    main()
