"""Why every node starts when it does: one story per kind of edge, told by editing the trace."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.sources.pytorch.edges.soundness import make_sound, violations
from chakrakit.trace.model.edges import EdgeForm, EdgeKind, Edges
from chakrakit.trace.timing.scheduler import schedule


def plan(rank, without=None, **durations):
    """Name → (start, end) in µs after setting some rows' durations; optionally without a kind."""
    own = rank.own.copy()
    edges = rank.edges if without is None else rank.edges.without(without)
    for row in range(len(rank.line)):
        if rank.names[row] in durations:
            own[row] = durations[rank.names[row]] * 1000
    timed = schedule(len(rank.line), edges, own)
    return {
        rank.names[r]: (timed.start[r] / 1000, timed.end[r] / 1000) for r in range(len(rank.line))
    }


def kinds(rank, kind):
    at = rank.edges.kind == kind
    return [
        (rank.names[a], rank.names[b])
        for a, b in zip(rank.edges.src[at].tolist(), rank.edges.dst[at].tolist(), strict=True)
    ]


def measured(rank):
    first = rank.line.start.min()
    return {rank.names[r]: (rank.line.start[r] - first) / 1000 for r in range(len(rank.line))}


@pytest.fixture
def two_kernels(recording):
    """Two operators that launch one kernel each; the second kernel waits for the first."""
    recording.op("a", 0, 20)
    recording.launch(2, start=10, dur=30, corr=1, name="ka")
    recording.op("b", 22, 20)
    recording.launch(25, start=41, dur=10, corr=2, name="kb")
    return recording


def test_the_measured_start_of_everything_comes_out_again(two_kernels):
    rank = two_kernels.link()
    planned = {name: start for name, (start, _) in plan(rank).items()}
    assert planned == measured(rank)
    assert violations(rank.line, rank.edges, 0) == 0


def test_launch_holds_a_kernel_until_the_host_asks_for_it(two_kernels):
    rank = two_kernels.link()
    assert plan(rank, cudaLaunchKernel=2, a=20)["ka"][0] == 10
    assert plan(rank, without=EdgeKind.LAUNCH)["ka"][0] == 0


def test_a_longer_kernel_pushes_the_next_one_on_its_stream(two_kernels):
    rank = two_kernels.link()
    assert plan(rank, ka=100)["kb"][0] == 111  # 10 + 100 + the measured gap of 1
    assert plan(rank, without=EdgeKind.STREAM, ka=100)["kb"][0] < 111


def test_an_earlier_end_frees_the_stream_only_until_the_launch_binds(two_kernels):
    """With the first kernel gone, the second waits for its own launch and its usual latency."""
    rank = two_kernels.link()
    assert 25 < plan(rank, ka=0)["kb"][0] < 41


def test_thread_order_keeps_the_hosts_own_gap(recording):
    recording.op("a", 0, 10)
    recording.op("b", 13, 5)
    rank = recording.link()
    assert plan(rank, a=50)["b"][0] == 53
    assert plan(rank, without=EdgeKind.THREAD, a=50)["b"][0] == 0


def test_a_call_holds_what_it_calls_and_own_time_excludes_it(recording):
    recording.op("outer", 0, 100)
    recording.op("inner", 10, 30)
    rank = recording.link()
    assert kinds(rank, EdgeKind.CALL) == [("outer", "inner")]
    assert rank.own.tolist() == [70_000, 30_000]
    assert plan(rank)["inner"][0] == 10
    assert plan(rank, without=EdgeKind.CALL)["inner"][0] == 0


def test_equal_starts_nest_by_length(recording):
    """Whole microseconds make parent and child start together; the longer one is the parent."""
    recording.op("inner", 0, 30)
    recording.op("outer", 0, 50)
    rank = recording.link()
    own = {rank.names[r]: int(rank.own[r]) for r in range(2)}
    assert own == {"outer": 20_000, "inner": 30_000}


def test_waiting_in_a_synchronization_is_not_the_hosts_own_time(two_kernels):
    two_kernels.call("cudaDeviceSynchronize", 44, 10, corr=3)
    two_kernels.op("after", 56, 1)
    rank = two_kernels.link()
    row = next(r for r in range(len(rank.line)) if rank.names[r] == "cudaDeviceSynchronize")
    assert rank.own[row] == 3_000  # the kernel ended at 51, the call at 54
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


