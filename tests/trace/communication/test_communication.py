"""Calls of all ranks are resolved and matched once: by group and number, by ends, tag and turn."""

from __future__ import annotations

from chakrakit import CollectiveType, Groups, NodeType, TraceBuilder, TraceSet
from chakrakit.trace.communication import Binding


def test_names_that_are_one_group_to_a_rank_are_numbered_together() -> None:
    t = TraceBuilder()
    for start, name in enumerate(("a", "b", "a")):
        t.collective(name, CollectiveType.ALL_REDUCE, 8, pg_name=name, start_ns=start)
    groups = Groups({"1": [0], "2": [0]})
    bindings = {0: Binding(0, {"a": "1", "b": "1"}), 1: Binding(0, {"a": "1", "b": "2"})}
    communication = TraceSet([t.build()], bindings, groups).communication
    assert len(communication.programs) == 2
    assert communication.calls(0).number.tolist() == [0, 1, 2]
    assert communication.calls(1).number.tolist() == [0, 0, 1]


def test_an_end_that_is_not_said_is_the_rank_of_a_message_and_nobody_of_a_collective() -> None:
    t = TraceBuilder()
    t.collective("b", CollectiveType.BROADCAST, 8, start_ns=0)
    t.node("s", NodeType.COMM_SEND_NODE, comm_dst=0, comm_size=8, start_ns=1)
    found = TraceSet([t.build()], {3: Binding(0, {}, {0: 5, -1: 4})}).communication.ends(0)
    assert [end.tolist() for end in found] == [[-1, 3], [-1, 5]]
