"""What a communication library makes of a collective: its algorithm, its protocol, and its rings."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines.library import Span, cost
from chakrakit.simulator.collectives import library_call, library_steps, plain_cost
from chakrakit.simulator.collectives.pace import (
    _exchanged,
    in_switch_tree,
    rail_chain,
    rail_ring,
    rail_tree,
)
from support.carried import carry, contributions

LIBRARY = ck.load_machine("dgx-h100:2").library
NODE = Span(8, 1, 8, 450e9, 0.0)
PAIRS = np.array([0, 0, 1, 1])


def test_the_algorithm_asked_for_runs_in_its_fastest_protocol():
    found = library_call(LIBRARY, "all-reduce", 1e9, NODE, "ring")
    seconds = {
        p: cost(LIBRARY, "all-reduce", "ring", p, 1e9, NODE).seconds
        for p in ("LL", "LL128", "Simple")
    }
    assert found.choice == ("ring", min(seconds, key=seconds.get))
    assert found.cost.seconds == min(seconds.values())


def test_a_barrier_is_its_all_reduce():
    assert library_call(LIBRARY, "barrier", 4, NODE) == library_call(LIBRARY, "all-reduce", 4, NODE)


@pytest.mark.parametrize(
    ("collective", "asked"),
    [("all-reduce", "hierarchical"), ("all-reduce", "direct"), ("all-to-all", "ring")],
)
def test_the_library_lacks_some_algorithms(collective, asked):
    assert library_call(LIBRARY, collective, 1e6, NODE, asked) is None


def test_two_trees_are_what_the_library_calls_tree():
    found = library_call(LIBRARY, "all-reduce", 1e6, Span(16, 2, 8, 450e9, 400e9), "double-tree")
    assert found.choice.algorithm == "tree"
    assert library_steps(found, "all-reduce", 4, 0, PAIRS).name == "double-tree"


def test_what_the_library_lacks_starts_as_late_as_its_simple_protocol():
    assert plain_cost(LIBRARY) == (LIBRARY.launch_us + LIBRARY.simple.start_us) / 1e6


def test_every_ring_leaves_a_node_through_another_device():
    """Two nodes of two: ring 0 1 3 2 crosses at 1 and 2, ring 1 0 2 3 at 0 and 3."""
    (gather,) = rail_ring("all-gather", PAIRS).steps
    assert gather.src.tolist() == [0, 1, 3, 2, 1, 0, 2, 3]
    assert gather.dst.tolist() == [1, 3, 2, 0, 0, 2, 3, 1]
    crossing = gather.src[PAIRS[gather.src] != PAIRS[gather.dst]]
    assert sorted(crossing.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("node", [[0, 0, 1, 1], [0, 1], [0, 0, 0, 1, 1]])
def test_rings_reduce_every_contribution_once(node):
    moves = rail_ring("all-reduce", np.array(node))
    everyone = frozenset(range(len(node)))
    state = carry(moves, contributions(moves))
    assert all(value == everyone for value in state.values())


def test_there_are_as_many_rings_as_the_smallest_node_has_members():
    assert rail_ring("all-reduce", np.array([0, 0, 0, 1, 1])).pieces == 2 * 5
    assert rail_ring("all-reduce", PAIRS).pieces == 2 * 4


def _crossing(moves, node, ends="src"):
    """Pieces that each member sends to (or, with `dst`, receives from) other nodes, as shares of the data."""
    out = np.zeros(len(node))
    for s in moves.steps:
        away = (s.src >= 0) & (s.dst >= 0) & (node[s.src] != node[s.dst])
        np.add.at(out, getattr(s, ends)[away], s.count[away] / moves.pieces)
    return out


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("make", [rail_tree, in_switch_tree])
def test_trees_put_the_same_on_every_port_of_a_node(make, nodes):
    """A node sends at most twice the data: up in both trees, and down to two children in one of them."""
    node = np.repeat(np.arange(nodes), 4)
    moves = make(node)
    for ends in ("src", "dst"):
        by_node = _crossing(moves, node, ends).reshape(nodes, 4)
        assert (by_node == by_node[:, :1]).all()
        assert by_node.sum(1).max() == {2: 1, 3: 1.5}.get(nodes, 2)
    # Every node but the root sends its half of the data up in each of the two trees, and receives it.
    assert _crossing(moves, node).sum() == 2 * (nodes - 1)


def test_a_chain_below_each_place_of_a_tree_passes_the_data_up_and_down():
    moves = rail_tree(np.zeros(4, np.int64))
    sent = np.zeros(4)
    for s in moves.steps:
        np.add.at(sent, s.src, s.count / moves.pieces)
    assert (
        sent.tolist() == [2 * 3 / 4] * 4
    )  # in three of four rails a member is not the head, or the tail


def test_members_of_every_node_send_all_their_data_to_its_switch():
    up, down = in_switch_tree(PAIRS).steps
    assert (up.count[up.dst < 0] == 4).all()
    assert up.src[up.dst < 0].tolist() == down.dst[down.src < 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("node", [[0, 0, 1, 1], [0, 1], [0, 0, 0, 1, 1], [0, 0, 0]])
@pytest.mark.parametrize("root", [0, 1])
def test_chains_bring_the_data_to_everyone_once(node, root):
    moves = rail_chain("broadcast", np.array(node), root)
    (flow,) = moves.steps
    received = np.bincount(flow.dst, flow.count, minlength=len(node)) / moves.pieces
    assert received.tolist() == [float(member != root) for member in range(len(node))]
    (back,) = rail_chain("reduce", np.array(node), root).steps
    edges = {
        (int(a), int(b)): int(c) for a, b, c in zip(flow.src, flow.dst, flow.count, strict=True)
    }
    assert edges == {
        (int(b), int(a)): int(c) for a, b, c in zip(back.src, back.dst, back.count, strict=True)
    }


@pytest.mark.parametrize(
    ("collective", "name"),
    [("all-to-all", "direct"), ("gather", "direct"), ("scatter", "direct"), ("broadcast", "ring")],
)
def test_schedules_that_stand_for_what_the_library_does(collective, name):
    call = library_call(LIBRARY, collective, 1e6, NODE)
    assert library_steps(call, collective, 4, 1, PAIRS).name == name


def test_all_parts_of_a_gather_go_to_its_root_and_those_of_a_scatter_leave_it():
    for collective, ends in (("gather", "dst"), ("scatter", "src")):
        steps = _exchanged(collective, 4, 2).steps
        assert {int(m) for step in steps for m in getattr(step, ends)} == {2}
