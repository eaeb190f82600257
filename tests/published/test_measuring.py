"""Sides are tuned on some seeds and judged on others; a study that was killed goes on."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.parallel import Workers
from chakrakit.published import measure_study, named_study
from chakrakit.published.measuring import POINTS
from support.toy_study import measure, measured, toy


def test_judged_seeds_are_none_of_those_tuned_on(monkeypatch):
    rows = measured(toy(), monkeypatch).rows
    tuning, judged = ({r.seed for r in rows if r.phase == p} for p in ("tuning", "judged"))
    assert (len(tuning), len(judged)) == (2, 5)
    assert not tuning & judged


def test_a_quick_run_takes_fewer_seeds(monkeypatch):
    assert measured(toy(), monkeypatch, quick=True).seeds == [0, 1]


def test_a_killed_study_goes_on_where_it_stopped(tmp_path, monkeypatch):
    calls = []

    def counting(case, setting, seed):
        calls.append(seed)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return measure(case, setting, seed)

    study = toy(measure=counting)
    with pytest.raises(KeyboardInterrupt):
        measured(study, monkeypatch, folder=tmp_path)
    assert len((tmp_path / POINTS).read_text().splitlines()) == 19
    with (tmp_path / POINTS).open("a") as file:
        file.write('{"key": "torn')  # as a kill while writing leaves it
    again = measured(study, monkeypatch, folder=tmp_path)
    once = measured(toy(), monkeypatch)
    assert [r.figures for r in again.rows] == [r.figures for r in once.rows]
    distinct = {(str(r.case), str(r.setting), r.seed) for r in once.rows}
    assert len(calls) == len(distinct) + 1  # the point that was interrupted came twice


def test_two_runs_do_not_write_into_one_folder(tmp_path, monkeypatch):
    def meeting(case, setting, seed):
        measured(toy(), monkeypatch, folder=tmp_path)
        return measure(case, setting, seed)

    errors = measured(toy(measure=meeting), monkeypatch, folder=tmp_path).errors
    assert "another study is writing there" in errors[0]


def test_infinity_survives_the_file(tmp_path, monkeypatch):
    study = toy(measure=lambda *_: {"seconds": float("inf"), "rate": 1.0})
    measured(study, monkeypatch, folder=tmp_path)
    assert measured(study, monkeypatch, folder=tmp_path).rows[0].figures["seconds"] == float("inf")


def test_a_file_of_something_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / POINTS).write_text("no points\n")
    with pytest.raises(ConfigError, match="remove the file"):
        measured(toy(), monkeypatch, folder=tmp_path)


@pytest.mark.slow
def test_workers_measure_the_same():
    study = named_study("B02")
    here = measure_study(study, quick=True)
    there = measure_study(study, quick=True, workers=Workers(jobs=2))
    # B02 trains a small model in float32, whose sums may be taken in another order in another process.
    assert [r.figures for r in here.rows] == [
        pytest.approx(r.figures, rel=1e-6) for r in there.rows
    ]
