"""What the core refuses: inputs are typed and checked before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.serving.cluster import Setup, run
from support.serving_engines import pool, together


def requests(**changed: Any) -> core.ServingRequests:
    none = np.zeros(2, np.int64)
    columns: dict[str, Any] = {
        "arrival": none,
        "prompt": none + 4,
        "output": none + 2,
        "after": none - 1,
        "priority": none,
        "adapter": none - 1,
        "offsets": np.zeros(3, np.int64),
        "ids": np.zeros(0, np.uint64),
        "unit": 16,
    }
    return core.ServingRequests(**{**columns, **changed})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prompt": np.array([4, 0])}, r"prompt\[1\] is 0; it must be 1 or more"),
        ({"output": np.array([4])}, "output has 1 entries; there are 2 requests"),
        (
            {"after": np.array([-1, 1])},
            r"after\[1\] is 1; a request follows one that stands before",
        ),
        ({"offsets": np.array([0, 2, 1])}, "offsets must have one entry more"),
        ({"unit": 0}, "unit is 0; it must be from 1"),
    ],
)
def test_requests_that_do_not_fit_together_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        requests(**changed)


def test_options_have_types_and_known_names() -> None:
    options = core.ServingOptions()
    with pytest.raises(TypeError):
        options.block_size = "16"  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        options.blocks = 3  # type: ignore[attr-defined]


def test_a_grid_needs_a_value_for_each_point() -> None:
    one, two = np.array([0.0]), np.array([0.0, 1.0])
    with pytest.raises(ValueError, match="attention has 3 values; its axes have 2 points"):
        core.ServingGrid(
            axes=[one, one, one, two], values=np.zeros(3), share_axes=[one] * 3, share=np.zeros(0)
        )


def test_a_fault_of_an_engine_that_is_not_there_is_refused() -> None:
    setup = Setup(together(2, 10, 2), [pool()], faults=[(0.0, 3, 1.0)])
    with pytest.raises(ConfigError, match="of engine 3 for 1 s; engines are 0 to 0"):
        run(setup)
