"""SQL sees every rank as it runs, reads only, and explains itself when it cannot."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chakrakit import (
    Binding,
    CollectiveType,
    EdgeKind,
    Groups,
    Run,
    Times,
    Trace,
    TraceBuilder,
    TraceSet,
    write,
)
from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.trace.query import query, rows_of
from chakrakit.trace.sets import run_of

pytest.importorskip("duckdb")


def program() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1_501, num_ops=7, tensor_size=10)
    b = t.collective(
        "sync", CollectiveType.ALL_GATHER, 64, deps=[a], pg_name="tp", duration_ns=1_000
    )
    c = t.send("next", 0, 1, 8)
    t.edge(b, c, EdgeKind.CALL, lag_ns=3)
    return t.build()


FOLDED = TraceSet(
    [program()],
    {0: Binding(0), 1: Binding(0, {"tp": "5"}, {0: 1, 1: 2}, 2.5), 4: Binding(0)},
    Groups({"tp": [0, 4], "5": [1, 2]}),
)


def ask(traces: object, sql: str) -> list[list]:
    return rows_of(query(traces, sql))  # type: ignore[arg-type]


def test_nodes_are_those_of_every_rank() -> None:
    rows = ask(
        FOLDED,
        "SELECT rank, type, type_code, count(*) FROM nodes GROUP BY ALL ORDER BY ALL LIMIT 3",
    )
    assert rows == [
        [0, "COMM_COLL_NODE", 7, 1],
        [0, "COMM_SEND_NODE", 5, 1],
        [0, "COMP_NODE", 4, 1],
    ]


def test_a_view_binds_a_rank_exactly_as_its_own_trace_is_bound() -> None:
    columns = ["pg_name", "comm_src", "comm_dst", "num_ops", "tensor_size", "duration_micros"]
    for rank in FOLDED.ranks:
        own = FOLDED.trace(rank)
        rows = query(FOLDED, f"SELECT * FROM nodes WHERE rank = {rank} ORDER BY row")
        for name in columns:
            assert rows.column(name).to_pylist() == own.table.column(name).to_pylist(), (rank, name)
        assert rows.column("duration_ns").to_pylist() == own.duration_ns.tolist()
        assert rows.column("end_ns").to_pylist() == own.end_ns.tolist()


def test_edges_are_between_ids_with_kinds_as_words() -> None:
    rows = ask(FOLDED, "SELECT * FROM edges WHERE rank = 4 ORDER BY dst")
    assert rows == [
        [4, 0, 1, "data", "finish_start", 0, False],
        [4, 1, 2, "call", "start_start", 3, True],
    ]


def test_communication_ranks_and_groups() -> None:
    assert ask(FOLDED, 'SELECT "group", collective, ranks FROM collectives ORDER BY 1') == [
        ["5", "ALL_GATHER", 1],
        ["tp", "ALL_GATHER", 2],
    ]
    assert ask(FOLDED, "SELECT rank, id, collective FROM calls ORDER BY rank")[0] == [
        0,
        1,
        "ALL_GATHER",
    ]
    assert ask(FOLDED, "SELECT src, dst FROM messages WHERE rank = 1") == [[1, 2]]
    assert ask(FOLDED, "SELECT rank, body, scale FROM ranks ORDER BY rank") == [
        [0, 0, 1.0],
        [1, 0, 2.5],
        [4, 0, 1.0],
    ]
    assert ask(FOLDED, 'SELECT "group", rank FROM groups ORDER BY ALL') == [
        ["5", 1],
        ["5", 2],
        ["tp", 0],
        ["tp", 4],
    ]


def test_a_run_has_its_times() -> None:
    times = {
        r: Times(np.array([0, 10, 20]) * 1000, np.array([10, 20, 30 + r]) * 1000)
        for r in FOLDED.ranks
    }
    run = run_of(FOLDED, times, tick_ps=1)
    assert ask(
        run, "SELECT rank, max(end_ns), sum(duration_ns) FROM nodes GROUP BY rank ORDER BY rank"
    ) == [[0, 30, 30], [1, 31, 31], [4, 34, 34]]


def test_common_attributes_are_columns_even_if_nobody_has_them() -> None:
    traces = TraceSet([Trace.from_columns({"name": ["a"]})])
    sql = """SELECT is_cpu_op, num_ops, tensor_size, comm_type, comm_size, comm_src, comm_dst, comm_tag,
             pg_name, stream, tid, collective FROM nodes"""
    assert ask(traces, sql) == [[None] * 12]


def test_bodies_with_other_columns_and_types_are_one_table() -> None:
    traces = TraceSet(
        [
            Trace.from_columns({"name": ["a"], "foo": [1], "rank": ["mine"], "Name": ["x"]}),
            Trace.from_columns({"name": ["b"], "foo": ["text"], "bar": [[1, 2]]}),
        ]
    )
    rows = ask(traces, 'SELECT rank, foo, bar, rank_2, "Name_2" FROM nodes ORDER BY rank')
    assert rows == [[0, "1", None, "mine", "x"], [1, "text", [1, 2], None, None]]


def test_only_the_tables_that_are_asked_for_are_made() -> None:
    def unreadable() -> Trace:
        raise AssertionError("read a body that nobody asked for")

    assert ask(TraceSet([unreadable]), "SELECT count(*) FROM ranks") == [[1]]


def test_sums_are_whole_numbers_as_long_as_they_fit() -> None:
    assert query(FOLDED, "SELECT sum(num_ops) AS s FROM nodes").schema.field("s").type == pa.int64()


def test_a_path_will_do_and_a_limit_holds(tmp_path: Path) -> None:
    write(program(), tmp_path / "t.et")
    assert query(tmp_path / "t.et", "SELECT id FROM nodes ORDER BY id", limit=2).num_rows == 2


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT colour FROM nodes", "columns of nodes: rank, row, id, name, type"),
        ("SELECT * FROM nods", "tables: nodes, edges, collectives, calls, messages, ranks, groups"),
        ("SELEC 1", "syntax error"),
        ("", "give one SELECT"),
        ("SELECT 1; SELECT 2", "give one SELECT"),
        ("DROP VIEW nodes", "only read"),
        ("CREATE TABLE x AS SELECT 1", "only read"),
        ("COPY (SELECT 1) TO '/tmp/chakrakit-should-not-exist'", "only read"),
        ("ATTACH '/tmp/x.db'", "only read"),
        ("SET enable_external_access=true", "only read"),
        ("INSTALL httpfs", "only read"),
        ("SELECT * FROM '/etc/passwd'", "disabled|does not exist"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM read_text('/etc/passwd')", "disabled"),
        ("SELECT * FROM glob('/etc/*')", "disabled"),
        ("SELECT * FROM FOLDED", "does not exist"),
        ("SELECT 1/CAST('x' AS INT)", "Could not convert"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_line(sql: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        query(FOLDED, sql)
    assert "\n" not in str(error.value)


def test_without_duckdb_the_cure_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'chakrakit\[sql\]'"):
        query(FOLDED, "SELECT 1")


def test_a_runs_counters_are_tables_by_their_names() -> None:
    watts = {"rank": [0, 0], "time_ns": [0, 500], "watts": [78.0, 640.0]}
    run = Run([program()], counters={"power": watts, "mine": {"a": [1, 2]}})
    assert rows_of(query(run, "select max(watts) from power")) == [[640.0]]
    assert rows_of(query(run, "select sum(a) from mine")) == [[3]]
    with pytest.raises(ConfigError, match="groups, power, mine"):
        query(run, "select * from nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_question_without_end_ends_when_it_is_told_to(tmp_path, number):
    """DuckDB looks at no signal while it is in one recursion."""
    write(TraceSet.of([program()]), tmp_path / "w.N.et")
    endless = "WITH RECURSIVE t AS (SELECT 1 a UNION ALL SELECT a + 1 FROM t) SELECT max(a) FROM t"
    words = [sys.executable, "-m", "chakrakit", "query", str(tmp_path / "w"), endless]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3)
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(20) in (1, 128 + number)
    finally:
        process.kill()
        process.wait()
