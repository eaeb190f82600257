"""Random messages and a hashed all-to-all among 1,024 hosts of a fat tree, beside SimGrid if installed.

python benchmarks/messages.py [MESSAGES]
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import run

HOSTS, ARITY = 1_024, [32, 32]
BANDWIDTH, LATENCY = 12.5e9, 1e-6


def machine():
    """Two levels of switches, ways up chosen by hash."""
    level = {"topology": "fat-tree", "arity": ARITY, "bandwidth": BANDWIDTH, "latency": LATENCY}
    return parse_machine({"network": [level]}, "fat tree")


def pairs(count: int):
    """Sources, destinations and bytes of random messages."""
    rng = np.random.default_rng(0)
    src = rng.integers(0, HOSTS, count)
    return src, (src + rng.integers(1, HOSTS, count)) % HOSTS, np.full(count, 1 << 20)


def traces(src, dst, size) -> TraceSet:
    """Each host sends and receives its messages, all at once."""
    bodies = [TraceBuilder() for _ in range(HOSTS)]
    for tag, (a, b, n) in enumerate(zip(src.tolist(), dst.tolist(), size.tolist(), strict=True)):
        bodies[a].send("s", a, b, n, tag=tag)
        bodies[b].recv("r", a, b, n, tag=tag)
    return TraceSet([b.build() for b in bodies], None, Groups({"": range(HOSTS)}))


def all_to_all() -> TraceSet:
    """64 KiB from everyone to everyone."""
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_TO_ALL, HOSTS << 16)
    return TraceSet([t.build()], {r: Binding(0) for r in range(HOSTS)}, Groups({"": range(HOSTS)}))


def timed(what: str, workload: TraceSet) -> None:
    """CPU seconds of a simulation."""
    begun = time.process_time()
    outcome = run(workload, machine())
    took = time.process_time() - begun
    print(f"{what:36} {took:7.2f} s CPU  ends at {outcome.makespan_ps * 1e-9:10.4f} ms", flush=True)


def simgrid(src, dst, size) -> None:
    """The same messages in SimGrid, whose fat tree picks ways by the destination."""
    compiler = shutil.which("g++")
    folder = Path(tempfile.mkdtemp())
    source = Path(__file__).with_name("simgrid_messages.cpp")
    command = [
        compiler or "g++",
        "-O2",
        "-std=c++17",
        "-o",
        str(folder / "run"),
        str(source),
        "-lsimgrid",
    ]
    if compiler is None or subprocess.run(command, capture_output=True, check=False).returncode:
        print("SimGrid is not installed (libsimgrid-dev)")
        return
    lines = [f"{HOSTS} {ARITY[0]} {ARITY[1]} {BANDWIDTH} {LATENCY}"]
    lines += [f"{a} {b} {n}" for a, b, n in zip(src, dst, size, strict=True)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(folder / "run"), "--log=root.thres:error"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{'the same messages in SimGrid':36} {took:7.2f} s CPU  ends at {float(done.stdout) * 1e3:10.4f} ms"
    )


def main(count: int = 100_000) -> None:
    """All of it."""
    ends = pairs(count)
    timed(f"{count:,} random messages", traces(*ends))
    simgrid(*ends)
    timed("hashed all-to-all of 1,024", all_to_all())


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
