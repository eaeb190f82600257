"""The graph of a trace in pieces: ids, dependencies and circles, wherever the pieces are cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import chakrakit as ck
from chakrakit import EdgeForm, EdgeKind, Trace
from chakrakit.trace.model import Dependencies, edge_codes
from chakrakit.trace.validation.findings import Findings
from chakrakit.trace.validation.graph import GraphChecker, repeated


def checked(trace: Trace, cut: int) -> tuple[GraphChecker, Findings]:
    """The trace in two pieces, the second of which begins at row `cut`."""
    findings = Findings()
    checker = GraphChecker(0, findings)
    for piece in (trace.table.slice(0, cut), trace.table.slice(cut)):
        checker.add(Trace(piece, trace.layouts))
    checker.finish()
    return checker, findings


def deps(*lists: list[int]) -> pa.Array:
    return pa.array(lists, pa.list_(pa.uint64()))


@pytest.mark.parametrize("cut", range(5))
def test_what_is_found_does_not_depend_on_where_the_pieces_are_cut(cut: int) -> None:
    trace = Trace.from_columns(
        {
            "id": [5, 6, 5, 8],
            "name": list("abcd"),
            "data_deps": deps([6], [], [77], []),
            "ctrl_deps": deps([], [], [], [8, 9, 99]),
        }
    )
    checker, findings = checked(trace, cut)
    assert findings.report(1).counts == {
        "duplicate-id": 1,
        "dangling-data": 1,
        "self-control": 1,
        "dangling-control": 2,
    }
    assert checker.dangling_control.tolist() == [9, 99]


@pytest.mark.parametrize("cut", range(4))
def test_control_dependencies_that_close_a_circle_are_noted(cut: int) -> None:
    trace = Trace.from_columns(
        {
            "id": [7, 8, 9],
            "name": list("abc"),
            "data_deps": deps([], [7], [8]),
            "ctrl_deps": deps([9], [], []),
        }
    )
    checker, findings = checked(trace, cut)
    report = findings.report(1)
    assert report.counts == {"control-cycle": 1}
    assert report.findings[0].message.startswith("3 nodes wait for each other and can never run")
    assert checker.circular_control.tolist() == [[9], [7]]


def test_an_entry_is_repeated_where_id_kind_form_and_lag_are_the_same() -> None:
    kinds = bytes([EdgeKind.TENSOR, EdgeKind.EVENT, EdgeKind.TENSOR, EdgeKind.TENSOR])
    trace = Trace.from_columns(
        {"name": ["a", "b"], "data_deps": deps([], [0, 0, 0, 5]), "edge_kinds": [None, kinds]}
    )
    found = Dependencies.of(trace.table)
    assert repeated(found, *edge_codes(trace.table, found)).tolist() == [2]


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


@pytest.mark.parametrize("cut", range(4))
def test_a_parent_that_no_node_is_dangles_wherever_the_pieces_are_cut(cut: int) -> None:
    """One parent comes before its node, one after it, one nowhere."""
    trace = Trace.from_columns({"name": list("abc"), "parent": [2, 0, 77]})
    _, findings = checked(trace, cut)
    [finding] = findings.report(1).findings
    assert (finding.code, finding.node) == ("dangling-parent", 2)
    assert "parent names id 77, which no node has; make the trace again" in finding.message


@pytest.mark.parametrize("attribute", ["parent", "caller"])
@pytest.mark.parametrize("cut", [1, 2, 3])
@pytest.mark.parametrize(
    ("parents", "ok"), [([1, 2, 0], False), ([0, 0, 1], False), ([9, 0, 1], True)]
)
def test_nodes_that_run_inside_each_other_are_found_wherever_the_pieces_are_cut(
    attribute: str, cut: int, parents: list[int], ok: bool
) -> None:
    """As they are refused by everything that asks who runs inside whom."""
    trace = Trace.from_columns({"name": list("abc"), "type": [4] * 3, attribute: parents})
    findings = Findings()
    checker = GraphChecker(0, findings)
    for at in range(0, 3, cut):
        checker.add(Trace(trace.table.slice(at, cut), trace.layouts, trace.metadata))
    checker.finish()
    assert ("parent-cycle" not in findings.report(1).counts) == ok
    if ok:
        assert trace.parent.tolist() == [-1, 0, 1]
    else:
        with pytest.raises(ck.TraceError, match="runs inside itself"):
            _ = trace.parent
