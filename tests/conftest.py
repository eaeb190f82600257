"""What all tests share: the same random examples in every run, no time limits, and what is slow."""

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

import pytest
from hypothesis import HealthCheck, settings

from chakrakit.start_up import collect_seldom
from support.engines import pickled  # noqa: F401 - a fixture
from support.examples import FEW, QUICK

settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(QUICK, settings.get_profile("same"), max_examples=FEW)
settings.load_profile("same")

LARGE = {"gpt2_124m_b8_s1024", "gpt_fsdp_tp_4", "mlp_ddp_nccl_1", "resnet50_b128"}
"""The largest recordings: a test of several recordings is left out of `make check` for these."""

SEEDS = ("seed", "block")
"""Of random problems under one of these names, `make check` tries the first."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Searches for garbage as seldom as commands do, and never among the tests: they live until the end.

    Collecting takes 9 s of CPU instead of 14, and reading all sources in one test 2.7 instead of 5.9.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
    collect_seldom()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow what `make check` leaves out of a test with several cases."""
    earlier: Counter[str] = Counter()
    for item in items:
        if _is_left_out(item, earlier):
            item.add_marker(pytest.mark.slow)


def _is_left_out(item: pytest.Item, earlier: Counter[str]) -> bool:
    """A case of the largest recordings, a random problem after the first, or one beyond `first(n)`."""
    call = getattr(item, "callspec", None)
    given = call.params if call else {}
    large = any(isinstance(v, str) and PurePath(v).name in LARGE for v in given.values())
    seeds = (given.get(name) for name in SEEDS)
    if large or any(isinstance(seed, int) and seed > 0 for seed in seeds):
        return True
    first = item.get_closest_marker("first")
    test = item.nodeid.partition("[")[0]
    earlier[test] += 1
    return first is not None and earlier[test] > first.args[0]


def pytest_unconfigure() -> None:
    """Lets Python look at everything again, so that what is in cycles goes before the core does."""
    gc.unfreeze()
