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

import chakrakit.core as core
from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.simulator import live
from chakrakit.simulator.engine import run

HOSTS, ARITY = 1_024, [32, 32]
BANDWIDTH, LATENCY = 12.5e9, 1e-6


def machine(routing: str = "hash"):
    """Two levels of switches; ways up chosen by hash, or by the destination as in SimGrid (`modulo`)."""
    level = {"topology": "fat-tree", "arity": ARITY, "bandwidth": BANDWIDTH, "latency": LATENCY}
    return parse_machine({"network": [{**level, "routing": routing}]}, "fat tree")


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


def lengths(count: int):
    """The same kind of messages with 4 KiB to 4 MiB each, so that they end one by one."""
    rng = np.random.default_rng(1)
    src = rng.integers(0, HOSTS, count)
    dst = (src + rng.integers(1, HOSTS, count)) % HOSTS
    return src, dst, rng.integers(1 << 12, 1 << 22, count)


def in_turn(src, dst, size, by_latency: bool = False) -> TraceSet:
    """Each host sends its messages one after another: about a thousand are under way at any time.

    `by_latency` shares links as SimGrid does, in proportion to 1 / latency of a message's route: one that
    stays below its first switch has half the latency of all others, and weighs twice as much.
    """
    bodies = [TraceBuilder() for _ in range(HOSTS)]
    before: list[list[int]] = [[] for _ in range(HOSTS)]
    for tag, (a, b, n) in enumerate(zip(src.tolist(), dst.tolist(), size.tolist(), strict=True)):
        near = by_latency and a // ARITY[0] == b // ARITY[0]
        weight = {"link_weight": 2.0} if near else {}
        before[a] = [bodies[a].send("s", a, b, n, tag=tag, deps=before[a], **weight)]
        bodies[b].recv("r", a, b, n, tag=tag, **weight)
    return TraceSet([b.build() for b in bodies], None, Groups({"": range(HOSTS)}))


def sender(_me, messages):
    """A host as SimGrid's program has it: sends a message, waits until it has arrived, and sends the next."""
    for to, size in messages:
        yield live.send(to, size, wait=True)


def as_programs(src, dst, size) -> None:
    """The messages in turn as a program of 1,024 actors, with all that it takes to make them."""
    begun = time.process_time()
    own: list[list[tuple[int, int]]] = [[] for _ in range(HOSTS)]
    for a, b, n in zip(src.tolist(), dst.tolist(), size.tolist(), strict=True):
        own[a].append((b, n))
    world = live.World(machine("modulo"))
    for host, messages in enumerate(own):
        world.actor(sender, messages, rank=host)
    end = world.run().summary.end_ns * 1e-6
    took = time.process_time() - begun
    print(f"{'the same messages as a program':36} {took:7.2f} s CPU  ends at {end:10.4f} ms")


def all_to_all() -> TraceSet:
    """64 KiB from everyone to everyone."""
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_TO_ALL, HOSTS << 16)
    return TraceSet([t.build()], {r: Binding(0) for r in range(HOSTS)}, Groups({"": range(HOSTS)}))


def timed(what: str, workload: TraceSet, routing: str = "hash") -> None:
    """CPU seconds of a simulation, and those of them that the engine and its network take."""
    inside: list[float] = []
    engine = core.sim_run

    def engine_timed(*arguments):
        begun = time.process_time()
        try:
            return engine(*arguments)
        finally:
            inside.append(time.process_time() - begun)

    core.sim_run = engine_timed
    begun = time.process_time()
    outcome = run(workload, machine(routing))
    took = time.process_time() - begun
    core.sim_run = engine
    print(
        f"{what:36} {took:7.2f} s CPU ({sum(inside):.2f} in the engine)  ends at "
        f"{outcome.makespan_ps * 1e-9:10.4f} ms",
        flush=True,
    )


def simgrid(order: str, src, dst, size) -> None:
    """The same messages in SimGrid, whose fat tree picks ways by the destination; `at-once` or `in-turn`."""
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
    lines = [f"{order} {HOSTS} {ARITY[0]} {ARITY[1]} {BANDWIDTH} {LATENCY}"]
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
    few = min(count, 5_000)  # SimGrid takes minutes for more of them at once
    timed(f"{few:,} of them", traces(*(column[:few] for column in ends)))
    simgrid("at-once", *(column[:few] for column in ends))
    for some in (count // 5, count):
        chains = lengths(some)
        timed(f"{some:,} messages, each host's in turn", in_turn(*chains), "modulo")
        as_programs(*chains)
        simgrid("in-turn", *chains)
        timed("the same, links shared by latency", in_turn(*chains, by_latency=True), "modulo")
    timed("hashed all-to-all of 1,024", all_to_all())


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
