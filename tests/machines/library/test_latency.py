"""Latencies of a network that differ from those a library's constants were found with."""

import pytest

import chakrakit as ck

SIZES = (1 << 10, 1 << 20, 64 << 20)


def times_us(tmp_path, network, members=32):
    path = tmp_path / "machine.yaml"
    path.write_text(f"base: dgx-h100\nnodes: 4\nnetwork: {network}\n")
    return [
        ck.collective("all-reduce", str(path), members=members, sizes=[s]).rows[0].time_us
        for s in SIZES
    ]


def test_a_preset_takes_as_long_as_with_its_own_latency_written_out(tmp_path):
    bare = times_us(tmp_path, "[{}, {}]")
    assert times_us(tmp_path, "[{latency: 300 ns}, {latency: 1350 ns}]") == bare


@pytest.mark.parametrize("latency_us", [10, 100, 1000])
def test_no_collective_between_nodes_is_quicker_than_its_way(tmp_path, latency_us):
    """Data of four nodes goes up a tree of two levels and down again, over two links each time."""
    bare = times_us(tmp_path, "[{}, {}]")
    slow = times_us(tmp_path, f"[{{}}, {{latency: {latency_us} us}}]")
    longer = 2 * (latency_us - 1.35)
    assert slow[0] - bare[0] == pytest.approx(4 * longer, rel=0.3)
    assert all(s >= 4 * latency_us for s in slow)


def test_shorter_ways_save_what_they_are_shorter(tmp_path):
    bare, quick = (times_us(tmp_path, f"[{{}}, {{latency: {n} ns}}]")[0] for n in (1350, 1000))
    assert bare - quick == pytest.approx(4 * 2 * 0.35)


def test_within_a_node_hops_follow_the_latency(tmp_path):
    bare = times_us(tmp_path, "[{}, {}]", members=8)[0]
    slow = times_us(tmp_path, "[{latency: 1300 ns}, {}]", members=8)[0]
    assert slow - bare > 7 * 2.0


def test_a_message_pays_the_way_once(tmp_path):
    def took(latency_us):
        path = tmp_path / "machine.yaml"
        path.write_text(
            f"base: dgx-h100\nnodes: 2\nnetwork: [{{}}, {{latency: {latency_us} us}}]\n"
        )
        ends = [ck.TraceBuilder() for _ in range(9)]
        ends[0].send("to", 0, 8, 8192)
        ends[8].recv("from", 0, 8, 8192)
        traces = ck.TraceSet([t.build() for t in ends])
        return ck.simulate(traces, str(path)).summary.makespan_ns / 1e3

    assert took(11) - took(1) == pytest.approx(2 * 10)
