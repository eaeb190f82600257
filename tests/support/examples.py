"""How many random examples a test tries: fewer in `make check`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

QUICK = "quick"
"""The profile of `make check`."""
FEW = 20
"""Random examples of a test there: a rule that is wrong in general fails on most of them."""


def examples(count: int, *suppressed: HealthCheck) -> settings:
    """Settings of a test that tries so many examples, where time is short the first few."""
    tried = min(count, FEW) if settings.get_current_profile_name() == QUICK else count
    checks = [*settings.get_profile("same").suppress_health_check, *suppressed]
    return settings(max_examples=tried, deadline=None, suppress_health_check=checks)
