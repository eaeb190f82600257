"""Ranks looked at on workers: the same analysis, byte for byte, whatever the run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.insight import AnalysisOptions, analyze, gather
from chakrakit.insight.critical_path import critical_path as events
from chakrakit.insight.rank import as_run
from chakrakit.parallel import Workers
from chakrakit.trace.sets import Card, Times
from support.engines import ENGINES


@pytest.fixture(scope="module")
def simulated() -> ck.Run:
    """Sixteen ranks in four stages: few bodies, groups and peers of every rank's own, messages."""
    from chakrakit.machines import load_machine
    from chakrakit.simulator.results import simulate
    from chakrakit.workloads.generate import generate
    from chakrakit.workloads.models import from_plain

    model = {"family": "decoder", "layers": 4, "hidden": 256, "heads": 4, "vocab": 512}
    plan = {"dp": 2, "tp": 2, "pp": 4, "schedule": "1f1b"}
    workload = from_plain({"model": model, "plan": plan, "step": {"global_batch": 16, "seq": 64}})
    return simulate(generate(workload), load_machine("dgx-h100:2"), compute="roofline").run()


@pytest.fixture
def unfolded(simulated: ck.Run, tmp_path: Path) -> ck.Run:
    """The same ranks, a file each, with their times in the nodes."""
    ck.write(simulated, tmp_path / "r.N.parquet")
    return as_run(ck.read(tmp_path / "r"))


def answer(
    run: ck.Run, workers: Workers | None = None, options: AnalysisOptions | None = None
) -> bytes:
    return msgspec.json.encode(analyze(run, options, workers=workers))


def test_runs_with_shared_programs(simulated: ck.Run, pickled: Workers) -> None:
    assert simulated.body_count < len(simulated)
    assert answer(simulated) == answer(simulated, pickled)


@pytest.mark.slow
def test_runs_of_a_file_a_rank(unfolded: ck.Run, pickled: Workers) -> None:
    assert unfolded.body_count == len(unfolded)
    assert answer(unfolded) == answer(unfolded, pickled)


@pytest.mark.slow
def test_selected_rows(unfolded: ck.Run, pickled: Workers) -> None:
    options = AnalysisOptions(faster=(("group:1", 2.0), (".*attention", 3.0), ("compute", 2.0)))
    assert answer(unfolded, None, options) == answer(unfolded, pickled, options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt_fsdp_tp_4", "gpt_pp_2"])
def test_linked_recordings(linked, name: str, pickled: Workers) -> None:
    assert answer(linked(name)) == answer(linked(name), pickled)


@pytest.mark.parametrize("seed", range(4))
def test_random_runs(make_random, seed: int, pickled: Workers) -> None:
    run, _ = make_random(seed, ranks=5, nodes=40)
    assert answer(run) == answer(run, pickled)


def test_ranks_are_read_again_when_the_path_comes_back(
    make_random, pickled: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = make_random(1, ranks=5, nodes=60)
    whole = answer(run)
    assert analyze(run).critical_path.rank_changes > 1
    monkeypatch.setattr(events, "_MOST_LOADED", 1)
    assert answer(run, pickled) == whole


def test_what_there_is_no_room_for_is_left_out_and_told(
    make_random, pickled: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = make_random(1)
    monkeypatch.setattr(gather, "SPREAD_BYTES", 1000)
    analysis = analyze(run, workers=pickled)
    assert analysis.what_if.gains == []
    assert any("what-if and slack are left out" in note for note in analysis.notes)
    assert analyze(run).what_if.gains != []
    monkeypatch.setattr(gather, "MOST_ROWS", 10)
    assert "60 nodes: what-if and slack are left out above 10;" in analyze(run).what_if.note


def test_calls_of_groups_that_become_one_are_numbered_anew(pickled: Workers) -> None:
    """To rank 1 both groups are `a`: its four calls meet the first two of the others, and nobody's."""
    import numpy as np

    t = ck.TraceBuilder()
    for i, group in enumerate("abab"):
        t.collective(f"c{i}", ck.CollectiveType.ALL_REDUCE, 64, pg_name=group)
    times = ck.Times(np.arange(4) * 10, np.arange(4) * 10 + 10)
    bindings = {0: ck.Binding(0), 1: ck.Binding(0, {"b": "a"}), 2: ck.Binding(0)}
    groups = ck.Groups({"a": [0, 1, 2], "b": [0, 2]})
    run = ck.Run([t.build()], bindings, groups, times=[times], timing={0: 0, 1: 0, 2: 0})
    analysis = analyze(run)
    assert answer(run) == answer(run, pickled)
    assert {c.group: c.count for c in analysis.collectives} == {"a": 4, "b": 2}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same(unfolded: ck.Run, engine: str) -> None:
    assert answer(unfolded) == answer(unfolded, Workers(engine, 2))


@pytest.mark.parametrize(
    ("tick_ps", "row", "says"),
    [
        (1, 2**31 - 1, "row 0 waited for row 2147483647 of rank 0, which has fewer"),
        (2**63, -1, "check tick_ps in card.json"),
    ],
)
def test_damaged_times_are_refused_before_they_are_used(tick_ps, row, says):
    builder = ck.TraceBuilder()
    builder.comp("k", duration_ns=5)
    single = np.ones(1, np.int64)
    times = Times(
        0 * single, 5 * single, (row * single).astype(np.int32), (-single).astype(np.int32)
    )
    run = ck.Run([builder.build()], times=[times], card=Card(kind="run", tick_ps=tick_ps))
    with pytest.raises(TraceError, match=says):
        analyze(run, AnalysisOptions())
