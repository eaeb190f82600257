"""What Kineto's file tells of communication when no observer was there."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from chakrakit.sources.pytorch.linking import link
from chakrakit.trace.model import NodeType
from support import paths

DATA = paths.DATA / "pytorch"
TOLD = ("type", "comm_type", "comm_size", "comm_dtype", "comm_src", "comm_dst", "comm_tag")


def told(run, rank):
    trace = run.trace(rank)
    rows = np.flatnonzero(trace.types >= NodeType.COMM_SEND_NODE).tolist()
    return Counter(tuple(trace[r].get(name) for name in TOLD) for r in rows)


@pytest.mark.parametrize("name", ["cnn_ddp_2", "gpt_pp_2", "gpt_fsdp_tp_4"])
def test_the_same_sizes_and_peers_as_with_the_observer(name):
    both, _ = link([DATA / name])
    alone, _ = link(sorted((DATA / name).glob("kineto_*")))
    for rank in both.ranks:
        assert told(alone, rank) == told(both, rank)
        assert sum(told(both, rank).values()) > 0


def test_without_times_a_node_says_what_it_ran_inside():
    run, _ = link([DATA / "cnn_ddp_2" / "et_0.json.gz"])
    trace = run.trace(0)
    names = trace.names.to_pylist()
    row = names.index("aten::addmm")
    assert names[trace.parent[row]] == "aten::linear"
