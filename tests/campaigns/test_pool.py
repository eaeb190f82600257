"""Pools with slow nodes, telemetry of incidents, and chains of retries."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.campaigns import (
    Guarding,
    Incident,
    Pool,
    PoolPlan,
    RetryPlan,
    pool_run,
    retry_chain,
    telemetry,
)
from chakrakit.errors import ConfigError

DAY = 86_400.0


def pool(slow: float, seed: int = 0, noise: float = 0.01) -> Pool:
    return Pool(PoolPlan(nodes=64, slow_share=slow, noise=noise), np.random.default_rng(seed))


def test_one_slow_node_slows_the_whole_job() -> None:
    one = pool(0.0)
    one.factor[:] = 1.0
    one.factor[5] = 1.4
    assert pool_run(one, 64, DAY, Guarding()).slowness == pytest.approx(1.4)
    assert pool_run(one, 64, DAY, Guarding()).useful == pytest.approx(1 / 1.4)


def test_a_sweep_finds_all_slow_nodes_and_the_list_keeps_them_out() -> None:
    one = pool(0.1, noise=0.0)
    run = pool_run(one, 32, DAY, Guarding(sweep_limit=1.02))
    assert run.slowness == 1.0
    assert one.excluded.tolist() == (one.factor > 1).tolist()
    assert run.useful == pytest.approx(DAY / (DAY + 600))


def test_a_monitor_replaces_a_node_that_becomes_slow_in_the_run() -> None:
    plan = PoolPlan(nodes=64, onsets_per_day=0.2, noise=0.0)
    watched, blind = (Pool(plan, np.random.default_rng(1)) for _ in range(2))
    kept = pool_run(watched, 32, DAY, Guarding(monitor_limit=1.02))
    assert kept.replaced > 0
    assert kept.slowness < pool_run(blind, 32, DAY, Guarding()).slowness


def test_pools_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="give 1 node or more"):
        PoolPlan(nodes=0)
    with pytest.raises(ConfigError, match="a job of 65 nodes does not fit a pool of 64"):
        pool_run(pool(0.0), 65, DAY, Guarding())


def test_telemetry_shows_an_incident_where_its_label_is() -> None:
    told = telemetry(4, 200, [Incident(2, "nic", 50, 120)], seed=3)
    table = told.table()
    rows = table.filter((table["node"].to_numpy() == 2) & (table["second"].to_numpy() < 100))
    nic, labels = rows["nic"].to_numpy(), rows["incident"].to_pylist()
    assert labels == [None] * 50 + ["nic"] * 50
    assert nic[:50].mean() == pytest.approx(1.0, abs=0.05)
    assert nic[50:].mean() == pytest.approx(0.6, abs=0.05)


def test_chains_that_exclude_what_failed_end_well_more_often() -> None:
    def share(exclude: float) -> float:
        plan = RetryPlan(60, 63, 3, 0.9, 0.0, 6, 11.0, exclude)
        rng = np.random.default_rng(0)
        return float(np.mean([retry_chain(plan, rng).success for _ in range(300)]))

    assert share(1.0) > 3 * share(0.0)
    sure = retry_chain(RetryPlan(4, 8, 0, 0.0, 0.0, 6, 11.0, 1.0), np.random.default_rng(0))
    assert (sure.success, sure.attempts, sure.hours) == (True, 1, pytest.approx(11 / 60))


def test_a_pool_ages_by_the_length_of_the_job() -> None:
    """However often the monitor looks; a node becomes slow every ten days."""
    plan = PoolPlan(nodes=64, onsets_per_day=0.1, noise=0.0)
    for slices in (4, 24):
        aged = Pool(plan, np.random.default_rng(3))
        pool_run(aged, 64, DAY, Guarding(), slices)
        slow = float((aged.factor > 1).mean())
        assert slow == pytest.approx(0.1, abs=0.06)
