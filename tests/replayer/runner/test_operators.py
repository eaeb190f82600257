"""Operators that a replay may call, and those that end it."""

from __future__ import annotations

import pytest

from chakrakit.operators import collective_of
from chakrakit.replayer.runner import ALLOWED, FUNCTIONAL, ISSUED, REFUSED
from support import replayable


def test_what_is_refused_is_never_called():
    assert not set(REFUSED) & set(ALLOWED)
    assert "opens a file" in REFUSED["from_file"]


@pytest.mark.parametrize("name", ["mm", "add", "embedding", "convolution", "native_layer_norm"])
def test_the_operators_of_models_are_there(name):
    assert name in ALLOWED


def test_every_operator_is_one_that_pytorch_knows_or_knew():
    """A name with a slip of the pen would never be replayed: nearly all must be in this PyTorch."""
    torch = pytest.importorskip("torch")
    known = {name for name in ALLOWED if hasattr(torch.ops.aten, name)}
    assert len(known) > 0.97 * len(ALLOWED), sorted(set(ALLOWED) - known)


def test_the_runners_list_is_the_tables_own():
    """Written by `PYTHONPATH=src:tests python tests/support/replayable.py`."""
    assert replayable.FILE.read_text() == replayable.module()


def test_what_a_replay_issues_is_the_collective_that_the_table_of_names_says():
    words = {**ISSUED, **FUNCTIONAL}
    kinds = {
        name: collective_of(name.partition("::")[2])
        for name, word in words.items()
        if word != "wait"
    }
    said = {
        name: word.upper().removesuffix("_FLAT").removesuffix("_COALESCED")
        for name, word in words.items()
        if word != "wait"
    }
    assert kinds == said
