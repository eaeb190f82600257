"""Machines by name or file: presets with any number of nodes, and what is refused."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine, parse_name, preset_text
from chakrakit.machines.load import preset_names


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


def test_unknown_names_list_the_presets(tmp_path):
    with pytest.raises(ConfigError, match="dgx-h100"):
        load_machine("dgx-h1000")
    with pytest.raises(ConfigError, match="0 nodes"):
        load_machine("dgx-h100:0")
    bad = tmp_path / "m.yaml"
    bad.write_text("{[")
    with pytest.raises(ConfigError, match="YAML"):
        load_machine(str(bad))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("dgx-h100", ("dgx-h100", None)),
        ("dgx-h100:32", ("dgx-h100", 32)),
        ("my.yaml", (None, None)),
        ("dgx-h100:x", (None, None)),
    ],
)
def test_a_name_is_a_preset_with_a_number_of_nodes_or_a_file(name, found):
    assert parse_name(name) == found


def test_a_preset_knows_that_it_is_one_and_a_file_that_it_is_not(tmp_path):
    assert load_machine("dgx-h100").is_preset
    file = tmp_path / "m.yaml"
    file.write_text("network: [{topology: ring, size: 4, bandwidth: 1 GB/s}]\n")
    assert not load_machine(str(file)).is_preset
    assert load_machine(str(file)).size == 4


def test_a_preset_of_too_many_nodes_says_how_many_there_may_be():
    with pytest.raises(ConfigError, match=r"2,147,483,648 devices; 1,048,576 is the most"):
        load_machine("dgx-h100:2147483648")


def test_what_a_file_assumes_is_said_with_every_result():
    """Nobody measured collectives of RTX 4090: no jump of another server is carried over, and it is said."""
    table = ck.collective("all-reduce", "rtx-4090", 5, [64 << 20])
    four = ck.collective("all-reduce", "rtx-4090", 4, [64 << 20])
    assert table.rows[0].time_us < 1.2 * four.rows[0].time_us
    assert any("nobody measured" in note for note in table.notes)
    assert ck.collective("all-reduce", "dgx-h100", 8, [64 << 20]).notes == []
