"""Checks, queries and matching on workers: the same answers as here, whatever the set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from chakrakit import Binding, CollectiveType, Groups, Trace, TraceBuilder, TraceSet, read, write
from chakrakit.errors import FormatError
from chakrakit.parallel import Workers
from chakrakit.trace.query import query
from chakrakit.trace.query.sql_stream import can_stream
from chakrakit.trace.validation import validate
from support.engines import ENGINES
from support.examples import examples

SQL = [
    "SELECT * FROM nodes ORDER BY rank, row",
    "SELECT rank, sum(duration_ns) AS ns FROM nodes WHERE type = 'COMP_NODE' GROUP BY rank ORDER BY rank",
    "SELECT count(*) AS n FROM nodes",
    "SELECT a.rank, count(*) AS n FROM nodes a JOIN nodes b ON a.id = b.id GROUP BY a.rank ORDER BY 1",
    "SELECT * FROM edges ORDER BY rank, src, dst, kind",
    "SELECT * FROM collectives ORDER BY instance",
    "SELECT * FROM calls ORDER BY rank, id",
    "SELECT * FROM messages ORDER BY rank, id",
    "SELECT name, extra FROM nodes WHERE extra IS NOT NULL AND rank > 0 ORDER BY rank, row",
]


def program(rng: np.random.Generator, rank: int, ranks: int) -> Trace:
    """Work with mistakes in it: groups, sizes, ends and dependencies that do not always fit."""
    t = TraceBuilder()
    made = [t.comp("first", duration_ns=1_000, num_ops=int(rng.integers(1, 9)))]
    for i in range(int(rng.integers(3, 12))):
        deps = [made[int(rng.integers(0, len(made)))]]
        kind = rng.integers(0, 4)
        if kind == 0:
            made.append(t.comp(f"gemm {i % 3}", duration_ns=int(rng.integers(0, 5_000)), deps=deps))
        elif kind == 1:
            size = int(rng.choice([64, 64, 128]))
            group = str(rng.choice(["", "1", "2", "unknown"], p=[0.4, 0.3, 0.2, 0.1]))
            made.append(
                t.collective("sum", CollectiveType.ALL_REDUCE, size, pg_name=group, deps=deps)
            )
        elif kind == 2:
            made.append(t.send("send", rank, (rank + 1) % ranks, 64, tag=i % 2, deps=deps))
        else:
            made.append(t.recv("recv", (rank - 1) % ranks, rank, 64, tag=i % 2, deps=deps))
    # An attribute that is a number in one body and text in another.
    t.comp("odd", extra="text" if rank % 2 else 3)
    return t.build()


def random_set(seed: int, folded: bool) -> TraceSet:
    """Ranks with bodies of their own, or with two that they share under groups and peers of their own."""
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 6))
    groups = Groups({"1": range(ranks), "2": range(max(1, ranks // 2))})
    if not folded:
        return TraceSet([program(rng, r, ranks) for r in range(ranks)], groups=groups)
    bodies = [program(rng, 0, ranks), program(rng, 1, ranks)]
    bindings = {
        r: Binding(r % 2, {"unknown": "2"} if r % 3 else {}, {1: (r + 1) % ranks}, 1.0 + r % 2)
        for r in range(ranks)
    }
    return TraceSet(bodies, bindings, groups)


some_sets = given(seed=st.integers(0, 2**32), folded=st.booleans())
quick = examples(12, HealthCheck.function_scoped_fixture)


@pytest.mark.slow
@quick
@some_sets
def test_validation_finds_the_same(pickled: Workers, seed: int, folded: bool) -> None:
    traces = random_set(seed, folded)
    for keep in (2, None):
        assert validate(traces, keep=keep, workers=pickled) == validate(traces, keep=keep)


@pytest.mark.slow
@quick
@some_sets
def test_matching_gives_the_same(pickled: Workers, seed: int, folded: bool) -> None:
    read_here, read_there = random_set(seed, folded), random_set(seed, folded)
    read_there.read_calls(pickled)
    here, there = read_here.collectives, read_there.collectives
    for name in ("calls", "instances", "messages"):
        assert getattr(here, name).to_pylist() == getattr(there, name).to_pylist()


@pytest.mark.first(2)
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("sql", SQL)
def test_queries_give_the_same(pickled: Workers, sql: str, folded: bool) -> None:
    traces = random_set(7, folded)
    assert can_stream(traces) is not folded
    here, there = query(traces, sql), query(random_set(7, folded), sql, workers=pickled)
    assert here.schema == there.schema
    assert here.to_pylist() == there.to_pylist()


@pytest.mark.slow
def test_a_streamed_set_and_a_shared_one_say_the_same() -> None:
    """The same ranks, each with its own body and sharing them: two ways to one table."""
    rng = np.random.default_rng(3)
    body = program(rng, 0, 2)
    alone = TraceSet([body, body])
    shared = TraceSet([body], {0: Binding(0), 1: Binding(0)})
    assert can_stream(alone)
    assert not can_stream(shared)
    for sql in SQL:
        ours, others = query(alone, sql), query(shared, sql)
        assert ours.column_names == others.column_names
        assert ours.to_pylist() == others.to_pylist(), sql


def test_a_streamed_query_takes_a_limit_and_tells_damage(tmp_path: Path) -> None:
    write(random_set(1, False), tmp_path / "t.N.parquet")
    last = max(read(tmp_path / "t").ranks)
    found = query(read(tmp_path / "t"), "SELECT id FROM nodes", limit=2)
    assert found.num_rows == 2
    (tmp_path / f"t.{last}.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(FormatError, match="not a Parquet trace"):
        query(read(tmp_path / "t"), "SELECT count(*) FROM nodes")


def test_damage_is_found_on_workers_too(pickled: Workers, tmp_path: Path) -> None:
    write(random_set(5, False), tmp_path / "t.N.et")
    file = tmp_path / "t.1.et"
    file.write_bytes(file.read_bytes()[:-3])
    here, there = (validate(tmp_path / "t", workers=w) for w in (None, pickled))
    assert here == there
    assert here.counts["framing"] == 1


def test_a_stream_is_checked_here(pickled: Workers, tmp_path: Path) -> None:
    """A pipe cannot travel; one body needs no worker."""
    write(random_set(5, False).select_ranks([0]), tmp_path / "t.et")
    with (tmp_path / "t.et").open("rb") as stream:
        assert validate(stream, workers=pickled).nodes


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same(engine: str, tmp_path: Path) -> None:
    write(random_set(11, False), tmp_path / "t.chakra")
    workers = Workers(engine, 2)
    path = tmp_path / "t.chakra"
    assert validate(path, workers=workers) == validate(path)
    sql = SQL[1]
    assert query(path, sql, workers=workers).to_pylist() == query(path, sql).to_pylist()


@pytest.mark.slow
def test_the_commands_take_an_engine(tmp_path: Path) -> None:
    import subprocess
    import sys

    write(random_set(11, False), tmp_path / "t")
    chakra = [sys.executable, "-c", "from chakrakit.commands import main; main()"]
    outs = []
    for more in ([], ["--jobs", "2"]):
        done = subprocess.run(
            [*chakra, "validate", str(tmp_path / "t"), "--json", *more],
            capture_output=True,
            check=False,
        )
        outs.append(json.loads(done.stdout))
    assert outs[0] == outs[1]
