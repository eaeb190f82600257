"""`chakra campaign`: days, what they are lost to, and one history as a Run."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit import Run, read
from support.commands import chakra, data, succeeded

QUIET = "{step_seconds: 10, steps: 8640, cluster: {nodes: 16}}"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(QUIET)
    return path


def test_a_job_that_never_fails_takes_its_steps(job: Path) -> None:
    """8,640 steps of 10 seconds are a day."""
    told = succeeded("campaign", job, "--histories", "3")
    assert told.startswith("1.000 days (5 to 95 %: 1.000 to 1.000), 100.00% of them effective")
    assert data("campaign", job, "--histories", "3")["lost_hours"]["rework"] == 0


FAILING = """
step_seconds: 10
steps: 8640
cluster: {nodes: 16, spares: 1, repair_hours: 24}
failures: {node_mtbf_hours: 200}
checkpoint: {interval_steps: 100, seconds: 5}
recovery: {policy: restart, detection_seconds: 60, restart_seconds: 300}
"""


def test_days_steps_and_what_is_effective_agree(tmp_path: Path) -> None:
    """A day of steps takes 1 / share days, and what costs days is less effective."""
    (tmp_path / "job.yaml").write_text(FAILING)
    result = ck.campaign(tmp_path / "job.yaml", histories=40)
    assert result.effective_share == pytest.approx(1 / result.days.mean)
    assert result.effective_share == pytest.approx(result.steps_per_day / 8640)
    for change in result.sensitivity:
        better = change.effective_share > result.effective_share
        assert better == (change.days_saved > 0)
    told = succeeded("campaign", tmp_path / "job.yaml", "--histories", "40")
    assert f"{result.effective_share:.2%} of them effective; 40 histories" in told
    assert result.to_dict()["effective_share"] == result.effective_share


def test_changes_are_left_out_when_nobody_wants_them(job: Path) -> None:
    assert data("campaign", job, "--histories", "2", "--no-changes")["sensitivity"] == []


def test_one_history_is_written_as_a_run(job: Path, tmp_path: Path) -> None:
    succeeded("campaign", job, "--histories", "2", "-o", tmp_path / "run", "--history", "1")
    run = read(tmp_path / "run")
    assert isinstance(run, Run)
    assert run.makespan_ns == pytest.approx(86_400e9)


def test_an_unknown_field_is_named_with_its_line(job: Path) -> None:
    job.write_text("step_seconds: 10\nstepz: 3\n")
    done = chakra("campaign", job)
    assert done.exit_code == 2
    assert "job.yaml:2" in done.stderr


def test_a_history_of_a_campaign_is_a_run(tmp_path: Path) -> None:
    """864 steps of 100 seconds are a day."""
    job = tmp_path / "job.yaml"
    job.write_text("{step_seconds: 100, steps: 864, cluster: {nodes: 2}}")
    found = ck.campaign(job, histories=2, changes=False, output=tmp_path / "run", history=1)
    assert (found.days.mean, found.sensitivity) == (1.0, [])
    assert ck.read(tmp_path / "run").makespan_ns == pytest.approx(86_400e9)


def test_energy_and_price_of_a_job_are_said(tmp_path: Path) -> None:
    """16 nodes of 1 kW and $2 an hour for a day."""
    costs = "{node_watts: 1000, node_hour_price: 2}"
    (tmp_path / "job.yaml").write_text(f"{QUIET[:-1]}, costs: {costs}}}")
    told = succeeded("campaign", tmp_path / "job.yaml", "--histories", "3")
    assert "384 kWh, $768" in told
    assert "note: costs.idle_node_watts taken as node_watts" in told
