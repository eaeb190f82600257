"""Rules about single nodes: which rows break them, and what is said about each."""

from __future__ import annotations

import pytest

from chakrakit import CollectiveType, Member, Trace
from chakrakit.trace.validation.findings import Findings
from chakrakit.trace.validation.nodes import check_nodes, misplaced

COMP, LOAD, SEND, RECV, COLL = 4, 2, 5, 6, 7
BARRIER = CollectiveType.BARRIER


def found(trace: Trace) -> list[tuple[str, str | None, str]]:
    findings = Findings()
    check_nodes(trace, 0, findings)
    return [(f.code, f.name, f.message) for f in findings.report(1).findings]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"type": [COMP]}, []),
        ({"type": [0]}, [("invalid-type", "a", "has no type, or INVALID_NODE")]),
        (
            {"type": [99]},
            [("unknown-type", "a", "has type 99, which the schema does not have; kept")],
        ),
        ({"type": [COMP], "duration_ns": [-3]}, [("negative-duration", "a", "duration_ns is -3")]),
        (
            {"type": [COMP], "start_time_micros": [2**63 // 1000]},
            [("time-range", "a", f"start_time_micros is {2**63 // 1000}")],
        ),
        # What no clock shows, every reader of times refuses.
        (
            {"type": [COMP], "start_time_micros": [2**61 // 1000 + 1]},
            [("time-range", "a", f"start_time_micros is {2**61 // 1000 + 1}")],
        ),
        ({"type": [COMP], "start_time_micros": [2**61 // 1000]}, []),
        (
            {"type": [COMP], "start_time_ns": [2**60], "duration_ns": [2**60 + 1]},
            [("time-range", "a", f"it ends at {2**61 + 1} ns")],
        ),
        ({"type": [COMP], "start_time_ns": [2**60], "duration_ns": [2**60]}, []),
        (
            {"type": [COMP], "start_time_ns": [-(2**62)]},
            [("time-range", "a", f"start_time_ns is {-(2**62)}")],
        ),
        ({"type": [COMP], "own_ns": [-1]}, [("negative-duration", "a", "own_ns is -1")]),
        ({"type": [COMP], "own_ns": [2**62]}, [("time-range", "a", f"own_ns is {2**62}")]),
        ({"type": [COMP], "mem_alloc": [-8]}, [("negative-value", "a", "mem_alloc is -8")]),
        ({"type": [COMP], "mem_free": [-8]}, [("negative-value", "a", "mem_free is -8")]),
        ({"type": [COMP], "num_ops": [-1]}, [("negative-value", "a", "num_ops is -1")]),
        (
            {"type": [LOAD]},
            [("missing-tensor-size", "a", "a memory node without tensor_size (uint64_val, bytes)")],
        ),
    ],
)
def test_a_node_that_cannot_be_is_found(columns: dict, expected: list) -> None:
    assert found(Trace.from_columns({"name": ["a"], **columns})) == expected


@pytest.mark.parametrize(
    ("columns", "codes"),
    [
        ({"comm_type": [0], "comm_size": [8], "pg_name": [""]}, []),
        ({}, ["missing-comm-type", "missing-comm-size", "missing-group"]),
        ({"comm_type": [BARRIER], "pg_name": [""]}, []),  # a barrier moves nothing
        ({"comm_type": [77], "comm_size": [8], "pg_name": [""]}, ["unknown-comm-type"]),
    ],
)
def test_a_collective_says_which_it_is_how_much_it_moves_and_who_takes_part(
    columns: dict, codes: list[str]
) -> None:
    trace = Trace.from_columns({"name": ["a"], "type": [COLL], **columns})
    assert sorted(code for code, *_ in found(trace)) == sorted(codes)


def test_each_end_of_a_message_needs_the_other_one() -> None:
    trace = Trace.from_columns(
        {
            "name": ["a", "b", "c"],
            "type": [SEND, RECV, SEND],
            "comm_size": [8, 8, None],
            "comm_src": [None, None, None],
            "comm_dst": [None, 1, -2],
        }
    )
    assert sorted(found(trace)) == [
        ("missing-comm-size", "c", "a message without comm_size (int64_val, bytes)"),
        ("missing-peer", "a", "a COMM_SEND_NODE without comm_dst (int32_val, a rank)"),
        ("missing-peer", "b", "a COMM_RECV_NODE without comm_src (int32_val, a rank)"),
        ("negative-peer", "c", "comm_dst is -2"),
    ]


def test_a_known_attribute_in_another_member_is_found_with_what_reads_it() -> None:
    trace = Trace.from_columns(
        {"name": ["a", "b"], "type": [COMP, COMP], "comm_tag": [1, None]},
        members={"comm_tag": Member.uint64_val},
    )
    assert found(trace) == [
        (
            "attribute-member",
            "a",
            "comm_tag is written as uint64_val; tools that read int32_val do not see it",
        )
    ]
    [(place, layouts)] = misplaced(trace).items()
    assert place == ("comm_tag", Member.uint64_val)
    assert layouts == [trace.layout_rows[0]]


def test_no_name_is_found_by_its_length() -> None:
    trace = Trace.from_columns({"name": ["", " "], "type": [COMP, COMP]})
    assert [(code, message) for code, _, message in found(trace)] == [("empty-name", "has no name")]
