"""Columns of a rank's body."""

from __future__ import annotations

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla import Module, parse_hlo
from chakrakit.sources.xla.columns import body_of
from chakrakit.sources.xla.program import traces_of
from chakrakit.sources.xla.rows import program_of
from support.foreign_files import HLO


@pytest.fixture
def module() -> Module:
    return parse_hlo(HLO.encode())


def test_a_fusions_work_is_that_of_what_it_holds(module: Module) -> None:
    node = traces_of(module).trace(1)[0]
    assert node.name == "made"
    assert node.get("num_ops") == 2 * 16 * 64 * 256
    assert node.get("tensor_size") == 4 * (16 * 256 + 256 * 64 + 16 * 64)
    assert node.get("estimated_cycles") == 1234


def _traced(*lines):
    text = "HloModule m, num_partitions=2\n\nENTRY %main (a: f32[8]) -> f32[8] {\n"
    text += "  %a = f32[8] parameter(0)\n  " + "\n  ".join(lines) + "\n}\n"
    program = program_of(parse_hlo(text.encode()))
    return lambda rank, peers: body_of(program, lambda row: "all", rank, peers)


def test_backward_is_told_by_where_an_instruction_came_from():
    body = _traced(
        '%n = f32[8] negate(%a), metadata={op_name="jit(f)/neg"}',
        'ROOT %m = f32[8] negate(%n), metadata={op_name="jit(f)/transpose(jvp())/neg"}',
    )(0, {})
    assert [body[i].get("phase") for i in range(2)] == ["forward", "backward"]
    assert body[1].get("module") == "jit(f)/transpose(jvp())/neg"
    assert (body[0].get("op_type"), body[0].get("dtype"), body[0].get("num_ops")) == (
        "vector",
        "fp32",
        8,
    )


def test_narrow_types_have_the_names_that_devices_have_rates_for():
    body = _traced("%n = f8e4m3fn[8] convert(%a)", "ROOT %m = s4[8] convert(%n)")(0, {})
    assert [body[i].get("dtype") for i in range(2)] == ["fp8_e4m3", "int4"]


def test_communication_has_no_work_and_computation_no_group():
    body = _traced(
        "%r = f32[8] all-reduce(%a), replica_groups={{0,1}}", "ROOT %n = f32[8] negate(%r)"
    )(0, {})
    assert (body[0].get("pg_name"), body[0].get("comm_size"), body[0].get("num_ops")) == (
        "all",
        32,
        None,
    )
    assert (body[1].get("pg_name"), body[1].get("comm_size")) == (None, None)


PAIRS = ((0, 1),)


@pytest.mark.parametrize(
    ("rank", "ends", "kept"),
    [
        (0, (None, 1), [("p.send", 0, 1)]),  # only sends
        (1, (0, None), [("p", 0, 1)]),  # only receives
    ],
)
def test_a_rank_has_its_own_end_of_a_message_alone(rank, ends, kept):
    """What follows the message follows what stood before it where the rank has no part in it."""
    body = _traced(
        "%p = f32[8] collective-permute(%a), source_target_pairs={{0,1}}",
        "ROOT %n = f32[8] negate(%p)",
    )(rank, {PAIRS: ends})
    found = [(n.name, n.get("comm_src"), n.get("comm_dst")) for n in (body[0],)]
    assert found == kept
    assert list(zip(body.edges.src, body.edges.dst, strict=True)) == [(0, 1)]


def test_work_that_does_not_fit_is_refused():
    huge = f"ROOT %d = f32[{1 << 31},{1 << 29}] dot(%a, %a), lhs_contracting_dims={{0}}"
    with pytest.raises(FormatError, match="do not fit into 64 bits"):
        _traced(huge)(0, {})


def test_who_takes_no_part_in_a_message_waits_for_what_came_before_it():
    """Only the first device sends, and only the second receives what the third instruction needs."""
    body = _traced(
        "%p = f32[8] collective-permute(%a), channel_id=1, source_target_pairs={{0,1}}",
        "ROOT %m = f32[8] negate(%p)",
    )
    alone = body(2, {((0, 1),): (None, None)})
    assert [node.name for node in alone] == ["m"]
    assert alone.edges.src.tolist() == []
