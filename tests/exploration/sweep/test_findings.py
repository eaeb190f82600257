"""What a sweep's table shows."""

import pyarrow as pa
import pytest

from chakrakit.exploration.sweep.findings import (
    all_curves,
    front,
    fronts,
    maps,
    parameters,
    usable,
    varied,
)


def row(machine, tp, ranks, step, **more):
    known = {"status": "done", "fits": True, "tokens_per_s": ranks * 1e9 / step, "step_ns": step}
    costs = {"memory_bytes": 10 // tp, "energy_joules": None, "price": None}
    return {"machine": machine, "tp": tp, "ranks": ranks, **known, **costs, **more}


@pytest.fixture
def table():
    rows = [
        row("a", 1, 8, 100.0),
        row("a", 2, 8, 80.0),
        row("a", 1, 16, 60.0),
        row("a", 2, 16, 50.0, fits=False),
        row("b", 1, 8, 120.0, status="failed"),
    ]
    return pa.Table.from_pylist(rows)


def test_only_what_is_done_and_fits_counts_fastest_first(table):
    assert [r["step_ns"] for r in usable(table)] == [60.0, 80.0, 100.0]


def test_parameters_come_before_the_status_and_some_vary(table):
    assert parameters(table) == ["machine", "tp", "ranks"]
    assert varied(table.slice(0, 2)) == ["tp"]


def test_throughput_over_ranks_with_its_ideal(table):
    scaling, by_tp, _ = all_curves(table)
    assert (scaling.over, scaling.figure) == ("ranks", "tokens_per_s")
    assert scaling.curves[0].points == [(8.0, 1e8), (16.0, 16 * 1e9 / 60)]
    assert scaling.ideal == [(8.0, 1e8), (16.0, 2e8)]
    assert (by_tp.over, by_tp.curves[0].points) == ("tp", [(1.0, 60.0), (2.0, 80.0)])


def test_a_map_has_the_best_of_every_pair(table):
    found = next(m for m in maps(table) if (m.rows, m.columns) == ("tp", "ranks"))
    assert (found.row_values, found.column_values) == ([1, 2], [8, 16])
    assert found.best_ns == {(0, 0): 100.0, (1, 0): 80.0, (0, 1): 60.0}


def test_a_front_is_what_nothing_beats_in_both():
    rows = [
        {"t": 1, "c": 9},
        {"t": 2, "c": 9},
        {"t": 3, "c": 4},
        {"t": 4, "c": 5},
        {"t": 3, "c": 6},
    ]
    assert front(rows, "t", "c") == [{"t": 1, "c": 9}, {"t": 3, "c": 4}]


def test_costs_that_some_machine_does_not_say_have_no_front(table):
    assert [f.cost for f in fronts(table)] == ["memory_bytes"]
