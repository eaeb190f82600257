"""Every study is fair, its recorded verdict is what its table says, and taking the idea away lowers it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import chakrakit
from chakrakit.published import (
    TABLES,
    grade_of,
    line_of,
    list_studies,
    measure_study,
    named_study,
    quick_rows,
    quick_seconds,
    recorded_rows,
    result_of,
    study_modules,
    swapped,
)
from chakrakit.published.recorded import read_rows
from chakrakit.published.verdict import SMALL, decided
from chakrakit.views import bounds_page, first_page, study_chart, study_page
from support.paths import ROOT

IDS = list(study_modules())
QUICK = [name for name in IDS if int(name[1:]) % 6 == 1]
"""The studies that every `make test` runs from tuning to verdict, whichever others there are; of the others
test_kept_results.py measures every quick case once, and `make studies` runs all."""
MOST_QUICK_S, MOST_QUICK_SUM_S = 3.0, 25.0
"""CPU seconds, as recorded, that a quick run may take, and that all of `QUICK` may."""
MOST_BYTES = 10_000
"""Of a study's table: ninety of them, and the list, stay below 1 MB."""
SOURCE = Path(chakrakit.__file__).parent


@cache
def recorded(name):
    """The recorded rows of a study, and its result, made once."""
    judged, commit = recorded_rows(name)
    return judged, result_of(judged, commit=commit)


@pytest.mark.parametrize("name", IDS)
def test_a_study_is_one_short_file_that_says_what_it_is(name):
    module, study = study_modules()[name], named_study(name)
    file = SOURCE / (module.removeprefix("chakrakit.").replace(".", "/") + ".py")
    assert len(file.read_text().splitlines()) <= 150
    assert (study.id, study.family) == (name, file.parent.name)
    for path in filter(None, study.rests_on.values()):
        assert (SOURCE / path).exists(), path


@pytest.mark.parametrize("name", IDS)
def test_comparators_have_as_much_to_choose_from_as_the_idea(name):
    study = named_study(name)
    for side in study.comparators:
        assert len(study.sides[side]) >= len(study.sides[study.idea]), side


@pytest.mark.parametrize("name", IDS)
def test_there_are_cases_enough_and_some_in_which_the_gain_should_be_gone(name):
    result = recorded(name)[1]
    assert len(result.cases) >= 3
    assert result.seeds >= 5
    gone = [c.gain for c in result.cases if c.gone]
    assert gone
    close = all(abs(g - 1) <= SMALL for g in gone)
    assert close or any("not within 2 % of 1" in reason for reason in result.why)


@pytest.mark.parametrize("name", IDS)
def test_a_study_that_misses_a_prediction_says_what_decides(name):
    result = recorded(name)[1]
    missed = [p.text for p in result.predictions if p.outcome != "came true"]
    missed += [c.text for c in result.claims if c.reached is False]
    assert result.decides or not missed, missed


@pytest.mark.parametrize("name", IDS)
def test_predictions_can_be_tested_by_what_was_recorded(name):
    predictions = recorded(name)[1].predictions
    assert [p.text for p in predictions if p.outcome == "untested"] == []
    assert len(predictions) >= 2


@pytest.mark.parametrize("name", IDS)
def test_health_is_measured_for_every_comparator(name):
    judged, _ = recorded(name)
    for side in judged.study.comparators:
        assert not np.isnan(judged.figure(judged.study.health, side)).all(), side


@pytest.mark.parametrize("name", IDS)
def test_without_its_key_line_an_idea_that_holds_does_so_less(name):
    result = recorded(name)[1]
    assert result.ablations
    if grade_of(result.verdict) >= 2:
        for ablation in result.ablations:
            assert grade_of(ablation.verdict) < grade_of(result.verdict), ablation
    else:
        page = study_page(result)
        assert all(f"| {a.without} |" in page for a in result.ablations if a.changed)


@pytest.mark.parametrize("name", IDS)
def test_with_labels_swapped_nothing_holds(name):
    judged, _ = recorded(name)
    for side in judged.study.sides:
        if side != judged.study.idea:
            assert grade_of(decided(swapped(judged, side))[0]) < 3, side


