"""A training job's table of operations becomes a Run, or is refused with what is wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.jobtraces import is_job_trace, read_job_trace
from support.job_traces import write_job


def test_every_worker_is_a_rank_with_its_operations_in_order(tmp_path):
    run = read_job_trace(write_job(tmp_path / "job.parquet"))
    assert run.ranks == (0, 1, 2, 3) or list(run.ranks) == [0, 1, 2, 3]
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


def test_dependencies_are_those_of_the_schedule(tmp_path):
    """The first backward of the last stage follows its last forward; a send follows its compute."""
    trace = read_job_trace(write_job(tmp_path / "job.parquet", steps=(1,))).trace(2)
    names = trace.names.to_pylist()
    edges = set(zip(trace.edges.src.tolist(), trace.edges.dst.tolist(), strict=True))
    forward = [i for i, n in enumerate(names) if n == "forward-compute"]
    backward = [i for i, n in enumerate(names) if n == "backward-compute"]
    sends = [i for i, n in enumerate(names) if n == "backward-send"]
    assert (forward[-1], backward[0]) in edges
    assert all(pair in edges for pair in zip(backward, sends, strict=True))


def test_a_run_of_a_job_trace_can_be_written_and_read_back(tmp_path):
    import chakrakit as ck

    run = read_job_trace(write_job(tmp_path / "job.parquet"))
    ck.write(run, tmp_path / "run")
    again = ck.read(tmp_path / "run")
    assert np.array_equal(again.trace(1).start_ns, run.trace(1).start_ns)


def test_other_tables_are_not_job_traces(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    assert not is_job_trace(tmp_path / "other.parquet")
    assert not is_job_trace(tmp_path / "text.parquet")
    assert not is_job_trace(tmp_path / "nothing.parquet")
    assert is_job_trace(write_job(tmp_path / "job.parquet"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["gmc"]), "no column 'gmc'"),
        (lambda t: t.slice(0, 0), "no rows"),
        (
            lambda t: _with(t, "optype", lambda v: ["dance", *v[1:]]),
            "operation 'dance' is not known",
        ),
        (lambda t: _with(t, "duration", lambda v: [-1.0, *v[1:]]), "negative duration"),
        (lambda t: _with(t, "start_ts", lambda v: [float("nan"), *v[1:]]), "times that cannot be"),
        (lambda t: _with(t, "stage", lambda v: [-3, *v[1:]]), "out of range"),
        (lambda t: _with(t, "rank", lambda v: [v[-1], *v[1:]]), "two ranks share a stage"),
        (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "there twice"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, change, message):
    path = write_job(tmp_path / "job.parquet")
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(FormatError, match=message):
        read_job_trace(path)


def _with(table: pa.Table, name: str, change) -> pa.Table:
    values = change(table[name].to_pylist())
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


def test_virtual_stages_pair_their_messages_around_the_ring(tmp_path):
    """Two stages with two chunks each: what leaves the second stage's first chunk comes back to the first."""
    rows = []

    def add(stage, kind, start, end, seq, chunk=-1, batch=-1):
        rows.append(
            {
                "dp_rank": 0,
                "stage": stage,
                "rank": stage,
                "step": 0,
                "optype": kind,
                "start_ts": start,
                "duration": end - start,
                "seq_id": seq,
                "mc": chunk,
                "mb_id": batch,
                "gmc": -1 if chunk < 0 else chunk * 2 + stage,
            }
        )

    # Forward through places 0, 1, 2, 3 and back; every compute has both messages, real or not.
    for i, (stage, chunk) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
        begin = 1.0 * i
        add(stage, "forward-recv", begin - 0.2, begin, chunk)
        add(stage, "forward-compute", begin, begin + 0.8, chunk, chunk, 0)
        add(stage, "forward-send", begin + 0.8, begin + 1.0, chunk)
    for i, (stage, chunk) in enumerate([(1, 1), (0, 1), (1, 0), (0, 0)]):
        begin = 4.0 + i
        add(stage, "backward-recv", begin - 0.2, begin, 1 - chunk)
        add(stage, "backward-compute", begin, begin + 0.8, 1 - chunk, chunk, 0)
        add(stage, "backward-send", begin + 0.8, begin + 1.0, 1 - chunk)
    for stage in (0, 1):
        add(stage, "optimizer", 8.0, 8.5, 0)
    table = pa.table({n: [r[n] for r in rows] for n in rows[0]})
    pq.write_table(table, tmp_path / "job.parquet")
    run = read_job_trace(tmp_path / "job.parquet")
    from chakrakit.insight.communication import match_calls

    matched = match_calls(run)
    # Six messages have another end; into the first place and out of the last there is none.
    assert (matched.partner >= 0).sum() == 12
    assert (matched.partner < 0).sum() == 4
