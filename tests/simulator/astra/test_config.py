"""ASTRA-sim's input files: every key is checked, and one without effect is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chakrakit.errors import ConfigError
from chakrakit.simulator.astra import read_config
from chakrakit.simulator.astra.config import parse_implementation
from support.astra_cases import case_of, coll, figures, network, on_all, run, system

MB = 1 << 20
FOUR = network(("Switch", 4))


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "group 0": ({"comm_group": {"0": [0, 1]}}, "group '0': ids are whole numbers above 0"),
    "a named group": ({"comm_group": {"tp": [0, 1]}}, "group 'tp': ids are whole numbers"),
    "a group of strangers": ({"comm_group": {"1": [0, 9]}}, "group 1: rank 9 does not exist"),
    "a group with a double": ({"comm_group": {"1": [0, 0]}}, "group 1: a rank is listed twice"),
    "a shared bus": (
        {"system": system(model_shared_bus=1)},
        "`model-shared-bus` 1 is not simulated",
    ),
    "an unknown algorithm": ({"system": system("rings")}, "unknown algorithm 'rings'"),
    "an unknown topology": (
        {"network": network(("Mesh", 4))},
        r"network: Invalid enum value 'Mesh'",
    ),
    "one rank": ({"network": network(("Ring", 1))}, "`npus_count` is 1; it must be 2 or more"),
    "a negative latency": ({"network": {**FOUR, "latency": [-1]}}, "`latency` is -1; it must be 0"),
    "endless latency": ({"network": {**FOUR, "latency": [float("nan")]}}, "`latency` is nan"),
    "too many ranks": ({"network": network(("Ring", 2000), ("Ring", 2000))}, "4,000,000 ranks are"),
    "uneven lists": ({"network": {**FOUR, "latency": []}}, "one entry for each dimension"),
    "a text for a number": (
        {"system": system(local_mem_bw="fast")},
        r"system: Expected `int \| float`.*local-mem-bw",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_bad_setting_names_the_file_and_key(name: str) -> None:
    change, message = CONFIGS[name]
    with pytest.raises(ConfigError, match=message):
        run(on_all([coll(0, MB)]) | change)


def test_ignored_keys_are_reported() -> None:
    case = on_all([coll(0, MB)], sys=system(track_local_mem=1, boost_mode=0))
    keys = [(key.file, key.key) for key in run(case).config.ignored]
    assert keys == [("system", "track-local-mem"), ("system", "boost-mode")]


def test_numbers_may_be_written_in_any_way() -> None:
    """YAML 1.1 takes 1e3 for text, and JSON writers turn 10 into 10.0."""
    net = network(("Ring", 4)) | {"latency": ["5e2"], "bandwidth": [50]}
    ranks = [[coll(0, MB)] for _ in range(4)]
    odd = run(case_of(ranks, net, system(endpoint_delay=10.0, preferred_dataset_splits=4.0)))
    assert figures(odd) == figures(run(case_of(ranks, network(("Ring", 4)))))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("ring", (0, False, 0)),
        ("direct4", (1, False, 4)),
        ("oneDirect", (1, True, 0)),
        ("oneHalvingDoubling", (2, True, 0)),
        ("doubleBinaryTree", (3, False, 0)),
    ],
)
def test_an_algorithm_has_a_number_and_may_span_all_ranks_or_have_a_window(text, parsed) -> None:
    assert parse_implementation(text) == parsed


@pytest.mark.parametrize("text", ["direct0", "ring4", "oneDoubleBinaryTree", "direct" + "9" * 20])
def test_an_algorithm_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown algorithm|the window must be 1 or more"):
        parse_implementation(text)


def test_the_four_files(tmp_path: Path) -> None:
    written = {
        "s.json": '{"all-gather-implementation": ["ring"], "all-gather-implementation-custom": ["x"]}',
        "n.yml": "{topology: [Ring, Switch], npus_count: [4, 2], bandwidth: [1, 2], latency: [0, 1e3]}",
        "m.json": '{"memory-type": "MEMORY_POOL", "remote-mem-bw": 7.0}',
        "g.json": '{"1": [0, 3], "12": [7]}',
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    config = read_config(*(tmp_path / name for name in written))
    assert config.network.ranks == 8
    assert config.network.latency == [0, 1000]
    assert config.memory.remote_mem_bw == 7
    assert config.groups == {1: [0, 3], 12: [7]}
    assert config.system.implementations("all-gather") == ["ring"]
    assert config.system.custom("all-gather") == "x"
    assert config.system.custom("all-reduce") == ""
