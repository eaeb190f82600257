"""What an engine's numbers may be, whatever preset they are from."""

from __future__ import annotations

import re

import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving import EngineOptions


def test_the_defaults_make_sense() -> None:
    EngineOptions().check()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("block_size", 0, "it must be 1 or more"),
        ("token_budget", float("nan"), "it must be 1 or more"),
        ("swap_gib", -1.0, "it must be 0 or more"),
        ("host_ms", float("inf"), "it must be 0 or more"),
        ("memory_share", 0.0, "it must be above 0 and at most 1"),
        ("memory_share", 1.1, "it must be above 0 and at most 1"),
        ("acceptance", -0.1, "it must be between 0 and 1"),
        ("safety_margin", 1.0, "it must be 0 or more and below 1"),
        ("remote_gbps", 0.0, "it must be 1e-06 or more"),
        ("max_requests", 2**63, "2,147,483,646 is the most"),
        ("num_blocks", 10**400, "2,147,483,646 is the most"),
        ("draft_ms", 1e300, "4,320,000,000 is the most"),
        ("swap_gib", 1e300, "1,073,741,824 is the most"),
        ("adapter_rank", -1, "it must be 0 or more"),
        ("mask_bandwidth", float("nan"), "it must be 0 or more"),
    ],
)
def test_a_number_that_cannot_be_is_named(name: str, value: float, said: str) -> None:
    options = EngineOptions(name="mine", **{name: value})
    with pytest.raises(ConfigError, match=re.escape(f"engine mine: {name} is {value}; {said}")):
        options.check()


@pytest.mark.parametrize(
    ("name", "sizes"), [("graphs", (0,)), ("graphs", (8, 2**63)), ("padding", (0, 64))]
)
def test_sizes_that_steps_are_padded_to_are_1_or_more(name: str, sizes: tuple[int, ...]) -> None:
    """The core divides by them."""
    with pytest.raises(ConfigError, match=f"{name} is .*; its sizes must be from 1 to"):
        EngineOptions(**{name: sizes}).check()


def test_the_host_has_time_for_a_full_step() -> None:
    EngineOptions(host_per_request_ms=1e6, max_requests=4000).check()
    with pytest.raises(ConfigError, match=r"max_requests is 5000; a step of so many .* 50 days"):
        EngineOptions(host_per_request_ms=1e6, max_requests=5000).check()
