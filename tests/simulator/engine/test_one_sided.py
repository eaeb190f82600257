"""Puts and gets: memory of other ranks that is written and read without them."""

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet


def machine(**level):
    """Ports of 1 GB/s on a switch, 1 µs from end to end."""
    network = {"topology": "switch", "size": 4, "bandwidth": "1 GB/s", "latency": "500 ns", **level}
    return ck.machine({"device": {"name": "d"}, "network": [network]})


def simulated(builders, **level):
    return ck.simulate(TraceSet.of(builders), machine(**level), allow_empty=True)


def idle():
    t = TraceBuilder()
    t.comp("idle", duration_ns=1)
    return t


def test_a_put_takes_its_bytes_and_nothing_of_its_target():
    t = TraceBuilder()
    t.put("out", 1, 1_000_000, "w")
    done = simulated([t, idle()])
    assert [r.finish_ns for r in done.summary.ranks] == pytest.approx([1_001_000, 1])
    (put,) = done.summary.collectives
    assert (put.collective, put.size) == ("put", 1_000_000)


def test_a_get_asks_first_and_then_takes_its_bytes():
    t = TraceBuilder()
    t.get("in", 1, 1_000_000, "w")
    done = simulated([t, idle()])
    assert [r.finish_ns for r in done.summary.ranks] == pytest.approx([1_002_000, 1])


def test_a_get_uses_the_links_the_other_way():
    reader, writer = TraceBuilder(), TraceBuilder()
    reader.get("in", 1, 1_000_000, "w")
    writer.put("out", 0, 1_000_000, "w")  # the same port of rank 1, twice as long for both
    done = simulated([reader, writer])
    # The put goes alone until the request has come.
    assert [r.finish_ns for r in done.summary.ranks] == pytest.approx([2_001_000, 2_000_000])


def test_puts_to_one_rank_share_its_port():
    builders = [idle()]
    for _ in range(3):
        t = TraceBuilder()
        t.put("out", 0, 1_000_000, "w")
        builders.append(t)
    assert simulated(builders).makespan_ns == pytest.approx(3_001_000)


def test_after_a_fence_everything_is_there():
    first, second = TraceBuilder(), TraceBuilder()
    first.put("out", 1, 1_000_000, "w")
    first.put("elsewhere", 1, 5_000_000, "other")
    first.fence("w")
    second.comp("use", duration_ns=10, deps=[second.fence("w")])
    run = simulated([first, second]).run()
    use = next(n for n in run.trace(1) if n.name == "use")
    start = run.start(1)[1] * 1e-3
    assert use.name == "use"
    assert 1_001_000 <= start < 3_000_000


def test_a_put_is_a_message_at_its_ports():
    t = TraceBuilder()
    t.put("out", 1, 1000, "w")
    plain, dear = (
        simulated([t, idle()], **m).makespan_ns for m in ({}, {"messages": {"gap": "5 us"}})
    )
    assert dear - plain == pytest.approx(5000)


def test_ranks_alike_put_to_their_own_peers():
    t = TraceBuilder()
    t.put("out", 1, 1_000_000, "w")
    peers = {r: ck.Binding(0, peers={1: (r + 1) % 4}) for r in range(4)}
    done = ck.simulate(TraceSet([t.build()], peers), machine())
    assert done.makespan_ns == pytest.approx(1_001_000)


def test_a_window_without_a_rank_and_a_rank_that_is_not_there_are_refused():
    t = TraceBuilder()
    with pytest.raises(TraceError, match="window"):
        t.put("out", 1, 10, "")
    t.put("out", 7, 10, "w")
    with pytest.raises(TraceError, match="rank 7"):
        simulated([t, idle()])
    alone = TraceBuilder()
    alone.put("out", 0, 10, "w")
    with pytest.raises(TraceError, match="another rank"):
        simulated([alone, idle()])


def test_several_messages_of_unequal_sizes_pay_at_their_ports():
    senders = [TraceBuilder() for _ in range(2)]
    for rank, t in enumerate(senders):
        for tag, size in enumerate((1000, 5000)):
            t.send("s", rank, 2 + rank, size, tag=tag)
    receivers = [TraceBuilder() for _ in range(2)]
    for rank, t in enumerate(receivers):
        for tag, size in enumerate((1000, 5000)):
            t.recv("r", rank, 2 + rank, size, tag=tag)
    done = simulated([*senders, *receivers], messages={"gap": "2 us"})
    assert done.summary.ports.messages == 4
    assert done.makespan_ns == pytest.approx(1000 + 6000 + 2 * 2000)
