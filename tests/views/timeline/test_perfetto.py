"""Perfetto's own format parsed back: a tree of tracks, arrows paired, times exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from chakrakit.views import TimelineOptions, write_timeline
from support.timelines import small


def test_a_slice_a_node_in_nanoseconds(perfetto):
    parsed = perfetto(small())
    assert parsed.slices == {
        "trace › rank 0 › device 0 stream 7": [("a", 0, 5), ("b", 1_000_000_007, 1_000_000_012)]
    }


def test_machines_group_ranks(perfetto, two_ranks):
    parsed = perfetto(two_ranks, TimelineOptions(node_size=1))
    assert "trace › node 1 › rank 1 › device 0 stream 20" in parsed.slices


def test_streams_are_serial_and_threads_nest(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    assert all(depth == 1 for track, depth in parsed.deepest.items() if "stream" in track)
    assert any(depth > 3 for track, depth in parsed.deepest.items() if "thread" in track)
    for track, slices in parsed.slices.items():
        if "stream" in track:
            assert all(a[2] <= b[1] for a, b in itertools.pairwise(slices))


def test_times_are_those_of_the_run(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    trace = on_gpu.trace(0)
    device = np.flatnonzero(~trace.column("is_cpu_op").astype(bool))
    drawn_slices = sorted(
        (s[1], s[2]) for t, slices in parsed.slices.items() if "stream" in t for s in slices
    )
    assert drawn_slices == sorted(
        zip(trace.start_ns[device].tolist(), trace.end_ns[device].tolist(), strict=True)
    )


def test_arrows_are_paired_and_go_forward(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    assert len(parsed.stops) > 900
    assert set(parsed.leaves) == set(parsed.stops)
    for number, ((stop, _, _),) in parsed.stops.items():
        assert all(time <= stop for time, _, _ in parsed.leaves[number])


def test_a_collective_is_one_arrow_through_its_ranks(perfetto, two_ranks):
    parsed = perfetto(two_ranks)
    through = [
        n for n, ends in parsed.stops.items() if ends[0][2] == "sum" and "rank 1" in ends[0][1]
    ]
    (number,) = [n for n in through if any("rank 0" in t for _, t, _ in parsed.leaves[n])]
    assert parsed.leaves[number] == [(10_000, "trace › rank 0 › device 0 stream 20", "sum")]
    assert parsed.stops[number] == [(30_000, "trace › rank 1 › device 0 stream 20", "sum")]


def test_without_arrows(perfetto, two_ranks):
    assert not perfetto(two_ranks, TimelineOptions(flows=False)).stops


@pytest.mark.slow
def test_memory_is_a_counter(perfetto, on_gpu):
    parsed = perfetto(on_gpu)
    (track,) = parsed.counters
    assert track.endswith("rank 0 › memory")
    assert max(v for _, v in parsed.counters[track]) > 5 << 30


def test_nodes_without_length_and_equal_times(perfetto):
    """Begin and end at one moment, one after another: none is lost, none swallows another."""
    parsed = perfetto(small(("a", "b", "c", "d"), (0, 5, 5, 5), (5, 5, 5, 9)))
    assert sorted(parsed.slices["trace › rank 0 › device 0 stream 7"]) == [
        ("a", 0, 5),
        ("b", 5, 5),
        ("c", 5, 5),
        ("d", 5, 9),
    ]


def test_slices_are_small(on_gpu, tmp_path):
    """A slice with its arrows takes under 60 bytes; names are written once."""
    written = write_timeline(on_gpu, tmp_path / "t.pftrace", TimelineOptions(memory=False))
    assert (tmp_path / "t.pftrace").stat().st_size < 60 * written.nodes