def test_an_event_makes_one_stream_wait_for_another(recording):
    recording.op("a", 0, 60)
    recording.launch(1, start=10, dur=30, stream=7, corr=1, name="produce")
    recording.call("cudaEventRecord", 5, 1, corr=2)
    recording.call("cudaStreamWaitEvent", 8, 1, corr=3)
    recording.sync(
        "Stream Wait Event",
        8,
        1,
        stream=20,
        corr=3,
        wait_on_stream=-1,
        wait_on_cuda_event_record_corr_id=-1,
    )
    recording.launch(12, start=41, dur=5, stream=20, corr=4, name="consume")
    rank = recording.link()
    assert kinds(rank, EdgeKind.EVENT) == [("produce", "consume")]
    assert plan(rank, produce=100)["consume"][0] == 111
    assert plan(rank, without=EdgeKind.EVENT, produce=100)["consume"][0] < 111


def test_a_named_record_is_believed(recording):
    """Newer tracers say which record and stream a wait belongs to."""
    recording.op("a", 0, 90)
    recording.launch(1, start=10, dur=5, stream=7, corr=1, name="first")
    recording.call("cudaEventRecord", 4, 1, corr=2)
    recording.launch(6, start=16, dur=30, stream=7, corr=3, name="second")
    recording.call("cudaEventRecord", 9, 1, corr=4)
    recording.call("cudaStreamWaitEvent", 12, 1, corr=5)
    recording.sync(
        "Stream Wait Event",
        12,
        1,
        stream=20,
        corr=5,
        wait_on_stream=7,
        wait_on_cuda_event_record_corr_id=2,
    )
    recording.launch(14, start=24, dur=5, stream=20, corr=6, name="consume")
    assert kinds(recording.link(), EdgeKind.EVENT) == [("first", "consume")]


def test_a_tensor_goes_from_its_last_writer_to_its_reader(recording):
    """Storage numbers come back after they are freed: an allocation begins a storage anew."""
    recording.device = "cpu"
    recording.op("aten::mul", 0, 5, writes=(1,))
    recording.op("aten::neg", 10, 5, reads=(1,), writes=(2,))
    recording.op("aten::empty", 20, 5, writes=(1,))
    recording.op("aten::exp", 30, 5, reads=(1,), writes=(3,))
    rank = recording.link()
    assert kinds(rank, EdgeKind.TENSOR) == [("aten::mul", "aten::neg")]


def test_a_tensor_edge_joins_kernels_on_different_streams(recording):
    recording.op("aten::mul", 0, 5, writes=(1,))
    recording.launch(1, start=10, dur=30, stream=7, corr=1, name="write")
    recording.op("aten::neg", 10, 5, reads=(1,))
    recording.launch(11, start=41, dur=5, stream=9, corr=2, name="read")
    rank = recording.link()
    assert kinds(rank, EdgeKind.TENSOR) == [("write", "read")]
    assert plan(rank, write=100)["read"][0] == 110
    assert plan(rank, without=EdgeKind.TENSOR, write=100)["read"][0] < 110


def test_forward_comes_before_backward(recording):
    recording.op("aten::mul", 0, 5)
    recording.op("MulBackward0", 50, 5, tid=2)
    for ph, tid, ts in (("s", 1, 0), ("f", 2, 50)):
        recording.events.append(
            {"ph": ph, "id": 4, "pid": 9, "tid": tid, "ts": ts, "cat": "fwdbwd", "name": "fwdbwd"}
        )
    rank = recording.link()
    assert kinds(rank, EdgeKind.AUTOGRAD) == [("aten::mul", "MulBackward0")]
    edges = rank.edges.without(EdgeKind.AUTOGRAD)
    assert len(edges) < len(rank.edges)


