"""A space too large to look at all of it is sampled."""

from __future__ import annotations

import sys

import pytest

from chakrakit.errors import MissingExtra
from chakrakit.exploration.search import search
from support.small_space import FEW, MODEL, STEP


@pytest.mark.slow
def test_optuna_finds_a_good_plan_of_a_space() -> None:
    pytest.importorskip("optuna", reason="pip install 'chakrakit[search]'")
    exact, _ = search(MODEL, STEP, [8], "dgx-h100", fixed=FEW)
    sampled, _ = search(MODEL, STEP, [8], "dgx-h100", fixed=FEW, method="optuna", trials=40)
    assert sampled.method == "optuna"
    assert exact.best.step_ns <= sampled.best.step_ns <= 1.1 * exact.best.step_ns
    same, _ = search(MODEL, STEP, [8], "dgx-h100", fixed=FEW, method="optuna", trials=40)
    assert same == sampled


def test_a_large_space_without_optuna_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"pip install 'chakrakit\[search\]'"):
        search(MODEL, STEP, [8], "dgx-h100", method="optuna")
