"""How to replay: the choices of `chakra replay`."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.replayer import ReplayOptions


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"mode": "half"}, "mode 'half'; there are full, compute, comm, emulate"),
        ({"device": "tpu"}, "device 'tpu'; there are cpu, cuda"),
        ({"shrink": "guess"}, "shrink 'guess'; there are keep, scale"),
        ({"nproc": -1}, "nproc -1; each is a process, so give 1 or more"),
    ],
)
def test_what_there_is_not_is_refused(choice, said):
    with pytest.raises(ConfigError, match=said):
        ReplayOptions(**choice)


@pytest.mark.parametrize(
    ("choice", "backend"),
    [({}, "gloo"), ({"device": "cuda"}, "nccl"), ({"device": "cuda", "backend": "gloo"}, "gloo")],
)
def test_the_backend_is_the_device_s_unless_another_is_asked_for(choice, backend):
    assert ReplayOptions(**choice).backend_name == backend
