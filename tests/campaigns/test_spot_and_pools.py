"""Prices that move, slow nodes that nobody knows of, retries, telemetry and policies from a user's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from support.commands import data, succeeded

PLAIN: dict[str, Any] = {"step_seconds": 10, "steps": 8640, "cluster": {"nodes": 16}}
"""A day of work."""


def days(**parts: Any) -> ck.CampaignResult:
    return ck.campaign({**PLAIN, **parts}, histories=20, changes=False)


def prices(folder: Path, hourly: list[float]) -> Path:
    path = folder / "prices.csv"
    path.write_text("hour,price\n" + "".join(f"{h},{p}\n" for h, p in enumerate(hourly)))
    return path


def test_a_job_stands_while_the_price_is_above_the_bid(tmp_path: Path) -> None:
    file = prices(tmp_path, [1.0, 2.0, 3.0, 9.0])
    checkpoint = {"interval_steps": 360, "seconds": 0}
    got = days(spot={"prices": str(file), "bid": 5}, checkpoint=checkpoint)
    assert got.days.mean == pytest.approx(31 / 24)  # seven hours are taken away in between
    assert got.preemptions == 7
    assert got.lost_hours.preempted == pytest.approx(7)
    assert got.node_hour_price == pytest.approx(2.0)
    assert got.price == pytest.approx(2.0 * 24 * 16)


def test_notice_saves_what_the_checkpoint_does_not(tmp_path: Path) -> None:
    file = prices(tmp_path, [1.0, 9.0])
    lost = {
        notice: days(
            spot={"prices": str(file), "bid": 5, "notice_seconds": notice},
            checkpoint={"interval_steps": 250, "seconds": 30},
        ).lost_hours.rework
        for notice in (0, 120)
    }
    assert lost[0] > 1
    assert lost[120] < 0.1


def test_drawn_prices_come_back_to_their_mean() -> None:
    got = days(spot={"mean": 2.0, "sigma": 0.4, "bid": 100.0})
    assert got.node_hour_price == pytest.approx(2.0, rel=0.15)
    assert got.preemptions == 0


def test_a_job_is_as_slow_as_the_slowest_node_of_its_pool() -> None:
    pool = {"nodes": 64, "slow_share": 1.0, "factor": [1.2, 1.2]}
    assert days(pool=pool).days.mean == pytest.approx(1.2)
    some = {"nodes": 64, "slow_share": 0.1, "factor": [1.1, 1.5], "onsets_per_day": 0.05}
    swept = days(pool={**some, "sweep_limit": 1.05})
    guarded = days(pool={**some, "sweep_limit": 1.05, "monitor_limit": 1.05})
    assert days(pool=some).days.mean > swept.days.mean > guarded.days.mean
    assert guarded.excluded > swept.excluded > 0
    assert days(pool={"nodes": 16, "sweep_limit": 1.05}).days.mean == pytest.approx(1 + 600 / 86400)


def test_a_monitor_with_a_tight_limit_excludes_healthy_nodes_as_often_as_chance_says() -> None:
    # One judgement an hour: a healthy node is 1.02 / 0.01 × √1 = 1.98 deviations below the limit, 2.4 %.
    monitor = {"monitor_limit": 1.02, "monitor_seconds": 3600, "samples": 1, "noise": 0.01}
    got = days(pool={"nodes": 600, **monitor})
    judgements = got.days.mean * 24
    assert got.excluded == got.excluded_healthy
    assert got.excluded / judgements == pytest.approx(1 - (1 - 0.0238) ** 16, rel=0.15)
    assert days(pool={"nodes": 600, "monitor_limit": 1.02}).excluded == 0  # eight deviations


def test_nodes_that_fail_are_replaced_from_the_pool_before_the_job_waits() -> None:
    parts = {
        "failures": {"node_mtbf_hours": 100},
        "checkpoint": {"interval_steps": 10, "seconds": 0},
    }
    cluster = {"nodes": 16, "repair_hours": 1000}
    waits = days(cluster=cluster, **parts)
    held = days(cluster=cluster, pool={"nodes": 64}, **parts)
    assert waits.lost_hours.waiting > 100
    assert held.failures > 1
    assert held.lost_hours.waiting == 0


def test_chains_of_retries_have_a_share_of_success() -> None:
    plan = {"nodes": 12, "pool": 16, "bad": 1, "bad_chance": 1.0, "attempts": 1, "minutes": 11}
    got = ck.campaign({**PLAIN, "retries": plan}, histories=400)
    assert got.retries is not None
    assert got.retries.success.mean == pytest.approx(4 / 16, abs=0.07)  # the bad one is left out
    own = {"bad": 1, "bad_chance": 1.0, "attempts": 1}
    part = {"cluster": {"nodes": 12, "spares": 4}, "retries": own}
    assert ck.campaign({**PLAIN, **part}, histories=400).retries.success == got.retries.success


OWN = """
from __future__ import annotations
from chakrakit.campaigns import CheckpointPolicy, Recovery, Tier

