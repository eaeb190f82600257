"""InfraGraph files: components, slices of them, and links between."""

import copy

import numpy as np
import pytest
import yaml

from chakrakit.errors import ConfigError
from chakrakit.machines import read_machine
from support.foreign_files import infragraph
from support.networks import walk

FILE = yaml.safe_load(infragraph(2))


def changed(change):
    content = copy.deepcopy(FILE)
    change(content)
    return content


def test_accelerators_are_the_ranks_and_everything_else_forwards():
    machine = read_machine(FILE, "infra.yaml")
    assert machine.size == 4
    # Per server: two devices to the switch and to their cards, two cards to the leaf, both ways.
    assert len(machine.links) == 2 * 2 * (2 + 2 + 2)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c["edges"][0].update(link="fibre"), "fibre"),
        (lambda c: c["instances"][0].update(device="desk"), "desk"),
        (lambda c: c["devices"][0]["edges"][1]["ep1"].update(component="xpu[0:9]"), "xpu"),
        (lambda c: c["devices"][0]["components"][0].update(count=10**12), "is the most"),
        (lambda c: c["devices"][0]["components"][0].update(count="two"), "Expected `int`"),
        (
            lambda c: c["links"][0]["physical"]["bandwidth"].update(gigabits_per_second=0),
            "'eth'.* 0;",
        ),
        (
            lambda c: c["links"][0]["physical"]["bandwidth"].update(gigabits_per_second=-4),
            "'eth'.* -4;",
        ),
    ],
)
def test_what_is_not_there_or_too_large_is_refused_by_name(change, problem):
    with pytest.raises(ConfigError, match=problem):
        read_machine(changed(change), "infra.yaml")


def test_infragraph_becomes_its_own_graph():
    machine = read_machine(yaml.safe_load(infragraph(4)), "infra.yaml")
    assert machine.size == 8
    assert len(machine.links) == 2 * (2 * (4 + 4) + 8)
    assert len(walk(machine, 0, 3)) == 3
    assert len(walk(machine, 0, 7)) == 5
    route = machine.routes(np.array([0]), np.array([7]))
    assert route.bandwidth(machine.links)[0] == 50e9
    assert route.latency(machine.links)[0] == pytest.approx(2e-6)
