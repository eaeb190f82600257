"""Calls as two recorders write them, field by field."""

from __future__ import annotations

import json

from chakrakit.sources.calls import (
    RecordedGroup,
    WrittenCall,
    flight_recorder_dump,
    inspector_lines,
)

GROUPS = [RecordedGroup("0", "default_pg", (0, 1, 2, 3)), RecordedGroup("7", "mesh_pp", (1, 3))]
CALLS = [
    WrittenCall(0, 4, "ALL_REDUCE", 1_000_000, 1_250_000, 4096, 4096, "bf16"),
    WrittenCall(1, 2, "SEND", 2_000_000, 2_010_000, 30, 30, "fp32", peer=0),
    WrittenCall(1, 3, "RECV", 3_000_000, 3_040_000, 64, 128, peer=0),
    WrittenCall(0, 5, "BARRIER", 4_000_000, -1, 8, 8, "int64", state="started"),
    WrittenCall(0, 6, "ALL_GATHER", 5_000_000, -1, 24, 96, "fp32", state="scheduled"),
]


def test_a_dump_has_an_entry_for_every_call() -> None:
    dump = json.loads(flight_recorder_dump(3, GROUPS, CALLS))
    assert (dump["rank"], dump["pg_config"]["1"]) == (
        3,
        {"name": "7", "desc": "mesh_pp", "ranks": "[1, 3]"},
    )
    entries = dump["entries"]
    assert [e["profiling_name"] for e in entries] == [
        "nccl:all_reduce",
        "nccl:send 1->0",
        "nccl:recv 1<-0",
        "nccl:barrier",
        "nccl:_all_gather_base",
    ]
    assert [(e["record_id"], e["op_id"], e["pg_id"]) for e in entries] == [
        (0, 0, 0),
        (1, 1, 1),
        (2, 2, 1),
        (3, 3, 0),
        (4, 4, 0),
    ]
    assert entries[1]["process_group"] == ["7", "mesh_pp"]
    numbers = [(e["collective_seq_id"], e["p2p_seq_id"], e["is_p2p"]) for e in entries]
    assert numbers == [(4, 0, False), (0, 2, True), (0, 3, True), (5, 0, False), (6, 0, False)]


def test_sizes_are_elements_of_a_type_that_divides_them_and_bytes_otherwise() -> None:
    entries = json.loads(flight_recorder_dump(3, GROUPS, CALLS))["entries"]
    sizes = [(e["input_sizes"], e["input_dtypes"], e["output_sizes"]) for e in entries]
    assert sizes == [
        ([[2048]], ["BFloat16"], [[2048]]),
        ([[30]], ["Byte"], [[30]]),  # no whole floats
        ([[64]], ["Byte"], [[128]]),  # no type is known
        ([[1]], ["Long"], [[1]]),
        ([[6]], ["Float"], [[24]]),
    ]


def test_only_what_ended_has_an_end_and_only_what_started_a_start() -> None:
    entries = json.loads(flight_recorder_dump(3, GROUPS, CALLS))["entries"]
    names = ("duration_ms", "time_discovered_started_ns", "time_discovered_completed_ns", "retired")
    assert [tuple(e[n] for n in names) for e in entries] == [
        (0.25, 1_000_000, 1_250_000, True),
        (0.01, 2_000_000, 2_010_000, True),
        (0.04, 3_000_000, 3_040_000, True),
        (None, 4_000_000, None, False),
        (None, None, None, False),
    ]


def test_the_inspector_writes_what_ended_in_microseconds() -> None:
    lines = [json.loads(line) for line in inspector_lines(3, GROUPS, CALLS).splitlines()]
    assert [line["header"] for line in lines] == [
        {"id": "0", "rank": 3, "n_ranks": 4},
        {"id": "7", "rank": 1, "n_ranks": 2},
        {"id": "7", "rank": 1, "n_ranks": 2},
    ]
    assert [line["metadata"]["dump_timestamp_us"] for line in lines] == [1250, 2010, 3040]
    assert lines[0]["coll_perf"] == {
        "coll": "AllReduce",
        "coll_sn": 4,
        "coll_msg_size_bytes": 4096,
        "coll_exec_time_us": 250,
        "event_trace_ts": {"coll_start": 1000, "coll_stop": 1250},
    }
    assert [line["p2p_perf"]["p2p"] for line in lines[1:]] == ["Send", "Recv"]
    assert lines[2]["p2p_perf"] == {
        "p2p": "Recv",
        "p2p_peer": 0,
        "p2p_sn": 3,
        "p2p_msg_size_bytes": 64,
        "p2p_exec_time_us": 40,
        "event_trace_ts": {"p2p_start": 3000, "p2p_stop": 3040},
    }
