"""How to replay: the choices of `chakra replay`."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.replayer.plan.options import ReplayOptions


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "slow"}, "mode 'slow'; there are full, compute, comm, emulate"),
        ({"device": "tpu"}, "device 'tpu'; there are cpu, cuda"),
        ({"shrink": "grow"}, "shrink 'grow'; there are keep, scale"),
        ({"nproc": -1}, "nproc -1; it should be 1 or more"),
    ],
)
def test_what_cannot_be_chosen_is_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        ReplayOptions(**given)


@pytest.mark.parametrize(
    ("given", "backend"),
    [({}, "gloo"), ({"device": "cuda"}, "nccl"), ({"device": "cuda", "backend": "gloo"}, "gloo")],
)
def test_the_backend_follows_the_device(given, backend):
    assert ReplayOptions(**given).backend_name == backend
