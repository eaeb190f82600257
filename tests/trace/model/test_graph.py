"""Graphs answer as slow, obviously right definitions do, and stay quick at a million rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from chakrakit.errors import TraceError
from chakrakit.trace.model import Graph

DIAMOND = Graph(5, [0, 0, 1, 2, 0, 3], [1, 2, 3, 3, 3, 4])


def random_graph(rng: np.random.Generator, *, acyclic: bool) -> Graph:
    n = int(rng.integers(1, 12))
    src, dst = rng.integers(0, n, (2, int(rng.integers(0, 25))))
    if acyclic:
        label = rng.permutation(n)
        ahead = src < dst
        src, dst = label[src[ahead]], label[dst[ahead]]
    return Graph(n, src, dst)


def reach(graph: Graph, skip: int | None = None) -> np.ndarray:
    """reach[u, v]: a path of one or more edges leads from u to v (without the edge `skip`)."""
    matrix = np.zeros((graph.n, graph.n), bool)
    for e, (u, v) in enumerate(zip(graph.src, graph.dst, strict=True)):
        matrix[u, v] |= e != skip
    for k in range(graph.n):
        matrix |= matrix[:, [k]] & matrix[[k], :]
    return matrix


def ladder(n: int) -> Graph:
    """A host chain, a kernel chain, and a launch from each host row to its kernel."""
    host, kernel = np.arange(n), np.arange(n) + n
    src = np.concatenate([host[:-1], kernel[:-1], host])
    dst = np.concatenate([host[1:], kernel[1:], kernel])
    return Graph(2 * n, src, dst)


def test_adjacency_lists_every_edge_both_ways_in_edge_order() -> None:
    g = Graph(3, [2, 0, 2, 0], [1, 1, 0, 1])
    assert g.out_offsets.tolist() == [0, 2, 2, 4]
    assert g.out_targets.tolist() == [1, 1, 1, 0]
    assert g.out_edges.tolist() == [1, 3, 0, 2]
    assert g.in_offsets.tolist() == [0, 1, 4, 4]
    assert g.in_sources.tolist() == [2, 2, 0, 0]
    assert g.in_edges.tolist() == [2, 0, 1, 3]
    assert (g.out_offsets.dtype, g.out_targets.dtype) == (np.int64, np.int32)


def test_order_is_first_in_first_out_from_ascending_rows() -> None:
    assert Graph(5, [4, 0, 2], [1, 3, 1]).topological_order().tolist() == [0, 2, 4, 3, 1]


def test_diamond() -> None:
    assert DIAMOND.levels().tolist() == [0, 1, 1, 2, 3]
    assert DIAMOND.ancestors(3).tolist() == [True, True, True, True, False]
    assert DIAMOND.descendants([1, 2]).tolist() == [False, True, True, True, True]
    assert DIAMOND.transitive_reduction().tolist() == [True, True, True, True, False, True]
    assert (len(DIAMOND), repr(DIAMOND)) == (5, "Graph(5 rows, 6 edges)")


def test_longest_path_counts_weights_and_lags() -> None:
    finish, before = DIAMOND.longest_path([1, 5, 5, 1, 1], [0, 0, 0, 0, 9, 2])
    assert finish.tolist() == [1, 6, 6, 11, 14]
    assert before.tolist() == [-1, 0, 0, 0, 3]


def test_longest_path_takes_the_first_edge_of_equals_and_a_free_predecessor_over_none() -> None:
    _, before = Graph(3, [1, 0], [2, 2]).longest_path([0, 0, 4])
    assert before.tolist() == [-1, -1, 1]


def test_longest_path_may_begin_after_a_predecessor_that_only_costs() -> None:
    finish, before = Graph(2, [0], [1]).longest_path([-3, 4])
    assert (finish.tolist(), before.tolist()) == ([-3, 4], [-1, -1])


def test_only_the_first_of_equal_edges_stays() -> None:
    assert Graph(2, [0, 0, 0], [1, 1, 1]).transitive_reduction().tolist() == [True, False, False]


def test_a_graph_without_rows_answers_everything() -> None:
    g = Graph(0, [], [])
    assert g.is_acyclic
    assert g.find_cycle() is None
    assert [len(g.topological_order()), len(g.levels()), len(g.transitive_reduction())] == [0] * 3
    assert [len(a) for a in g.longest_path([])] == [0, 0]
    assert len(g.descendants([])) == 0


@pytest.mark.parametrize("seed", range(300))
def test_ordering_methods_match_their_definitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = random_graph(rng, acyclic=True)
    edges = list(zip(g.src.tolist(), g.dst.tolist(), strict=True))
    at = np.argsort(g.topological_order())
    assert all(at[u] < at[v] for u, v in edges)
    level, (weights, lags) = g.levels(), (rng.integers(-2, 9, g.n), rng.integers(-3, 4, len(edges)))
    finish, before = g.longest_path(weights, lags)
    for v in range(g.n):
        bounds = [(finish[u] + lags[e], -e, u) for e, (u, w) in enumerate(edges) if w == v]
        assert level[v] == max((level[u] + 1 for u, w in edges if w == v), default=0)
        late, _, row = max(bounds, default=(-1, 0, -1))
        assert (finish[v], before[v]) == (max(late, 0) + weights[v], row if late >= 0 else -1)


@pytest.mark.parametrize("seed", range(300))
def test_reduction_drops_exactly_the_edges_another_path_replaces(seed: int) -> None:
    g = random_graph(np.random.default_rng(seed), acyclic=True)
    first: dict[tuple[int, int], int] = {}
    for e, ends in enumerate(zip(g.src.tolist(), g.dst.tolist(), strict=True)):
        first.setdefault(ends, e)
    simple = Graph(g.n, [u for u, _ in first], [v for _, v in first])
    kept = {e for i, (ends, e) in enumerate(first.items()) if not reach(simple, skip=i)[ends]}
    assert set(np.flatnonzero(g.transitive_reduction()).tolist()) == kept


@pytest.mark.parametrize("lanes", [1, 2, 5, 20, 40])
def test_reduction_is_exact_for_chains_with_edges_of_any_length(lanes: int) -> None:
    """Rows are dealt to lanes in turn; the searches here are too long to settle every row."""
    rng, n = np.random.default_rng(lanes), 600
    far = np.sort(rng.integers(0, n, (2, 3 * n)), axis=0)
    far = far[:, far[0] < far[1]]
    rows = np.arange(n - lanes)
    g = Graph(n, [*far[0], *rows], [*far[1], *(rows + lanes)])
    closure, ends = reach(g), list(zip(g.src.tolist(), g.dst.tolist(), strict=True))
    children = [set(g.dst[g.src == u].tolist()) for u in range(n)]
    expected = [
        (u, v) not in ends[:e] and not any(closure[c, v] for c in children[u])
        for e, (u, v) in enumerate(ends)
    ]
    assert g.transitive_reduction().tolist() == expected


@pytest.mark.slow
def test_reduction_of_a_chain_with_many_long_edges_is_the_chain() -> None:
    n, rng = 300_000, np.random.default_rng(1)
    far = np.sort(rng.integers(0, n, (2, n)), axis=0)
    far = far[:, far[0] + 1 < far[1]]
    rows = np.arange(n - 1)
    kept = Graph(n, [*rows, *far[0]], [*(rows + 1), *far[1]]).transitive_reduction()
    assert np.flatnonzero(kept).tolist() == rows.tolist()


@pytest.mark.parametrize("seed", range(300))
def test_reach_and_cycles_match_the_closure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = random_graph(rng, acyclic=False)
    closure = reach(g)
    roots = rng.integers(0, g.n, 2)
    itself = np.isin(np.arange(g.n), roots)
    assert (g.descendants(roots) == (itself | closure[roots].any(axis=0))).all()
    assert (g.ancestors(roots) == (itself | closure[:, roots].any(axis=1))).all()
    assert g.is_acyclic == (not closure.diagonal().any())
    cycle, edges = g.find_cycle(), set(zip(g.src.tolist(), g.dst.tolist(), strict=True))
    assert (cycle is None) == g.is_acyclic
    if cycle:
        assert len(set(cycle)) == len(cycle)
        assert edges.issuperset(itertools.pairwise([*cycle, cycle[0]]))


def test_a_self_loop_is_a_cycle_of_one() -> None:
    assert Graph(3, [0, 1, 1], [1, 1, 2]).find_cycle() == [1]


def test_a_cycle_of_a_million_rows_is_found_and_its_name_kept_short() -> None:
    rows = np.arange(1_000_000)
    g = Graph(len(rows), rows, np.roll(rows, -1))
    assert g.find_cycle() == rows.tolist()
    with pytest.raises(TraceError, match=r"cycle of 1,000,000 rows: 0 → 1 → .* → … → 0; remove"):
        g.topological_order()


@pytest.mark.parametrize("method", ["topological_order", "levels", "transitive_reduction"])
def test_a_cyclic_graph_has_no_order(method: str) -> None:
    g = Graph(4, [0, 1, 2, 2], [1, 2, 1, 3])
    with pytest.raises(TraceError, match="cycle of 2 rows: 1 → 2 → 1; remove one of its edges"):
        getattr(g, method)()
    with pytest.raises(TraceError, match="1 → 2 → 1"):
        g.longest_path([1] * 4)


def test_a_million_rows_stay_linear() -> None:
    n = 500_000
    g = ladder(n)
    assert g.transitive_reduction().all()
    assert g.levels().max() == n
    assert g.longest_path(np.ones(2 * n, np.int64))[0].max() == n + 1


def test_one_edge_over_a_whole_chain_is_seen_to_be_redundant() -> None:
    rows = np.arange(1_000_000)
    g = Graph(len(rows), [0, *rows[:-1]], [rows[-1], *rows[1:]])
    assert np.flatnonzero(~g.transitive_reduction()).tolist() == [0]


@pytest.mark.parametrize(
    ("n", "src", "dst", "message"),
    [
        (2, [0, 1], [1, 2], r"dst\[1\] is 2, not in 0..1; the graph has 2 rows"),
        (2, [-1], [0], r"src\[0\] is -1, not in 0..1"),
        (0, [0], [0], r"src\[0\] is 0"),
        (2, [0], [2**40], r"dst\[0\] is 1099511627776, which does not fit int32"),
        (2, [0.5], [1], r"src holds float64; convert it with .astype\(numpy.int32\)"),
        (2, [[0]], [1], r"src has 2 dimensions"),
        (2, [0, 1], [1], r"src has 2 entries and dst 1"),
        (-1, [], [], r"rows, not -1"),
    ],
)
def test_rows_that_do_not_exist_are_named(n: int, src: list, dst: list, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        Graph(n, src, dst)


def test_arguments_of_the_wrong_length_or_range_are_named() -> None:
    with pytest.raises(TraceError, match="weights has 1 entries; this graph needs 5"):
        DIAMOND.longest_path([1])
    with pytest.raises(TraceError, match="lags has 1 entries; this graph needs 6"):
        DIAMOND.longest_path([1] * 5, [1])
    with pytest.raises(TraceError, match=r"rows\[1\] is 5"):
        DIAMOND.descendants([0, 5])
    with pytest.raises(TraceError, match="row 1 does not fit 64 bits"):
        Graph(2, [0], [1]).longest_path([2**63 - 1, 1])


def test_a_graph_cannot_be_changed_from_outside() -> None:
    src = np.array([0], np.int32)
    g = Graph(2, src, [1])
    src[0] = 1
    assert g.src.tolist() == [0]
    with pytest.raises(ValueError, match="read-only"):
        g.topological_order()[0] = 1
