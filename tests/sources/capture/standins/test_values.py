"""Values that fake tensors do not have."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.observing import KnownValues, RealValues
from chakrakit.sources.capture.recording import NeedsValue
from chakrakit.sources.capture.standins import ValueReaders
from chakrakit.sources.capture.standins.values import Placeholder


@pytest.fixture
def installed(patches):
    """Installs the values, some of them declared."""

    def install(**declared):
        known = KnownValues(patches)
        real = RealValues(patches)
        ValueReaders(patches, known, real, {k.strip("_"): v for k, v in declared.items()}).install()
        return known

    return install


def test_a_placeholder_can_be_calculated_with_and_printed():
    value = Placeholder(1.0, "train.py:3")
    made = 2 * value + 1 - value / 4
    assert f"{made:.2f}" == "2.75"
    assert isinstance(made, Placeholder)
    assert f"{value / 0:.1f}" == "1.0"  # nobody knows, and nothing fails


def test_a_placeholder_is_below_infinity():
    value = Placeholder(1.0, "train.py:3")
    assert value < float("inf")
    assert value > -float("inf")
    assert not value >= float("inf")


@pytest.mark.parametrize("decide", [lambda v: v < 1, lambda v: v == 1, bool])
def test_a_placeholder_decides_nothing(decide):
    with pytest.raises(NeedsValue, match=r"taken from a tensor at train.py:3 decides.*--value"):
        decide(Placeholder(1.0, "train.py:3") + 1)


def test_a_loss_that_is_read_is_a_placeholder_and_that_is_said(installed, patches, fake):
    installed()
    loss = torch.empty(3).sum()
    assert f"{loss.item():.1f}" == "1.0"
    assert f"{torch.empty(2, 3)}" == "tensor(..., size=(2, 3), dtype=torch.float32)"
    (warning,) = patches.warnings
    assert warning.startswith("test_values.py:")
    assert warning.endswith("the value of a tensor is a placeholder (1)")


def test_what_is_known_of_every_element_is_exact(installed, patches, fake):
    known = installed()
    counts = torch.empty(2, 2, dtype=torch.int64)
    known.note("full", ((2, 2), 3), {}, counts)
    assert counts.tolist() == [[3, 3], [3, 3]]
    assert counts.numpy().sum() == 12
    assert list(patches.warnings) == []


def test_whole_numbers_and_truth_values_are_asked_for(installed, fake):
    installed()
    count = torch.empty(1, dtype=torch.int64).item()
    assert f"{count + 3} of {100 * count / 7:.1f}" == "1 of 1.0"  # printed, and never computed
    for decide in (lambda: range(count), lambda: count > 0, lambda: [0, 1][count]):
        with pytest.raises(NeedsValue, match=r"taken from a tensor at test_values.py:\d+ decides"):
            decide()
    with pytest.raises(NeedsValue, match="the script reads whether a tensor is true"):
        bool(torch.empty(1, dtype=torch.bool))


def test_a_declared_value_is_taken_for_its_line(patches, fake):
    tensor = torch.empty(1, dtype=torch.int64)
    values = ValueReaders(patches, KnownValues(patches), RealValues(patches), {})
    try:
        values.decisive(tensor)
    except NeedsValue as error:
        line = str(error).partition(": ")[0]
    number = int(line.partition(":")[2])
    values.declared = {str(n): 5.0 for n in range(number, number + 20)}
    assert values.value(tensor) == 5


def test_real_tensors_are_read_as_ever(installed):
    installed()
    assert (torch.tensor(3).item(), torch.ones(2).tolist(), bool(torch.tensor(True))) == (
        3,
        [1.0, 1.0],
        True,
    )


def test_a_mask_that_transformers_asks_about_leaves_nothing_out(installed, patches, fake):
    """Whether all of a padding mask is true decides whether transformers writes a mask out."""
    installed()
    asked = compile("answer = bool(mask.all())", "x/transformers/masking_utils.py", "exec")
    found = {"mask": torch.empty(2, 3) > 0}
    exec(asked, found)
    assert found["answer"] is True
    assert any("leaves nothing out" in warning for warning in patches.warnings)
