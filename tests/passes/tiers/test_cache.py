"""A trace whose reads go through a cache: what is read again, where hits go, what is written back."""

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.passes import Cache
from chakrakit.passes.base import parse
from chakrakit.trace.model import NodeType, TraceBuilder
from chakrakit.trace.sets import TraceSet

MACHINE = {
    "device": {"peak": {"bf16": 1e12}, "memory_bandwidth": 1e12},
    "network": [{"topology": "switch", "size": 1, "bandwidth": 1e9}],
    "storage": {
        "nvme": {"kind": "local", "bandwidth": "1 GB/s"},
        "host": {"kind": "local", "bandwidth": "10 GB/s"},
    },
}
LOAD, STORE = NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE


def uses(*names, kind=LOAD):
    t, last = TraceBuilder(), []
    for name in names:
        which = STORE if name.isupper() else kind
        last = [
            t.node(name, which, storage="nvme", tensor=name.lower(), tensor_size=1000, deps=last)
        ]
    return TraceSet.of(t)


def bytes_by_tier(traces):
    summary = ck.simulate(traces, ck.machine(MACHINE)).summary
    return {t.tier: (t.read_bytes, t.written_bytes) for t in summary.tiers}


def test_what_is_still_held_is_not_read_again():
    traces = uses("a", "b", "a", "c", "b")
    assert bytes_by_tier(traces)["nvme"] == (5000, 0)
    assert bytes_by_tier(traces | Cache(tier="nvme", capacity=2000))["nvme"] == (4000, 0)
    best = traces | Cache(tier="nvme", capacity=2000, policy="belady")
    assert bytes_by_tier(best)["nvme"] == (3000, 0)


def test_hits_go_to_the_nearer_store():
    cached = uses("a", "a", "a") | Cache(tier="nvme", capacity=1000, near="host")
    assert bytes_by_tier(cached) == {"device": (0, 3000), "nvme": (1000, 0), "host": (2000, 0)}


def test_changes_are_written_back_when_they_leave():
    cached = uses("A", "b", "a") | Cache(tier="nvme", capacity=1000, near="host")
    assert bytes_by_tier(cached)["nvme"] == (2000, 1000)
    assert [n.name for n in cached.trace(0)][-1] == "write back a"


def test_explain_says_what_is_saved():
    traces = uses("a", "a")
    p = Cache(tier="nvme", capacity=1000)
    told = p.explain(traces, traces | p)
    assert told["before"]["read_bytes"] == 2000
    assert told["after"]["read_bytes"] == 1000


def test_reads_smaller_than_a_page_are_amplified():
    t = TraceBuilder()
    t.node("gather", LOAD, storage="nvme", tensor_size=1000, pieces=10)
    paged = {**MACHINE, "storage": {"nvme": {**MACHINE["storage"]["nvme"], "page": "4 KiB"}}}
    summary = ck.simulate(TraceSet.of(t), ck.machine(paged)).summary
    assert summary.storage[0].read_bytes == 10 * 4096


def test_a_cache_is_read_from_text_as_from_python():
    spec = "cache{tier=nvme, capacity=1000, policy=belady, near=host}"
    assert parse(spec) == Cache(tier="nvme", capacity=1000, policy="belady", near="host")
    for bad in ("mru", "7"):
        with pytest.raises(ConfigError, match=f"no policy '?{bad}'?"):
            parse(spec.replace("belady", bad))


@pytest.mark.parametrize("bad", [{}, {"tier": "nvme"}, {"tier": "nvme", "capacity": -1}])
def test_a_cache_needs_a_store_and_a_size(bad):
    with pytest.raises(ConfigError, match="tier"):
        Cache(**bad)


def test_a_cache_that_nothing_goes_through_is_refused():
    with pytest.raises(ConfigError, match=r"'host' names its tensor.*stores that are used: nvme"):
        Cache(tier="host", capacity=1000).apply(uses("a"))
