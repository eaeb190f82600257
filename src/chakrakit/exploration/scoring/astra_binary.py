"""ASTRA-sim's own program on a bundle: its traces and its machine as the files that the program reads.

A run's traces are written with plain dependencies (the pass `portable`), others as they are; ASTRA-sim reads
durations in whole microseconds. Each dimension of the machine that the ranks fill becomes one of its network:
a ring where links form one, a switch where they do not, with the bandwidth and the latency of one device's
links. A rank alone gets an idle second one, since a network has two places at least. Collectives run as
rings.
The answer is the cycle, a nanosecond each, at which the last rank has finished, shared among the steps.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.parallel import run_kept
from chakrakit.passes.base import parse, transform
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.trace.storage import read, write

_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles")
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def astra_step(binary: str, machine: str, path: Path, seconds: float) -> float:
    """The step in ns that ASTRA-sim's analytical program at `binary` predicts for a bundle."""
    traces = read(path)
    if isinstance(traces, Run):  # others have plain dependencies already
        traces, _ = transform(traces, [parse("portable{one_at_a_time=true}")])
    with tempfile.TemporaryDirectory() as folder:
        words = [binary, *_files(traces, load_machine(machine), Path(folder))]
        try:
            done = run_kept(words, seconds)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"{binary}: {error}") from None
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    cycles = {int(rank): int(n) for rank, n in _FINISHED.findall(said)}
    if len(cycles) < len(traces):
        last = said.strip().splitlines()[-1:] or ["nothing said"]
        ended = f"{binary} finished {len(cycles)} of {len(traces)} ranks (exit {done.returncode})"
        raise ConfigError(f"{ended}: {last[0][:200]}")
    first = traces.trace(traces.ranks[0])
    return max(cycles.values()) / max(1, len({s for s in first.step.tolist() if s >= 0}))


def _files(traces: TraceSet, machine: Machine, folder: Path) -> list[str]:
    """Writes the inputs, and gives the options that name them."""
    write(traces, folder / "w.N.et")
    if len(traces) == 1:
        idle = TraceBuilder()
        idle.comp("idle", duration_ns=0)
        write(TraceSet([idle.build()]), folder / "w.1.et")
    network = _network(machine, max(len(traces), 2))
    files = {
        "system": _system(machine, len(network["npus_count"])),
        "network": network,
        "remote-memory": {"memory-type": "NO_MEMORY_EXPANSION"},
    }
    options = [f"--workload-configuration={folder / 'w'}"]
    for name, content in files.items():  # JSON is YAML too
        (folder / f"{name}.json").write_text(json.dumps(content))
        options.append(f"--{name}-configuration={folder / name}.json")
    if (folder / "w.json").is_file():
        options.append(f"--comm-group-configuration={folder / 'w.json'}")
    return options


def _network(machine: Machine, ranks: int) -> dict[str, Any]:
    """The dimensions that the ranks fill, from the inside out."""
    out: dict[str, Any] = {"topology": [], "npus_count": [], "bandwidth": [], "latency": []}
    left = ranks
    for dimension in machine.dimensions:
        size = math.gcd(left, dimension.size)
        if size > 1:
            links = dimension.fabric.links
            ring = dimension.fabric.shape == "ring"
            out["topology"].append("Ring" if ring else "Switch")
            out["npus_count"].append(size)
            out["bandwidth"].append(float(links.bandwidth.max()) / 1e9)
            out["latency"].append(float(links.latency.max()) * 1e9)
        left //= size
    if left > 1:
        raise ConfigError(f"{ranks} ranks do not fill dimensions of {machine.name}")
    return out


def _system(machine: Machine, dimensions: int) -> dict[str, Any]:
    algorithms: dict[str, Any] = {
        f"{c}-implementation": ["ring"] * dimensions for c in _COLLECTIVES
    }
    return algorithms | {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 0,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "collective-optimization": "localBWAware",
        "local-mem-bw": machine.device(0).memory_bandwidth / 1e9,
    }
