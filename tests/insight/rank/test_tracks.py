"""Rows on tracks: serial or nested, never overlapping."""

import numpy as np

import chakrakit as ck
from chakrakit.insight.rank import borders, tracks_of, view_of
from chakrakit.trace.sets import Times


def laid(*rows):
    """(lane, start, end): a lane is a thread (negative) or a stream."""
    t = ck.TraceBuilder()
    for i, (lane, start, end) in enumerate(rows):
        where = {"is_cpu_op": True, "tid": -lane} if lane < 0 else {"stream": lane}
        t.comp(f"n{i}", start_time_ns=start, duration_ns=end - start, **where)
    return tracks_of(view_of(0, t.build(), None, 1000))


def places(tracks):
    return {
        int(row): (int(track), int(depth))
        for row, track, depth in zip(tracks.row, tracks.track, tracks.depth, strict=True)
    }


def test_rows_of_a_stream_share_a_track_while_they_are_serial():
    assert places(laid((7, 1, 5), (7, 5, 9))) == {0: (0, 0), 1: (0, 0)}


def test_rows_that_overlap_go_to_the_lowest_track_that_is_free():
    tracks = laid((7, 1, 5), (7, 2, 9), (7, 5, 6))
    assert places(tracks) == {0: (0, 0), 1: (1, 0), 2: (0, 0)}
    assert [(t.number, t.on_host) for t in tracks.tracks] == [(0, False), (1, False)]


def test_rows_of_a_thread_nest():
    tracks = laid((-1, 1, 100), (-1, 10, 50), (-1, 20, 30), (-1, 60, 70))
    assert places(tracks) == {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (0, 1)}


def test_an_inner_row_that_ends_a_little_late_is_cut():
    tracks = laid((-1, 1, 100), (-1, 10, 500))
    assert tracks.end[tracks.row.tolist().index(1)] == 100


def test_what_outlives_its_caller_by_far_has_a_track_of_its_own():
    tracks = laid((-1, 1, 100), (-1, 10, 90_000))
    assert places(tracks) == {0: (0, 0), 1: (1, 0)}


def told(parents, *spans):
    """Rows of one thread whose trace says what runs inside what, at the times of a run."""
    t = ck.TraceBuilder()
    for parent in parents:
        t.comp("n", is_cpu_op=True, tid=1, **({} if parent is None else {"parent": parent}))
    start, end = (np.array(c) for c in zip(*spans, strict=True))
    return tracks_of(view_of(0, t.build(), Times(start, end), 1000))


def test_a_row_is_drawn_inside_its_parent_and_no_other():
    """`b` is asynchronous: `a` began it and went on to `c`, which calls `d`, before `b` had ended."""
    tracks = told([None, 0, 0, 2], (0, 100), (10, 80), (20, 60), (30, 40))
    assert places(tracks) == {0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (0, 2)}


def test_what_is_inside_an_asynchronous_row_goes_with_it():
    tracks = told([None, 0, 1, 0], (0, 100), (10, 80), (20, 60), (30, 90))
    assert places(tracks) == {0: (0, 0), 1: (1, 0), 2: (1, 1), 3: (0, 1)}


def test_a_row_that_a_run_puts_outside_of_its_parent_has_a_track_of_its_own():
    assert places(told([None, 0], (0, 10), (50, 60))) == {0: (0, 0), 1: (1, 0)}


def test_a_row_without_length_holds_up_nobody():
    tracks = told([None, 0, 0], (0, 100), (10, 80), (10, 10))
    assert places(tracks) == {0: (0, 0), 1: (0, 1), 2: (0, 1)}


def test_borders_come_in_the_order_a_timeline_must_see():
    """Of equal times an end comes before a begin, an inner end before the outer one."""
    tracks = laid((-1, 1, 50), (-1, 1, 20), (-1, 20, 50))
    edges = borders(tracks)
    rows = tracks.row[edges.item].tolist()
    assert list(zip(edges.time.tolist(), rows, edges.begins.tolist(), strict=True)) == [
        (1, 0, True), (1, 1, True), (20, 1, False), (20, 2, True), (50, 2, False), (50, 0, False)
    ]  # fmt: skip
    assert np.all(np.diff(edges.time) >= 0)
