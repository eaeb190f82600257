"""A linked rank as a trace: columns by the vocabulary, times in whole microseconds."""

from __future__ import annotations

import numpy as np

from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.sources.pytorch.linking.nodes import communication_columns, time_columns, to_trace
from chakrakit.trace.model import CollectiveType as C

RECORDED = LinkOptions(as_recorded=True)


def _members(trace):
    from chakrakit.trace.model.columns import attribute_name, member_for

    for column in trace.nodes.column_names:
        name = attribute_name(column)
        if name:
            yield name, member_for(name, trace.nodes.column(column).type).name


def test_oneof_members_are_those_other_readers_want(data, tmp_path):
    """The exact member decides whether older feeders see an attribute at all."""
    run, _ = link([data / "gpt_pp_2"])
    members = dict(_members(run.trace(0)))
    assert members["is_cpu_op"] == "bool_val"
    assert members["comm_size"] == "int64_val"
    assert members["comm_src"] == members["comm_dst"] == members["comm_tag"] == "int32_val"
    assert members["pg_name"] == members["op_schema"] == "string_val"
    for name in ("rf_id", "fw_parent", "seq_id", "scope", "tid", "num_ops"):
        assert members[name] == "int64_val"
    assert members["tensor_size"] == "uint64_val"


def test_microseconds_for_other_tools_keep_the_sum(data):
    run, _ = link([data / "gpt2_124m_b8_s1024"], RECORDED)
    trace = run.trace(0)
    own = trace.column("own_ns", -1)
    exact = np.where(own >= 0, own, trace.duration_ns).sum()
    assert abs(int(trace.column("duration_micros").sum()) * 1000 - int(exact)) < 1000


def test_places_and_times_count_from_the_epoch(recording):
    recording.op("aten::mm", 1_000, 50, tid=4)
    recording.launch(1_010, start=1_100, dur=9, stream=7, tid=4, corr=1, name="gemm")
    recording.kernel("before", 1_000, 9, stream=8, corr=99)
    trace = to_trace(recording.link(), 1_000_000)
    rows = {n: trace[i] for i, n in enumerate(trace.names.to_pylist())}
    gemm, host = rows["gemm"], rows["aten::mm"]
    assert (gemm.get("start_time_ns"), gemm.get("stream"), gemm.get("tid")) == (100_000, 7, None)
    assert (host.get("start_time_ns"), host.get("stream"), host.get("tid")) == (0, None, 4)
    assert [n for n, row in rows.items() if row.get("orphan")] == ["before"]


def test_own_time_is_given_where_it_is_not_the_duration(recording):
    recording.op("outer", 0, 50)
    recording.op("inner", 10, 30)
    trace = to_trace(recording.link(), 0)
    assert trace.column("own_ns", -1).tolist() == [20_000, -1]
    assert trace.duration_ns.tolist() == [50_000, 30_000]


def test_moved_times_let_communication_wait_and_the_host_work_as_before(recording):
    """Row 1 waited all its time, so its own grows with it; row 0 keeps its 20 µs of 50."""
    recording.op("outer", 0, 50)
    recording.op("inner", 10, 30)
    trace = to_trace(recording.link(), 0)
    moved = time_columns(trace, np.array([0, 10_000]), np.array([60_000, 50_000]))
    assert moved["duration_ns"].tolist() == [60_000, 40_000]
    assert moved["own_ns"].to_pylist() == [20_000, None]
    assert moved["duration_micros"].tolist() == [20, 40]


def test_what_is_said_of_communication():
    found = [
        RecordedCollective(1, 0, C.ALL_REDUCE, "allreduce", 64, 64, "float", "1", sequence=3),
        RecordedCollective(2, 0, words.SEND, "send", 8, peer=5, tag=9),
        RecordedCollective(4, 0, words.UNKNOWN, "frobnicate", inferred=True),
    ]
    said = {name: c.to_pylist() for name, c in communication_columns(5, 7, found).items()}
    assert said["comm_type"] == [None, C.ALL_REDUCE, None, None, None]
    assert said["comm_size"] == [None, 64, 8, None, 0]
    assert (said["comm_src"][2], said["comm_dst"][2], said["comm_tag"][2]) == (7, 5, 9)
    assert said["comm_name"] == [None, None, None, None, "frobnicate"]
    assert (said["pg_name"][1], said["comm_seq"][1], said["pg_inferred"][4]) == ("1", 3, True)
    assert "in_splits" not in said
