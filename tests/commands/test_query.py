"""`chakra query`: rows, limits, and columns that do not exist."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chakrakit as ck
from support.commands import chakra


def test_query_and_its_limit(place: Path) -> None:
    pytest.importorskip("duckdb")
    sql = "SELECT rank, id, name FROM nodes ORDER BY rank, id"
    found = json.loads(chakra("query", place / "d", sql, "--json").stdout)
    assert found == {
        "columns": ["rank", "id", "name"],
        "types": ["int64", "uint64", found["types"][2]],
        "rows": [[0, 0, "gemm"], [0, 1, "sync"], [1, 0, "gemm"], [1, 1, "sync"]],
        "truncated": False,
    }
    short = chakra("query", place / "d", sql, "--limit", "1")
    assert short.stdout.splitlines()[-1] == "first 1 rows; --limit shows more"
    assert (
        json.loads(chakra("query", place / "d", sql, "--json", "--limit", "4").stdout)["truncated"]
        is False
    )
    bad = chakra("query", place / "d", "SELECT nothing FROM nodes")
    assert (bad.exit_code, len(bad.stderr.splitlines())) == (2, 1)
    assert "columns of nodes: rank" in bad.stderr


def test_rows_of_a_query_are_cut_and_typed(traces: ck.TraceSet) -> None:
    pytest.importorskip("duckdb")
    found = ck.query(traces, "SELECT rank, name FROM nodes ORDER BY ALL", limit=3)
    assert found.rows == [[0, "gemm 1"], [0, "gemm 2"], [1, "gemm 1"]]
    assert found.truncated
    assert found.to_arrow().column_names == ["rank", "name"]
    assert "<td style='text-align:left'>gemm 2</td>" in found._repr_html_()


def test_a_table_that_is_no_trace_is_asked_as_rows(tmp_path: Path) -> None:
    """As the table of a sweep is, which has no nodes; a trace's table stays a trace."""
    pytest.importorskip("duckdb")
    points = pa.table({"machine": ["a", "b", "a"], "step_ns": [3, 4, 5]})
    pq.write_table(points, tmp_path / "table.parquet")
    sql = "SELECT machine, min(step_ns) FROM rows GROUP BY machine ORDER BY 1"
    assert ck.query(tmp_path / "table.parquet", sql).rows == [["a", 3], ["b", 4]]
    with pytest.raises(ck.ConfigError, match="columns of rows: machine, step_ns"):
        ck.query(tmp_path / "table.parquet", "SELECT nothing FROM rows")
    ck.write(ck.TraceSet([ck.TraceBuilder().build()]), tmp_path / "w.N.parquet")
    count = "SELECT count(*) FROM nodes"
    assert ck.query(next(tmp_path.glob("w.*.parquet")), count).rows == [[0]]
