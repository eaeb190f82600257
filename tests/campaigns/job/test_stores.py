"""Checkpoints given by size: how long a store takes to write and to read them."""

from __future__ import annotations

import pytest

from chakrakit.campaigns.job import CheckpointStore, timed
from chakrakit.campaigns.job_text import CheckpointStoreText
from chakrakit.errors import ConfigError


def test_a_size_and_a_store_give_the_seconds(job):
    """640 GB from 16 nodes: the nodes' links, the servers or requests in flight set the pace."""
    store = "{far: {bandwidth: 100 GB/s, node_bandwidth: 2 GB/s%s}}"
    checkpoint = "{interval_steps: 10, bytes: 640 GB}"
    assert job(checkpoint=checkpoint, stores=store % "").plan.tiers[0].stalls == (20.0,)
    slots = store % ", operations: 128, operation_bytes: 1 MB, latency_seconds: 0.0128"
    assert job(checkpoint=checkpoint, stores=slots).plan.tiers[0].stalls == (64.0,)


def store(name="far", nodes=4, **fields):
    return CheckpointStore(name, CheckpointStoreText(**fields), nodes)


def test_the_lowest_of_three_limits_is_the_pace():
    assert store(bandwidth="10 GB/s").rate == 10e9
    assert store(bandwidth="10 GB/s", node_bandwidth="1 GB/s").rate == 4e9
    slots = {"operations": 10, "operation_bytes": "1 MB", "latency_seconds": 0.005}
    assert store(bandwidth="10 GB/s", **slots).rate == 2e9
    assert store(bandwidth="10 GB/s", read_bandwidth="30 GB/s").read_rate == 30e9


def test_sizes_become_seconds_unless_seconds_are_given():
    stores = {"far": store(bandwidth="10 GB/s", read_bandwidth="20 GB/s")}
    sizes = {"bytes": "seconds"}
    policy = {"interval_steps": 5, "bytes": "100 GB"}
    assert timed(policy, stores, sizes) == {
        "interval_steps": 5,
        "seconds": 10.0,
        "restore_seconds": 5.0,
    }
    assert timed({**policy, "seconds": 3}, stores, sizes)["seconds"] == 3
    assert timed({"seconds": 3}, stores, sizes) == {"seconds": 3}


def test_a_store_without_a_size_is_refused():
    with pytest.raises(ConfigError, match="a store needs the checkpoint's size; give `bytes`"):
        timed({"store": "far"}, {}, {"bytes": "seconds"})
    two = {name: store(name, bandwidth="1 GB/s") for name in ("near", "far")}
    with pytest.raises(ConfigError, match="no store None; there are near, far"):
        timed({"bytes": 5}, two, {"bytes": "seconds"})
