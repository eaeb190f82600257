"""Which algorithm a collective uses, by an estimate or by name."""

import math

import pytest

from chakrakit import CollectiveType
from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.simulator.collectives import (
    ALGORITHMS,
    COLLECTIVES,
    Algorithms,
    GroupShape,
    data_bytes,
    estimate,
    moved_bytes,
)
from chakrakit.simulator.collectives.group_shape import Way
from chakrakit.simulator.engine import native, one_collective, run
from chakrakit.simulator.results import time_collective
from support.simulated import machine_of

NEAR = Way(1e-6, 100e9)
EIGHT = GroupShape(8, ring=NEAR, far=NEAR, fan=8, axes=(), reduces=False)


def on_switch(n: int) -> GroupShape:
    way = Way(2e-6, 10e9)  # up a link of 1 µs and down another
    return GroupShape(n, ring=way, far=way, fan=1, axes=(), reduces=False)


def test_a_ring_is_steps_of_a_piece():
    """14 steps of 1 µs and of an eighth of 8 MB at 100 GB/s."""
    assert estimate("all-reduce", "ring", 8e6, EIGHT) == pytest.approx(14 * (1e-6 + 10e-6))


@pytest.mark.parametrize("n", [4, 16])
@pytest.mark.parametrize("size", [800, 8_000_000])
@pytest.mark.parametrize(
    ("collective", "name"),
    [
        (collective, name)
        for collective, names in ALGORITHMS.items()
        for name in names
        if 0 < estimate(collective, name, 1.0, on_switch(4)) < math.inf
    ],
)
def test_on_a_switch_an_estimate_is_what_the_simulation_takes(collective, name, n, size):
    """Every member has a link of its own, so that nothing waits for another but by the algorithm."""
    seconds = estimate(collective, name, float(size), on_switch(n))
    kind = CollectiveType[collective.upper().replace("-", "_")]
    each = size // n if collective == "all-gather" else size
    done = run(
        one_collective(kind, each, tuple(range(n))),
        machine_of("switch", n, bandwidth=10e9, latency=1e-6),
        native.SimulationOptions(algorithms=Algorithms({collective: name})),
    )
    # The two trees fill their links a little sooner than one tick after the other.
    off = 0.06 if name == "double-tree" else 1e-6
    assert done.makespan_ps / 1e12 == pytest.approx(seconds, rel=off)


def test_what_a_group_does_not_allow_never_ends():
    assert estimate("all-reduce", "hierarchical", 8e6, EIGHT) == math.inf
    assert estimate("all-reduce", "in-switch", 8e6, EIGHT) == math.inf


@pytest.mark.parametrize(("reduction", "name"), [(False, "direct"), (True, "in-switch")])
def test_few_bytes_take_few_steps(reduction, name):
    network = {"topology": "switch", "size": 8, "bandwidth": 100e9, "latency": 1e-6}
    machine = parse_machine({"network": [network | {"reduction": reduction}]}, "one switch")
    (row,) = time_collective("all-reduce", machine, 8, [8]).rows
    assert row.algorithm == name


def test_what_is_asked_for_is_used():
    assert Algorithms({"all-reduce": "ring"}).asked("all-reduce", EIGHT) == "ring"
    assert Algorithms({"all-reduce": "auto"}).asked("all-reduce", EIGHT) == ""
    with pytest.raises(ConfigError, match="cannot use 'hierarchical' on a group of 8"):
        Algorithms({"all-reduce": "hierarchical"}).asked("all-reduce", EIGHT)


@pytest.mark.parametrize(
    ("fixed", "problem"),
    [
        ({"all-reduc": "ring"}, "no collective 'all-reduc'; did you mean 'all-reduce'"),
        ({"all-reduce": "rng"}, "no algorithm 'rng' for all-reduce; did you mean 'ring'"),
    ],
)
def test_names_that_are_none_are_refused(fixed, problem):
    with pytest.raises(ConfigError, match=problem):
        Algorithms(fixed)


@pytest.mark.parametrize(
    ("collective", "data", "moved"),
    [
        ("all-reduce", 100, 175),
        ("all-gather", 800, 700),
        ("all-to-all", 800, 700),
        ("broadcast", 100, 100),
        ("barrier", 100, 0),
    ],
)
def test_bytes_of_the_data_and_what_each_member_moves(collective, data, moved):
    assert data_bytes(collective, 100, 8) == data
    assert moved_bytes(collective, data, 8) == moved


def test_both_ways_to_reduce_and_scatter_are_one():
    assert COLLECTIVES[7] == COLLECTIVES[8] == "reduce-scatter"
    assert COLLECTIVES[0] == "all-reduce"
