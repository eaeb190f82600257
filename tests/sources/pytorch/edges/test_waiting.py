"""Where the host waits for the device, and that waiting is not its own time."""

from __future__ import annotations

import numpy as np

from chakrakit.trace.model import EdgeKind
from chakrakit.trace.timing import schedule
from support.rescheduled import kinds, plan


def test_waiting_in_a_synchronization_is_not_the_hosts_own_time(two_kernels):
    two_kernels.call("cudaDeviceSynchronize", 44, 10, corr=3)
    two_kernels.op("after", 56, 1)
    rank = two_kernels.link()
    row = next(r for r in range(len(rank.line)) if rank.names[r] == "cudaDeviceSynchronize")
    assert rank.own_ns[row] == 3_000  # the kernel ended at 51, the call at 54
    assert plan(rank, kb=110)["after"][0] == 156
    assert plan(rank, ka=0, kb=0)["after"][0] < 56
    assert plan(rank, without=EdgeKind.SYNC, kb=110)["after"][0] < 60


def test_a_stream_synchronization_waits_for_its_stream_alone(recording):
    recording.op("a", 0, 40)
    recording.launch(1, start=10, dur=5, stream=7, corr=1, name="short")
    recording.launch(5, start=10, dur=500, stream=8, corr=2, name="long")
    recording.call("cudaStreamSynchronize", 12, 5, corr=3)
    recording.sync("Stream Sync", 12, 5, stream=7, corr=3)
    rank = recording.link()
    assert kinds(rank, EdgeKind.SYNC) == [("short", "cudaStreamSynchronize")]


def test_a_blocking_copy_holds_the_next_host_row(recording):
    recording.op("item", 0, 60)
    recording.call("cudaMemcpy", 5, 50, corr=1)
    recording.kernel("Memcpy DtoH (Device -> Pageable)", 15, 30, corr=1, cat="gpu_memcpy")
    recording.op("next", 62, 5)
    rank = recording.link()
    assert rank.waits.blocking_copies == 1
    assert plan(rank)["next"][0] == 62
    longer = {"Memcpy DtoH (Device -> Pageable)": 130}
    assert plan(rank, **longer)["next"][0] == 162


def test_a_blocking_copy_behind_other_work_is_not_the_hosts_own_time(recording):
    """The copy is called at 10 and begins at 500, when the kernel before it has ended."""
    recording.op("item", 0, 560)
    recording.launch(1, start=10, dur=490, stream=7, corr=1, name="long")
    recording.call("hipMemcpyWithStream", 10, 540, corr=2)
    recording.kernel("Memcpy DtoH (Device -> Host)", 501, 40, corr=2, cat="gpu_memcpy")
    recording.op("next", 562, 5)
    rank = recording.link()
    call = next(r for r in range(len(rank.line)) if rank.names[r] == "hipMemcpyWithStream")
    assert rank.own_ns[call] < 20_000  # 9 µs after the copy and what a launch takes, and not 500
    assert plan(rank)["next"][0] == 562
    assert plan(rank, long=90)["next"][0] < 180


def test_a_full_launch_queue_blocks_the_host(recording):
    """About a thousand launches fit; the next returns when the device takes one out."""
    count = 1100
    recording.op("loop", 0, 40_000)
    for i in range(count):
        recording.launch(4 * i, start=20 + 100 * i, dur=99, corr=i + 1, name=f"k{i}")
    rank = recording.link()
    slow = rank.own_ns.copy()
    slow[rank.line.lane >= 0] *= 100
    timed = schedule(len(rank.line), rank.edges, slow)
    calls = np.flatnonzero(rank.line.is_host)
    assert timed.end[calls].max() > 10 * rank.line.end[calls].max()
    assert rank.waits.queue_depth == 1024


def test_launches_with_many_arguments_fill_the_queue_with_fewer(recording):
    """The queue is full at 800 launches: each later one returns as the device ends the kernel it works on."""
    room, count = 800, 1400
    recording.op("loop", 0, 100 * count)
    for i in range(count):
        blocked = i >= room
        begin = 4 * i if not blocked else 4 * room + 400 * (i - room)
        recording.call("cudaLaunchKernel", begin, 395 if blocked else 3, corr=i + 1)
        recording.kernel(f"k{i}", 3000 + 400 * i, 399, corr=i + 1)
    rank = recording.link()
    calls = [r for r in range(len(rank.line)) if rank.names[r] == "cudaLaunchKernel"]
    later = [r for r in calls if rank.line.duration[r] > 100_000][-300:]
    assert (
        max(rank.own_ns[later]) == 3_000
    )  # as long as the others, and not the 395 µs that they wait
