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


@pytest.mark.parametrize("rank", [0, 3])
def test_a_file_that_sends_to_itself_receives_in_itself(rank: int) -> None:
    """Whichever rank's it is; a set of this file alone says the same."""
    t = ck.TraceBuilder()
    t.send("to me", rank, rank, 64, tag=1)
    assert ck.validate(t.build()).counts == {"unmatched-send": 1, "self-send": 1}
    t.recv("from me", rank, rank, 64, tag=1)
    assert ck.validate(t.build()).counts == {"self-send": 2}
    other = ck.TraceBuilder()
    other.send("to another", rank, 1, 64, tag=1)
    assert ck.validate(other.build()).counts == {}


RECEIVES_FROM_0 = messages(3, ("recv", 0, 8, 1))
IN_GROUP = collectives((AR, 8, "1"))
WITH_INIT = ck.Trace.concat(
    [
        IN_GROUP,
        ck.Trace.from_columns(
            {
                "id": [9],
                "name": ["## process_group:init ##"],
                "type": [1],
                "inputs_values": ["""['[{"pg_name": "1", "ranks": [4, 5]}]']"""],
            }
        ),
    ]
)


@pytest.mark.parametrize(
    ("trace", "rank"),
    [(RECEIVES_FROM_0, 3), (WITH_INIT, 4), (IN_GROUP, 0)],
    ids=["its messages", "its group", "nothing"],
)
def test_the_rank_of_a_file_without_one_is_the_same_to_every_reader(
    trace: ck.Trace, rank: int, tmp_path
) -> None:
    """A file that validates still does as a set, a bundle or a directory, and in a pipe."""
    file = tmp_path / "trace.et"
    ck.write(trace, file)
    assert ck.validate(file).ok
    assert ck.read(file).ranks == (rank,)
    assert ck.info(str(file)).world_size >= rank + 1
    for name in ("set", "set.chakra"):
        ck.write(ck.read(file), tmp_path / name)
        assert ck.validate(tmp_path / name).ok
        assert ck.read(tmp_path / name).ranks == (rank,)


def test_findings_of_a_file_without_a_rank_are_of_the_rank_that_it_has(tmp_path) -> None:
    odd = RECEIVES_FROM_0.with_columns({"duration_ns": [-1, -1]})
    ck.write(odd, tmp_path / "trace.et")
    assert {f.rank for f in ck.validate(tmp_path / "trace.et").findings} == {3}
