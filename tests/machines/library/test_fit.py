"""Constants of a library from measured collectives, outliers and all."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.library import Measurement, Span, descend, fit_library, predict
from support.spanned import spanned

MIB = 1 << 20


def test_in_switch_reduction_makes_eight_faster_than_four():
    times = []
    for n in (4, 8):
        library, span = spanned("dgx-h200", n)
        times.append(predict(library, Measurement("all-reduce", n, 512 * MIB, 1.0), span))
    assert times[1] < times[0]


def test_a_fit_finds_the_constants_that_made_the_measurements():
    library, _ = spanned("dgx-h200", 8)

    def placed(n):
        return Span(n, 1, n, 450e9, 0.0, True)

    rows = [
        Measurement(c, n, 1 << k, 1.0)
        for c in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
        for n in (2, 8)
        for k in range(10, 30, 3)
    ]
    rows = [r._replace(seconds=predict(library, r, placed(r.members))) for r in rows]
    start = load_machine("dgx-h100").library
    found = fit_library(start, rows, placed)
    misses = [abs(predict(found, r, placed(r.members)) / r.seconds - 1) for r in rows]
    assert np.median(misses) < 0.01
    assert found.fitted_members == 8


def test_too_few_measurements_are_an_error():
    library, span = spanned("dgx-h200", 8)
    rows = [Measurement("all-reduce", 8, 1 << k, 1e-5) for k in range(10)]
    with pytest.raises(ConfigError, match="10 measured collectives are too few"):
        fit_library(library, rows, lambda n: span)


def test_sizes_that_are_too_few_are_an_error():
    library, span = spanned("dgx-h200", 8)
    rows = [Measurement("all-reduce", 8, 1 << (10 + k % 3), 1e-5) for k in range(12)]
    with pytest.raises(ConfigError, match="3 sizes are too few to tell latency from bandwidth"):
        fit_library(library, rows, lambda n: span)


def test_descending_finds_a_line_beside_its_outliers():
    """Points of y = 2 + 3x, two of which are far off: a plain least squares would miss by far."""
    x = np.arange(20.0)
    y = 2 + 3 * x
    y[[4, 15]] += 50
    found = descend(lambda p: p[0] + p[1] * x - y, np.array([0.0, 0.0]), rounds=400)
    assert found == pytest.approx([2, 3], rel=0.02)
