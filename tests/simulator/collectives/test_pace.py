"""What a communication library makes of a collective: its algorithm, its protocol, and its rings."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines.library import Span, cost
from chakrakit.simulator.collectives import library_call, library_steps, plain_cost
from chakrakit.simulator.collectives.pace import _exchanged, rail_ring
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


def test_unequal_nodes_share_one_ring():
    assert rail_ring("all-reduce", np.array([0, 0, 0, 1, 1])).pieces == 5
    assert rail_ring("all-reduce", PAIRS).pieces == 8


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
