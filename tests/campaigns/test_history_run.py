"""One history as a Run: one rank per place in the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.campaigns import history_run
from chakrakit.campaigns.history import JobHistory
from chakrakit.campaigns.recorded import HistoryRecorder, _coarse
from chakrakit.errors import ConfigError


def rows(trace, stream):
    """(name, start, end) of a stream's rows, in seconds."""
    chosen = trace.column("stream", -1) == stream
    times = zip(
        trace.names.to_pylist(), trace.start_ns / 1e9, trace.end_ns / 1e9, chosen, strict=True
    )
    return [(name, start, end) for name, start, end, mine in times if mine]


@pytest.fixture
def failed(job, tmp_path: Path):
    """Node 3 of four fails after an hour and a half, is repaired for two hours; checkpoints every hour."""
    (tmp_path / "log.csv").write_text("hour,node\n1.5,3\n")
    made = job(
        step_seconds="60",
        steps="180",
        cluster="{nodes: 4, repair_hours: 2}",
        failures="{log: log.csv}",
        checkpoint="{interval_steps: 60, seconds: 0}",
        recovery="{detection_seconds: 600, restart_seconds: 0}",
    )
    return history_run(made)


def test_the_job_s_stages_and_the_state_of_the_node_that_failed(failed):
    """Half an hour is lost; detection takes ten minutes of the two hours of repair."""
    hour = 3600
    assert rows(failed.trace(3), 0) == [
        ("train", 0, hour),
        ("lost steps", hour, 1.5 * hour),
        ("detection", 1.5 * hour, 1.5 * hour + 600),
        ("waiting", 1.5 * hour + 600, 3.5 * hour),
        ("train", 3.5 * hour, 5.5 * hour),
    ]
    assert rows(failed.trace(3), 1) == [
        ("in service", 0, 1.5 * hour),
        ("empty", 1.5 * hour, 3.5 * hour),
        ("in service", 3.5 * hour, 5.5 * hour),
    ]


def test_nodes_that_never_failed_share_one_trace(failed):
    assert failed.body_count == 2
    assert rows(failed.trace(0), 1) == [("in service", 0, 5.5 * 3600)]
    assert failed.card.measured["failures"] == 1
    assert failed.card.settings["checkpoint_interval_steps"] == 60
    assert failed.counters["progress"].to_pylist()[-1] == {"time": 19_800 * 10**9, "steps": 180}


def test_checkpoints_stand_between_the_steps_that_they_save(job):
    """Three checkpoints of 20 s between four times 100 steps of 8 s; none follows the last step."""
    run = history_run(
        job(
            step_seconds="8",
            steps="400",
            cluster="{nodes: 2}",
            failures="{node_mtbf_hours: 1.0e+12}",
            checkpoint="{interval_steps: 100, seconds: 20}",
        )
    )
    starts = [i * 820.0 for i in range(4)]
    steps = [("train", start, start + 800) for start in starts]
    saved = [("checkpoint", start + 800, start + 820) for start in starts[:3]]
    assert rows(run.trace(0), 0) == sorted([*steps, *saved], key=lambda piece: piece[1])


def test_what_a_history_shows_is_what_its_campaign_counts(job):
    """Checkpoints that a failure undid are lost with their steps, on the timeline as in the count."""
    made = job(
        step_seconds="60",
        steps="20000",
        cluster="{nodes: 8, spares: 2, repair_hours: 2}",
        failures="{node_mtbf_hours: 200}",
        checkpoint="""{policy: tiered, tiers: [
          {interval_steps: 10, seconds: 30, survives: process},
          {interval_steps: 50, seconds: 90}]}""",
    )
    outcome = JobHistory(made.plan, "0/0").run()
    assert outcome.restarts > 5
    spent: dict[str, float] = {}
    for name, start, end in rows(history_run(made).trace(0), 0):
        spent[name] = spent.get(name, 0.0) + end - start
    assert spent["train"] == pytest.approx(outcome.useful)
    assert spent["checkpoint"] == pytest.approx(outcome.checkpoint)
    assert spent["lost steps"] == pytest.approx(outcome.rework)


def test_a_history_of_many_checkpoints_is_drawn_coarsely_and_keeps_its_sums():
    stages = [("train", 0.0, 9.0), ("checkpoint", 9.0, 10.0), ("train", 10.0, 19.0)]
    stages += [("checkpoint", 19.0, 21.0), ("restart", 21.0, 25.0), ("train", 25.0, 30.0)]
    assert _coarse(stages, 6) == stages
    assert _coarse(stages, 2) == [
        ("train", 0.0, 18.0),
        ("checkpoint", 18.0, 21.0),
        ("restart", 21.0, 25.0),
        ("train", 25.0, 30.0),
    ]


def test_a_loss_longer_than_a_stretch_of_training_reaches_into_the_one_before():
    recorder = HistoryRecorder(None)
    recorder.stage("run", 0, 10, 1)
    recorder.stage("checkpoint", 10, 12, 1)
    recorder.stage("run", 12, 20, 2)
    recorder.rolled_back(20, 15)
    assert recorder.progress[-1] == (20, 2)
    assert [piece for piece in recorder.job if piece[0] == "lost steps"] == [("lost steps", 5, 20)]


def test_a_history_beyond_what_nanoseconds_can_hold(job):
    """Nodes that are never repaired, and one spare: the job waits for ever."""
    made = job(
        cluster="{nodes: 16, spares: 0, repair_hours: 1.0e+19}", failures="{node_mtbf_hours: 20}"
    )
    with pytest.raises(ConfigError, match=r"days; a timeline in nanoseconds holds 106,752"):
        history_run(made)


def test_an_analysis_of_a_long_history_says_what_cost_the_days(failed, monkeypatch):
    import chakrakit as ck
    from chakrakit.insight import analysis, answers

    monkeypatch.setattr(analysis, "_SCHEDULED_ROWS", 1)  # as for histories of months
    found = ck.analyze(failed)
    first = next(a for a in answers(found) if a.question == "What cost the days?")
    assert sum(found.campaign.values()) * 3.6e12 == pytest.approx(found.span_ns)
    assert found.bound == ""
    assert "days" in first.figure
