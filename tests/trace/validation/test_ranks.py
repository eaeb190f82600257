"""Ranks are compared: groups, collectives and messages must agree between those that are here."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit import Binding
from support.faulty_sets import AG, SETS, G, collectives, messages
from support.faulty_traces import AR


@pytest.mark.parametrize("name", SETS)
def test_ranks_are_compared(name):
    traces, groups, expected = SETS[name]
    assert ck.validate(ck.TraceSet(traces, groups=ck.Groups(groups))).counts == expected


def test_numbered_collectives_match_by_number_and_not_by_place():
    a = collectives((AR, 8, "1", {"comm_seq": 1}), (AG, 4, "1", {"comm_seq": 2}))
    b = collectives((AG, 4, "1", {"comm_seq": 2}), (AR, 8, "1", {"comm_seq": 1}))
    assert ck.validate(ck.TraceSet([a, b], groups=ck.Groups(G))).counts == {}


def test_ranks_that_share_a_body_are_compared_with_their_own_groups():
    body = collectives((AR, 8, "g"))
    odd = collectives((AR, 9, "g"))
    groups = ck.Groups({f"p{i}": (2 * i, 2 * i + 1) for i in range(500)})
    bindings = {r: Binding(0, {"g": f"p{r // 2}"}) for r in range(1000)}
    assert ck.validate(ck.TraceSet([body, odd], bindings, groups)).counts == {}
    bindings[7] = Binding(1, {"g": "p3"})
    report = ck.validate(ck.TraceSet([body, odd], bindings, groups))
    assert report.counts == {"collective-size": 1}
    assert report.findings[0].rank == 7


def told(*traces: ck.Trace, groups: dict[str, tuple[int, ...]] | None = None) -> list[str]:
    report = ck.validate(ck.TraceSet(list(traces), groups=ck.Groups(groups or {})))
    return [f.message for f in report.findings]


def test_a_collective_that_differs_is_told_with_both_sides() -> None:
    assert told(collectives((AR, 8, "1")), collectives((AG, 8, "1")), groups=G) == [
        "its collective number 0 of group '1' is ALL_GATHER of 8 bytes, that of rank 0 ALL_REDUCE of 8 bytes"
    ]


def test_ranks_that_differ_alike_are_told_once() -> None:
    groups = {"1": tuple(range(5))}
    usual, odd = collectives((AR, 8, "1")), collectives((AR, 9, "1"))
    assert told(usual, odd, usual, odd, usual, groups=groups) == [
        "its collective number 0 of group '1', an ALL_REDUCE, has 9 bytes, that of rank 0 8; "
        "the same for 1 more ranks"
    ]


def test_a_message_without_its_other_end_names_the_tags_that_are_there() -> None:
    sends = messages(0, ("send", 1, 8, 1))
    receives = messages(1, ("recv", 0, 8, 2))
    assert told(sends, receives)[0] == (
        "rank 0 sends 1 messages with tag 1 to rank 1, which receives 0 of them; "
        "between them there are also tags 2"
    )


def test_a_file_that_sends_to_itself_receives_in_itself() -> None:
    """Whichever rank's it is; a set of this file alone says the same."""
    t = ck.TraceBuilder()
    t.send("to me", 0, 0, 64, tag=1)
    assert ck.validate(t.build()).counts == {"unmatched-send": 1}
    t.recv("from me", 0, 0, 64, tag=1)
    assert ck.validate(t.build()).counts == {}
    other = ck.TraceBuilder()
    other.send("to another", 0, 1, 64, tag=1)
    assert ck.validate(other.build()).counts == {}
