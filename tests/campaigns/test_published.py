"""The published campaigns of the documentation come out as its pages say."""

from __future__ import annotations

import pytest

from chakrakit.campaigns import campaign, read_job
from support.paths import EXAMPLES


def run(name: str, histories: int):
    return campaign(
        read_job(EXAMPLES / "campaigns" / f"{name}.yaml"), histories=histories, changes=False
    )


def test_54_days_on_16384_gpus_have_419_failures_and_over_90_percent():
    done = run("llama3", 10)
    assert done.failures == pytest.approx(419, rel=0.04)
    assert done.effective_ratio.mean == pytest.approx(0.911, abs=0.005)


def test_three_months_on_9600_gpus_are_97_percent_effective():
    done = run("byterobust", 10)
    assert done.effective_ratio.mean == pytest.approx(0.971, abs=0.003)


@pytest.mark.parametrize(
    ("policy", "minutes"), [("migration", 405), ("restart", 818), ("in_step", 498)]
)
def test_three_policies_on_64_gpus(policy, minutes):
    """The first two are fitted to what was published; the third is the campaign's own answer."""
    done = run(f"recovery_{policy}", 150)
    assert done.days.mean * 1440 == pytest.approx(minutes, rel=0.02)
