"""Kinds of ranks as a folded set: one body each, every rank bound to its own groups and peers."""

from __future__ import annotations

import pytest

from chakrakit.sources.capture.folding import Families, RankKind, fold
from chakrakit.sources.capture.recording import CommCall, CreatedGroup
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.model import CollectiveType as C
from chakrakit.trace.sets import Card

PAIRS = [CreatedGroup("1", (0, 1), "tp"), CreatedGroup("", (2, 3), "tp")]
RING = [CreatedGroup("pp", (0, 1, 2, 3), "pp")]


@pytest.fixture
def folded(recorded):
    """One kind of four ranks, folded."""

    def make(*ops, groups, **more):
        made = recorded(*ops, groups=groups, **more)
        return fold([RankKind(made, [0, 1, 2, 3])], Families(made.groups, 4), Card(name="c"))

    return make


def reduce(group):
    return "c10d::allreduce_", {"comm": CommCall(C.ALL_REDUCE, group, 8, 8, "float32")}


def message(kind, peer):
    return f"c10d::{kind}", {"comm": CommCall(kind, "pp", 8, 8, "float32", peer=peer)}


def test_every_rank_is_bound_to_its_own_group_of_a_role(folded):
    traces = folded(reduce("1"), groups=PAIRS)
    assert dict(traces.groups) == {"1": (0, 1), "2": (2, 3)}
    assert [traces.bindings[r].groups for r in range(4)] == [
        {"tp": "1"},
        {"tp": "1"},
        {"tp": "2"},
        {"tp": "2"},
    ]
    assert traces.body_count == 1


def test_groups_that_nobody_communicates_in_are_left_out(folded):
    world = CreatedGroup("0", (0, 1, 2, 3), "world")
    assert dict(folded(reduce("1"), groups=[world, *PAIRS]).groups) == {"1": (0, 1), "2": (2, 3)}


def test_peers_of_a_ring_are_renamed_for_every_rank(folded):
    """The body is rank 0's, which sends to 1 and receives from 3."""
    traces = folded(message(words.SEND, 1), message(words.RECV, 3), groups=RING)
    assert [traces.bindings[r].peers for r in range(4)] == [
        {},
        {0: 1, 1: 2, 3: 0},
        {0: 2, 1: 3, 3: 1},
        {0: 3, 1: 0, 3: 2},
    ]


def test_ranks_whose_peers_would_have_to_be_two_get_bodies_of_their_own(folded):
    """Rank 0 sends to the next in the ring and in its pair, which both are rank 1 only for 0 and 2."""
    pair = "c10d::send", {"comm": CommCall(words.SEND, "1", 8, 8, "float32", peer=1)}
    traces = folded(message(words.SEND, 1), pair, groups=[*RING, *PAIRS])
    assert traces.body_count == 3
    assert traces.trace(1)[0].get("comm_dst") == 2
    assert traces.trace(1)[1].get("comm_dst") == 0
