"""What the quick cases of every study come to: as recorded within 2 %, and as kept up to rounding.

A recorded table is what a verdict was given on, and stays while figures move little; the kept figures say of
every change of a study's code whether it moved any.
"""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.published import TABLES, named_study, quick_rows, quick_seconds, study_modules
from chakrakit.published.verdict import SMALL
from support.kept_results import compare

LONG_S = 0.3
"""Recorded CPU seconds of a quick run beyond which `make check` leaves out a study's cases; a fifth stay."""


def _slow_where_long(names):
    long = {name for name in names if quick_seconds(TABLES / f"{name}.parquet") > LONG_S}
    return [pytest.param(n, marks=pytest.mark.slow if n in long else ()) for n in names]


@pytest.mark.parametrize("name", _slow_where_long(study_modules()))
def test_quick_cases_give_what_was_recorded_and_what_is_kept(name: str) -> None:
    """One seed: the others differ by chance alone."""
    study, figures = named_study(name), {}
    rows = [row for row in quick_rows(name) if row.seed == 0]
    for number, row in enumerate(rows, 1):
        again = dict(study.measure(row.case, row.setting, row.seed))
        assert again == pytest.approx(row.figures, rel=SMALL, nan_ok=True), row
        figures[f"{number}, {row.side}"] = {
            k: "none" if np.isnan(v) else v for k, v in again.items()
        }
    compare(f"study-{name}", figures)
