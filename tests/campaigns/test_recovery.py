"""Recovery policies answer failures with the verbs of a job in progress."""

from __future__ import annotations

from random import Random

import pytest

from chakrakit.campaigns.recovery import RECOVERY_POLICIES


class Job:
    """Notes what a policy asks for. `missing` places are empty, and `spares` can fill them."""

    def __init__(self, missing=1, spares=0, runs=True, waits=False, shrinks=True):
        self.missing, self.spares, self.runs, self.waits = missing, spares, runs, waits
        self.present, self.shrinks = 16 - missing, shrinks
        self.chance, self.asked = Random(0), []

    def can_grow(self):
        return self.missing > 0 and self.spares > 0

    def fill(self):
        used = min(self.missing, self.spares)
        self.missing, self.spares = self.missing - used, self.spares - used
        return self.missing == 0

    def shrink(self, least):
        return self.shrinks and self.present >= least

    def restart(self, seconds, success):
        self.asked.append(("restart", seconds, success))

    def __getattr__(self, verb):
        return lambda *given: self.asked.append((verb, *given))


def asked(policy, moment, job, *given, **options):
    made = RECOVERY_POLICIES[policy](**options)
    getattr(made, moment)(job, *given)
    return job.asked


RESTART = {"restart_seconds": 300.0, "replacement_seconds": 40.0, "restart_success": 0.9}


@pytest.mark.parametrize(
    ("policy", "job", "options", "answer"),
    [
        ("restart", Job(1, spares=1), RESTART, ("restart", 340, 0.9)),
        ("restart", Job(0), RESTART, ("restart", 300, 0.9)),  # a process failed; its node is there
        ("restart", Job(1), RESTART, ("wait",)),
        ("hot_spares", Job(1, spares=1), {"swap_seconds": 20.0, **RESTART}, ("restart", 20, 0.9)),
        ("hot_spares", Job(0), {"swap_seconds": 20.0, **RESTART}, ("restart", 300, 0.9)),
        ("hot_spares", Job(1, spares=1, waits=True), RESTART, ("restart", 340, 0.9)),
        ("elastic", Job(1), RESTART, ("restart", 300, 0.9)),  # with one replica fewer
        ("elastic", Job(1), {"min_nodes": 16}, ("wait",)),
        ("in_step", Job(1), {"rejoin_seconds": 7.0}, ("restart", 7, 1)),
        ("in_step", Job(1, spares=1, waits=True), RESTART, ("restart", 340, 0.9)),
    ],
)
def test_what_a_policy_does_once_it_knows(policy, job, options, answer):
    assert asked(policy, "detected", job, **options) == [answer]


@pytest.mark.parametrize(
    ("policy", "job", "options", "answer"),
    [
        ("restart", Job(1), {"detection_seconds": 60.0}, [("roll_back", "node"), ("detect", 60.0)]),
        ("in_step", Job(1), {"detection_seconds": 5.0}, [("redo_step",), ("detect", 5.0)]),
        ("in_step", Job(1), {"min_nodes": 16}, [("roll_back", "node"), ("detect", 0.0)]),
        (
            "live_migration",
            Job(1, spares=1),
            {"migration_seconds": 30.0, "detection_seconds": 1.0},
            [("redo_step",), ("restart", 31, 1)],
        ),
        ("live_migration", Job(1), {}, [("roll_back", "node"), ("detect", 0.0)]),
        ("live_migration", Job(1, 1), {"coverage": 0.1}, [("roll_back", "node"), ("detect", 0.0)]),
    ],
)
def test_what_a_policy_does_when_a_node_fails(policy, job, options, answer):
    """Of the seed, the first draw is 0.84: a coverage of 0.1 leaves the state out of reach."""
    assert asked(policy, "struck", job, "node", **options) == answer


@pytest.mark.parametrize(
    ("policy", "job", "answer"),
    [
        ("restart", Job(1, spares=1), []),  # a job that runs goes on
        ("restart", Job(1, spares=1, waits=True), [("restart", 0, 1)]),
        ("elastic", Job(1, spares=1), [("regrow_at_checkpoint",)]),
        ("in_step", Job(1, spares=1), [("redo_step",), ("restart", 0, 1)]),
    ],
)
def test_what_a_policy_does_with_a_node_that_returns(policy, job, answer):
    assert asked(policy, "returned", job) == answer


def test_a_slow_node_is_given_up_after_its_step():
    assert asked("restart", "slow", Job(0)) == [("detect", 0.0)]


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ("hot_spares", "swap_seconds"),
        ("in_step", "rejoin_seconds"),
        ("live_migration", "migration_seconds"),
    ],
)
def test_a_policy_notes_its_own_time_that_is_not_given(job, policy: str, field: str) -> None:
    given = f"policy: {policy}, detection_seconds: 30, restart_seconds: 300"
    notes = job(recovery=f"{{{given}}}").notes
    assert [n for n in notes if f"recovery: {field} taken as 0" in n and "restart_seconds" in n]
    assert not any(field in n for n in job(recovery=f"{{{given}, {field}: 5}}").notes)
