"""ASTRA-sim runs one node of host and device at a time: joined traces take as long as recorded."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import chakrakit as ck
from support.astra_cases import system, write_files
from support.commands import chakra
from support.recorded import linked

JOINED = "portable{one_at_a_time=true}"
US = 1000


def overlapping(seed: int) -> ck.Run:
    """Work of three threads and two streams at random times, in whole microseconds, which waits for some."""
    rng, builder = Random(seed), ck.TraceBuilder()
    ends: list[tuple[int, int]] = []
    for lane in range(5):
        at = rng.randrange(4)
        for _ in range(rng.randrange(1, 8)):
            length = rng.randrange(1, 9)
            ready = [node for node, end in ends if end <= at]
            where = {"is_cpu_op": True, "tid": lane} if lane < 3 else {"stream": lane}
            node = builder.comp(
                f"{lane}", start_time_ns=at * US, duration_ns=length * US, num_ops=1,
                deps=rng.sample(ready, min(len(ready), rng.randrange(3))), **where,
            )  # fmt: skip
            ends.append((node, at + length))
            at += length + rng.randrange(3)
    return ck.Run([builder.build()], {0: ck.Binding(0), 1: ck.Binding(0)})


def in_astra(traces: ck.TraceSet, folder: Path) -> float:
    """ns that ASTRA-sim's engine takes."""
    ck.write(traces, folder / "w.N.et")
    return ck.simulate(folder / "w", astra=write_files(folder, system(), 2)).facts().max_cycles


@pytest.mark.parametrize("seed", range(30))
def test_joined_work_takes_as_long_as_it_took(seed: int, tmp_path: Path) -> None:
    run = overlapping(seed)
    done = ck.transform(run, JOINED)
    span = run.span_ns[1] - run.span_ns[0]
    trace = done.traces[0]
    zeros = int((trace.duration_ns == 0).sum())  # ASTRA-sim takes 1 ns for each
    assert 0 <= in_astra(done.traces, tmp_path) - span <= zeros
    assert done.report.applied[0].notes["one_at_a_time_ns"] == span
    assert {trace[i].name for i in range(len(trace))} - {"gap"} == set(run[0].names.to_pylist())
    assert trace.column("num_ops", 0).sum() == run[0].column("num_ops", 0).sum()


def test_threads_that_are_not_joined_follow_each_other(tmp_path: Path) -> None:
    """Two threads of 10 and 6 µs at once take 10, joined; 16 in ASTRA-sim if they are not."""
    builder = ck.TraceBuilder()
    for thread, length in ((1, 10), (2, 6)):
        builder.comp("op", is_cpu_op=True, tid=thread, start_time_ns=0, duration_ns=length * US)
    run = ck.Run([builder.build()], {0: ck.Binding(0), 1: ck.Binding(0)})
    apart, together = ck.transform(run, "portable"), ck.transform(run, JOINED)
    assert (
        apart.report.applied[0].notes["one_at_a_time_ns"]
        == in_astra(apart.traces, tmp_path)
        == 16 * US
    )
    assert together.report.applied[0].notes["one_at_a_time_ns"] == 10 * US


def test_converting_says_how_much_longer_it_would_take(tmp_path: Path) -> None:
    ck.write(linked("two_streams"), tmp_path / "run")
    done = chakra("convert", tmp_path / "run", tmp_path / "w.N.et", "--portable")
    assert (
        "one node of the host and one of the device at a time, 4.967 ms instead of 3.231"
        in done.stderr
    )
    ck.write(ck.transform(linked("two_streams"), JOINED).traces, tmp_path / "joined.N.et")
    joined = ck.transform(linked("two_streams"), JOINED).report.applied[0].notes
    assert joined["one_at_a_time_ns"] == joined["makespan_ns"]
