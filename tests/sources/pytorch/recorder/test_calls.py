"""Calls of a function that is known by its name alone."""

from __future__ import annotations

import inspect
import sys

import pytest

from chakrakit.sources.pytorch.recorder.calls import FollowedCalls


@pytest.fixture
def follow():
    """Follows calls by name until the test ends; returns the list that grows with each return."""
    followed = []

    def start(name):
        ended = []
        followed.append(FollowedCalls(name, lambda: ended.append(len(ended))))
        followed[-1].start()
        return ended

    before = sys.getprofile()
    yield start
    for calls in followed:
        calls.stop()
    sys.setprofile(before)


def test_every_outermost_return_is_told_and_the_function_stays_itself(follow):
    class Base:
        def generate(self, count):
            return count

    class Model(Base):
        def generate(self, count=2, *, depth=1):
            inner = super().generate(count)
            return inner if depth == 0 else self.generate(inner, depth=depth - 1)

    signature = inspect.signature(Model.generate)
    ended = follow("Model.generate")
    assert [Model().generate(), Model().generate(3), Model().generate(4, depth=3)] == [2, 3, 4]
    assert ended == [0, 1, 2]  # recursive calls and the other generate are not steps
    assert inspect.signature(Model.generate) == signature


def test_nothing_is_traced_after_the_first_call(follow):
    def act():
        return 1

    ended = follow("act")
    act()
    assert sys.getprofile() is None
    act()
    assert ended == [0, 1]


def test_a_call_that_fails_ends_no_step(follow):
    def act(fails):
        if fails:
            raise KeyError

    ended = follow("act")
    act(False)
    with pytest.raises(KeyError):
        act(True)
    act(False)
    assert ended == [0, 1]


def test_a_generator_is_refused(follow):
    def tokens():
        yield 1

    follow("tokens")
    with pytest.raises(ValueError, match="tokens is a generator or coroutine"):
        list(tokens())
