"""A training job's table of operations becomes a Run, or is refused with what is wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources import read_job_trace
from support.job_traces import write_job


def test_every_worker_is_a_rank_with_its_operations_in_order(tmp_path):
    run = read_job_trace(write_job(tmp_path / "job.parquet"))
    assert list(run.ranks) == [0, 1, 2, 3]
    first = run.trace(0)
    assert first.names.to_pylist()[:3] == ["forward-compute", "forward-send", "forward-compute"]
    assert set(first.column("step", -1).tolist()) == {5, 9}
    assert set(run.trace(3).column("stage", -1).tolist()) == {1}
    assert run.card.settings["layout"] == {"dp": 2, "pp": 2, "vpp": 1}


def test_sends_and_receives_name_each_other(tmp_path):
    run = read_job_trace(write_job(tmp_path / "job.parquet"))
    sent, received = run.trace(0), run.trace(2)
    ends = [
        [(t.column(c, -1)[i]) for c in ("comm_src", "comm_dst", "comm_tag")]
        for t, name in ((sent, "forward-send"), (received, "forward-recv"))
        for i, n in enumerate(t.names.to_pylist())
        if n == name
    ]
    assert ends[:6] == ends[6:]


def test_a_run_of_a_job_trace_can_be_written_and_read_back(tmp_path):
    import chakrakit as ck

    run = read_job_trace(write_job(tmp_path / "job.parquet"))
    ck.write(run, tmp_path / "run")
    again = ck.read(tmp_path / "run")
    assert np.array_equal(again.trace(1).start_ns, run.trace(1).start_ns)


@pytest.mark.parametrize("column", [pa.array([1, 2]), pa.array([1.0, None]), pa.array(["1", "2"])])
def test_times_are_seconds_without_gaps(column, tmp_path):
    path = write_job(tmp_path / "job.parquet", replicas=1, stages=1, batches=1, steps=(1,))
    table = pq.read_table(path)
    values = pa.concat_arrays([column] * table.num_rows)[: table.num_rows]
    place = table.schema.get_field_index("start_ts")
    pq.write_table(table.set_column(place, "start_ts", values), path)
    with pytest.raises(FormatError, match="'start_ts' should hold seconds without gaps"):
        read_job_trace(path)
