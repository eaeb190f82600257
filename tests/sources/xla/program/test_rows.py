"""Rows: the nodes of a module before they belong to a rank."""

from __future__ import annotations

import pytest

from chakrakit.sources.xla import Module, parse_hlo, rows
from chakrakit.sources.xla.rows import program_of
from chakrakit.trace.model import CollectiveType, NodeType
from support.foreign_files import HLO


@pytest.fixture
def module() -> Module:
    return parse_hlo(HLO.encode())


def test_a_loop_of_three_rounds_is_unrolled_and_its_rounds_wait_for_each_other(
    module: Module,
) -> None:
    rows = program_of(module).rows
    assert [(r.name, r.after) for r in rows] == [
        ("made", []),
        ("start", [0]),
        ("done", [1]),
        ("moved.send", [2]),
        ("moved", [2]),
        ("start", [4]),
        ("done", [5]),
        ("moved.send", [6]),
        ("moved", [6]),
        ("start", [8]),
        ("done", [9]),
        ("moved.send", [10]),
        ("moved", [10]),
    ]


def _rows(*lines, devices=4):
    text = f"HloModule m, num_partitions={devices}\n\nENTRY %main (a: f32[8]) -> f32[8] {{\n"
    text += "  %a = f32[8] parameter(0)\n  " + "\n  ".join(lines) + "\n}\n"
    return program_of(parse_hlo(text.encode())).rows


def test_a_collective_has_its_kind_its_bytes_and_its_groups():
    (row,) = _rows("ROOT %g = f32[16] all-gather(%a), replica_groups={{0,1},{2,3}}, dimensions={0}")
    assert (row.type, row.kind) == (NodeType.COMM_COLL_NODE, CollectiveType.ALL_GATHER)
    assert (row.size, row.out_size, row.groups) == (32, 64, ((0, 1), (2, 3)))
    assert row.stream == rows.COMPUTE  # it is waited for where it stands


def test_an_asynchronous_gather_s_result_is_its_second_part():
    start, done = _rows(
        "%s = (f32[8], f32[16]) all-gather-start(%a), replica_groups={{0,1}}, dimensions={0}",
        "ROOT %d = f32[16] all-gather-done(%s)",
    )
    assert (start.size, start.out_size, start.stream) == (32, 64, rows.COMMUNICATION)
    assert (done.type, done.after) == (NodeType.COMP_NODE, [0])


def test_a_permutation_is_a_send_and_a_receive_with_a_tag_of_its_own():
    found = _rows(
        "%p = f32[8] collective-permute(%a), source_target_pairs={{0,1}}",
        "ROOT %q = f32[8] collective-permute(%p), source_target_pairs={{1,0}}",
    )
    assert [(r.name, r.type, r.tag, r.after) for r in found] == [
        ("p.send", NodeType.COMM_SEND_NODE, 0, []),
        ("p", NodeType.COMM_RECV_NODE, 0, []),
        ("q.send", NodeType.COMM_SEND_NODE, 1, [1]),
        ("q", NodeType.COMM_RECV_NODE, 1, [1]),
    ]


def test_only_the_row_that_carries_the_result_allocates():
    found = _rows("ROOT %p = f32[8] collective-permute(%a), source_target_pairs={{0,1}}")
    assert [r.alloc for r in found] == [0, 32 + 32]  # the argument is held from the first step on
