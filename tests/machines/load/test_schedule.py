"""Bandwidths that change over time: by the machine's file, and by faults that come on top."""

import pytest

from chakrakit import Groups, NodeType, TraceBuilder, TraceSet, simulate
from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import Disturbance, Fault, native

GB = 10**9


def machine(schedule=(), **more):
    level = {"topology": "switch", "size": 2, "bandwidth": "10 GB/s", "schedule": list(schedule)}
    return parse_machine({"network": [level], **more}, "m")


def message(size=10 * GB):
    t = [TraceBuilder(), TraceBuilder()]
    t[0].send("s", 0, 1, size)
    t[1].recv("r", 0, 1, size)
    return TraceSet([b.build() for b in t], None, Groups({"": range(2)}))


def seconds(traces, machine, faults=(), network="flow"):
    disturbance = Disturbance(faults=faults)
    options = native.SimulationOptions(network=network, disturbance=disturbance)
    return native.run(traces, machine, options).makespan_ps * 1e-12


def test_a_link_follows_its_schedule():
    """A second at full speed would do: half of it at full, then a quarter until 1.5 s, then full."""
    changes = [{"at": "500 ms", "factor": 0.25}, {"at": "1500 ms", "factor": 1}]
    assert seconds(message(), machine(changes)) == pytest.approx(1.5 + 0.25)
    assert seconds(message(), machine()) == pytest.approx(1)


def test_a_fault_comes_on_top_of_a_schedule():
    slow = machine([{"at": 0, "factor": 0.5}])
    faults = [Fault("link", (0, "switch 0.0"), 1e9, 0.5)]
    # A second at half speed, then a quarter for the other half of the bytes.
    assert seconds(message(), slow, faults) == pytest.approx(1 + 2)


@pytest.mark.parametrize("network", ["flow", "analytical"])
def test_a_link_that_recovers_while_all_wait_lets_them_go_on(network):
    """Nothing else happens between the failure and the recovery."""
    faults = [Fault("link", (0, "switch 0.0"), at, factor) for at, factor in ((0, 0), (3e9, 1))]
    assert seconds(message(), machine(), faults, network) == pytest.approx(4)


def test_a_device_that_recovers_while_all_wait_goes_on():
    t = TraceBuilder()
    t.comp("k", duration_ns=1000)
    faults = [Fault("device", 0, 0, 0), Fault("device", 0, 5000, 1)]
    found = native.run(
        TraceSet([t.build()]),
        machine(),
        native.SimulationOptions(disturbance=Disturbance(faults=faults)),
    )
    assert found.makespan_ps == 6_000_000


def test_a_store_follows_its_schedule_and_its_faults():
    """One second for 5 GB; from half a second on at half speed, and with the fault at a quarter."""
    disk = {"kind": "local", "bandwidth": "5 GB/s", "schedule": [{"at": "500 ms", "factor": 0.5}]}
    t = TraceBuilder()
    t.node("w", NodeType.MEM_STORE_NODE, storage="disk", tensor_size=5 * GB)
    traces = TraceSet([t.build()])
    level = {"topology": "switch", "size": 2, "bandwidth": "10 GB/s"}
    stored = parse_machine({"network": [level], "storage": {"disk": disk}}, "m")
    assert seconds(traces, stored) == pytest.approx(0.5 + 1)
    assert seconds(traces, stored, [Fault("store", "disk", 0, 0.5)]) == pytest.approx(0.5 + 3)
    again = simulate(traces, stored, faults=["store:disk@0=0.5"]).summary.makespan_ns
    assert again == pytest.approx(3.5e9)
    with pytest.raises(ConfigError, match="no store 'disc'"):
        seconds(traces, stored, [Fault("store", "disc", 0, 0.5)])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([{"at": 1, "factor": 1}, {"at": 1, "factor": 2}], "changes come one after another"),
        ([{"at": 1, "factor": -1}], "factor: -1.0 is not 0 or more"),
    ],
)
def test_schedules_that_cannot_be_are_refused(changes, text):
    with pytest.raises(ConfigError, match=text):
        machine(changes)
