"""Many histories of one job: the same whoever runs them, and what they come to."""

from __future__ import annotations

import pytest

from chakrakit.campaigns import campaign, workers_for
from chakrakit.errors import ConfigError
from chakrakit.parallel import Workers


def test_everything_lost_and_everything_useful_is_all_the_time(job):
    made = job(
        cluster="{nodes: 16, spares: 1, repair_hours: 6}",
        failures="{node_mtbf_hours: 100, processes: [{mtbf_hours: 50, slow: {factor: 1.3, hours: 1}}]}",
        recovery="{policy: elastic, detection_seconds: 20, restart_seconds: 100}",
    )
    done = campaign(made, histories=30, changes=False)
    lost = sum(getattr(done.lost_hours, name) for name in done.lost_hours.__struct_fields__)
    assert lost + 24 == pytest.approx(done.days.mean * 24)
    assert done.lost_hours.degraded > 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_histories_whoever_runs_them(job):
    made = job(failures="{node_mtbf_hours: 100}")

    here = campaign(made, histories=600, seed=7)
    there = campaign(made, histories=600, seed=7, workers=Workers("local", 2))
    assert here == there
    assert campaign(made, histories=600, seed=8).days != here.days


def test_a_job_that_can_never_end_is_given_up(job, monkeypatch):
    from chakrakit.campaigns import history

    monkeypatch.setattr(history, "MOST_EVENTS", 2000)
    made = job(failures="{node_mtbf_hours: 1}", checkpoint="{interval_steps: 400, seconds: 0}")
    with pytest.raises(
        ConfigError, match=r"1 of 1 histories are given up: after [\d,]+ failures in"
    ):
        campaign(made, histories=1)


@pytest.mark.slow
def test_a_job_of_centuries_is_refused_before_it_takes_long(job):
    """Its failures are rare and it makes headway, but there would be hundreds of thousands of them."""
    made = job(steps=str(2**31), failures="{node_mtbf_hours: 500}")
    with pytest.raises(
        ConfigError, match=r"of 2,147,483,648 steps are done; .* fewer steps or days"
    ):
        campaign(made, histories=2)


def test_power_and_price_of_nodes_and_spares(job):
    """A day of 16 nodes at 1 kW and two spares at 100 W, in a building that draws as much again."""
    made = job(
        failures=None,
        checkpoint=None,
        cluster="{nodes: 16, spares: 2}",
        costs="{node_watts: 1000, idle_node_watts: 100, pue: 2, node_hour_price: 3}",
        tokens_per_step="1000",
    )
    done = campaign(made, histories=1)
    assert done.energy_kwh == pytest.approx(2 * 24 * (16 * 1 + 2 * 0.1))
    assert done.price == pytest.approx(24 * 18 * 3)
    assert done.goodput == pytest.approx(16 / 18)
    assert done.tokens_per_day == pytest.approx(8640 * 1000)


@pytest.mark.parametrize(
    ("histories", "engine", "jobs", "workers"),
    [
        (999, None, None, None),
        (1000, None, None, Workers("local", None)),
        (1000, None, 1, None),
        (10, None, 2, Workers("local", 2)),
    ],
)
def test_many_histories_are_spread_over_the_cores(histories, engine, jobs, workers):
    assert workers_for(histories, engine, jobs) == workers


@pytest.mark.parametrize("histories", [0, -1, 1_000_001, 10**30])
def test_no_history_and_too_many_are_refused(job, histories):
    with pytest.raises(ConfigError, match=r"histories is .*; it must be from 1 to 1,000,000"):
        campaign(job(), histories=histories)
