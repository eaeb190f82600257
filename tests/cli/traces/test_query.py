"""`chakra query`: rows, limits, and columns that do not exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
