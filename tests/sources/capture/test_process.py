"""Ranks in processes of their own: what they leave, and what they failed with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from chakrakit.errors import ConfigError
from chakrakit.sources.capture.process import Ranks, failure_of, recorded
from chakrakit.sources.capture.recording import CapturedRank, CaptureError
from chakrakit.sources.capture.session import CaptureOptions


@pytest.fixture
def asked():
    """Requests that were run; each leaves a recording that tells the rank's name."""
    requests = []

    def run(request, **more):
        requests.append(request)
        mail = {f"from {request.rank}": b"hello"}
        made = CapturedRank(rank=request.rank, world=2, mail=mail, **more)
        Path(request.out).write_bytes(msgspec.msgpack.encode(made))
        return 0

    return requests, run


def test_what_a_rank_told_is_there_for_those_captured_later(asked):
    requests, run = asked
    ranks = Ranks(CaptureOptions(ranks=2, steps=(4, 6)), run)
    assert [ranks(0, True).rank, ranks(1, False).rank] == [0, 1]
    assert list(ranks.mail) == ["from 0", "from 1"]
    first, second = requests
    assert (first.options.steps, first.quiet) == ((4, 6), False)
    assert (second.options.steps, second.quiet) == ((0, 1), True)  # its first step alone
    assert not Path(first.out).exists()


def test_a_failure_is_raised_with_the_rank_it_happened_on(asked):
    _, run = asked
    ranks = Ranks(
        CaptureOptions(ranks=2), lambda request: run(request, failure="the script failed")
    )
    with pytest.raises(CaptureError, match=r"^the script failed$"):
        ranks(0, True)
    with pytest.raises(CaptureError, match=r"^the script failed \(rank 1\)$"):
        ranks(1, True)


@pytest.mark.parametrize(("status", "said"), [(-11, "signal SIGSEGV"), (3, "exit code 3")])
def test_a_process_that_left_nothing_is_named_with_how_it_ended(status, said):
    with pytest.raises(CaptureError, match=f"the process of rank 1 ended with {said}"):
        Ranks(CaptureOptions(ranks=2), lambda request: status)(1, True)


def test_a_trace_that_cannot_be_made_is_said_to_be_an_error_of_ours():
    def recording():
        raise AssertionError("kernels that wait for one another")

    session = SimpleNamespace(rank=1, options=CaptureOptions(ranks=2), recording=recording)
    said = recorded(session, "").failure
    assert "AssertionError: kernels that wait for one another; test_process.py:" in said
    assert "an error of chakrakit" in said


def test_an_error_is_told_in_words():
    assert failure_of(ConfigError("ours")) == "ours"
    assert failure_of(SystemExit(0)) == failure_of(SystemExit()) == ""
    assert failure_of(SystemExit(3)) == "the script ended itself with exit code 3"
    try:
        raise ValueError("my own problem")
    except ValueError as error:
        said = failure_of(error)
    assert said.startswith("test_process.py:")
    assert said.endswith("the script failed\nValueError: my own problem")
    cure = "\nno GPU was named, and PyTorch reports none: name one with --device h100"
    asked = AssertionError("Torch not compiled with CUDA enabled")
    assert failure_of(asked) == failure_of(asked, "h100") + cure


@pytest.mark.parametrize(
    ("reached", "steps", "said"),
    [
        (0, None, "the script ended without a step: no optimizer's step() was called"),
        (1, (5, 6), "the script took 1 step and --steps 5:6 begins at step 5"),
        (3, (5, 6), "the script took 3 steps and --steps 5:6 begins at step 5"),
    ],
)
def test_a_session_without_the_steps_says_what_there_was(reached, steps, said):
    session = SimpleNamespace(
        rank=0,
        reached=reached,
        options=CaptureOptions(ranks=2, steps=steps),
        recording=lambda: CapturedRank(rank=0, world=2),
    )
    assert recorded(session, "").failure.startswith(said)
    assert recorded(session, "another").failure == "another"
