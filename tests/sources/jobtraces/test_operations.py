"""The table of a job trace, read or refused with what is wrong."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources import is_job_trace, read_job_trace
from chakrakit.sources.jobtraces import OPERATIONS, read_operations
from support.job_traces import write_job


def test_other_tables_are_not_job_traces(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    assert not is_job_trace(tmp_path / "other.parquet")
    assert not is_job_trace(tmp_path / "text.parquet")
    assert not is_job_trace(tmp_path / "nothing.parquet")
    assert is_job_trace(write_job(tmp_path / "job.parquet"))


def _unsigned(table: pa.Table, name: str, value: int) -> pa.Table:
    values = pa.array([value] * table.num_rows, pa.uint64())
    return table.set_column(table.column_names.index(name), name, values)


def _with(table: pa.Table, name: str, change) -> pa.Table:
    values = change(table[name].to_pylist())
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["gmc"]), "no column 'gmc'"),
        (lambda t: t.slice(0, 0), "no rows"),
        (
            lambda t: _with(t, "optype", lambda v: ["dance", *v[1:]]),
            "operation 'dance' is not known",
        ),
        (lambda t: _with(t, "duration", lambda v: [-1.0, *v[1:]]), "ends before it starts"),
        (
            lambda t: _with(t, "start_ts", lambda v: [float("nan"), *v[1:]]),
            "times that are infinite",
        ),
        (lambda t: _with(t, "stage", lambda v: [-3, *v[1:]]), "is not from"),
        (lambda t: _unsigned(t, "stage", 1 << 22), "4194304 is not from 0 to 4194303"),
        (lambda t: _unsigned(t, "stage", 2**64 - 1), "column 'stage', row"),
        (lambda t: _with(t, "rank", lambda v: [v[-1], *v[1:]]), "two ranks share a stage"),
        (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "listed twice"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, change, message):
    path = write_job(tmp_path / "job.parquet")
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(FormatError, match=message):
        read_job_trace(path)


def test_times_are_nanoseconds_since_the_start_of_a_step(tmp_path):
    found = read_operations(write_job(tmp_path / "job.parquet", steps=(5,)))
    first = found.take(found.rank == 0)
    assert OPERATIONS[first.code[0]] == "forward-compute"
    assert (first.start[0], first.end[0]) == (0, 100_000_000)
    assert (found.stages, found.chunks) == (2, 1)
