"""What all tests share: the same random examples in every run, no time limits, and what is slow."""

import pytest
from hypothesis import HealthCheck, settings

from support.engines import pickled  # noqa: F401 - a fixture

settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")

LARGE = {"gpt2_124m_b8_s1024", "gpt_fsdp_tp_4", "resnet50_b128"}
"""The largest recordings: a test of several recordings is left out of `make check` for these."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks cases of the largest recordings as slow."""
    for item in items:
        call = getattr(item, "callspec", None)
        values = call.params.values() if call else ()
        if any(isinstance(value, str) and value in LARGE for value in values):
            item.add_marker(pytest.mark.slow)
