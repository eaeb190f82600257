"""Descriptions of machines that cannot be built: refused by their counts, before memory is taken."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine, read_machine
from support.bounded import memory_below

LINK = {"name": "wire", "physical": {"bandwidth": {"gigabits_per_second": 100}}}


def network(*levels, **more):
    return {"network": [{"bandwidth": "1 GB/s", **level} for level in levels], **more}


def infrastructure(components, count=1, devices=(), top="server", edges=()):
    server = {"name": "server", "components": components, "links": [LINK], "edges": edges}
    return {
        "devices": [server, *devices],
        "links": [LINK],
        "instances": [{"name": "s", "device": top, "count": count}],
        "edges": [],
    }


def xpu(count):
    return [{"name": "xpu", "choice": "xpu", "count": count}]


def holding(name, inner):
    """A device that holds twenty of another."""
    return {"name": name, "components": [{"name": inner, "choice": "device", "count": 20}]}


nested = [holding(f"l{i}", f"l{i - 1}" if i else "server") for i in range(12)]
end = {"component": "xpu"}
everyone = [{"ep1": end, "ep2": end, "link": "wire", "scheme": "many2many"}]

CASES = {
    "torus": (network({"topology": "torus", "dims": [2**31, 2**31]}), "about 10^18 devices"),
    "torus of one": (network({"topology": "torus", "dims": [2**31]}), "2,147,483,648 devices"),
    "ring": (network({"topology": "ring", "size": 2**40}), "1,048,576 is the most"),
    "full": (network({"topology": "full", "size": 20_000}), "399,980,000 links"),
    "uplinks": (
        network({"topology": "fat-tree", "arity": [4, 4], "uplinks": [2**31]}),
        "17,179,869,216 links",
    ),
    "dragonfly": (network({"topology": "dragonfly", "dims": [3000, 300, 1]}), "279,897,000 links"),
    "copies": (
        network({"topology": "ring", "size": 1024}, {"topology": "full", "size": 1024}),
        "a machine has 1,074,790,400 links",
    ),
    "levels": (network(*[{"topology": "ring", "size": 1}] * 50_000), "50,000 dimensions"),
    "nodes": (network({"topology": "mesh", "dims": [2, 2]}, nodes=2**62), "nodes: about 10^18"),
    "no nodes": (network({"topology": "ring"}, nodes=-1), "nodes: -1; give 1 or more"),
    "ranks": (
        network({"topology": "ring", "size": 4}, changes=[{"ranks": "0-9999999999", "latency": 1}]),
        "no rank 9999999999; there are 4",
    ),
    "queue": (
        network({"topology": "ring", "size": 4}, software={"queue_depth": 2**64}),
        "queue_depth: 18446744073709551616 is not in 0",
    ),
    "components": (infrastructure(xpu(4 * 10**9)), "4,000,000,001 components"),
    "instances": (infrastructure(xpu(2), count=4 * 10**9), "12,000,000,000 components"),
    "nested": (infrastructure(xpu(2), devices=nested, top="l11"), "about 10^16 components"),
    "below 0": (infrastructure(xpu(-1)), "'xpu' has a count of -1"),
    "everyone": (infrastructure(xpu(20_000), edges=everyone), "400,000,000 links"),
}


@pytest.mark.first(7)
@pytest.mark.parametrize("name", CASES)
def test_refused_before_anything_is_built(name):
    content, says = CASES[name]
    with memory_below(200e6), pytest.raises(ConfigError) as error:
        read_machine(content, "m.yaml")
    assert says in str(error.value)


def test_a_wrong_number_of_a_file_is_told_with_its_line(tmp_path):
    file = tmp_path / "m.yaml"
    file.write_text(
        "network:\n  - topology: ring\n    size: 4\n    bandwidth: 1 GB/s\n    latency: x\n"
    )
    with pytest.raises(ConfigError, match=r"m.yaml:5: network\[0\].latency: 'x' is not a time"):
        load_machine(str(file))


def test_the_largest_of_a_preset_is_described_at_once():
    assert load_machine("dgx-h100:131072").link_count == 4 * 2**20
