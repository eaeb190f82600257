"""What the simulator refuses, and what it says: workloads, settings, times beyond its clock."""

import pytest

from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError, TraceError
from chakrakit.simulator.engine import Disturbance, Fault, native
from chakrakit.simulator.results import simulate
from support.simulated import collective, machine_of, one_device, two

AR = CollectiveType.ALL_REDUCE


REFUSED = {
    "group 'nope', which does not exist": lambda t, r: t.collective("c", AR, 10, pg_name="nope"),
    "of 0 bytes": lambda t, r: t.collective("c", AR, 0),
    "never communicates in it": lambda t, r: t.collective("c", AR, 10) if r else t.comp("x"),
    "never issued by rank 1": lambda t, r: [t.collective("c", AR, 10) for _ in range(2 - r)],
    "all members must say the same": lambda t, r: t.collective("c", CollectiveType(2 * r), 10),
    "never receives it": lambda t, r: t.send("s", 0, 1, 10) if r == 0 else t.comp("x"),
    "never sends it": lambda t, r: t.recv("s", 1, 0, 10) if r == 0 else t.comp("x"),
    "comm_type 42": lambda t, r: t.node("c", 7, comm_type=42, comm_size=1),
    "does not say comm_dst": lambda t, r: t.node("c", 5, comm_size=1),
}


@pytest.mark.parametrize("said", REFUSED)
def test_bad_workloads_say_what_is_wrong(said):
    with pytest.raises(TraceError, match=said):
        native.run(two(REFUSED[said]), machine_of("ring", 2))


def test_bad_settings_say_what_is_wrong():
    traces = collective(AR, 10, 4)
    with pytest.raises(ConfigError, match="3 devices and the workload 4 ranks"):
        native.run(traces, machine_of("ring", 3))
    with pytest.raises(ConfigError, match="two ranks on one device"):
        native.run(traces, machine_of("ring", 4), native.SimulationOptions(placement=(0, 0, 1, 2)))
    for placement in ((0, 1, 2), (0, 1, 2, 4), (0, 1, 2, -1), (0, 1, 2, 2**70)):
        with pytest.raises(ConfigError, match="leaves rank 3 without one of 4 devices"):
            native.run(traces, machine_of("ring", 4), native.SimulationOptions(placement=placement))
    with pytest.raises(ConfigError, match="some were not recorded"):
        native.run(
            traces.select_ranks([0, 1, 2]),
            machine_of("ring", 4),
            native.SimulationOptions(placement=(0, 1, 2, 3), assume_missing=True),
        )
    with pytest.raises(ConfigError, match="in-switch"):
        native.run(
            traces,
            machine_of("ring", 4),
            native.SimulationOptions(algorithms=native.Algorithms({"all-reduce": "in-switch"})),
        )
    with pytest.raises(ConfigError, match="no algorithm 'warp'"):
        native.Algorithms({"all-reduce": "warp"})
    t = TraceBuilder()
    t.comp("x", num_ops=10)
    with pytest.raises(ConfigError, match="needs; add `peak`"):
        simulate(TraceSet([t.build()]), one_device(), compute="roofline")
    with pytest.raises(TraceError, match="no ranks"):
        native.run(TraceSet([]), one_device())


def test_times_that_do_not_fit_the_clock_are_refused():
    t = TraceBuilder()
    for _ in range(5):
        t.comp("x", duration_ns=10**15, stream=0)
    with pytest.raises(TraceError, match="more than 50 days"):
        native.run(TraceSet([t.build()]), one_device())
    with pytest.raises(ConfigError, match="takes longer than"):
        native.run(collective(AR, 2**62, 4), machine_of("ring", 4))


def test_a_device_that_recovers_ends_later():
    t = TraceBuilder()
    t.comp("w", duration_ns=100)
    faults = (Fault("device", 0, 50, 0.0), Fault("device", 0, 80, 0.5))
    out = native.run(
        TraceSet([t.build()]),
        one_device(),
        native.SimulationOptions(disturbance=Disturbance(faults=faults)),
    )
    assert out.makespan_ps == (80 + 50 / 0.5) * 1000


def test_shares_of_a_device_beside_measured_times():
    """The run's times hold that a kernel with half of the device takes twice as long."""
    t = TraceBuilder()
    t.comp("half", duration_ns=1000, stream=0, device_share=0.5)
    run = simulate(TraceSet([t.build()]), one_device()).run()
    assert run.makespan_ns == 2000
    with pytest.raises(TraceError, match=r"node 0 \('half'\) has a device_share, and its measured"):
        simulate(run, one_device(), compute="measured")
