"""PyTorch's transformer modules and the masks they look at."""

import pytest
import torch
from torch.nn.modules import transformer

from chakrakit.sources.capture.standins import transformers


@pytest.fixture
def detect(patches):
    transformers.install(patches)
    return lambda *args: transformer._detect_is_causal_mask(*args)


def test_a_mask_that_pytorch_made_is_known_to_be_causal(detect, patches):
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4)
    assert (detect(mask, None, 4), detect(mask, None, None), detect(mask, None, 5)) == (
        True,
        True,
        False,
    )
    assert list(patches.warnings) == []


def test_any_other_is_taken_not_to_be_and_that_is_said(detect, patches):
    assert detect(torch.zeros(4, 4), None, 4) is False
    (warning,) = patches.warnings
    assert warning.endswith("the mask is taken not to be a causal one")


@pytest.mark.parametrize(("mask", "said", "answer"), [(None, None, False), (None, True, True)])
def test_what_the_caller_says_counts(detect, mask, said, answer):
    assert detect(mask, said, 4) is answer
