"""Machines: shapes, routes, presets, foreign files, and what is refused."""

import numpy as np
import pytest
import yaml

from chakrakit.errors import ConfigError
from chakrakit.machines.device.quantities import parse, show_bandwidth
from chakrakit.machines.load.description import parse_machine
from chakrakit.machines.load.drawing import describe, draw, overview
from chakrakit.machines.load.load import load_machine, preset_names, preset_text, read_machine
from support.foreign_files import infragraph

LINK = {"bandwidth": "10 GB/s", "latency": "1 us"}


def network(*levels, **more):
    return parse_machine({"network": [{**LINK, **level} for level in levels], **more}, "m")


def walk(machine, a, b):
    """The vertices a route visits; checks that links join up."""
    links = machine.routes(np.array([a]), np.array([b])).route(0)
    at = a
    seen = [a]
    for link in links.tolist():
        assert machine.links.src[link] == at
        at = int(machine.links.dst[link])
        seen.append(at)
    assert at == b
    return seen


MACHINES = {
    "ring": network({"topology": "ring", "size": 7}),
    "line": network({"topology": "line", "size": 5}),
    "full": network({"topology": "full", "size": 6}),
    "switch": network({"topology": "switch", "size": 9}),
    "torus": network({"topology": "torus", "dims": [4, 3, 5]}),
    "mesh": network({"topology": "mesh", "dims": [4, 3]}),
    "fat tree": network({"topology": "fat-tree", "arity": [4, 3, 2], "oversubscription": 2}),
    "dragonfly": network({"topology": "dragonfly", "dims": [5, 4, 2]}),
    "rails": network({"topology": "switch", "size": 4}, {"topology": "fat-tree", "arity": [3, 2]}),
    "flat": network(
        {"topology": "ring", "size": 4}, {"topology": "switch", "size": 3, "joins": "flat"}
    ),
    "gateways": network(
        {"topology": "full", "size": 4}, {"topology": "ring", "size": 5, "joins": "gateways"}
    ),
    "three": network(
        {"topology": "full", "size": 2},
        {"topology": "ring", "size": 3},
        {"topology": "switch", "size": 2, "joins": "flat"},
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_every_route_joins_its_ends(name):
    machine = MACHINES[name]
    for a in range(machine.size):
        for b in range(machine.size):
            if a != b:
                walk(machine, a, b)
    assert len(machine.vertex_names()) == machine.vertices


@pytest.mark.parametrize("name", ["ring", "line", "full", "switch", "torus", "mesh", "fat tree"])
def test_routes_by_arithmetic_are_as_short_as_those_by_search(name):
    machine = MACHINES[name]
    names = machine.vertex_names()
    links = [
        {"ends": [names[a], names[b]], **LINK, "one_way": True}
        for a, b in zip(machine.links.src, machine.links.dst, strict=True)
    ]
    searched = parse_machine({"graph": {"devices": names[: machine.size], "links": links}}, "g")
    for a in range(machine.size):
        for b in range(machine.size):
            if a != b:
                assert len(walk(machine, a, b)) == len(walk(searched, a, b))


def test_devices_of_a_rail_meet_on_their_own_switch():
    machine = load_machine("dgx-h100:4")
    names = machine.vertex_names()
    assert [names[v] for v in walk(machine, 3, 11)] == ["device 3", "switch 1.3", "device 11"]
    assert [names[v] for v in walk(machine, 3, 8)] == [
        "device 3",
        "switch 0.0",
        "device 0",
        "switch 1.0",
        "device 8",
    ]


def test_hashing_spreads_over_equal_ways():
    machine = network({"topology": "fat-tree", "arity": [8, 2], "uplinks": [8]})
    ways = {tuple(walk(machine, a, b))[2] for a in range(8) for b in range(8, 16)}
    assert len(ways) == 8


@pytest.mark.parametrize("name", preset_names())
def test_presets_load_and_every_number_has_a_source(name):
    text = preset_text(name)
    machine = load_machine(name)
    assert machine.size >= 8
    numbers = {k for k, v in text["device"].items() if k not in ("name", "sources")}
    assert numbers == set(text["device"]["sources"])
    for k, level in enumerate(text["network"]):
        for key in set(level) - {"topology"}:
            assert f"network[{k}].{key}" in text["sources"]
    for key in text.get("software", {}):
        assert f"software.{key}" in text["sources"]
    assert load_machine(f"{name}:4").shape[-1] <= 4 or name.startswith("tpu")


def test_any_number_of_nodes():
    assert load_machine("dgx-h100:32").size == 256
    assert load_machine("tpu-v5p:64").shape == (4, 4, 4)
    assert load_machine("ethernet-100g:5").size == 5


def test_overview_and_drawing_say_what_there_is():
    assert [r.name for r in overview()] == preset_names()
    assert "8 × switch of 4" in draw(load_machine("dgx-h100:4"))
    assert describe(load_machine("mi300x")).dimensions[0].topology == "full"


def test_oversubscription_narrows_what_leads_up():
    machine = network({"topology": "fat-tree", "arity": [4, 2], "oversubscription": 4})
    up = machine.links.bandwidth[(machine.links.src >= 8)].sum()
    assert up == pytest.approx(8 * 10e9 + 2 * 2 * 10e9)


def test_changes_make_machines_heterogeneous():
    machine = network(
        {"topology": "switch", "size": 4},
        device={"name": "a"},
        changes=[{"ranks": "2-3", "device": {"name": "b"}}, {"ranks": [0], "bandwidth": "1 GB/s"}],
    )
    assert [machine.device(r).name for r in range(4)] == ["a", "a", "b", "b"]
    widths = machine.routes(np.array([0, 1]), np.array([1, 2])).bandwidth(machine.links)
    assert widths.tolist() == [1e9, 10e9]


def test_astra_network_file():
    text = {"topology": ["Ring", "Switch"], "npus_count": [4, 2]}
    text |= {"bandwidth": [100.0, 50.0], "latency": [500.0, 1000.0]}
    machine = read_machine(text, "net.yml")
    assert machine.shape == (4, 2)
    assert machine.links.bandwidth.max() == 100 * 2**30
    assert machine.links.latency.max() == pytest.approx(1e-6)


def test_infragraph_becomes_its_own_graph():
    machine = read_machine(yaml.safe_load(infragraph(4)), "infra.yaml")
    assert machine.size == 8
    assert len(machine.links) == 2 * (2 * (4 + 4) + 8)
    assert len(walk(machine, 0, 3)) == 3
    assert len(walk(machine, 0, 7)) == 5
    route = machine.routes(np.array([0]), np.array([7]))
    assert route.bandwidth(machine.links)[0] == 50e9
    assert route.latency(machine.links)[0] == pytest.approx(2e-6)


def test_quantities():
    assert parse("450 GB/s", "bandwidth", "x") == 450e9
    assert parse("400 Gb/s", "bandwidth", "x") == 50e9
    assert parse("400Gbps", "bandwidth", "x") == 50e9
    assert parse("1.5 us", "time", "x") == pytest.approx(1.5e-6)
    assert parse("80 GiB", "bytes", "x") == 80 * 2**30
    assert show_bandwidth(450e9) == "450 GB/s"


WRONG = {
    "network[0].bandwidth": {"network": [{"topology": "ring", "size": 4, "bandwidth": 0}]},
    "is no bandwidth": {"network": [{"topology": "ring", "size": 4, "bandwidth": "10 parsec"}]},
    "size": {"network": [{"topology": "ring", **LINK}]},
    "Invalid enum value 'moebius'": {"network": [{"topology": "moebius", "size": 4, **LINK}]},
    "unknown field `bandwith`": {
        "network": [{"topology": "ring", "size": 4, "bandwith": 1, **LINK}]
    },
    "either `network`": {"name": "x"},
    "arity": {"network": [{"topology": "fat-tree", "size": 6, "arity": [4, 2], **LINK}]},
    "oversubscription": {
        "network": [{"topology": "switch", "size": 6, "oversubscription": 0, **LINK}]
    },
    "to itself": {"graph": {"devices": ["a", "b"], "links": [{"ends": ["a", "a"], **LINK}]}},
    "no rank 9": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "changes": [{"ranks": [9]}],
    },
    "too large": {"network": [{"topology": "full", "size": 100000, **LINK}]},
    "memory": {"network": [{"topology": "ring", "size": 4, **LINK}], "device": {"memory": -1}},
    "(0, 1]": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "device": {"compute_efficiency": 2},
    },
    "no 'attention_'; did you mean": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "device": {"peak": {"bf16": 1e12}, "achieved": {"attention_": 0.5}},
    },
    "achieved.memory: 0": {
        "network": [{"topology": "ring", "size": 4, **LINK}],
        "device": {"achieved": {"memory": 0}},
    },
}


@pytest.mark.parametrize("said", WRONG)
def test_wrong_descriptions_say_where(said):
    with pytest.raises(
        ConfigError, match="(?s)" + said.replace("[", r"\[").replace("(", r"\(").replace("]", r"\]")
    ):
        parse_machine(WRONG[said], "m.yaml")


def test_parts_that_are_not_joined_are_refused():
    machine = parse_machine(
        {"graph": {"devices": ["a", "b", "c"], "links": [{"ends": ["a", "b"], **LINK}]}}, "m"
    )
    with pytest.raises(ConfigError, match="no way from a to c"):
        machine.routes(np.array([0]), np.array([2]))


def test_unknown_names_list_the_presets(tmp_path):
    with pytest.raises(ConfigError, match="dgx-h100"):
        load_machine("dgx-h1000")
    with pytest.raises(ConfigError, match="0 nodes"):
        load_machine("dgx-h100:0")
    bad = tmp_path / "m.yaml"
    bad.write_text("{[")
    with pytest.raises(ConfigError, match="YAML"):
        load_machine(str(bad))
