"""`chakra query`: rows, limits, and columns that do not exist."""

from __future__ import annotations

import json
from pathlib import Path

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
