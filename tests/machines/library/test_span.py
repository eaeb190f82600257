"""How a group lies on a machine, and how nccl-tests count bandwidth."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines.fabric import span_of
from chakrakit.machines.library import bus_factor
from chakrakit.machines.library.constants import rounds, steps


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("all-reduce", 1.75), ("all-gather", 0.875), ("broadcast", 1.0), ("message", 1.0)],
)
def test_bus_bandwidth_over_algorithm_bandwidth_of_eight(collective, factor):
    assert bus_factor(collective, 8) == factor


def test_an_all_reduce_goes_around_twice():
    assert (rounds("all-reduce"), steps("all-reduce", 8)) == (2, 14)
    assert steps("all-gather", 8) == 7


def test_eight_devices_of_one_node_do_not_leave_it():
    span = span_of(ck.load_machine("dgx-h100:2"), np.arange(8))
    assert (span.members, span.nodes, span.local, span.leaving) == (8, 1, 8, 0.0)
    assert span.link == 450e9


def test_two_nodes_leave_through_all_their_ports():
    """Each of 8 devices has a port of 50 GB/s."""
    span = span_of(ck.load_machine("dgx-h100:2"), np.arange(16))
    assert (span.nodes, span.local) == (2, 8)
    assert (span.port, span.leaving) == (50e9, 400e9)


def test_a_switch_reduces_only_where_all_nodes_have_as_many_members():
    machine = ck.load_machine("dgx-h100:2")
    assert span_of(machine, np.arange(16)).reduces
    assert not span_of(machine, np.arange(9)).reduces
