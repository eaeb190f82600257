"""`chakra view` of what is no run: a sweep, a study, a campaign, and jobs that ran together."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.commands.pages import page_at
from chakrakit.commands.view import jobs_in
from chakrakit.errors import ConfigError
from chakrakit.views.app import open_session
from support.commands import succeeded

JOB = """\
name: <b>small</b>
step_seconds: 10
steps: 8640
cluster: {nodes: 16, spares: 1, repair_hours: 24}
failures: {node_mtbf_hours: 500}
checkpoint: {interval_steps: 100, seconds: 5}
"""
STUDY = """\
name: tiny
workload: {model: gpt3-125m, step: {seq: 128, global_batch: 4}, plan: {dp: 2}}
axes: {step.micro_batch: [1, 2]}
machines: [dgx-h100]
simulate: {compute: roofline}
"""


def test_the_file_of_a_campaign_is_its_answer(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    page = page_at(str(file))
    assert "How long does it take?" in page
    assert "What the time is lost to" in page
    assert "one more spare" in page
    assert "<b>small" not in page


@pytest.mark.slow
def test_a_sweep_is_shown_from_its_folder_its_table_or_its_study(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    with pytest.raises(ConfigError, match="not run yet; `chakra sweep"):
        page_at(str(file))
    ck.sweep(file, engine="local", jobs=1)
    folder = tmp_path / "study.sweep"
    for path in (folder, folder / "table.parquet", file):
        assert "Fastest that fit" in page_at(str(path))


def test_a_study_is_shown_by_its_id():
    page = page_at("b02")
    assert "What became of the claim?" in page
    assert "Gain by case" in page
    unstudied = next(line for line in ck.studies() if line.verdict == "no study")
    with pytest.raises(ConfigError, match="not studied"):
        page_at(unstudied.id)


def test_runs_and_what_is_nothing_have_no_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text("a: 1")
    assert (
        page_at(str(tmp_path))
        is page_at("nothing")
        is page_at("A99")
        is page_at(str(other))
        is None
    )


def test_jobs_that_ran_together_are_one_timeline(tmp_path):
    plan = {"dp": 2, "seq": 128, "global_batch": 2, "layers": 1}
    for name in ("a", "b"):
        ck.generate(model="gpt3-125m", output=tmp_path / name, **plan)
    succeeded(
        "simulate",
        tmp_path / "a",
        tmp_path / "b",
        "--machine",
        "dgx-h100:1",
        "-o",
        tmp_path / "jobs",
    )
    runs = jobs_in(tmp_path / "jobs")
    assert [path.rsplit("/", 1)[1] for path in runs] == ["a", "b"]
    session = open_session(runs, together=True)
    assert session.summary()["together"]
    assert not session.is_pair
    assert len({side.origin for side in session.sides}) == 1
    for side in session.sides:
        assert {"memory", "power"} <= {figure.title for figure in side.figures(0)}
    assert jobs_in(tmp_path) == []
