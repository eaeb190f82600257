"""Simulations that hang leave records: a Run up to then, files of two recorders, and who is to blame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.diagnosis import Culprit
from support.commands import chakra

MACHINE = "dgx-h100:4"


@pytest.fixture(scope="module")
def traces() -> ck.TraceSet:
    return ck.generate(
        model="gpt3-125m",
        heads=16,
        hidden=1024,
        layers=2,
        seq=256,
        tp=8,
        dp=4,
        global_batch=4,
        steps=2,
    ).traces


def changed(traces: ck.TraceSet, rank: int, body: ck.Trace) -> ck.TraceSet:
    """The same traces, one rank with a body of its own."""
    old = traces.bindings[rank]
    bodies = [*(traces.body_at(i) for i in range(traces.body_count)), body]
    bindings = {**traces.bindings, rank: ck.Binding(len(bodies) - 1, old.groups, old.peers)}
    return ck.TraceSet(bodies, bindings, traces.groups)


def hung(traces: ck.TraceSet, **options: object) -> tuple[ck.Run, Culprit]:
    with pytest.raises(ck.DeadlockError) as hang:
        ck.simulate(traces, MACHINE, compute="roofline", **options)
    run = hang.value.simulation.run()
    return run, run.analyze().culprits[0]


def test_a_device_that_stops_is_the_rank_that_never_arrives(traces: ck.TraceSet) -> None:
    run, culprit = hung(traces, faults=["device:11@500000=0"])
    assert (culprit.kind, culprit.rank) == ("missing-rank", 11)
    assert set(run.ranks) == set(range(32))
    states = set(run.trace(3).nodes["comm_state"].to_pylist())
    assert states == {None, "started", "completed"}
    assert len(run.trace(11)) < len(traces.trace(11))
    assert (run.end(3) >= run.start(3)).all()


def test_a_simulation_that_hangs_leaves_its_run_where_it_was_asked_for(
    traces: ck.TraceSet, tmp_path: Path
) -> None:
    run, _ = hung(traces, faults=["device:11@500000=0"], output=tmp_path / "run")
    written = ck.read(tmp_path / "run")
    assert len(written.trace(11)) == len(run.trace(11)) < len(traces.trace(11))
    assert (written.analyze().culprits[0].kind, written.analyze().culprits[0].rank) == (
        "missing-rank",
        11,
    )


def test_a_link_that_fails_is_found_by_the_bytes_that_moved(traces: ck.TraceSet) -> None:
    run, culprit = hung(traces, faults=["link:9-switch 1.1@300000=0"])
    assert (culprit.kind, culprit.rank) == ("hang", 9)
    table = run.counters["progress"].to_pylist()
    mine = next(row for row in table if row["rank"] == 9)
    assert mine["sent"] < mine["to_send"]


def test_a_call_of_another_size_hangs_as_in_a_job(traces: ck.TraceSet) -> None:
    body = traces.trace(5)
    calls = np.flatnonzero(body.column("comm_type", -1) >= 0)
    sizes = body.column("comm_size", 0).copy()
    sizes[calls[4]] *= 2
    other = changed(
        traces, 5, traces.body_at(traces.bindings[5].body).with_columns({"comm_size": sizes})
    )
    with pytest.raises(ck.TraceError, match="all members must say the same"):
        ck.simulate(other, MACHINE, compute="roofline")
    _, culprit = hung(other, mismatches="hang")
    assert (culprit.kind, culprit.rank) == ("size-mismatch", 5)


@pytest.mark.slow
def test_files_of_recorders_are_read_by_our_own_readers(
    traces: ck.TraceSet, tmp_path: Path
) -> None:
    ck.write(traces, tmp_path / "w")
    words = ("simulate", tmp_path / "w", "--machine", MACHINE, "--compute", "roofline")
    failed = chakra(*words, "--fault", "device:11@500000=0", "--records", tmp_path / "r")
    assert failed.exit_code == 2
    assert "the device of rank 11 has failed" in failed.output
    dumps = ck.link(tmp_path / "r" / "flight_recorder").run
    assert (dumps.analyze().culprits[0].kind, dumps.analyze().culprits[0].rank) == (
        "missing-rank",
        11,
    )
    ended = ck.simulate(traces, MACHINE, compute="roofline", records=tmp_path / "e")
    for recorder in ("flight_recorder", "nccl_inspector"):
        linked = ck.link(tmp_path / "e" / recorder).run
        assert len(linked.ranks) == 32
        simulated = ended.run()
        for rank in (0, 9):
            mine = simulated.trace(rank)
            rows = np.flatnonzero(mine.column("comm_type", -1) >= 0)
            spent = (simulated.end(rank) - simulated.start(rank))[rows].sum() / 1000
            told = linked.trace(rank)
            calls = np.flatnonzero(told.column("comm_type", -1) >= 0)
            assert len(calls) == len(rows)
            assert (linked.end(rank) - linked.start(rank))[calls].sum() == pytest.approx(
                spent, abs=5 * len(rows)
            )


def test_records_replace_those_of_another_run_and_nothing_else(
    traces: ck.TraceSet, tmp_path: Path
) -> None:
    inspector = tmp_path / "r" / "nccl_inspector"
    inspector.mkdir(parents=True)
    (inspector / "rank_99.log").write_text("of a larger run")
    ck.simulate(traces, MACHINE, compute="roofline", records=tmp_path / "r")
    assert len(list(inspector.iterdir())) == 32
    (inspector / "mine.txt").write_text("notes")
    with pytest.raises(ck.ChakraError, match=r"holds other things \(nccl_inspector/mine.txt\)"):
        ck.simulate(traces, MACHINE, compute="roofline", records=tmp_path / "r")
    assert (inspector / "mine.txt").read_text() == "notes"
