"""The order of communication in traces that never ran."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.replayer.recording import issue_levels


def built(build):
    t = ck.TraceBuilder()
    build(t)
    return t.build()


def test_a_receive_comes_after_all_that_its_sender_must_do_first():
    def sender(t):
        t.send("s", 0, 1, 8, deps=[t.comp("b", deps=[t.comp("a")])])

    def receiver(t):
        t.comp("c", deps=[t.recv("r", 0, 1, 8)])

    levels = issue_levels({0: built(sender), 1: built(receiver)})
    assert {rank: found.tolist() for rank, found in levels.items()} == {0: [0, 1, 2], 1: [3, 4]}


def test_ranks_that_wait_for_each_other_s_messages_are_refused():
    def rank(mine, other):
        return built(lambda t: t.send("s", mine, other, 8, deps=[t.recv("r", other, mine, 8)]))

    with pytest.raises(TraceError, match="in a circle of 4 nodes"):
        issue_levels({0: rank(0, 1), 1: rank(1, 0)})
