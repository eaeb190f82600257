"""A trace is an immutable table: what is asked is there, what is changed is changed, nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import EdgeForm, EdgeKind, Edges, Member, Metadata, Trace, TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.trace.model import wire


def chain(n: int = 4) -> Trace:
    t = TraceBuilder()
    for i in range(n):
        t.comp(f"op{i}", duration_ns=1000 * i, deps=[i - 1] if i else [])
    return t.build()


def test_a_column_is_asked_for_with_a_default_where_it_has_gaps() -> None:
    trace = Trace.from_columns({"name": ["a", "b"], "stream": [7, None]})
    assert trace.column("stream", -1).tolist() == [7, -1]
    assert trace.column("comm_size", 3).tolist() == [3, 3]  # in the vocabulary: no node has it
    with pytest.raises(TraceError, match="no node has 'no_such'; did you mean"):
        trace.column("no_such", 3)
    assert trace.has("stream").tolist() == [True, False]
    with pytest.raises(TraceError, match="1 nodes have no 'stream'"):
        trace.column("stream")
    with pytest.raises(TraceError, match="no node has 'no_such'; "):
        trace.column("no_such")


def test_nodes_are_found_by_id_wherever_they_are() -> None:
    trace = Trace.from_columns({"id": [9, 2**64 - 1, 3, 9], "name": list("abcd")})
    assert [trace.node(i).name for i in (9, 2**64 - 1, 3)] == ["a", "b", "c"]
    for absent, near in (
        (4, "3 and 9"),
        (-1, "3"),
        (2**64, f"{2**64 - 1}"),
        (10, f"9 and {2**64 - 1}"),
    ):
        with pytest.raises(TraceError, match=f"no node has id {absent}; the nearest are {near}$"):
            trace.node(absent)
    assert trace[-1].row == 3
    with pytest.raises(IndexError):
        trace[4]


def test_times_are_exact_where_a_node_says_so_and_never_wrap() -> None:
    trace = Trace.from_columns(
        {
            "name": ["a", "b", "c"],
            "start_time_micros": [1, 2, 2**64 - 1],
            "duration_micros": [5, 5, 2**64 - 1],
            "start_time_ns": [1234, None, None],
        }
    )
    assert trace.start_ns.tolist()[:2] == [1234, 2000]
    assert trace.end_ns.tolist()[:2] == [6234, 7000]
    assert trace.end_ns[2] == 2**63 - 1
    assert trace.is_timed
    assert not chain().is_timed


def test_selecting_renumbers_edges_and_drops_those_that_leave() -> None:
    part = chain(5).select([3, 1, 2])
    assert part.ids.tolist() == [3, 1, 2]
    assert [(int(s), int(d)) for s, d in zip(part.edges.src, part.edges.dst, strict=True)] == [
        (2, 0),
        (1, 2),
    ]
    assert part.dangling.num_rows == 0
    assert part.node(1).get("data_deps") == []


def test_selecting_all_rows_changes_nothing_at_all() -> None:
    trace = Trace.from_columns({"name": list("abc"), "data_deps": [[7, 1, 7], [], [0, 99, 0]]})
    assert trace.select(np.ones(3, bool)).table.equals(trace.table)


def test_selecting_keeps_dangling_references_in_place_with_their_kinds() -> None:
    kinds = bytes([EdgeKind.EVENT, EdgeKind.SYNC | EdgeForm.FINISH_FINISH << 5, EdgeKind.TENSOR])
    trace = Trace.from_columns(
        {"name": list("abc"), "data_deps": [[], [], [99, 0, 1]], "edge_kinds": [None, None, kinds]}
    )
    part = trace.select([1, 2])
    assert part.node(2).get("data_deps") == [99, 1]
    assert part.node(2).get("edge_kinds") == bytes([EdgeKind.EVENT, EdgeKind.TENSOR])
    assert part.dangling.to_pylist() == [{"row": 1, "id": 99, "ctrl": False}]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([0, 0], "twice"),
        ([4], "not in 0..3"),
        ([-1], "not in 0..3"),
        ([True], "mask of shape"),
        ([0.5], "holds float64"),
    ],
)
def test_rows_that_cannot_be_selected_are_refused(rows: list, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        chain().select(rows)


def test_selecting_nothing_is_a_trace_without_nodes() -> None:
    assert len(chain().select([])) == 0
    assert repr(chain().select([])) == "Trace(0 nodes: none)"


def test_a_changed_column_leaves_the_old_trace_alone() -> None:
    old = chain(2)
    new = old.with_columns({"comm_size": [1, None], "duration_micros": [8, 9]})
    assert new.column("comm_size", 0).tolist() == [1, 0]
    assert new.duration_ns.tolist() == [8000, 9000]
    assert "comm_size" not in old.table.column_names
    assert new.with_columns({"comm_size": None}).nodes.equals(
        old.with_columns({"duration_micros": [8, 9]}).nodes
    )


def test_inputs_and_outputs_can_be_set_and_removed() -> None:
    trace = chain(2).with_columns({"inputs_values": ["[1]", None]})
    assert trace.node(0).get("inputs_values") == "[1]"
    assert "inputs_values" not in trace.with_columns({"inputs_values": None}).table.column_names


def members_of(trace: Trace, name: str) -> list[int | None]:
    layouts = [dict(trace.layouts.items[i].entries) for i in trace.layout_rows]
    return [layout.get(name) for layout in layouts]


def test_an_edited_attribute_keeps_its_member_unless_the_values_no_longer_fit() -> None:
    trace = Trace.from_columns(
        {"name": ["a", "b"], "foo": [1, 2]}, members={"foo": Member.uint32_val}
    )
    assert members_of(trace, "foo") == [Member.uint32_val] * 2
    assert members_of(trace.with_columns({"foo": [3, 4]}), "foo") == [Member.uint32_val] * 2
    assert members_of(trace.with_columns({"foo": [3, -4]}), "foo") == [Member.int64_val] * 2
    assert members_of(trace.with_columns({"foo": ["x", None]}), "foo") == [Member.string_val, None]
    named = trace.with_columns({"foo": [3, 4]}, members={"foo": Member.sint64_val})
    assert members_of(named, "foo") == [Member.sint64_val] * 2


def test_setting_an_attribute_drops_the_raw_copy_that_did_not_fit(tmp_path) -> None:
    """A comm_size given as text does not fit its column: it is kept raw until somebody sets it."""
    node = wire.field_varint(1, 5) + b"".join(
        wire.field_bytes(10, wire.attribute(*a))
        for a in (
            ("comm_size", Member.string_val, "many"),
            ("stream", Member.int64_val, 3),
            ("tid", Member.string_val, "main"),
        )
    )
    path = tmp_path / "odd.et"
    path.write_bytes(wire.frame(b"") + wire.frame(node))
    from chakrakit import read, write

    trace = read(path).trace(0)
    assert trace.node(5).attributes == {"stream": 3}
    write(trace.with_columns({"comm_size": [64]}), path)
    again = read(path).trace(0)
    assert again.node(5).attributes == {"stream": 3, "comm_size": 64}
    assert again.table.column("_raw").to_pylist()[0].endswith(b"main")
    write(again.with_columns({"tid": None}), path)
    assert "_raw" not in read(path).trace(0).table.column_names


def test_edges_given_are_edges_found() -> None:
    given = Edges.of([0, 0, 2, 2], [1, 1, 1, 3], [2, 1, 7, 3], lag=[0, 5, 0, -1])
    found = chain().with_edges(given).edges
    order = [0, 2, 1, 3]  # by target, data_deps before ctrl_deps
    for name in ("src", "dst", "kind", "form", "lag", "ctrl"):
        assert getattr(found, name).tolist() == getattr(given, name)[order].tolist(), name


def test_edges_beyond_the_last_row_are_refused() -> None:
    with pytest.raises(TraceError, match="beyond the last"):
        chain(2).with_edges(Edges.of([0], [2]))


def test_plain_edges_after_special_ones_leave_no_kinds_behind() -> None:
    special = chain().with_edges(Edges.of([0], [1], EdgeKind.LAUNCH, lag=4))
    assert {"edge_kinds", "edge_lags_ns"} <= set(special.table.column_names)
    plain = special.with_edges(Edges.of([0], [1]))
    assert not {"edge_kinds", "edge_lags_ns"} & set(plain.table.column_names)


def test_parts_are_put_one_after_another() -> None:
    first = Trace.from_columns({"name": ["a"], "foo": [1]}, metadata=Metadata.of("1"))
    second = Trace.from_columns({"id": [5], "name": ["b"], "stream": [2]})
    both = Trace.concat([first, second])
    assert both.ids.tolist() == [0, 5]
    assert [n.attributes for n in (both[0], both[1])] == [{"foo": 1}, {"stream": 2}]
    assert both.metadata.version == "1"


def test_parts_that_disagree_about_a_type_are_refused_by_name() -> None:
    parts = [Trace.from_columns({"name": ["a"], "foo": [v]}) for v in (1, "x")]
    with pytest.raises(TraceError, match="'foo' is int64 in one part and string in another"):
        Trace.concat(parts)
    with pytest.raises(TraceError, match="no parts"):
        Trace.concat([])


def test_a_notebook_shows_it_escaped_and_without_surprises() -> None:
    trace = Trace.from_columns({"name": ["<b>"], "data_deps": [[3]], "edge_kinds": [b"\xff"]})
    assert "&lt;b&gt;" in trace._repr_html_()
    assert "&lt;b&gt;" in chain(1).with_columns({"name": ["<b>"]})[0]._repr_html_()
    assert repr(chain()) == "Trace(4 nodes: 4 COMP)"
