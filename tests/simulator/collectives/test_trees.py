"""The two binary trees of a tree all-reduce."""

import pytest

from chakrakit.simulator.collectives.algorithms import double_tree, in_order_tree


@pytest.mark.parametrize(
    ("n", "parents"),
    [
        (1, [-1]),
        (2, [1, -1]),
        (3, [1, -1, 1]),
        (6, [1, 3, 1, -1, 5, 3]),
        (7, [1, 3, 1, -1, 5, 3, 5]),
    ],
)
def test_members_in_order_hang_on_the_one_in_their_middle(n, parents):
    assert in_order_tree(n).tolist() == parents


def test_with_even_members_the_second_tree_is_the_mirror_image():
    first, second = double_tree(4)
    assert list(zip(first.child, first.parent, strict=True)) == [(0, 1), (1, 3), (2, 1)]
    assert list(zip(second.child, second.parent, strict=True)) == [(1, 2), (2, 0), (3, 2)]
    assert first.depth.tolist() == [2, 1, 2, 0]
    assert first.height == second.height == 2


def test_with_odd_members_the_second_tree_is_shifted_by_one():
    first, second = double_tree(3)
    assert list(zip(first.child, first.parent, strict=True)) == [(0, 1), (2, 1)]
    assert list(zip(second.child, second.parent, strict=True)) == [(0, 2), (1, 2)]


@pytest.mark.parametrize("n", [*range(2, 34), 63, 64])
def test_at_most_one_member_has_children_in_both_trees(n):
    inner = [set(tree.parent.tolist()) for tree in double_tree(n)]
    assert len(inner[0] & inner[1]) <= 1
