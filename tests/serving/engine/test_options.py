"""What an engine's numbers may be, whatever preset they are from."""

from __future__ import annotations

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
        ("remote_gbps", 0.0, "give more than 0"),
    ],
)
def test_a_number_that_cannot_be_is_named(name: str, value: float, said: str) -> None:
    options = EngineOptions(name="mine", **{name: value})
    with pytest.raises(ConfigError, match=f"engine mine: {name} is {value}; {said}"):
        options.check()
