"""Reads and writes at storage servers: closed forms for n clients, k operations in flight, tiers."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import simulate

GB = 10**9


def machine(**stores):
    """Four nodes of four devices at 10 GB/s each; latencies of links are 0."""
    text = {
        "name": "small",
        "device": {"peak": {"bf16": "1 TFLOP/s"}, "memory_bandwidth": "1 TB/s", "memory": "80 GB"},
        "network": [
            {"topology": "switch", "size": 4, "bandwidth": "100 GB/s"},
            {"topology": "switch", "size": 4, "bandwidth": "10 GB/s"},
        ],
        "storage": stores,
    }
    return parse_machine(text, "small")


def remote(**more):
    return {"kind": "remote", "nodes": [3], "bandwidth": "4 GB/s", "latency": "100 ms"} | more


def each(ranks, size=GB, *, store="remote", write=True, times=1):
    """Ranks that do nothing but write (or read) so often, one operation after another."""
    kind = ck.NodeType.MEM_STORE_NODE if write else ck.NodeType.MEM_LOAD_NODE
    t, last = ck.TraceBuilder(), []
    for _ in range(times):
        last = [t.node("save", kind, tensor_size=size, storage=store, deps=last)]
    return ck.TraceSet([t.build()], {r: ck.Binding(0) for r in range(ranks)})


def seconds(done):
    return [rank.finish_ns / 1e9 for rank in done.summary.ranks]


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("flight", [1, 2, 3, 6, 0])
def test_n_clients_at_one_server_with_k_operations_in_flight(flight, fold):
    """Of n operations of B bytes, k at a time take latency + k·B/bandwidth; the next k follow."""
    made = machine(remote=remote(operations=flight))
    done = simulate(each(6), made, options=SimulationOptions(fold=fold))
    k = flight or 6
    ends = [(1 + i // k) * (0.1 + k * 1 / 4) for i in range(6)]
    assert seconds(done) == pytest.approx(ends)
    (use,) = done.summary.storage
    assert (use.store, use.server, use.operations) == ("remote", 0, 6)
    assert (use.written_bytes, use.read_bytes) == (6 * GB, 0)
    assert use.busy_ns == pytest.approx(ends[-1] * 1e9)
    waits = [i // k * (0.1 + k / 4) * 1e9 for i in range(6)]
    assert use.wait_ns == pytest.approx(sum(waits))
    assert use.longest_wait_ns == pytest.approx(waits[-1])
    assert (use.most_in_flight, use.longest_queue) == (k, 6 - k)


def test_the_narrower_of_network_and_server_counts():
    """A fast server behind a port of 10 GB/s on each rail: ranks of one node write on four rails."""
    made = machine(remote=remote(bandwidth="100 GB/s", latency=0))
    assert max(seconds(simulate(each(4), made))) == pytest.approx(1 / 10)
    assert max(seconds(simulate(each(8), made))) == pytest.approx(2 / 10)


def test_reads_have_a_bandwidth_of_their_own_and_more_servers_share_the_work():
    made = machine(remote=remote(nodes=[2, 3], read_bandwidth="8 GB/s", latency=0))
    done = simulate(each(8, write=False), made)
    assert seconds(done) == pytest.approx([4 / 8] * 8)
    assert [use.read_bytes for use in done.summary.storage] == [4 * GB, 4 * GB]


def test_local_disks_and_peer_memory_are_tiers_beside_the_remote_store():
    """Four ranks of a node share its disk; the next node's memory is reached over four rails."""
    made = machine(
        disk={"kind": "local", "bandwidth": "2 GB/s"},
        peers={"kind": "peer", "bandwidth": "200 GB/s"},
        remote=remote(),
    )
    assert seconds(simulate(each(8, store="disk"), made)) == pytest.approx([4 / 2] * 8)
    assert seconds(simulate(each(8, store="peers"), made)) == pytest.approx([1 / 10] * 8)
    assert max(seconds(simulate(each(8), made))) == pytest.approx(0.1 + 8 / 4)


@pytest.mark.parametrize("around", [[], [{"topology": "switch", "size": 2, "bandwidth": "9 GB/s"}]])
def test_devices_on_one_switch_share_a_disk_whether_or_not_another_node_stands_beside(around):
    """Four ranks write 1 GB each to a disk of 2 GB/s, which a second node without ranks does not change."""
    disk = {"disk": {"kind": "local", "bandwidth": "2 GB/s"}}
    level = {"topology": "switch", "size": 4, "bandwidth": "100 GB/s"}
    made = parse_machine({"network": [level, *around], "storage": disk}, "small")
    done = simulate(each(4, store="disk"), made)
    assert seconds(done) == pytest.approx([4 / 2] * 4)
    assert [(use.server, use.operations) for use in done.summary.storage] == [(0, 4)]


