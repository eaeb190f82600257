"""Machines in words and lines."""

from __future__ import annotations

from chakrakit.machines import describe, draw, load_machine, overview
from chakrakit.machines.load import preset_names
from support.networks import network


def test_overview_and_drawing_say_what_there_is():
    assert [r.name for r in overview()] == preset_names()
    assert "8 × switch of 4" in draw(load_machine("dgx-h100:4"))
    assert describe(load_machine("mi300x")).dimensions[0].topology == "full"


def test_a_drawing_has_devices_dimensions_and_a_picture():
    machine = network(
        {"topology": "switch", "size": 3, "reduction": True},
        {"topology": "ring", "size": 2, "joins": "flat"},
        name="mine",
        device={"name": "a", "peak": {"bf16": 2e12}, "memory": 80e9, "memory_bandwidth": 1e12},
    )
    assert draw(machine).splitlines() == [
        "mine: 6 devices, 24 links one way",
        "  6 × a, 2 TFLOP/s bf16, 80 GB at 1 TB/s",
        "  └─ 2 × switch of 3: 10 GB/s per link, 1 us, reduces in the switch",
        "    └─ ring of 6: 10 GB/s per link, 1 us, every device on it",
        "",
        "  ╞═══════════╡ switch",
        "    │   │   │ ",
        "   [0] [1] [2]",
    ]


def test_a_long_ring_is_cut_and_closed():
    picture = draw(network({"topology": "ring", "size": 20})).splitlines()[-2:]
    assert picture[0].startswith("  [0]──[1]──")
    assert picture[0].endswith("[15]──…")
    assert picture[1].startswith("  └─")


def test_a_report_counts_kinds_of_devices_and_copies_of_fabrics():
    machine = network(
        {"topology": "switch", "size": 2},
        {"topology": "ring", "size": 3},
        device={"name": "a"},
        changes=[{"ranks": [5], "device": {"name": "b"}}],
    )
    report = describe(machine)
    assert [(d.name, d.count) for d in report.device_kinds] == [("a", 5), ("b", 1)]
    assert [(d.topology, d.size, d.copies) for d in report.dimensions] == [
        ("switch", 2, 3),
        ("ring", 3, 2),
    ]
    assert report.dimensions[0].bandwidths == [10e9]
