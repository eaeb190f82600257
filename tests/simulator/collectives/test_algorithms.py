"""Collective algorithms: values carried through every schedule, and the bytes each member moves."""

import math

import numpy as np
import pytest

from chakrakit.simulator.collectives import SWITCH, CollectiveSteps
from chakrakit.simulator.collectives import algorithms as a
from chakrakit.simulator.collectives.hierarchical import hierarchical
from support.carried import carry, contributions, merge, owned_only, owned_pieces, pieces_of

SIZES = [
    *(2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 31, 32, 33),
    *(pytest.param(n, marks=pytest.mark.slow) for n in (48, 63, 64)),
]


def grids(n: int) -> list[tuple[int, ...]]:
    return [
        s for s in ((2, n // 2), (n // 2, 2), (2, 2, n // 4)) if math.prod(s) == n and min(s) > 1
    ]


WAYS = [["ring"] * 3, ["direct"] * 3, ["two-way-ring"] * 3, ["direct", "two-way-ring", "ring"]]


def all_reduces(n: int) -> list[CollectiveSteps]:
    found = [a.ring_all_reduce(n), a.direct_all_reduce(n), a.halving_doubling_all_reduce(n)]
    found += [a.two_way_all_reduce(n)]
    found += [a.tree_all_reduce(n, chunks) for chunks in (1, 3, 40)]
    for shape in grids(n):
        for ways in WAYS:
            for chunks in (1, 3):
                grid = np.arange(n).reshape(shape[::-1]).T
                found.append(hierarchical(grid, "all-reduce", ways, chunks))
    return found


@pytest.mark.parametrize("n", SIZES)
def test_all_reduce_leaves_everyone_with_every_contribution_once(n):
    for moves in all_reduces(n):
        pairs = moves.name == "double-tree"
        state = carry_ticks(moves) if pairs else carry(moves, contributions(moves))
        whole = frozenset(range(n))
        assert all(state[m, p] == whole for m in range(n) for p in range(moves.pieces)), moves.name


def carry_ticks(moves: CollectiveSteps) -> dict:
    """Up and down flow together in a tick, so repetitions of the pair alternate."""
    state = contributions(moves)
    for up, down in zip(moves.steps[::2], moves.steps[1::2], strict=True):
        assert down.joined
        assert up.repeat == down.repeat
        for k in range(up.repeat):
            sent = [
                (int(s.dst[i]), p, state[int(s.src[i]), p], s.reduce)
                for s in (up, down)
                for i in range(len(s.src))
                for p in pieces_of(s, i, k)
            ]
            for dst, piece, value, reduce in sent:
                if not reduce:
                    assert len(value) == moves.n, "a tree sends down what is not complete"
                merge(state, dst, piece, value, reduce)
    return state


@pytest.mark.parametrize("n", SIZES)
def test_reduce_scatter_leaves_each_its_own_piece_complete(n):
    schedules = [a.ring_reduce_scatter(n), a.direct_reduce_scatter(n), a.halving_reduce_scatter(n)]
    schedules += [a.two_way_reduce_scatter(n)]
    schedules += [
        hierarchical(np.arange(n).reshape(s), "reduce-scatter", ways)
        for s in grids(n)
        for ways in WAYS
    ]
    for moves in schedules:
        state = carry(moves, contributions(moves))
        assert sorted(moves.owned) == list(range(0, moves.pieces, moves.pieces // n))
        assert all(state[at] == frozenset(range(n)) for at in owned_pieces(moves)), moves.name


@pytest.mark.parametrize("n", SIZES)
def test_all_gather_brings_every_piece_to_everyone(n):
    schedules = [a.ring_all_gather(n), a.direct_all_gather(n), a.doubling_all_gather(n)]
    schedules += [a.two_way_all_gather(n)]
    schedules += [
        hierarchical(np.arange(n).reshape(s), "all-gather", ways) for s in grids(n) for ways in WAYS
    ]
    for moves in schedules:
        state = carry(moves, owned_only(moves))
        pieces = owned_pieces(moves)
        assert all(state[m, p] == {owner} for m in range(n) for owner, p in pieces), moves.name


@pytest.mark.parametrize("n", SIZES)
def test_all_to_all_brings_every_pair_its_piece(n):
    for moves in (a.direct_all_to_all(n), a.pairwise_all_to_all(n)):
        start = {(i, i * n + j): frozenset([i]) for i in range(n) for j in range(n)}
        state = carry(moves, start)
        assert all(state[j, i * n + j] == {i} for i in range(n) for j in range(n))


@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("n", SIZES)
def test_rooted_collectives(n, root):
    whole = frozenset(range(n))
    for moves in (
        a.direct_broadcast(n, root),
        a.binomial_broadcast(n, root),
        a.ring_broadcast(n, 5, root),
    ):
        state = carry(moves, {(root, p): whole for p in range(moves.pieces)})
        assert all(state[m, p] == whole for m in range(n) for p in range(moves.pieces))
    for moves in (
        a.direct_reduce_to(n, root),
        a.binomial_reduce_to(n, root),
        a.ring_reduce_to(n, 5, root),
    ):
        state = carry(moves, contributions(moves))
        assert all(state[root, p] == whole for p in range(moves.pieces)), moves.name
    state = carry(a.direct_scatter(n, root), {(root, p): whole for p in range(n)})
    assert all(state[m, m] == whole for m in range(n))
    state = carry(a.direct_gather(n, root), {(m, m): frozenset([m]) for m in range(n)})
    assert all(state[root, m] == {m} for m in range(n))


@pytest.mark.parametrize("n", SIZES)
def test_a_switch_reduces_and_copies(n):
    whole = frozenset(range(n))
    moves = a.switch_all_reduce(n)
    state = carry(moves, contributions(moves))
    assert state[SWITCH, 0] == whole
    assert all(state[m, 0] == whole for m in range(n))
    moves = a.switch_all_gather(n)
    state = carry(moves, owned_only(moves))
    assert all(state[m, p] == {p} for m in range(n) for p in range(n))
    moves = a.switch_reduce_scatter(n)
    state = carry(moves, contributions(moves))
    assert all(state[m, m] == whole for m in range(n))


def sent_by(moves: CollectiveSteps) -> np.ndarray:
    """Share of the data each member sends in all."""
    sent = np.zeros(moves.n)
    for s in moves.steps:
        np.add.at(sent, s.src, s.count * s.repeat / moves.pieces)
    return sent


@pytest.mark.parametrize("n", SIZES)
def test_members_send_what_the_definition_says(n):
    share = (n - 1) / n
    for moves in (a.ring_all_reduce(n), a.direct_all_reduce(n), a.halving_doubling_all_reduce(n)):
        np.testing.assert_allclose(sent_by(moves), 2 * share)
    for moves in (
        a.ring_reduce_scatter(n),
        a.halving_reduce_scatter(n),
        a.ring_all_gather(n),
        a.doubling_all_gather(n),
        a.direct_all_gather(n),
        a.direct_reduce_scatter(n),
    ):
        np.testing.assert_allclose(sent_by(moves), share)
    for moves in (a.direct_all_to_all(n), a.pairwise_all_to_all(n)):
        np.testing.assert_allclose(sent_by(moves), share / n)
    np.testing.assert_allclose(sent_by(a.tree_all_reduce(n)).sum(), 2 * (n - 1))


@pytest.mark.parametrize("n", SIZES)
def test_halving_doubling_takes_the_fewest_steps(n):
    assert len(a.halving_doubling_all_reduce(n).steps) == 2 * math.ceil(math.log2(n))
