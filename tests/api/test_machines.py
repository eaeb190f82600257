"""Machines from Python: listed, described, timed, measured."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck


def test_all_presets_or_one_machine() -> None:
    report = ck.list_machines("dgx-h100:4")
    assert report.presets == []
    assert report.machine is not None
    assert [d.size for d in report.machine.dimensions] == [8, 4]
    assert "dgx-b200" in [p.name for p in ck.list_machines().presets]


def test_members_are_a_number_a_list_or_words() -> None:
    times = {
        ck.collective("all-reduce", "dgx-h100:2", members, [1 << 20]).rows[0].time_us
        for members in (8, list(range(8)), "0-7")
    }
    assert len(times) == 1


def test_experts_exchange_tokens() -> None:
    """Of each token to 2 of 16 experts: 1,024 values of a byte, 4 for each 128 of them, and 16."""
    table = ck.collective("dispatch", "dgx-h100", 8, tokens=[64], hidden=1024, topk=2, experts=16)
    assert table.rows[0].bytes == 64 * 2 * (1024 + 4 * 1024 // 128 + 16)


def test_constants_are_of_a_machine(tmp_path: Path) -> None:
    with pytest.raises(ck.ConfigError, match="say which one the collectives ran on"):
        ck.calibrate("t.csv", output=tmp_path / "l.json", collectives=True)
