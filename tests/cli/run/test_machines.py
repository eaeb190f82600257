"""`chakra machines`: the list, a drawing, and one machine as data."""

from __future__ import annotations

from support.commands import data, succeeded


def test_presets_are_listed_and_machines_drawn() -> None:
    assert "dgx-h100" in succeeded("machines")
    assert data("machines")["presets"][0]["name"] == "dgx-a100"
    assert "4 × switch of 8" in succeeded("machines", "dgx-h100:4")
    assert data("machines", "tpu-v5e")["machine"]["devices"] == 256
