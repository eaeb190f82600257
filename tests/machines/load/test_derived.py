"""Machines that derive from presets: what they change, and what they keep."""

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine, parse_machine


def test_a_derived_machine_differs_in_what_it_says_alone():
    text = {"base": "dgx-h100", "nodes": 2, "network": [{}, {"bandwidth": "100 Gb/s"}]}
    derived, base = parse_machine(text, "m"), load_machine("dgx-h100:2")
    assert derived.library == base.library
    assert derived.devices == base.devices
    assert derived.links.bandwidth.min() == 12.5e9
    assert derived.links.bandwidth.max() == base.links.bandwidth.max()


def test_a_library_goes_only_when_told_to():
    assert parse_machine({"base": "dgx-h100", "library": None}, "m").library is None
    other = parse_machine(
        {"base": "dgx-h100", "network": [{"topology": "ring", "size": 4, "bandwidth": 1e9}]}, "m"
    )
    assert other.library is not None


def test_a_base_is_a_preset():
    with pytest.raises(ConfigError, match=r"m\.base: 'dgx-h10' is not a preset; .*dgx-h100"):
        parse_machine({"base": "dgx-h10"}, "m")


def test_within_a_node_two_machines_that_differ_in_the_network_alone_are_alike():
    slow = parse_machine(
        {"base": "dgx-h100", "nodes": 2, "network": [{}, {"bandwidth": "100 Gb/s"}]}, "m"
    )
    traces = ck.generate(model="gpt3-125m", tp=4, seq=128, global_batch=1, layers=1).traces
    times = [ck.simulate(traces, m).summary.makespan_ns for m in ("dgx-h100:2", slow)]
    assert times[0] == times[1]


@pytest.mark.parametrize("network", [5, {"a": 1}, "switch", [5], [{"latency": [1]}, {}]])
def test_a_network_that_is_none_is_refused_as_without_a_base(network):
    with pytest.raises(ConfigError, match="network"):
        parse_machine({"base": "dgx-h100", "network": network}, "m")


@pytest.mark.parametrize(
    ("network", "devices"),
    [
        ([{"topology": "switch", "size": 8, "bandwidth": 200e9}], 8),
        ([{}, {"size": 4}], 32),
        ([{"bandwidth": 200e9}, {}], 8),
    ],
    ids=["one dimension", "nodes by the size of the outer one", "the base's one node"],
)
def test_a_network_that_counts_its_places_does_not_take_the_nodes_of_its_base(network, devices):
    """Eight devices on one switch were one device: the preset's single node replaced their number."""
    assert parse_machine({"base": "dgx-h100", "network": network}, "m").size == devices
    assert parse_machine({"base": "dgx-h100", "nodes": 3, "network": [{}, {}]}, "m").size == 24
