"""All rows of a rank on one clock: threads with their nesting, lanes in order."""

from __future__ import annotations

from chakrakit.sources.pytorch.joining import join
from chakrakit.sources.pytorch.read import read_kineto, read_observer
from chakrakit.sources.pytorch.timeline import TimelineNames, build_timeline


def built(recording):
    observer = read_observer(recording.observer_json().encode())
    kineto = read_kineto(recording.kineto_json().encode())
    line = build_timeline(observer, kineto, join(observer, kineto))
    return line, [TimelineNames(line, observer, kineto)[r] for r in range(len(line))]


def test_rows_are_in_order_of_start_and_the_longer_comes_first(recording):
    recording.op("inner", 0, 30)
    recording.op("outer", 0, 50)
    recording.op("next", 60, 5)
    line, names = built(recording)
    assert names == ["outer", "inner", "next"]
    assert line.parent.tolist() == [-1, 0, -1]
    assert line.own_time().tolist() == [20_000, 30_000, 5_000]
    assert line.is_leaf().tolist() == [False, True, True]


def test_threads_and_lanes_are_numbered_and_know_what_came_before(recording):
    recording.op("a", 0, 10)
    recording.op("other", 1, 1, tid=2)
    recording.kernel("k8", 12, 5, stream=8)
    recording.kernel("k7", 13, 5, stream=7)
    recording.kernel("l8", 20, 5, stream=8)
    line, names = built(recording)
    assert names == ["a", "other", "k8", "k7", "l8"]
    assert line.thread.tolist() == [0, 1, -1, -1, -1]
    assert line.lane.tolist() == [-1, -1, 1, 0, 1]
    assert (line.thread_names, line.lane_names) == ([(9, 1), (9, 2)], [(0, 7), (0, 8)])
    assert [o.tolist() for o in line.thread_order()] == [[0, 1], [-1, -1]]
    assert [o.tolist() for o in line.lane_order()] == [[3, 2, 4], [-1, -1, 2]]


def test_what_outlives_the_row_it_began_in_is_astray(recording):
    """A call may outlive its operator by 10 µs; asynchronous work outlives it by more."""
    recording.op("outer", 0, 20)
    recording.op("async", 10, 50)
    recording.op("next", 70, 5)
    line, names = built(recording)
    assert [names[r] for r in line.astray.nonzero()[0]] == ["async"]
    assert [names[r] for r in line.thread_order()[0]] == ["outer", "next"]
    assert line.own_time().tolist() == [20_000, 50_000, 5_000]


def test_an_operator_without_times_is_put_where_the_next_one_starts(recording):
    for i, name in enumerate(("a", "lost", "b")):
        recording.op(name, 10 * i, 5)
    del recording.events[1]
    line, names = built(recording)
    placed = names.index("lost")
    assert line.event[placed] == -1
    assert line.start[placed] == line.end[placed] == line.start[names.index("b")]


def test_without_kineto_the_parents_are_the_observers_own(recording):
    outer = recording.op("outer", 0, 20)
    recording.op("inner", 0, 20, parent=outer)
    observer = read_observer(recording.observer_json().encode())
    kineto = read_kineto(b'{"traceEvents": []}')
    line = build_timeline(observer, None, join(observer, kineto))
    names = [TimelineNames(line, observer, None)[r] for r in range(2)]
    assert names[line.parent[names.index("inner")]] == "outer"
    assert line.parent[names.index("outer")] == -1