def test_the_backward_thread_runs_while_its_caller_waits(recording):
    """What the engine's thread needs is not the main thread's own time."""
    recording.op("loss", 0, 10)
    recording.op("autograd::engine::evaluate_function: A", 20, 30, tid=2)
    recording.op("autograd::engine::evaluate_function: B", 52, 8, tid=2)
    recording.op("step", 65, 5)
    rank = recording.link()
    assert plan(rank)["step"][0] == 65
    slow = {"autograd::engine::evaluate_function: B": 108}
    assert plan(rank, **slow)["step"][0] == 165
    quick = {
        "autograd::engine::evaluate_function: A": 0,
        "autograd::engine::evaluate_function: B": 0,
    }
    assert plan(rank, **quick)["step"][0] == 27  # 10, then 10 before, 2 between and 5 after


def test_a_full_launch_queue_blocks_the_host(recording):
    """About a thousand launches fit; the next returns when the device takes one out."""
    count = 1100
    recording.op("loop", 0, 40_000)
    for i in range(count):
        recording.launch(4 * i, start=20 + 100 * i, dur=99, corr=i + 1, name=f"k{i}")
    rank = recording.link()
    slow = rank.own.copy()
    slow[rank.line.lane >= 0] *= 100
    timed = schedule(len(rank.line), rank.edges, slow)
    calls = np.flatnonzero(rank.line.is_host)
    assert timed.end[calls].max() > 10 * rank.line.end[calls].max()
    assert rank.waits.queue_depth == 1024


def test_a_kernel_launched_before_the_window_is_an_orphan(recording):
    recording.kernel("late", 0, 30, corr=77)
    recording.op("ProfilerStep#3", 5, 60)
    recording.launch(10, start=31, dur=5, corr=1, name="mine")
    rank = recording.link()
    assert [rank.names[r] for r in rank.device.orphans] == ["late"]
    assert plan(rank)["mine"][0] == 31


def test_graph_launched_kernels_share_one_call_and_are_all_kept(recording):
    recording.op("replay", 0, 10)
    recording.call("cudaGraphLaunch", 1, 5, corr=5)
    for i in range(3):
        recording.kernel(f"g{i}", 10 + 5 * i, 4, corr=5, **{"graph node id": i})
    rank = recording.link()
    assert len(rank.device.rows) == 3
    assert {a for a, _ in kinds(rank, EdgeKind.LAUNCH)} == {"cudaGraphLaunch"}


def test_programmatic_overlap_on_a_stream_is_counted_apart(recording):
    recording.op("a", 0, 20)
    recording.launch(1, start=10, dur=30, corr=1, name="k1")
    recording.launch(5, start=38, dur=10, corr=2, name="k2")
    rank = recording.link()
    assert rank.counts["programmatic_overlaps"] == 1
    assert violations(rank.line, rank.edges, 0) == 0
    assert plan(rank, k1=130)["k2"][0] == 138


def test_no_graph_is_circular_and_no_pair_is_listed_twice(two_kernels):
    two_kernels.call("cudaDeviceSynchronize", 44, 10, corr=3)
    edges = two_kernels.link().edges
    triples = set(zip(edges.src.tolist(), edges.dst.tolist(), edges.ctrl.tolist(), strict=True))
    assert len(triples) == len(edges)
    assert (edges.form <= EdgeForm.FINISH_FINISH).all()


def test_a_kernel_without_correlation_belongs_to_the_operator_of_its_external_id(recording):
    """Some ROCm tracers give no correlation."""
    recording.op("a", 0, 20)
    recording.events[-1]["args"]["External id"] = 12
    recording.kernel("k", 10, 5, corr=0, **{"External id": 12})
    rank = recording.link()
    assert kinds(rank, EdgeKind.LAUNCH) == [("a", "k")]
    assert len(rank.device.orphans) == 0


def test_an_edge_that_closes_a_circle_is_dropped_and_named(recording):
    """The one that says least about why goes; what remains can be scheduled."""
    recording.op("a", 0, 5)
    recording.op("b", 10, 5)
    line = recording.link().line
    edges = Edges.of([0, 1], [1, 0], [EdgeKind.TENSOR, EdgeKind.INFERRED])
    sound = make_sound(line, edges)
    assert sound.circular == [(1, 0, "inferred")]
    assert list(zip(sound.edges.src, sound.edges.dst, strict=True)) == [(0, 1)]
