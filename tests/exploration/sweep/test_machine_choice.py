"""A machine as a study names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep.study import choose

FILE = "network: [{topology: switch, size: 3, bandwidth: 1 GB/s}]\n"


def test_a_preset_keeps_its_number_of_nodes(tmp_path: Path) -> None:
    found = choose("dgx-h100:2", tmp_path)
    assert (found.name, found.nodes) == ("dgx-h100:2", 2)
    assert found.machine().size == 16
    assert found.machine() is choose("dgx-h100:2", tmp_path).machine()


def test_a_file_is_looked_for_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FILE)
    assert choose("mine.yaml", tmp_path).machine().size == 3


def test_figures_of_another_machine_can_be_changed(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FILE)
    found = choose({"base": "mine.yaml", "network.0.size": 5}, tmp_path)
    assert found.name == "mine.yaml with network.0.size 5"
    assert found.machine().size == 5
    assert choose("mine.yaml", tmp_path).machine().size == 3
    named = choose({"base": "mine.yaml", "name": "big", "network.0.size": 5}, tmp_path)
    assert named.name == "big"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"name": "x"}, "a machine's mapping needs `base`"),
        ({"base": "mine.yaml", "network.1.size": 5}, "there is no network.1 to change"),
        ({"base": "mine.yaml", "device.power.x": 5}, "there is no device to change"),
        ("nowhere.yaml", "nowhere.yaml: neither a file nor a preset"),
    ],
)
def test_what_is_no_machine_is_refused(tmp_path: Path, entry: object, said: str) -> None:
    (tmp_path / "mine.yaml").write_text(FILE)
    with pytest.raises(ConfigError, match=said):
        choose(entry, tmp_path)
