"""The tidy table of a study: one row per point, its parameters first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.exploration.sweep.measurement import SimulatedRow
from chakrakit.exploration.sweep.store import FinishedPoint, table_of, write_table

ROW = SimulatedRow(
    ranks=8,
    step_ns=2.0,
    tokens_per_s=None,
    mfu=0.5,
    compute_ns=1.0,
    exposed_comm_ns=0.5,
    idle_ns=0.5,
    bubble_fraction=0.0,
    memory_bytes=10,
    fits=True,
    energy_joules=None,
    price=None,
)


def point(key: str, **parameters):
    return SimpleNamespace(key=key, parameters=parameters, workload=None)


def test_points_come_in_the_study_s_order_and_failed_ones_have_no_figures() -> None:
    points = [point("a", tp=1, data="x"), point("b", tp=2), point("c", tp=4)]
    finished = {"b": FinishedPoint(key="b", error="no"), "a": FinishedPoint(key="a", row=ROW)}
    table = table_of(points, finished)
    assert table.column_names[:4] == ["tp", "data", "status", "error"]
    rows = table.to_pylist()
    assert [(r["key"], r["tp"], r["data"], r["status"]) for r in rows] == [
        ("a", 1, "x", "done"),
        ("b", 2, None, "failed"),
    ]
    assert (rows[0]["step_ns"], rows[1]["step_ns"], rows[1]["error"]) == (2.0, None, "no")


def test_an_axis_of_several_kinds_or_of_lists_is_its_json() -> None:
    points = [point("a", x=1, y=[1, 2]), point("b", x="two", y=[3])]
    finished = {key: FinishedPoint(key=key, row=ROW) for key in "ab"}
    table = table_of(points, finished)
    assert table["x"].to_pylist() == ["1", "two"]
    assert table["y"].to_pylist() == ["[1,2]", "[3]"]


def test_a_table_is_written_whole(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet")["a"].to_pylist() == [1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
