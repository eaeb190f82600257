"""Which ranks are alike: same program, and like company all the way down."""

import numpy as np

from chakrakit.trace.communication import Company
from chakrakit.trace.communication.likeness import like_classes

NOBODY = np.zeros(0, np.int64)


def pair(*ranks):
    return Company(np.array(ranks), np.zeros(len(ranks), np.int64))


def test_four_ranks_in_two_pairs_are_all_alike():
    found = like_classes(
        "aaaa", "gg", [(0,), (0,), (1,), (1,)], [NOBODY] * 4, [pair(0, 1), pair(2, 3)]
    )
    assert (found.rank.tolist(), found.group.tolist()) == ([0, 0, 0, 0], [0, 0])


def test_one_that_differs_sets_its_company_apart():
    """Rank 3 runs another program, so rank 2, which waits for it, is not like ranks 0 and 1."""
    found = like_classes(
        "aaab", "gg", [(0,), (0,), (1,), (1,)], [NOBODY] * 4, [pair(0, 1), pair(2, 3)]
    )
    assert (found.rank.tolist(), found.group.tolist()) == ([0, 0, 1, 2], [0, 1])


def test_a_difference_travels_along_messages():
    """A pipeline 0 → 1 → 2 → 3: each stage has another distance to its end."""
    peers = [np.array([p]) for p in (1, 2, 3, -1)]
    found = like_classes("aaaa", "", [()] * 4, peers, [])
    assert found.rank.tolist() == [0, 1, 2, 3]


def test_a_ring_of_messages_is_one_class():
    peers = [np.array([(r + 1) % 4]) for r in range(4)]
    assert like_classes("aaaa", "", [()] * 4, peers, []).rank.tolist() == [0, 0, 0, 0]


def test_ranks_that_send_to_the_same_rank_are_told_apart():
    """Two senders share a program; the rank that both send to has a receive for each."""
    peers = [np.array([2]), np.array([2]), np.array([0, 1])]
    assert like_classes("aab", "", [()] * 3, peers, []).rank.tolist() == [0, 1, 2]


def test_the_role_in_which_a_group_is_used_counts():
    groups = [Company(np.array([0, 1]), np.array([0, 1]))]
    found = like_classes("ab", "g", [(0,), (0,)], [NOBODY] * 2, groups)
    assert found.rank.tolist() == [0, 1]
