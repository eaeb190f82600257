"""Runs to ask questions of: made by hand, random, and linked from recordings in tests/data."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.trace.sets import Times, run_of
from support.paths import DATA
from support.two_ranks import two_ranks  # noqa: F401 - a fixture


@pytest.fixture(scope="session")
def linked():
    """Linked recordings by name; each is linked once."""
    from chakrakit.sources.pytorch.linking import LinkOptions, link

    linked_runs: dict[str, ck.Run] = {}

    def get(name: str, two_passes: bool = False) -> ck.Run:
        """`two_passes`: times from two steps recorded without the observer, recording's cost taken out."""
        key = f"{name} {two_passes}"
        if key not in linked_runs:
            folder = DATA / "pytorch" / name
            if two_passes:
                times = (folder / "kineto_only.json.gz",)
                linked_runs[key] = link(
                    [folder / "et.json.gz"], LinkOptions(times=times, undilate=True)
                )[0]
            elif (folder / "et.json.gz").exists():
                linked_runs[key] = link([folder / "et.json.gz", folder / "kineto.json.gz"])[0]
            else:
                linked_runs[key] = link([folder])[0]
        return linked_runs[key]

    return get


def random_run(seed: int, ranks: int = 2, nodes: int = 30) -> tuple[ck.Run, list[dict]]:
    """Ranks with compute and copies on streams and collectives in between, timed by a plain simulation.

    Everything runs as soon as its dependencies, its stream and (for collectives) its peers allow.
    Returns the run and, for a check, its programs: (kind, stream, duration, dependencies) a node.
    """
    rng = np.random.default_rng(seed)
    shape = [rng.choice(["comp", "copy", "coll"], p=[0.6, 0.2, 0.2]) for _ in range(nodes)]
    programs = []
    for _ in range(ranks):
        program = []
        for i, kind in enumerate(shape):
            deps = sorted(set(rng.integers(0, i, rng.integers(0, 3)).tolist())) if i else []
            stream = {"comp": 7, "copy": 8, "coll": 20}[str(kind)]
            program.append(
                {
                    "kind": str(kind),
                    "stream": stream,
                    "deps": deps,
                    "ns": int(rng.integers(0, 50)) * 100,
                }
            )
        programs.append(program)
    for i, kind in enumerate(shape):
        if kind == "coll":
            for program in programs:
                program[i]["ns"] = programs[0][i]["ns"]
    return run_of_programs(programs), programs


def simulate(programs: list[list[dict]]) -> list[list[tuple[int, int]]]:
    """(start, end) of every node, one node after another: the oracle."""
    finished_times: list[list[tuple[int, int]]] = [[] for _ in programs]
    for i in range(len(programs[0])):
        starts = []
        for program, times in zip(programs, finished_times, strict=True):
            node = program[i]
            free = max(
                (times[j][1] for j in range(i) if program[j]["stream"] == node["stream"]), default=0
            )
            starts.append(max([free, *(times[d][1] for d in node["deps"])]))
        last = max(starts)
        for program, times, start in zip(programs, finished_times, starts, strict=True):
            begin = last if program[i]["kind"] == "coll" else start
            times.append((start, begin + program[i]["ns"]))
    return finished_times


def run_of_programs(programs: list[list[dict]]) -> ck.Run:
    """The programs as traces, with the oracle's times."""
    bodies = []
    for program in programs:
        t = ck.TraceBuilder()
        for i, node in enumerate(program):
            name = f"{node['kind']} {i % 5}"
            if node["kind"] == "coll":
                t.collective(
                    name,
                    ck.CollectiveType.ALL_REDUCE,
                    1024,
                    pg_name="1",
                    stream=node["stream"],
                    deps=node["deps"],
                    duration_ns=node["ns"],
                )
            elif node["kind"] == "copy":
                t.node(
                    name,
                    ck.NodeType.MEM_LOAD_NODE,
                    duration_ns=node["ns"],
                    deps=node["deps"],
                    stream=node["stream"],
                    is_cpu_op=False,
                )
            else:
                t.comp(name, duration_ns=node["ns"], deps=node["deps"], stream=node["stream"])
        bodies.append(t.build())
    simulated_times = simulate(programs)
    times = {
        r: Times(*(np.array(c, np.int64) for c in zip(*rows, strict=True)))
        for r, rows in enumerate(simulated_times)
    }
    groups = ck.Groups({"1": range(len(programs))})
    return run_of(ck.TraceSet(bodies, groups=groups), times, tick_ps=1000)


@pytest.fixture
def make_random():
    return random_run


@pytest.fixture
def oracle():
    return simulate
