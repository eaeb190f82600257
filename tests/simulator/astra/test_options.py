"""The settings of one run: ASTRA-sim's defaults, and what cannot be set."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.errors import ConfigError
from chakrakit.simulator.astra import AstraOptions


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queues": 0}, "--queues is 0; it must be 1 to 1024"),
        ({"queues": 1025}, "--queues is 1025"),
        ({"backend": "flow"}, "--backend is 'flow'; it must be unaware or aware"),
        ({"injection_scale": -0.5}, "--injection-scale is -0.5; it must be 0 or more"),
        ({"injection_scale": float("nan")}, "--injection-scale is nan"),
    ],
)
def test_what_cannot_be_set_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        AstraOptions(**given)


def test_the_defaults_are_those_of_astra_sim() -> None:
    given = AstraOptions()
    assert (given.backend, given.queues, given.injection_scale) == ("unaware", 1, 1.0)
    assert not given.rendezvous
    assert not given.lenient
