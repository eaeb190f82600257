"""What follows what on one worker, and which messages have another end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.sources import read_job_trace
from chakrakit.sources.jobtraces import OPERATIONS, Operations, Worker, order_of
from support.job_traces import write_job


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


def test_every_step_has_the_dependencies_of_the_first(tmp_path):
    one, two = (
        read_job_trace(write_job(tmp_path / f"{len(steps)}.parquet", steps=steps)).trace(2)
        for steps in ((1,), (1, 2))
    )
    assert len(two) == 2 * len(one)
    assert len(two.edges) == 2 * len(one.edges) > 0


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


def _worker(stage, stages, *rows):
    """(type, seq_id, start, end) of one worker's operations; the stage is their only chunk."""
    kinds, numbers, start, end = zip(*rows, strict=True)
    same = np.zeros(len(rows), np.int64)
    operations = Operations(
        "job",
        **dict.fromkeys(("dp_rank", "rank", "step", "mc", "mb_id"), same),
        stage=same + stage,
        gmc=same + stage,
        seq_id=np.array(numbers),
        start=np.array(start),
        end=np.array(end),
        code=np.array([OPERATIONS.index(k) for k in kinds]),
    )
    return Worker(operations, stages, 1)


def test_compute_in_order_and_messages_with_what_they_belong_to():
    worker = _worker(
        0,
        2,
        ("forward-compute", 0, 0, 10),
        ("forward-send", 0, 10, 12),
        ("backward-recv", 0, 10, 20),
        ("backward-compute", 0, 20, 40),
        ("optimizer", 0, 41, 45),
    )
    order = order_of(worker)
    assert set(order.edges) == {
        (("forward-compute", 0), ("backward-compute", 0)),
        (("forward-compute", 0), ("forward-send", 0)),
        (("backward-recv", 0), ("backward-compute", 0)),
        (("backward-compute", 0), ("optimizer", 0)),
    }
    assert order.paired == {
        "forward-send": [0],
        "forward-recv": [],
        "backward-send": [],
        "backward-recv": [0],
    }


def test_parameters_are_gathered_before_the_first_forward_of_their_chunk():
    worker = _worker(
        0,
        1,
        ("params-all-gather", 0, 0, 5),
        ("forward-compute", 0, 5, 10),
        ("forward-compute", 1, 10, 15),
    )
    assert set(order_of(worker).edges) == {
        (("params-all-gather", 0), ("forward-compute", 0)),
        (("forward-compute", 0), ("forward-compute", 1)),
    }


def test_messages_out_of_the_last_stage_have_no_other_end():
    """They are recorded all the same, and wait for their compute."""
    worker = _worker(1, 2, ("forward-compute", 0, 0, 10), ("forward-send", 0, 10, 12))
    order = order_of(worker)
    assert order.edges == [(("forward-compute", 0), ("forward-send", 0))]
    assert order.paired["forward-send"] == []


def test_operations_of_one_start_are_told_apart_by_their_numbers():
    worker = _worker(0, 1, ("forward-compute", 1, 0, 5), ("forward-compute", 0, 0, 5))
    assert worker.started("forward-compute") == [("forward-compute", 0), ("forward-compute", 1)]
