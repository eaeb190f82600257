"""Sends matched to receives, checked, with the devices of every copy."""

import numpy as np
import pytest

from chakrakit import Binding, Groups, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.machines import load_machine
from chakrakit.machines.library import Span, cost
from chakrakit.simulator.engine import native
from chakrakit.simulator.engine.membership import Membership
from chakrakit.simulator.engine.messages import device_table, message_pace
from chakrakit.simulator.engine.program import read_program
from support.simulated import machine_of, two


def test_a_peer_that_was_not_recorded_stands_in_too():
    bodies = []
    for rank in (0, 1):
        t = TraceBuilder()
        t.send("s", rank, rank + 2, 10**6)
        bodies.append(t.build())
    traces = TraceSet(bodies, None, Groups({"": range(4)}))
    with pytest.raises(TraceError, match="rank 2, which was not recorded"):
        native.run(traces, machine_of("switch", 4))
    out = native.run(traces, machine_of("switch", 4), native.SimulationOptions(assume_missing=True))
    assert out.makespan_ps == 2_000_000 + 100_000_000


def test_ranks_nobody_recorded_are_on_the_device_of_their_number():
    t = TraceBuilder()
    t.comp("w")
    traces = TraceSet([t.build()], {1: Binding(0), 3: Binding(0)}, Groups({"": range(5)}))
    found = Membership(traces, [read_program(traces.body_at(0))])
    assert device_table(found, np.array([7, 9])).tolist() == [0, 7, 2, 9, 4]


def test_messages_are_paced_by_the_library():
    """To another device of the node, to oneself, and nothing at all."""
    machine = load_machine("dgx-h100:2")
    library, gb = machine.library, 1e9
    src, dst, size = np.array([0, 0, 0]), np.array([1, 0, 1]), np.array([gb, gb, 0.0])
    stretch, wait = message_pace(library, machine, src, dst, size)
    took = cost(library, "message", "direct", "Simple", gb, Span(2, 1, 2, 450e9, 450e9, port=450e9))
    assert stretch[0] == pytest.approx(took.transfer * 450)
    assert wait[0] == round(took.fixed * 1e12)
    assert stretch[1:].tolist() == [1, 1]
    assert wait[1:].tolist() == [round(library.launch_us * 1e6)] * 2


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((10, 20), r"rank 0 at node 0 \('s'\) sends 10 bytes .* receives as 20"),
        ((0, 0), "rank 0 sends a message of 0 bytes; give comm_size, or --allow-empty"),
    ],
)
def test_both_ends_give_one_size(sizes, said):
    def build(t, rank):
        (t.recv if rank else t.send)("r" if rank else "s", 0, 1, sizes[rank])

    with pytest.raises(TraceError, match=said):
        native.run(two(build), machine_of("ring", 2))


def test_the_size_that_one_end_leaves_open_is_the_other_s():
    def build(t, rank):
        (t.recv if rank else t.send)("m", 0, 1, 0 if rank else 10**6)

    assert native.run(two(build), machine_of("ring", 2)).makespan_ps == 1_000_000 + 100_000_000
