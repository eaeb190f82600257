"""What ran on the device: launched by whom, after what on its stream."""

from __future__ import annotations

from chakrakit.sources.pytorch.edges import violations
from chakrakit.trace.model import EdgeKind
from support.rescheduled import kinds, plan


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


def test_a_kernel_without_correlation_belongs_to_the_operator_of_its_external_id(recording):
    """Some ROCm tracers give no correlation."""
    recording.op("a", 0, 20)
    recording.events[-1]["args"]["External id"] = 12
    recording.kernel("k", 10, 5, corr=0, **{"External id": 12})
    rank = recording.link()
    assert kinds(rank, EdgeKind.LAUNCH) == [("a", "k")]
    assert len(rank.device.orphans) == 0
