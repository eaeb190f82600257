"""Searches and campaigns from Python: what they refuse, and what they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": None}, "give a model, or a script"),
        ({"model": "gpt3-125m", "slo": "ttft=9"}, "are for a search with --serve"),
        ({"model": "gpt3-125m", "serve": True}, "--serve needs --requests and --slo"),
    ],
)
def test_a_search_wants_to_know_what_for(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ck.ConfigError, match=said):
        ck.search(gpus=8, machine="dgx-h100", **given)


def test_a_history_of_a_campaign_is_a_run(tmp_path: Path) -> None:
    """864 steps of 100 seconds are a day."""
    job = tmp_path / "job.yaml"
    job.write_text("{step_seconds: 100, steps: 864, cluster: {nodes: 2}}")
    found = ck.campaign(job, histories=2, changes=False, output=tmp_path / "run", history=1)
    assert (found.days.mean, found.sensitivity) == (1.0, [])
    assert ck.read(tmp_path / "run").makespan_ns == pytest.approx(86_400e9)


def test_a_study_that_says_nothing_is_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("machines: [dgx-h100]\n")
    with pytest.raises(ck.ConfigError, match=r"study\.yaml"):
        ck.sweep(study)
    assert not (tmp_path / "study.sweep").exists()
