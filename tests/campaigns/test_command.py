"""`chakra campaign` and the Run it writes."""

from __future__ import annotations

import json

import pytest

import chakrakit as ck
from chakrakit.commands import main


@pytest.fixture
def run(capfd):
    """What `chakra campaign` prints."""

    def output(*arguments: object) -> str:
        main(["campaign", *map(str, arguments)], standalone_mode=False)
        return capfd.readouterr().out

    return output


def test_the_minimal_job_gives_days_ratio_failures_and_losses(run, job_file):
    found = json.loads(run(job_file(), "--histories", 20, "--json"))
    assert set(found["days"]) >= {"mean", "p5", "p95"}
    assert set(found["effective_ratio"]) >= {"mean", "p5", "p95"}
    assert set(found["lost_hours"]) >= {"rework", "detection", "restart", "checkpoint", "degraded"}
    assert found["steps"] == 8640
    assert found["failures"] >= 0


def test_people_get_a_table(run, job_file):
    shown = run(job_file(failures="{node_mtbf_hours: 200}"), "--histories", 5)
    assert "effective" in shown
    assert "one more spare" in shown


def test_what_is_wrong_is_told_with_its_line(run, job_file, capfd):
    with pytest.raises(SystemExit, match="2"):
        run(job_file(failures="{node_mtbf_hours: -1}"))
    assert "job.yaml:6: " in capfd.readouterr().err


def test_one_history_is_a_run_with_a_rank_per_node(run, job_file, tmp_path):
    path = job_file(
        failures="{node_mtbf_hours: 40, processes: [{mtbf_hours: 50, slow: {factor: 2, hours: 1}}]}",
        cluster="{nodes: 16, spares: 1, repair_hours: 3}",
        recovery="{detection_seconds: 60, restart_seconds: 300}",
    )
    run(path, "--histories", 2, "--history", 1, "--seed", 3, "-o", tmp_path / "history", "--json")
    found = ck.read(tmp_path / "history")
    assert isinstance(found, ck.Run)
    assert len(found) == 16
    names = {name for rank in found.ranks for name in found.trace(rank).names.to_pylist()}
    assert {"train", "lost steps", "detection", "restart", "in service", "empty", "slow"} <= names
    assert found.makespan_ns / 1e9 == pytest.approx(found.card.measured["seconds"])
    trained = found.trace(0)
    job = [i for i, s in enumerate(trained.column("stream", 0).tolist()) if s == 0]
    starts, ends = trained.start_ns[job], trained.end_ns[job]
    assert starts[0] == 0
    assert (starts[1:] == ends[:-1]).all()
    analysis = ck.analyze(found)
    assert len(analysis.ranks) == 16
