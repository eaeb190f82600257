"""Campaigns that have a formula come out as it says, within the confidence of 10,000 histories."""

from __future__ import annotations

import math

import pytest

from chakrakit.campaigns import campaign
from chakrakit.campaigns.checkpoints import daly_interval, young_interval
from support.campaign_formulas import (
    enough_nodes,
    expected_failures,
    expected_seconds,
    waiting_share,
)

HISTORIES = 10_000
SURE = 1.5
"""Intervals of 95 % are widened so that one seed passes with a probability of 99.7 %."""


def near(value: float, spread) -> bool:
    low, high = spread.ci95
    half = (high - low) / 2 * SURE
    return spread.mean - half <= value <= spread.mean + half


def test_a_campaign_without_failures_is_exactly_steps_times_step_time(job):
    done = campaign(job(failures=None, checkpoint=None), histories=3)
    assert done.days.mean == done.days.p5 == done.days.p95 == 8640 * 10 / 86400
    assert done.effective_ratio.mean == 1
    assert done.failures == 0


def test_without_failures_checkpoints_are_all_that_is_added(job):
    done = campaign(job(failures=None), histories=2)
    assert done.days.mean == (8640 * 10 + 86 * 5) / 86400
    assert done.lost_hours.checkpoint == pytest.approx(86 * 5 / 3600)


@pytest.mark.slow
@pytest.mark.parametrize("interval", [300, 900, 2700])
def test_daly_s_complete_model_gives_the_mean_time_and_the_number_of_failures(job, interval):
    """Eight nodes that fail every two hours together; failures hit checkpoints and restarts too."""
    work, checkpoint, restart, mtbf = 20_000, 60, 300, 7200
    made = job(
        step_seconds="1",
        steps=str(work),
        cluster="{nodes: 8}",
        failures=f"{{node_mtbf_hours: {8 * mtbf / 3600}}}",
        checkpoint=f"{{interval_steps: {interval}, seconds: {checkpoint}}}",
        recovery="{policy: restart, detection_seconds: 100, restart_seconds: 200}",
    )
    done = campaign(made, histories=HISTORIES, changes=False)
    seconds = expected_seconds(work, interval, checkpoint, restart, mtbf)
    assert near(seconds / 86400, done.days)
    failures = expected_failures(work, interval, checkpoint, restart, mtbf)
    assert done.failures == pytest.approx(failures, rel=0.02)
    assert done.restarts == pytest.approx(done.failures, rel=0.05)


@pytest.mark.slow
def test_the_best_interval_is_where_young_and_daly_say(job):
    """Among intervals around the optimum, theirs are as good as the best within the confidence."""
    work, checkpoint, mtbf = 40_000, 120, 14_400
    young, daly = young_interval(checkpoint, mtbf), daly_interval(checkpoint, mtbf)
    days = {}
    for interval in sorted(
        {round(young), round(daly), *(round(daly * f) for f in (0.4, 0.7, 1.5, 2.5))}
    ):
        made = job(
            step_seconds="1",
            steps=str(work),
            failures=f"{{node_mtbf_hours: {16 * mtbf / 3600}}}",
            checkpoint=f"{{interval_steps: {interval}, seconds: {checkpoint}}}",
        )
        days[interval] = campaign(made, histories=HISTORIES, changes=False).days
    best = min(days.values(), key=lambda d: d.mean)
    assert days[round(daly)].ci95[0] <= best.ci95[1]
    assert days[round(young)].ci95[0] <= best.ci95[1]
    assert min(days) not in [i for i, d in days.items() if d is best]
    assert max(days) not in [i for i, d in days.items() if d is best]


@pytest.mark.parametrize("policy", ["young", "daly"])
def test_a_policy_takes_its_optimum(job, policy):
    made = job(checkpoint=f"{{policy: {policy}, seconds: 30}}")
    mtbf = 50_000 * 3600 / 16
    best = {"young": young_interval, "daly": daly_interval}[policy](30, mtbf)
    assert made.plan.every == round(best / 10)


@pytest.mark.slow
@pytest.mark.parametrize(("spares", "spread"), [(0, "fixed"), (2, "exponential"), (4, "fixed")])
def test_the_job_waits_for_nodes_as_often_as_erlang_s_formula_says(job, spares, spread):
    """Repairs take ten hours and a node fails every three and a third: about three are out at a time."""
    made = job(
        steps=None,
        days="30",
        cluster=f"{{nodes: 100, spares: {spares}, repair_hours: 10, repair_spread: {spread}}}",
        failures="{node_mtbf_hours: 333.3333333}",
        checkpoint="{interval_steps: 1, seconds: 0}",
    )
    done = campaign(made, histories=800, changes=False)
    waits = waiting_share(100, spares, 333.3333333, 10)
    assert 1 - done.availability == pytest.approx(waits, rel=0.02)


@pytest.mark.slow
def test_an_elastic_job_has_enough_nodes_as_often_as_the_binomial_says(job):
    """Every node of an elastic job works or is in repair, whatever the others do."""
    mtbf, repair, nodes, least = 100.0, 10.0, 20, 17
    made = job(
        steps=None,
        days="100",
        cluster=f"{{nodes: {nodes}, repair_hours: {repair}}}",
        failures=f"{{node_mtbf_hours: {mtbf}}}",
        checkpoint="{interval_steps: 1, seconds: 0}",
        recovery=f"{{policy: in_step, min_nodes: {least}}}",
    )
    done = campaign(made, histories=150, changes=False)
    up = mtbf / (mtbf + repair)
    # Nothing fails while the job waits, so one node too few is the worst there is.
    enough, worst = (enough_nodes(nodes, n, up) for n in (least, least - 1))
    assert done.availability == pytest.approx(enough / worst, rel=0.01)


def test_google_s_superpod_gives_130_of_144_cubes_with_95_percent():
    """With the availability that makes 130 just enough, 131 is not."""
    up = 0.935
    assert enough_nodes(144, 130, up) > 0.95 > enough_nodes(144, 131, up)


def test_without_failures_worth_counting_the_time_is_work_and_checkpoints():
    """A year between failures: 1,000 s of work, nine checkpoints of 5 s, and hardly anything more."""
    year = 365 * 86_400
    assert expected_seconds(1000, 100, 5, 60, year) == pytest.approx(1045, rel=1e-4)
    assert expected_failures(1000, 100, 5, 60, year) == pytest.approx(1045 / year, rel=1e-4)


def test_work_of_one_stretch_takes_what_daly_s_model_says():
    """M·e^(R/M)·(e^(W/M) − 1), with all of them 100 s: 100·e·(e − 1)."""
    assert expected_seconds(100, 100, 5, 100, 100) == pytest.approx(100 * math.e * (math.e - 1))


def test_erlang_s_loss_formula():
    """With a load of 2: one place is full 2/3 of the time, two places 2/5."""
    assert waiting_share(20, 0, 100, 10) == pytest.approx(2 / 3)
    assert waiting_share(20, 1, 100, 10) == pytest.approx(2 / 5)
    assert waiting_share(20, 1, 100, 0) == 0


def test_enough_nodes_of_three():
    """Two of three work with 3·0.9²·0.1 + 0.9³."""
    assert enough_nodes(3, 2, 0.9) == pytest.approx(0.243 + 0.729)
    assert enough_nodes(3, 0, 0.9) == pytest.approx(1)
