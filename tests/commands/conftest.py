"""Small traces in every form, and two runs of them, that the commands are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit import Binding, CollectiveType, Groups, Run, Trace, TraceBuilder, TraceSet, write


def program() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1_500)
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a], pg_name="tp")
    return t.build()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file, a prefix, a directory, and the same file in other forms."""
    write(program(), tmp_path / "one.et")
    for form in ("one.et.gz", "one.et.zst", "one.parquet", "two.json"):
        write(program(), tmp_path / form)
    write(TraceSet([program(), program()], groups=Groups({"tp": [0, 1]})), tmp_path / "t.N.et")
    write(TraceSet([program()], {0: Binding(0), 1: Binding(0)}), tmp_path / "d")
    return tmp_path


def run_of(compute_ns: int) -> Run:
    """Two ranks: a product, then an all-reduce of 2 µs that both begin when the product ends."""
    t = TraceBuilder()
    work = t.comp("gemm", duration_ns=compute_ns, start_ns=0, num_ops=10**6)
    t.collective(
        "sync",
        CollectiveType.ALL_REDUCE,
        64,
        deps=[work],
        pg_name="tp",
        start_ns=compute_ns,
        duration_ns=2000,
    )
    return Run([t.build()] * 2, groups=Groups({"tp": [0, 1]}))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`fast`, whose steps take 5 µs, and `slow`, whose products take 3 µs more."""
    home = tmp_path_factory.mktemp("runs")
    write(run_of(3000), home / "fast")
    write(run_of(6000), home / "slow")
    return home


@pytest.fixture
def traces() -> ck.TraceSet:
    t = ck.TraceBuilder()
    first = t.comp("gemm 1", duration_ns=1500)
    t.comp("gemm 2", duration_ns=500, deps=[first])
    return ck.TraceSet([t.build()] * 2)
