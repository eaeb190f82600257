"""Checkpoint policies: how often, at what price, and which failures a copy survives."""

from __future__ import annotations

import math

import msgspec
import pytest

from chakrakit.campaigns.checkpoints import CHECKPOINT_POLICIES, NEVER, Situation, Tier, cadence_of
from chakrakit.campaigns.failures import SCOPES
from chakrakit.errors import ConfigError


def test_a_write_longer_than_the_interval_holds_the_next_snapshot(job):
    made = job(
        checkpoint="{policy: asynchronous, interval_steps: 10, seconds: 130, snapshot_seconds: 2}"
    )
    assert made.plan.tiers[0].stalls == (32.0,)


NOW = Situation(step_seconds=10.0, mtbf_seconds=10_000.0)


def policy(name, **fields):
    return CHECKPOINT_POLICIES[name](**fields)


@pytest.mark.parametrize(
    ("made", "every"),
    [
        (policy("interval", interval_steps=7, seconds=5.0), 7),
        (policy("young", seconds=50.0), 100),  # √(2 · 50 · 10,000) = 1,000 s
        (policy("young", seconds=0.001), 1),  # never less than a step
        (
            policy(
                "differential", interval_steps=3, seconds=1.0, difference_seconds=1.0, differences=2
            ),
            3,
        ),
        (policy("none"), NEVER),
    ],
)
def test_how_many_steps_lie_between_checkpoints(made, every):
    assert made.every(NOW) == every


def test_where_nothing_fails_no_optimum_is_ever_reached():
    assert policy("daly", seconds=5.0).every(Situation(10.0, math.inf)) == NEVER


@pytest.mark.parametrize(
    ("survives", "scopes"),
    [
        ("process", ["process"]),
        ("node", ["process", "node"]),
        ("cluster", ["process", "node", "rack", "cluster"]),
    ],
)
def test_which_failures_leave_a_copy_whole(survives, scopes):
    tier = Tier(stalls=(0.0,), survives=survives)
    assert [scope for scope in SCOPES if tier.outlives(scope)] == scopes


def test_a_restore_loads_a_full_copy_and_applies_the_differences_since():
    """Every fourth copy is a full one: 40 s, and 3 s for each difference after it."""
    made = policy(
        "differential",
        interval_steps=1,
        seconds=50.0,
        difference_seconds=5.0,
        differences=3,
        restore_seconds=40.0,
        apply_seconds=3.0,
    )
    (tier,) = made.tiers(NOW)
    assert tier.stalls == (50, 5, 5, 5)
    assert [tier.restore(n) for n in range(6)] == [0, 40, 43, 46, 49, 40]


def test_checkpoints_of_several_tiers_stop_the_job_for_each():
    """Every second copy goes to the far tier as well, every second of those for 9 s instead of 5 s."""
    near, far = Tier(stalls=(1.0,)), Tier(multiple=2, stalls=(5.0, 9.0))
    cadence = cadence_of(10, (near, far))
    assert [cadence.stalled(n) for n in range(6)] == [0, 1, 7, 8, 18, 19]


def test_tiers_are_multiples_of_the_shortest():
    text = [{"interval_steps": 10, "seconds": 0.0}, {"interval_steps": 40, "seconds": 2.0}]
    made = msgspec.convert({"tiers": text}, CHECKPOINT_POLICIES["tiered"])
    assert made.every(NOW) == 10
    assert [tier.multiple for tier in made.tiers(NOW)] == [1, 4]


@pytest.mark.parametrize("multiples", [(1, 4_294_967_296), (64, 81)])
def test_a_pattern_of_tiers_that_never_comes_round(multiples):
    with pytest.raises(ConfigError, match="let longer intervals be small multiples"):
        cadence_of(10, tuple(Tier(multiple=m, stalls=(1.0,)) for m in multiples))


def test_differences_without_end_are_refused(job):
    with pytest.raises(ConfigError, match="<= 4095"):
        job(
            checkpoint="{policy: differential, interval_steps: 10, seconds: 1, difference_seconds: 1, "
            "differences: 4611686018427387904}"
        )
