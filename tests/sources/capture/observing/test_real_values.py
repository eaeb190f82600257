"""Real values beside fake tensors: what the host computes can be looked at, what the device does cannot."""

from __future__ import annotations

import copy

import pytest
import torch

from chakrakit.sources.capture import capturing
from chakrakit.sources.capture.observing import real_values
from chakrakit.sources.capture.recording import NeedsValue
from chakrakit.sources.capture.session import Session


@pytest.fixture
def session():
    """One of two ranks that is shown an H100."""
    with Session(capturing.options_of(2, "h100", None, {}), rank=0) as inside:
        yield inside


def test_seeds_indices_lengths_and_masks_are_those_of_a_run(session):
    torch.manual_seed(7)
    drawn = (torch.randint(100, (3,)).tolist(), torch.randperm(5).tolist(), torch.rand(2).tolist())
    lengths = torch.tensor([3, 1, 2])
    mask = torch.arange(4) < lengths[:, None]
    seen = (mask.sum().item(), mask.nonzero().shape, lengths[lengths > 1].tolist())
    session.__exit__(None)
    torch.manual_seed(7)
    assert drawn == (
        torch.randint(100, (3,)).tolist(),
        torch.randperm(5).tolist(),
        torch.rand(2).tolist(),
    )
    assert seen == (6, (6, 2), [3, 2])


def test_views_and_changes_in_place_share_their_values(session):
    table = torch.zeros(2, 3)
    row = table[1]
    row += 2
    table.mul_(2)
    assert table.tolist() == [[0, 0, 0], [4, 4, 4]]
    assert row.numpy().sum() == 12


def test_what_is_small_is_known_however_much_was_computed_before(session, monkeypatch):
    monkeypatch.setattr(real_values, "MOST_WORK", 1 << 18)
    for _ in range(8):
        torch.randn(1 << 17)
    positions = torch.arange(8, device="cuda")
    assert bool((torch.diff(positions) == 1).all())


def test_tokens_keep_their_values_on_the_device_and_fractions_do_not(session):
    tokens = torch.tensor([[1, 2, 0]]).cuda()
    assert (tokens != 0).sum().item() == 2
    weights = torch.ones(3).to("cuda")
    with pytest.raises(NeedsValue, match=r"from the device and decides by it.*--value test_real"):
        bool((weights * torch.rand(3, device="cuda")).sum() > 1)


def test_what_the_device_changed_has_no_value_any_more_nor_have_its_views(session):
    counts = torch.zeros(4, dtype=torch.int64, device="cuda")
    view = counts[:2]
    counts.add_(torch.randint(3, (4,), device="cuda"))
    with pytest.raises(NeedsValue, match="decides"):
        bool(view[0] > 1)


def test_the_error_names_the_line_that_made_the_value(session):
    found = (torch.rand(3, device="cuda") > 2).any()
    with pytest.raises(NeedsValue, match=r"from the device, which test_real_values.py:\d+ made,"):
        bool(found)


@pytest.mark.slow
def test_what_is_too_large_is_not_computed(session, monkeypatch):
    monkeypatch.setattr(real_values, "MOST_ELEMENTS", 8)
    monkeypatch.setattr(real_values, "MOST_ON_DEVICE", 4)
    assert torch.ones(8).sum().item() == 8
    with pytest.raises(NeedsValue):
        bool(torch.rand(9).sum() > 1)
    assert list(session.patches.stubbed)[-1].startswith("random numbers on the host: more")


@pytest.mark.slow
def test_tensors_on_the_device_say_so_and_come_back_as_copies(session):
    session.recorder.recording = True
    here = torch.ones(3)
    there = here.to("cuda")
    assert (there.device, there.is_cuda, here.is_cuda) == (torch.device("cuda", 0), True, False)
    assert torch.zeros(2, device=there.device).is_cuda
    assert there.cpu().device == torch.device("cpu")
    assert there.to(there.device) is there
    names = [session.recorder.signatures.listed[op.signature].name for op in session.recorder.ops]
    assert [n for n in names if n.startswith("Memcpy")] == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pageable)",
    ]


def test_a_copied_module_has_values_of_its_own(session):
    layer = torch.nn.Linear(2, 2)
    copied = copy.deepcopy(layer)
    with torch.no_grad():
        copied.bias.fill_(3)
    assert copied.bias.tolist() == [3, 3]
    assert layer.bias.tolist() != [3, 3]
