"""From gathered edges to a graph that can be scheduled."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.edges import make_sound, violations
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges


def test_no_graph_is_circular_and_no_pair_is_listed_twice(two_kernels):
    two_kernels.call("cudaDeviceSynchronize", 44, 10, corr=3)
    edges = two_kernels.link().edges
    triples = set(zip(edges.src.tolist(), edges.dst.tolist(), edges.ctrl.tolist(), strict=True))
    assert len(triples) == len(edges)
    assert (edges.form <= EdgeForm.FINISH_FINISH).all()


def test_an_edge_that_closes_a_circle_is_dropped_and_named(recording):
    """The one that says least about why goes; what remains can be scheduled."""
    recording.op("a", 0, 5)
    recording.op("b", 10, 5)
    line = recording.link().line
    edges = Edges.of([0, 1], [1, 0], [EdgeKind.TENSOR, EdgeKind.INFERRED])
    sound = make_sound(line, edges)
    assert sound.circular == [(1, 0, "inferred")]
    assert list(zip(sound.edges.src, sound.edges.dst, strict=True)) == [(0, 1)]


def test_two_rows_are_joined_at_most_once_in_each_list(recording):
    """Of three edges between the same rows the two that say most stay, one in each list."""
    recording.op("a", 0, 5)
    recording.op("b", 10, 5)
    line = recording.link().line
    given = [EdgeKind.THREAD, EdgeKind.TENSOR, EdgeKind.INFERRED]
    sound = make_sound(line, Edges.of([0, 0, 0], [1, 1, 1], given))
    assert sound.edges.kind.tolist() == [EdgeKind.TENSOR, EdgeKind.THREAD]
    assert sorted(sound.edges.ctrl.tolist()) == [False, True]
    assert sound.merged == 1


def test_a_row_that_nothing_explains_is_anchored_to_the_first(recording):
    recording.op("a", 0, 5)
    recording.op("b", 10, 5)
    edges = make_sound(recording.link().line, Edges.empty()).edges
    assert list(zip(edges.src, edges.dst, edges.lag, strict=True)) == [(0, 1, 10_000)]


@pytest.mark.parametrize(("tolerance", "count"), [(0, 1), (2_000, 0)])
def test_an_edge_that_the_times_contradict_is_a_violation(recording, tolerance, count):
    """Row b began 5 µs after row a ended, so a lag of 7 is 2 too many."""
    recording.op("a", 0, 5)
    recording.op("b", 10, 5)
    edges = Edges.of([0], [1], EdgeKind.THREAD, EdgeForm.FINISH_START, [7_000])
    assert violations(recording.link().line, edges, tolerance) == count


def test_what_nothing_explains_starts_when_it_did(recording):
    """A thread nobody called is anchored to the first row, so the schedule still holds."""
    recording.op("main", 0, 10)
    recording.op("loader", 40, 10, tid=5)
    rank = recording.link()
    anchored = rank.edges.where(rank.edges.kind == EdgeKind.INFERRED)
    assert [rank.names[r] for r in anchored.dst] == ["loader"]
    assert anchored.lag.tolist() == [40_000]
