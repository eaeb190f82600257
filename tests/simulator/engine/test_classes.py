"""Ranks that do the same are one class, and rows are called by rank and node."""

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.simulator.engine.membership import Membership, RowNames, refine
from chakrakit.simulator.engine.program import read_program


@pytest.fixture
def pairs():
    """Four ranks with one body: a row of work, and an all-reduce in pairs (0 1) and (2 3)."""
    t = TraceBuilder()
    work = t.comp("work", duration_ns=10)
    t.collective("sum", CollectiveType.ALL_REDUCE, 8, pg_name="pair", deps=[work])
    groups = Groups({"p0": (0, 1), "p1": (2, 3)})
    bindings = {r: Binding(0, {"pair": f"p{r // 2}"}) for r in range(4)}
    traces = TraceSet([t.build()], bindings, groups)
    return Membership(traces, [read_program(traces.body_at(0))])


@pytest.mark.parametrize(
    ("ranks", "groups", "classes"),
    [
        ("aaaa", "xx", [0, 0, 0, 0]),
        ("abab", "xx", [0, 1, 0, 1]),
        ("abaa", "xx", [0, 1, 2, 2]),  # the peer of a slow rank is unlike those of other pairs
        ("aaaa", "xy", [0, 0, 1, 1]),
    ],
)
def test_equal_keys_groups_and_peers_make_a_class(pairs, ranks, groups, classes):
    found = refine(pairs, ranks, groups)
    assert [found.rank.tolist().index(c) for c in found.rank] == [classes.index(c) for c in classes]
    assert found.count == len(set(classes))


def test_rows_are_named_by_the_first_rank_of_their_class(pairs):
    classes = refine(pairs, "abab", "xx")
    names = RowNames(pairs, classes, np.array([0, 2, 4]))
    assert [names.rank(row) for row in range(4)] == [0, 0, 1, 1]
    assert names.node(0) == "rank 0 at node 0 ('work')"
    assert names.node(3) == "rank 1 at node 1 ('sum')"
