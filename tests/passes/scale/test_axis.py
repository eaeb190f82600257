"""The arithmetic of replicas: places, groups on an axis, orders that can be continued."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.passes.scale.axes import Axis, GroupPosition, axes, interleaved, interleaving

sizes = st.integers(1, 6)


@given(sizes, sizes, sizes)
def test_a_rank_is_its_replica_and_site(stride, size, outer):
    axis = Axis(stride * size * outer, stride, size)
    ranks = np.arange(axis.world)
    replicas, sites = axis.replica(ranks), axis.site(ranks)
    assert (axis.rank(replicas, sites) == ranks).all()
    assert sorted(set(zip(replicas.tolist(), sites.tolist(), strict=True))) == [
        (q, s) for q in range(size) for s in range(axis.sites)
    ]


@given(sizes, sizes, sizes)
def test_one_replica_lies_within_and_all_of_some_sites_across(stride, size, outer):
    axis = Axis(stride * (size + 1) * outer, stride, size + 1)
    sites = np.arange(axis.sites)[::2]
    one = axis.rank(0, sites)
    every = np.concatenate([axis.rank(q, sites) for q in range(axis.size)])
    assert axis.lie(one) is GroupPosition.WITHIN
    assert axis.lie(every) is GroupPosition.ACROSS
    assert axis.lie(np.append(one, axis.rank(1, 0))) is (
        GroupPosition.ACROSS if len(sites) == 1 and axis.size == 2 else GroupPosition.ASKEW
    )


def test_all_axes_of_twelve_ranks():
    found = {(a.size, a.stride) for a in axes(12)}
    assert found == {(q, s) for q in (2, 3, 4, 6, 12) for s in range(1, 13) if 12 % (q * s) == 0}


@given(sizes, sizes.map(lambda n: n + 1), st.data())
def test_an_order_is_known_again(items, replicas, data):
    length = data.draw(st.sampled_from([d for d in range(1, items + 1) if items % d == 0]))
    order = interleaved(items, replicas, length)
    assert sorted(order) == [(i, q) for i in range(items) for q in range(replicas)]
    assert interleaving(order) == length


def test_another_order_is_none():
    assert interleaving([(0, 0), (1, 1), (0, 1), (1, 0)]) is None
    assert interleaving([(0, 0), (1, 1)]) is None
