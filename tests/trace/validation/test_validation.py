"""Each code has a tiny trace that triggers it and nothing else; clean traces trigger none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrakit as ck
from chakrakit import Binding, CollectiveType, EdgeForm, EdgeKind, Metadata, NodeType
from chakrakit.trace.validation import codes, codes_page
from chakrakit.trace.validation.id_set import IdSet
from support.faulty_traces import AR, FEEDER_TRACE, ONE_RANK, node, trace_bytes
from support.paths import DOCS


@pytest.mark.parametrize("code", ONE_RANK)
def test_a_file_with_one_fault_has_one_finding(code, tmp_path):
    file = tmp_path / "t.et"
    file.write_bytes(ONE_RANK[code])
    report = ck.validate(file)
    assert report.counts == {code: 1}
    assert report.ok == (codes.by_name()[code].severity != "error")


def collectives(*calls, **extra):
    """A rank that issues (type, size, group) one after another."""
    builder = ck.TraceBuilder()
    builder.comp("first")
    for kind, size, group, *more in calls:
        builder.collective("c", kind, size, pg_name=group, **(more[0] if more else {}), **extra)
    return builder.build()


def messages(rank, *calls):
    """A rank that does (verb, peer, size, tag) one after another."""
    builder = ck.TraceBuilder()
    builder.comp("first")
    for verb, peer, size, tag in calls:
        ends = (rank, peer) if verb == "send" else (peer, rank)
        getattr(builder, verb)("m", *ends, size, tag)
    return builder.build()


A2A, AG, BCAST = CollectiveType.ALL_TO_ALL, CollectiveType.ALL_GATHER, CollectiveType.BROADCAST
G = {"1": (0, 1)}
SPLITS = {"in_splits": [1, 2]}

# (traces by rank, groups, expected counts)
SETS = {
    "the same everywhere": ([collectives((AR, 8, "1"), (AG, 4, "1"))] * 2, G, {}),
    "all ranks by three names": ([collectives((AR, 8, "")), collectives((AR, 8, "0"))], {}, {}),
    "broadcasts may differ in size": (
        [collectives((BCAST, 8, "")), collectives((BCAST, 0, ""))],
        {},
        {},
    ),
    "all-to-all with splits may": (
        [collectives((A2A, 8, "", SPLITS)), collectives((A2A, 9, "", SPLITS))],
        {},
        {},
    ),
    "a send and its receive": (
        [messages(0, ("send", 1, 8, 3)), messages(1, ("recv", 0, 8, 3))],
        {},
        {},
    ),
    "ranks-not-recorded": (
        [collectives((AR, 8, "1"))],
        {"1": tuple(range(1024))},
        {"ranks-not-recorded": 1023},
    ),
    "unknown-group": ([collectives((AR, 8, "9"))] * 2, G, {"unknown-group": 2}),
    "not-a-member": ([collectives()] * 2 + [collectives((AR, 8, "1"))], G, {"not-a-member": 1}),
    "collective-missing": (
        [collectives((AR, 8, "1")), collectives()],
        G,
        {"collective-missing": 1},
    ),
    "collective-order": (
        [collectives((AR, 8, "1"), (AG, 4, "1")), collectives((AG, 4, "1"), (AR, 8, "1"))],
        G,
        {"collective-order": 2},
    ),
    "collective-type": (
        [collectives((AR, 8, "1")), collectives((AG, 8, "1"))],
        G,
        {"collective-type": 1},
    ),
    "collective-size": (
        [collectives((AR, 8, "1")), collectives((AR, 9, "1"))],
        G,
        {"collective-size": 1},
    ),
    "alltoall-size": (
        [collectives((A2A, 8, "1")), collectives((A2A, 9, "1"))],
        G,
        {"alltoall-size": 1},
    ),
    "collective-seq": (
        [collectives((AR, 8, "1"), (AR, 8, "1"), comm_seq=4)] * 2,
        G,
        {"collective-seq": 1},
    ),
    "self-send": ([messages(0, ("send", 0, 8, 0), ("recv", 0, 8, 0))], {}, {"self-send": 2}),
    "wrong-end": (
        [messages(1), messages(0, ("send", 2, 8, 0)), messages(2, ("recv", 1, 8, 0))],
        {},
        {"wrong-end": 1},
    ),
    "peer-out-of-range": (
        [messages(0, ("send", 5, 8, 0)), messages(1)],
        G,
        {"peer-out-of-range": 1},
    ),
    "unmatched-send": ([messages(0, ("send", 1, 8, 0)), messages(1)], {}, {"unmatched-send": 1}),
    "unmatched-recv": ([messages(0), messages(1, ("recv", 0, 8, 0))], {}, {"unmatched-recv": 1}),
    "tags differ": (
        [messages(0, ("send", 1, 8, 1)), messages(1, ("recv", 0, 8, 2))],
        {},
        {"unmatched-send": 1, "unmatched-recv": 1},
    ),
    "message-size": (
        [messages(0, ("send", 1, 8, 0)), messages(1, ("recv", 0, 9, 0))],
        {},
        {"message-size": 1},
    ),
    "the other end not recorded": ([messages(0, ("send", 1, 8, 0))], {}, {"ranks-not-recorded": 1}),
}


@pytest.mark.parametrize("name", SETS)
def test_ranks_are_compared(name):
    traces, groups, expected = SETS[name]
    assert ck.validate(ck.TraceSet(traces, groups=ck.Groups(groups))).counts == expected


def test_every_code_has_a_trace_that_triggers_it():
    tested = {*ONE_RANK, *(c for _, _, counts in SETS.values() for c in counts), "groups-file"}
    assert tested == set(codes.by_name())


def test_a_broken_group_file_is_a_finding(tmp_path):
    (tmp_path / "t.0.et").write_bytes(trace_bytes(node()))
    (tmp_path / "t.json").write_text('{"1": [0, 0]}')
    assert ck.validate(tmp_path / "t.0.et").counts == {"groups-file": 1}
    assert ck.validate(tmp_path / "t").counts == {"groups-file": 1}


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


def test_two_names_for_all_ranks_are_one_sequence_in_the_table_too():
    ts = ck.TraceSet(
        [collectives((AR, 8, ""), (AG, 4, "0")), collectives((AR, 8, "0"), (AG, 4, ""))]
    )
    assert ts.collectives.instances["ranks"].to_pylist() == [2, 2]


def test_starts_and_ends_are_told_apart():
    """A caller holds its callee back and is held by it: no cycle, as in the schedule."""
    builder = ck.TraceBuilder()
    a, b = builder.comp("caller"), builder.comp("callee")
    builder.edge(a, b, EdgeKind.CALL, form=EdgeForm.START_START)
    builder.edge(b, a, EdgeKind.SYNC, form=EdgeForm.FINISH_FINISH)
    assert ck.validate(builder.build()).counts == {}
    builder.edge(b, a, EdgeKind.DATA)
    report = ck.validate(builder.build())
    assert set(report.counts) <= {"cycle", "control-cycle"}
    assert not report.ok


def test_a_cycle_is_shown_as_a_path_and_names_are_safe_to_print():
    rows = 3
    deps = pa.array([[2], [0], [1]], pa.list_(pa.uint64()))
    names = ["a\x1b[31m", "b" * 5000, "c"]
    report = ck.validate(
        ck.Trace.from_columns({"name": names, "type": [4] * rows, "data_deps": deps})
    )
    text = report.findings[0].message
    assert "3 nodes wait" in text
    assert "0 'a" in text
    assert "\x1b" not in text
    assert len(text) < 500


@pytest.mark.slow
@pytest.mark.parametrize("shift", [1, -1])
def test_a_cycle_of_a_million_nodes_and_many_dependencies(shift):
    n = 1_000_000
    ids = np.arange(n, dtype=np.uint64)
    deps = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32), np.roll(ids, shift))
    trace = ck.Trace.from_columns({"name": ["x"] * n, "type": np.full(n, 4), "data_deps": deps})
    report = ck.validate(trace)
    assert report.counts == {"cycle": 1}
    assert "1,000,000 nodes" in report.findings[0].message


def test_a_hundred_thousand_dependencies_on_one_node():
    deps = pa.array([[]] * 100_000 + [list(range(100_000))], pa.list_(pa.uint64()))
    trace = ck.Trace.from_columns(
        {"name": ["x"] * 100_001, "type": [4] * 100_001, "data_deps": deps}
    )
    assert ck.validate(trace).counts == {}


def test_many_alike_are_counted_and_a_few_are_listed():
    report = ck.validate(FEEDER_TRACE)
    assert report.counts["dangling-control"] == 1277
    listed = [f for f in report.findings if f.code == "dangling-control"]
    assert len(listed) == 21
    assert sum(f.count for f in listed) == 1277
    assert (
        len(
            [
                f
                for f in ck.validate(FEEDER_TRACE, everything=True).findings
                if f.code == "dangling-control"
            ]
        )
        == 1277
    )


def test_a_damaged_rank_does_not_hide_the_others(tmp_path):
    (tmp_path / "w.0.et").write_bytes(ONE_RANK["framing"])
    (tmp_path / "w.1.et").write_bytes(ONE_RANK["dangling-data"])
    report = ck.validate(tmp_path / "w")
    assert report.counts == {"framing": 1, "dangling-data": 1}
    framing = report.findings[0]
    assert (framing.rank, framing.offset) == (0, 1)


def test_truncation_at_every_byte_is_a_finding_or_a_shorter_trace(tmp_path):
    whole = trace_bytes(node(0), node(1, data=[0]), header=Metadata.of("1").raw)
    for size in range(len(whole)):
        (tmp_path / "t.et").write_bytes(whole[:size])
        assert set(ck.validate(tmp_path / "t.et").counts) <= {"framing", "no-nodes"}


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_random_valid_traces_are_ok(data):
    n = data.draw(st.integers(1, 40))
    order = data.draw(st.permutations(range(n)))
    ids = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=n, max_size=n, unique=True))
    deps = [
        sorted(data.draw(st.sets(st.sampled_from(ids[:i]), max_size=4))) if i else []
        for i in range(n)
    ]
    table = {
        "id": pa.array([ids[i] for i in order], pa.uint64()),
        "name": [f"n{i}" for i in order],
        "type": [int(NodeType.COMP_NODE)] * n,
        "data_deps": pa.array([deps[i] for i in order], pa.list_(pa.uint64())),
    }
    report = ck.validate(ck.Trace.from_columns(table))
    assert report.counts == {}


@given(
    st.lists(
        st.lists(st.integers(0, 60) | st.integers(2**64 - 5, 2**64 - 1), max_size=8), max_size=8
    )
)
def test_a_set_of_ids_is_a_set(pieces):
    ids, expected = IdSet(), set()
    probe = np.array([*range(70), *range(2**64 - 6, 2**64)], np.uint64)
    for piece in pieces:
        ids.add(np.array(piece, np.uint64))
        expected |= set(piece)
    assert ids.contains(probe).tolist() == [int(p) in expected for p in probe]


def test_the_page_is_the_table():
    page = DOCS / "validation.md"
    assert page.read_text() == codes_page.document()
