"""Tables that are none, or in which a column is there twice."""

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chakrakit as ck
from chakrakit.errors import FormatError
from chakrakit.serving.requests import read_requests
from chakrakit.sources import read_job_trace
from chakrakit.trace.files import check_columns, read_parquet


def test_names_that_differ_are_accepted():
    check_columns([], "t")
    check_columns(["a", "b", "A"], "t")


def test_the_name_is_told():
    with pytest.raises(FormatError, match="t: column 'b' is there 2 times; keep one of them"):
        check_columns(["a", "b", "b"], "t")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table", b"PAR1" * 40])
def test_what_is_no_table_is_named(content):
    with pytest.raises(FormatError, match=r"^t: not the job trace it should be: "):
        read_parquet(io.BytesIO(content), "t", "job trace")


@pytest.mark.parametrize("read", [ck.read, read_job_trace, read_requests])
def test_whoever_reads_a_table_says_so(tmp_path, read):
    ids = pa.array([1, 2])
    table = pa.table([ids, ids], names=["id", "id"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(FormatError, match="column 'id' is there 2 times"):
        read(tmp_path / "t.parquet")


@pytest.mark.parametrize("file", ["ranks.parquet", "times/0.parquet", "counters/links.parquet"])
def test_a_run_whose_table_has_a_column_twice(tmp_path, run_directory, file):
    path = run_directory / file
    table = pq.read_table(path)
    pq.write_table(table.append_column(table.column_names[0], table.column(0)), path)
    with pytest.raises(FormatError, match=r"is there 2 times"):
        ck.read(run_directory).times_of(0)


@pytest.fixture
def run_directory(tmp_path):
    t = ck.TraceBuilder()
    t.comp("mm", duration_ns=1000)
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 1 << 20, pg_name="1")
    traces = ck.TraceSet([t.build()] * 2, groups=ck.Groups({"1": (0, 1)}))
    ck.simulate(traces, "dgx-h100", output=tmp_path / "run", detail="full")
    return tmp_path / "run"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_small_tables_are_read_without_threads(tmp_path: Path) -> None:
    """Arrow's threads hold memory of Python's; those that live when a command ends abort it."""
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "t.parquet")
    program = f"""
import os
import pyarrow.parquet
from chakrakit.trace.files import read_parquet
before = len(os.listdir("/proc/self/task"))
with open({str(tmp_path / "t.parquet")!r}, "rb") as stream:
    read_parquet(stream, "t")
print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"
