"""Mixed precision for GPUs on the host that stands in for them."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.standins import autocast


@pytest.fixture(autouse=True)
def installed(patches, fake):
    autocast.install(patches)


def dtypes():
    x = torch.ones(2, 2)
    return x.mm(x).dtype, x.mm(x).softmax(-1).dtype, x.cumsum(0).dtype


def test_a_gpu_s_rules_hold_inside_and_the_host_s_again_afterwards(patches):
    """A softmax of halves gives single precision on GPUs and not on the host."""
    with torch.autocast("cuda"):
        assert dtypes() == (torch.float16, torch.float32, torch.float32)
        assert torch.is_autocast_enabled()
        assert torch.get_autocast_gpu_dtype() is torch.float16
    assert not torch.is_autocast_enabled()
    patches.undo()
    with torch.autocast("cpu"):
        assert dtypes()[:2] == (torch.bfloat16, torch.bfloat16)


def test_the_type_that_is_asked_for_is_used():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert dtypes()[0] is torch.bfloat16
    with torch.autocast("cuda", enabled=False):
        assert dtypes()[0] is torch.float32


@pytest.mark.filterwarnings("ignore")
def test_the_older_spelling_does_the_same():
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        assert dtypes()[0] is torch.bfloat16


def test_operators_that_promote_take_the_widest_type():
    half, single = torch.ones(2, dtype=torch.float16), torch.ones(2)
    with torch.autocast("cuda"):
        assert torch.dot(half, half).dtype is torch.float16
        assert torch.dot(half, single).dtype is torch.float32


@pytest.mark.parametrize("scaler", [torch.amp.GradScaler, torch.cuda.amp.GradScaler])
@pytest.mark.filterwarnings("ignore")
def test_gradients_are_scaled_on_the_host(scaler):
    made = scaler("cuda") if scaler is torch.amp.GradScaler else scaler()
    assert made.is_enabled()
    assert made.scale(torch.ones(1)).device.type == "cpu"


def test_a_scaler_s_scale_is_the_one_it_began_with():
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    assert f"{scaler.get_scale():.0f}" == "1024"
    assert torch.amp.GradScaler("cuda").get_scale() == 65536.0
    assert torch.amp.GradScaler("cuda", enabled=False).get_scale() == 1.0
