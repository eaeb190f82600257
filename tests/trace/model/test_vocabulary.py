"""The vocabulary is one table, with the members that other tools read."""

from __future__ import annotations

from chakrakit import Member
from chakrakit.trace.model import vocabulary


def test_members_other_tools_read_are_written() -> None:
    wanted = {
        "comm_size": Member.int64_val,
        "tensor_size": Member.uint64_val,
        "comm_tag": Member.int32_val,
        "is_cpu_op": Member.bool_val,
    }
    assert {n: vocabulary.by_name()[n].member for n in wanted} == wanted
