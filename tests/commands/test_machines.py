"""`chakra machines`: the list, a drawing, and one machine as data."""

from __future__ import annotations

import chakrakit as ck
from support.commands import data, succeeded


def test_presets_are_listed_and_machines_drawn() -> None:
    assert "dgx-h100" in succeeded("machines")
    assert data("machines")["presets"][0]["name"] == "dgx-a100"
    assert "4 × switch of 8" in succeeded("machines", "dgx-h100:4")
    assert data("machines", "tpu-v5e")["machine"]["devices"] == 256


def test_all_presets_or_one_machine() -> None:
    report = ck.list_machines("dgx-h100:4")
    assert report.presets == []
    assert report.machine is not None
    assert [d.size for d in report.machine.dimensions] == [8, 4]
    assert "dgx-b200" in [p.name for p in ck.list_machines().presets]
