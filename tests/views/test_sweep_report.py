"""A sweep's page: what it finds in a table, and how it shows it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.exploration.sweep import findings
from chakrakit.views.sweep_report import sweep_html

COLUMNS = {
    "ranks": 8,
    "step_ns": 1e6,
    "tokens_per_s": 100.0,
    "mfu": 0.5,
    "exposed_comm_ns": 1e5,
    "idle_ns": 0.0,
    "memory_bytes": 2**30,
    "fits": True,
    "energy_joules": None,
    "price": None,
}


def table(*rows: dict[str, Any]) -> pa.Table:
    """Points of one machine `m` unless they say otherwise; parameters come before `status`."""
    whole = [
        {
            "plan.dp": 1,
            "machine": "m",
            "passes": "none",
            "status": "done",
            "error": None,
            **COLUMNS,
            **r,
        }
        for r in rows
    ]
    return pa.Table.from_pylist(whole)


def test_curves_take_the_best_at_each_value_and_throughput_over_ranks() -> None:
    charted = findings.all_curves(
        table(
            {"plan.dp": 1, "ranks": 1, "step_ns": 8e6, "tokens_per_s": 100.0},
            {"plan.dp": 2, "ranks": 2, "step_ns": 5e6, "tokens_per_s": 160.0},
            {"plan.dp": 2, "ranks": 2, "step_ns": 6e6, "tokens_per_s": 130.0},
            {"plan.dp": 4, "ranks": 4, "step_ns": 1e6, "tokens_per_s": 800.0, "fits": False},
        )
    )
    scaling, step = charted
    assert scaling.over == "ranks"
    assert scaling.curves == [findings.SweepCurve("m", [(1.0, 100.0), (2.0, 160.0)])]
    assert scaling.ideal == [(1.0, 100.0), (2.0, 200.0)]
    assert step.curves == [findings.SweepCurve("m", [(1.0, 8e6), (2.0, 5e6)])]


def test_predicted_points_have_error_bars_and_their_intervals_are_listed() -> None:
    """Of tokens a second the interval is that of the step, upside down."""
    points = table(
        {"plan.dp": 1, "ranks": 1, "step_ns": 8e6, "tokens_per_s": 100.0}
        | {"step_low_ns": 5e6, "step_high_ns": 1e7},
        {"plan.dp": 2, "ranks": 2, "step_ns": 5e6, "tokens_per_s": 160.0}
        | {"step_low_ns": 4e6, "step_high_ns": 8e6},
    )
    scaling, step = findings.all_curves(points)
    assert step.curves[0].bounds == [(5e6, 1e7), (4e6, 8e6)]
    assert scaling.curves[0].bounds == [(80.0, 160.0), (100.0, 200.0)]
    page = sweep_html("s", points)
    assert "bars hold 90 of 100 measured ones" in page
    assert "4–8" in page


def test_a_map_has_the_best_of_each_pair_and_nothing_where_nothing_fits() -> None:
    (charted,) = findings.maps(
        table(
            {"plan.dp": 1, "machine": "a", "step_ns": 3.0},
            {"plan.dp": 1, "machine": "a", "step_ns": 2.0},
            {"plan.dp": 2, "machine": "b", "step_ns": 1.0, "fits": False},
        )
    )
    assert (charted.row_values, charted.column_values) == ([1, 2], ["a", "b"])
    assert charted.best_ns == {(0, 0): 2.0}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_the_front_is_what_nothing_beats(pairs: list[tuple[int, int]]) -> None:
    rows = [{"x": x, "y": y} for x, y in pairs]
    charted = {(r["x"], r["y"]) for r in findings.front(rows, "x", "y")}
    beaten = {
        (x, y) for x, y in pairs if any(a <= x and b <= y and (a, b) != (x, y) for a, b in pairs)
    }
    assert charted == set(pairs) - beaten


def test_the_page_shows_failures_and_escapes_names() -> None:
    page = sweep_html(
        "<study>",
        table(
            {"plan.dp": 1},
            {
                "plan.dp": 2,
                "energy_joules": 5.0,
                "status": "failed",
                "error": "<b>no</b>",
                "fits": None,
            },
        ),
    )
    assert "&lt;study&gt;" in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "<b>no" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_table_of_nothing_but_failures_is_a_page_too() -> None:
    page = sweep_html("s", table({"status": "failed", "error": "e", "fits": None, "step_ns": None}))
    assert "Failed" in page
    assert ">Curves<" not in page