@pytest.mark.parametrize(("more", "between"), [({}, False), ({"nodes": 2}, True)])
def test_only_what_passes_between_nodes_is_called_modelled(more, between):
    sender, receiver = ck.TraceBuilder(), ck.TraceBuilder()
    sender.send("out", 0, 1, GB)
    receiver.recv("in", 0, 1, GB)
    text = {"network": [{"topology": "switch", "size": 2, "bandwidth": "10 GB/s"}], **more}
    done = simulate(ck.TraceSet([sender.build(), receiver.build()]), parse_machine(text, "small"))
    assert done.summary.modelled == between


def test_storage_and_collectives_share_the_network():
    """Rank 0 writes while rank 4 sends it nothing: their transfers out of one port halve each other."""
    made = machine(remote=remote(bandwidth="100 GB/s", latency=0))
    sender, receiver = ck.TraceBuilder(), ck.TraceBuilder()
    sender.node("save", ck.NodeType.MEM_STORE_NODE, tensor_size=GB, storage="remote")
    sender.send("out", 0, 1, GB)
    receiver.recv("in", 0, 1, GB)
    placed = SimulationOptions(placement=(0, 4))
    done = simulate(ck.TraceSet([sender.build(), receiver.build()]), made, options=placed)
    assert seconds(done) == pytest.approx([2 / 10, 2 / 10])


def test_jobs_share_servers():
    from chakrakit.simulator.results import simulate_jobs

    made = machine(remote=remote(latency=0))
    done = simulate_jobs({"a": each(4), "b": each(4)}, made)
    assert [job.alone_ns for job in done.summary.jobs] == pytest.approx([1e9, 1e9])
    assert [job.slowdown for job in done.summary.jobs] == pytest.approx([2, 2])
    alone = simulate_jobs(
        {"a": each(4), "b": each(4, store="disk")},
        machine(disk={"kind": "local", "bandwidth": "2 GB/s"}, remote=remote(latency=0)),
    )
    assert [job.slowdown for job in alone.summary.jobs] == [1, 1]


def test_a_full_queue_waits_or_is_refused():
    waits = machine(remote=remote(operations=1, queue=2))
    assert simulate(each(6), waits).summary.storage[0].longest_queue == 5
    refuses = machine(remote=remote(operations=1, queue=2, when_full="refuse"))
    with pytest.raises(TraceError, match="5 operations wait at server 0 of 'remote', whose queue"):
        simulate(each(6), refuses)


def test_a_store_that_is_too_small_or_not_there_is_refused():
    with pytest.raises(ConfigError, match="holds 3,000,000,000"):
        simulate(each(4), machine(remote=remote(capacity="3 GB")))
    with pytest.raises(ConfigError, match="uses the store 'remote', and small has no storage"):
        simulate(each(1), machine())
    with pytest.raises(ConfigError, match="uses the store 'remot'; small has none of that name"):
        simulate(each(1, store="remot"), machine(remote=remote()))
    with pytest.raises(ConfigError, match="device 12 is in node 3, which is a storage server"):
        simulate(each(13), machine(remote=remote()))
    with pytest.raises(TraceError, match="tensor_size is 0"):
        simulate(each(1, size=0), machine(remote=remote()))


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ({"kind": "remote", "bandwidth": "1 GB/s"}, "only for that kind"),
        ({"kind": "local", "bandwidth": "1 GB/s", "nodes": [1]}, "only for that kind"),
        (remote(nodes=[4]), "not in 0 … 3"),
        (remote(nodes=[0, 1, 2, 3]), "all 4 nodes are servers"),
        (remote(operations=-1), "operations: -1"),
        (remote(queue=4), "set `operations` too"),
        (remote(bandwidth=0), "bandwidth"),
        ({"kind": "peer", "bandwidth": "1 GB/s", "distance": 4}, "distance: 4"),
        (remote(rate="1 GB/s"), "rate"),
    ],
)
def test_a_store_that_cannot_be_is_refused(store, said):
    with pytest.raises(ConfigError, match=said):
        machine(remote=store)


def test_measured_times_need_no_store():
    t = ck.TraceBuilder()
    t.node(
        "save",
        ck.NodeType.MEM_STORE_NODE,
        tensor_size=GB,
        storage="remote",
        start_ns=1,
        duration_ns=5000,
    )
    options = SimulationOptions(communication="measured")
    done = simulate(ck.TraceSet([t.build()]), None, compute="measured", options=options)
    assert done.makespan_ns == 5000
