"""How long a step takes with fewer nodes, and the clock of the plan's checkpoints."""

from __future__ import annotations

import pytest

from chakrakit.campaigns.checkpoints import Tier
from chakrakit.campaigns.failures import Fixed
from chakrakit.campaigns.plan import CampaignPlan
from chakrakit.campaigns.recovery import Recovery

PLAN = CampaignPlan(
    step_seconds=10,
    steps=100,
    nodes=16,
    spares=0,
    repair=Fixed(0.0),
    every=5,
    tiers=(Tier(stalls=(2.0,)),),
    recovery=Recovery(),
    steps_by_nodes={12: 13.0},
)


@pytest.mark.parametrize(
    ("nodes", "seconds"),
    [
        (16, 10),
        (12, 13),
        (14, 160 / 14),  # the whole job's work on fewer nodes
        (8, 13 * 12 / 8),  # that of the next larger job that is known
    ],
)
def test_a_step_with_fewer_nodes(nodes, seconds):
    assert PLAN.step_with(nodes) == pytest.approx(seconds)


def test_the_clock_counts_steps_and_checkpoints():
    """The third checkpoint is complete after 15 steps of 10 s and three stalls of 2 s."""
    assert PLAN.cadence.at(3, PLAN.step_seconds) == 156
