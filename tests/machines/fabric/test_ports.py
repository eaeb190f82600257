"""What messages cost at ports, against LogGP by hand."""

from dataclasses import replace

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, simulate
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine, parse_machine
from chakrakit.machines.fabric import MessageCost

GB = 10**9
US = 1e-6


def switch(n, **messages):
    level = {"topology": "switch", "size": n, "bandwidth": "10 GB/s", "latency": "1 us"}
    return parse_machine({"network": [level | ({"messages": messages} if messages else {})]}, "m")


def exchange(n, size, algorithm="direct"):
    t = TraceBuilder()
    t.collective("x", CollectiveType.ALL_TO_ALL, size, comm_algorithm=algorithm)
    groups = Groups({"": range(n)})
    return TraceSet([t.build()], {r: Binding(0) for r in range(n)}, groups)


def seconds(traces, machine, **options):
    return simulate(traces, machine, **options).summary.makespan_ns * 1e-9


def test_a_message_costs_its_overhead_once_and_its_gap_at_the_port():
    """Two links of latency, then the bytes; overhead and gap on top, however small the message."""
    t = [TraceBuilder(), TraceBuilder()]
    t[0].send("s", 0, 1, 10_000)
    t[1].recv("r", 0, 1, 10_000)
    traces = TraceSet([b.build() for b in t], None, Groups({"": range(2)}))
    plain = seconds(traces, switch(2))
    assert plain == pytest.approx(2 * US + 1 * US)
    assert seconds(traces, switch(2, overhead="3 us", gap="2 us")) == pytest.approx(plain + 5 * US)
    # Four messages of 2,500 bytes, the last of which leaves after four gaps.
    cut = switch(2, gap="2 us", size=2_500)
    assert seconds(traces, cut) == pytest.approx(plain + 8 * US)


def test_a_flat_exchange_pays_a_gap_for_every_peer():
    for n in (4, 16, 64):
        free, priced = (seconds(exchange(n, n * 100), switch(n, gap=g)) for g in (0, "1 us"))
        assert priced - free == pytest.approx((n - 1) * US, rel=1e-6)


def test_queue_pairs_cost_beyond_what_the_port_keeps():
    """With 15 peers and 5 queue pairs two thirds of the messages fetch theirs."""
    n, size = 16, 1600
    few = switch(n, gap="1 us", queue_pairs=5, queue_pair_gap="3 us")
    assert seconds(exchange(n, size), few) - seconds(exchange(n, size), switch(n)) == pytest.approx(
        15 * (1 + 3 * 2 / 3) * US, rel=1e-6
    )
    # One peer at a time never has to.
    pairwise = [seconds(exchange(n, size, "pairwise"), m) for m in (few, switch(n, gap="1 us"))]
    assert pairwise[0] == pytest.approx(pairwise[1])


def test_the_summary_says_what_messages_cost():
    found = simulate(exchange(4, 400), switch(4, gap="1 us")).summary.ports
    assert found is not None
    assert (found.messages, found.port_ns, found.busiest_ns) == (12, 12_000, 3_000)
    assert found.busiest == "device 0 → switch 0.0"
    assert simulate(exchange(4, 400), switch(4)).summary.ports is None


def test_a_hierarchical_exchange_overtakes_a_flat_one_when_messages_cost():
    """Eight nodes of four, small pieces: 28 messages between nodes against 7 that carry as much."""
    levels = [
        {"topology": "switch", "size": 4, "bandwidth": "100 GB/s", "latency": "1 us"},
        {"topology": "switch", "size": 8, "bandwidth": "10 GB/s", "latency": "1 us"},
    ]
    n, size = 32, 32 * 256
    t = TraceBuilder()
    first = t.collective("in", CollectiveType.ALL_TO_ALL, size, pg_name="in")
    t.collective("out", CollectiveType.ALL_TO_ALL, size, pg_name="out", deps=[first])
    groups = {f"in{i}": range(4 * i, 4 * i + 4) for i in range(8)}
    groups |= {f"out{i}": range(i, n, 4) for i in range(4)}
    bindings = {r: Binding(0, {"in": f"in{r // 4}", "out": f"out{r % 4}"}) for r in range(n)}
    hierarchical = TraceSet([t.build()], bindings, Groups(groups))
    for messages, flat_wins in (({}, True), ({"messages": {"gap": "1 us"}}, False)):
        machine = parse_machine({"network": [levels[0], levels[1] | messages]}, "m")
        took = [seconds(x, machine) for x in (exchange(n, size), hierarchical)]
        assert (took[0] < took[1]) == flat_wins


def test_a_communication_library_contains_what_messages_cost():
    preset = load_machine("dgx-h100:2")
    assert preset.library is not None
    dear = replace(
        preset,
        dimensions=tuple(replace(d, messages=MessageCost(gap=1e-3)) for d in preset.dimensions),
    )
    assert seconds(exchange(16, GB), dear) == seconds(exchange(16, GB), preset)


def test_messages_are_counted_whole():
    assert MessageCost(size=100).messages(np.array([0, 1, 100, 101])).tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ({"queue_pairs": -1, "queue_pair_gap": "1 us"}, "queue_pairs: -1 is below 0"),
        ({"queue_pairs": 8}, "give queue_pairs and queue_pair_gap together"),
        ({"gap": "1 GB"}, "gap"),
    ],
)
def test_costs_that_cannot_be_are_refused(messages, text):
    with pytest.raises(ConfigError, match=text):
        switch(4, **messages)
