"""Traces of a workload, made once and shared through a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.exploration.sweep import measurement as bodies
from chakrakit.exploration.sweep.measurement import traces_of
from chakrakit.exploration.sweep.points import content_key
from chakrakit.workloads.description import Decoder, Plan, Step, Workload

WORKLOAD = Workload(
    model=Decoder(name="m", layers=2, hidden=64, heads=4, vocab=100),
    plan=Plan(dp=2),
    step=Step(seq=64, global_batch=2),
)


def test_the_second_who_comes_finds_them_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = traces_of(WORKLOAD, tmp_path)
    monkeypatch.setattr(bodies, "generated", None)
    second = traces_of(WORKLOAD, tmp_path)
    assert second.trace(0).names.to_pylist() == first.trace(0).names.to_pylist()
    assert second.card.measured == first.card.measured
    assert first.card.measured["tokens"] == 2 * 64
    assert first.card.measured["bubble_fraction"] == 0


def test_a_damaged_entry_or_no_folder_means_that_they_are_made_here(tmp_path: Path) -> None:
    place = tmp_path / content_key(WORKLOAD)
    place.mkdir()
    (place / "rubbish").write_text("x")
    assert len(traces_of(WORKLOAD, tmp_path)) == 2
    assert len(traces_of(WORKLOAD, tmp_path / "nowhere")) == 2
    assert len(traces_of(WORKLOAD, None)) == 2