@pytest.mark.parametrize("name", IDS)
def test_a_bound_is_never_said_to_hold(name):
    result = recorded(name)[1]
    if result.strength in ("bound", "side cost"):
        assert "hold" not in result.verdict


def test_list_and_pages_say_what_the_tables_say():
    lines = {line.id: line for line in list_studies()}
    results = []
    for name in IDS:
        result = recorded(name)[1]
        assert lines[name] == line_of(result)
        assert (ROOT / f"docs/studies/{name}.md").read_text() == study_page(result)
        assert (ROOT / f"docs/studies/{name}.svg").read_text() == study_chart(result)
        results.append(result)
    assert (ROOT / "docs/studies/README.md").read_text() == first_page(list_studies())
    assert (ROOT / "docs/studies/bounds.md").read_text() == bounds_page(results)


def test_recorded_tables_are_small_and_of_a_commit():
    assert sum(f.stat().st_size for f in TABLES.iterdir()) < 1 << 20
    for name in IDS:
        table = TABLES / f"{name}.parquet"
        rows, commit = read_rows(table)
        assert rows
        assert commit
        assert table.stat().st_size <= MOST_BYTES, name


def test_quick_runs_were_quick_when_they_were_recorded():
    seconds = {name: quick_seconds(TABLES / f"{name}.parquet") for name in IDS}
    assert [name for name, s in seconds.items() if not s <= MOST_QUICK_S] == []
    assert sum(seconds[name] for name in QUICK) <= MOST_QUICK_SUM_S


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_run_goes_through(name):
    judged = measure_study(named_study(name), quick=True)
    result = result_of(judged, quick=True)
    assert result.errors == []
    assert len(result.cases) >= 3
    assert any(c.gone for c in result.cases)
    figures = [row.figures for row in judged.rows if row.phase == "judged"]
    for row, again in zip(quick_rows(name), figures, strict=True):
        assert again == pytest.approx(row.figures, rel=SMALL, nan_ok=True), (row.case, row.side)


@pytest.mark.parametrize("name", IDS)
def test_cases_and_choices_are_those_that_were_recorded(name):
    study, rows = named_study(name), recorded(name)[0].rows
    assert _unique(row.case for row in rows) == list(map(dict, study.cases(False)))
    assert _unique(row.case for row in quick_rows(name)) == list(map(dict, study.cases(True)))
    assert {row.seed for row in rows if row.phase == "judged"} == set(range(study.judged_seeds))
    for side, settings in {**study.sides, **study.ablated()}.items():
        assert _unique(row.setting for row in rows if row.side == side) == _unique(settings), side


def _unique(items):
    """Each once, in the order in which they come; a case or a setting cannot be hashed."""
    kept = []
    for item in map(dict, items):
        if item not in kept:
            kept.append(item)
    return kept


@pytest.mark.parametrize("name", ["A18", "A34"])
def test_the_static_and_the_dynamic_part_make_the_gain_and_vanish_for_one_section(name):
    """On 64 ranks; both columns stand on the page."""
    result = recorded(name)[1]
    assert all(case.case["ranks"] >= 64 for case in result.cases)
    for case in result.cases:
        static, dynamic = (case.shown[f"{part} part"][0] for part in ("static", "dynamic"))
        assert static * dynamic == pytest.approx(case.gain, rel=0.01)
        if case.gone:
            assert (static, dynamic) == pytest.approx((1, 1), abs=SMALL)
    assert "static part" in study_page(result)


def test_runs_with_and_without_each_half_say_how_they_vary():
    """A hundred runs of each: twenty for each of five seeds."""
    for case in recorded("B25")[1].cases:
        sides = {side: case.shown[f"variation, {side}"][0] for side in case.figures}
        assert len(sides) == 4
        if not case.gone:
            assert sides["Guard"] < sides["monitor alone"] < sides["functional checks"]


def test_the_three_analyses_of_operations_have_intervals():
    cases = recorded("A31")[1].cases
    assert {case.case["analysis"] for case in cases} == {"detection", "checkpoint", "recovery"}
    for case in cases:
        mean, low, high = case.shown["as operated, by seed"]
        assert low <= mean <= high
