"""What all tests share: the same random examples in every run, no time limits, and what is slow."""

import pytest
from hypothesis import HealthCheck, settings

from support.engines import pickled  # noqa: F401 - a fixture
from support.examples import FEW, QUICK

settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(QUICK, settings.get_profile("same"), max_examples=FEW)
settings.load_profile("same")

LARGE = {"gpt2_124m_b8_s1024", "gpt_fsdp_tp_4", "mlp_ddp_nccl_1", "resnet50_b128"}
"""The largest recordings: a test of several recordings is left out of `make check` for these."""

SEEDS, FIRST = ("seed", "block"), 3
"""Of random problems under one of these names, `make check` tries the first few."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks cases of the largest recordings, and all but the first random problems, as slow."""
    for item in items:
        call = getattr(item, "callspec", None)
        given = call.params if call else {}
        large = any(isinstance(value, str) and value in LARGE for value in given.values())
        seeds = (given.get(name) for name in SEEDS)
        if large or any(isinstance(seed, int) and seed >= FIRST for seed in seeds):
            item.add_marker(pytest.mark.slow)
