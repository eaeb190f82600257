"""Lists of ids in columns and edges between rows say the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit import EdgeForm, EdgeKind, Edges, Trace
from chakrakit.errors import TraceError
from chakrakit.trace.model import resolve


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 6), max_size=12),
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 8), max_size=8),
)
def test_ids_resolve_to_the_first_row_that_has_them(ids: list[int], wanted: list[int]) -> None:
    found = resolve(np.array(ids, np.uint64), np.array(wanted, np.uint64))
    assert found.tolist() == [ids.index(w) if w in ids else -1 for w in wanted]


@pytest.mark.parametrize("first", [0, 5, 2**64 - 3])
def test_ids_without_gaps_are_found_by_subtraction(first: int) -> None:
    ids = np.arange(3, dtype=np.uint64) + np.uint64(first)
    wanted = np.array([first + 2, first, (first - 1) % 2**64, 2**63 + 1], np.uint64)
    assert resolve(ids, wanted).tolist() == [2, 0, -1, -1]


EDGE = st.tuples(
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from(list(EdgeKind)),
    st.sampled_from(list(EdgeForm)),
    st.sampled_from([0, 0, 7, -3]),
    st.booleans(),
)


@given(st.lists(EDGE, max_size=12))
def test_any_edges_survive_as_columns(edges: list[tuple]) -> None:
    bare = Trace.from_columns({"id": [10, 3, 7, 1, 12], "name": list("abcde")})
    given_edges = Edges.of(*map(list, zip(*edges, strict=True))) if edges else Edges.empty()
    found = bare.with_edges(given_edges).edges
    columns = [getattr(found, n).tolist() for n in ("src", "dst", "kind", "form", "lag", "ctrl")]
    expected = sorted(edges, key=lambda e: (e[1], e[5]))
    assert list(zip(*columns, strict=True)) == [tuple(map(int, e)) for e in expected]


def test_dangling_and_repeated_references_are_kept() -> None:
    trace = Trace.from_columns(
        {"name": ["a", "b"], "data_deps": [[], [0, 0, 9]], "ctrl_deps": [[8], [0]]}
    )
    assert len(trace.edges) == 3
    assert trace.dangling.to_pylist() == [
        {"row": 1, "id": 9, "ctrl": False},
        {"row": 0, "id": 8, "ctrl": True},
    ]


def test_kinds_that_do_not_line_up_with_the_lists_are_not_used() -> None:
    trace = Trace.from_columns(
        {"name": ["a", "b"], "data_deps": [[], [0]], "edge_kinds": [None, b"\x07\x07"]}
    )
    assert trace.edges.kind.tolist() == [EdgeKind.DATA]


def test_a_slice_of_a_table_reads_its_own_kinds() -> None:
    whole = Trace.from_columns(
        {"name": list("abc"), "data_deps": [[], [0], [1]], "edge_kinds": [None, b"\x02", b"\x04"]}
    )
    part = Trace(whole.table.slice(1), whole.layouts)
    assert part.edges.kind.tolist() == [EdgeKind.STREAM]
    empty = Trace(whole.table.slice(3), whole.layouts)
    assert len(empty.edges) == 0


def test_unknown_kinds_stop_only_who_asks_for_edges() -> None:
    trace = Trace.from_columns(
        {"name": ["a", "b"], "data_deps": [[], [0]], "edge_kinds": [None, b"\x1f"]}
    )
    with pytest.raises(TraceError, match="kind or form this version does not know"):
        _ = trace.edges
    assert len(trace.select([1])) == 1
    assert trace.dangling.num_rows == 0
    assert pa.types.is_binary(trace.table.schema.field("edge_kinds").type)