class Patient(Recovery, frozen=True, kw_only=True):
    patience_seconds: float = 0.0

    def detected(self, job):
        if not job.fill():
            return job.wait()
        return job.restart(self.restart_seconds + self.patience_seconds, success=1.0)

class Hourly(CheckpointPolicy, frozen=True, kw_only=True):
    seconds: float = 10.0

    def every(self, situation):
        return max(1, int(3600 / situation.step_seconds))

    def tiers(self, situation):
        return (Tier(stalls=(self.seconds,)),)

other = 3
"""


@pytest.mark.slow
def test_everything_from_a_file_to_analyze_and_the_run(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    prices(tmp_path, [1.0, 1.0, 9.0])
    job = tmp_path / "job.yaml"
    job.write_text(
        "step_seconds: 10\nsteps: 2000\ncluster: {nodes: 8, spares: 1, repair_hours: 2}\n"
        "failures: {node_mtbf_hours: 30}\n"
        "checkpoint: {policy: 'mine.py:Hourly', seconds: 5}\n"
        "recovery: {policy: 'mine.py:Patient', restart_seconds: 60, patience_seconds: 30}\n"
        "pool: {nodes: 12, slow_share: 0.3, monitor_limit: 1.05}\n"
        "spot: {prices: prices.csv, bid: 5}\n"
        "telemetry: {hours: [0, 3], failure: power}\n"
    )
    with pytest.raises(ConfigError, match=r"job.yaml:5: policy 'mine.py:Hourly' is a program"):
        ck.campaign(job)
    got = data(
        "campaign", job, "--allow-programs", "--histories", 3, "-o", tmp_path / "r", "--json"
    )
    assert got["checkpoint_interval_steps"] == 360
    assert got["preemptions"] >= 2
    run = ck.read(tmp_path / "r")
    signals = run.counters["telemetry"]
    assert signals.num_rows == 6 * 8 * 180
    assert {s.name for s in run.counters.series(0)} >= {"telemetry nic", "telemetry power"}
    assert set(run.counters["incidents"]["kind"].to_pylist()) <= {"power", "thermal"}
    assert "preempted" in succeeded("analyze", tmp_path / "r")
    analysis = data("analyze", tmp_path / "r", "--json")
    assert "preempted" in analysis["campaign"]
    labels = data("query", tmp_path / "r", "select rank from incidents", "--json")["rows"]
    assert len(analysis["incidents"]) <= len(labels)
    assert {i["node"] for i in analysis["incidents"]} <= {row[0] for row in labels}
    assert "what monitoring shows" in succeeded("analyze", tmp_path / "r", "--section", "campaign")
    with pytest.raises(ConfigError, match=r"mine.py:other' is not a subclass of .*Recovery"):
        ck.campaign(
            {**PLAIN, "recovery": f"{tmp_path}/mine.py:other"}, histories=1, allow_programs=True
        )


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"spot": {"bid": 1}}, "give either `prices`, a file, or `mean`"),
        (
            {"spot": {"bid": 1, "mean": 1}, "costs": {"node_hour_price": 2}},
            "two prices of the same",
        ),
        ({"spot": {"bid": 1, "prices": "nowhere.csv"}}, "cannot be read"),
        ({"pool": {"nodes": 8}}, "a pool of 8 nodes does not hold the job's 16"),
        ({"pool": {"nodes": 16, "sweep_limit": 0.9}}, "sweep_limit is 0.9; it is a time over that"),
        ({"pool": {"nodes": 16, "factor": [2, 1.5]}}, "factor ends"),
        ({"pool": {"nods": 16}}, "nods"),
        ({"retries": {"nodes": 9, "pool": 8}}, "a pool of 8 nodes does not hold 9; give `nodes`"),
        ({"recovery": {"policy": "mine.py"}}, "or FILE.py:CLASS of your own"),
    ],
)
def test_what_cannot_be_is_refused(part: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ck.campaign({**PLAIN, **part}, histories=1)
