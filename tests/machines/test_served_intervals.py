"""Intervals of served figures: from published runs, wider where none of them ran."""

from __future__ import annotations

import pytest

from chakrakit.machines.residuals import served_intervals

FIGURES = {"ttft_ms": {"mean": 60.0}, "tpot_ms": {"mean": 8.0}, "e2e_ms": {"mean": 860.0}}


@pytest.mark.parametrize("figure", ["ttft_ms", "tpot_ms"])
def test_a_system_that_nobody_measured_is_as_uncertain_as_each_that_was(figure):
    low, high = served_intervals("abacus", "vllm", FIGURES)[figure]["mean"]
    for known in ("dgx-h100", "dgx-h200", "dgx-b200"):
        least, most = served_intervals(known, "vllm", FIGURES)[figure]["mean"]
        assert low <= least <= FIGURES[figure]["mean"] <= most <= high


def test_a_request_is_as_uncertain_as_its_parts():
    found = {
        name: bounds["mean"]
        for name, bounds in served_intervals("dgx-h100", "vllm", FIGURES).items()
    }
    for end in (0, 1):
        others = found["tpot_ms"][end] / 8.0 * (860.0 - 60.0)
        assert found["e2e_ms"][end] == pytest.approx(found["ttft_ms"][end] + others)


def test_nothing_is_said_of_an_engine_that_nobody_measured():
    assert served_intervals("dgx-h100", "abacus", {}) == {}
