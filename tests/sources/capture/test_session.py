"""One rank of a program, run in this process with nothing allocated."""

from __future__ import annotations

import os

import pytest
import torch

from chakrakit.sources.capture import session as module
from chakrakit.sources.capture.recording import CapturedRank, Finished, Lifetimes, Op
from chakrakit.sources.capture.session import CaptureOptions, Session


def train(steps):
    model = torch.nn.Linear(4, 3, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def captured(taken, **options):
    session = Session(CaptureOptions(ranks=4, **options), 3)
    with session:
        train(taken)
    return session.recording()


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("taken", "wanted", "kept"),
    [
        (4, None, [1]),  # the second step, whose optimizer has its state
        (1, None, [0]),  # or the only one
        (4, (0, 2), [0, 1]),
        (2, (3, 4), []),
    ],
)
def test_the_steps_that_are_recorded(taken, wanted, kept):
    made = captured(taken, steps=wanted)
    assert made.steps == kept
    assert {op.step for op in made.ops} == set(kept)
    assert (made.rank, made.world) == (3, 4)


def test_parameters_and_work_are_those_of_the_model():
    made = captured(2)
    assert made.parameters == 12
    flops = [made.signatures[op.signature].flops for op in made.ops]
    assert sum(flops) == 2 * (2 * 2 * 4 * 3)  # forward, and the gradient of the weights
    assert made.peak_bytes > 0


def test_the_program_is_told_its_rank_and_all_is_as_before_afterwards(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "7")
    before = torch.nn.Module._apply
    with Session(CaptureOptions(ranks=20, local_size=8), 13):
        told = {n: os.environ[n] for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")}
        assert torch.nn.Module._apply is not before
    assert told == {"RANK": "13", "WORLD_SIZE": "20", "LOCAL_RANK": "5", "GROUP_RANK": "1"}
    assert ("RANK" in os.environ, os.environ["WORLD_SIZE"]) == (False, "7")
    assert torch.nn.Module._apply is before


@pytest.mark.slow
def test_only_the_end_of_the_last_step_ends_the_program_quietly():
    with Session(CaptureOptions(ranks=1), 0):
        raise Finished
    with pytest.raises(ValueError, match="mine"), Session(CaptureOptions(ranks=1), 0):
        raise ValueError("mine")


def test_waits_follow_the_operators_that_are_kept():
    """Of four operators those of step 1 stay; a wait for one that went waits for nothing."""
    ops = [
        Op(signature=0, module=0, phase=0, step=0, reads=[], writes=[]),
        Op(signature=1, module=0, phase=0, step=1, reads=[], writes=[]),
        Op(signature=2, module=0, phase=0, step=1, reads=[], writes=[], waits_for=1),
        Op(signature=3, module=0, phase=0, step=1, reads=[], writes=[], waits_for=0),
    ]
    recording = CapturedRank(rank=0, world=1, ops=ops, lifetimes=Lifetimes({7: 2, 8: 0}, [9]))
    kept, lifetimes = module._of_steps(recording, {1})
    assert [(op.signature, op.waits_for) for op in kept] == [(1, -1), (2, 0), (3, -1)]
    assert (lifetimes.died, lifetimes.returned) == ({7: 1}, [9])
