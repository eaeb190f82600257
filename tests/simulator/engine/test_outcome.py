"""What came out of a simulation, class by class."""

from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.simulator.engine import Disturbance, SimulationOptions, run
from support.simulated import collective, machine_of, one_device


def test_the_rows_of_each_class_and_what_it_runs():
    """Rank 1 is slow, so that two classes of one row each are simulated."""
    slow = SimulationOptions(disturbance=Disturbance(stragglers={1: 2.0}), placement=(2, 0))
    out = run(collective(CollectiveType.ALL_REDUCE, 1000, 2), machine_of("switch", 3), slow)
    assert [out.rows(c) for c in range(out.classes.count)] == [slice(0, 1), slice(1, 2)]
    assert out.program(1).trace[0].name == "c"
    assert out.devices() == {0: 2, 1: 0}
    assert out.makespan_ps == out.end.max() > 0


def test_nothing_takes_no_time():
    out = run(TraceSet([TraceBuilder().build()]), one_device())
    assert out.makespan_ps == 0
    assert out.rows(0) == slice(0, 0)
