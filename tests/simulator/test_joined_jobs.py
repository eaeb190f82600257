"""Several jobs as one set of traces: ranks one job after another, groups and peers each job's own."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.simulator.results.jobs import join_jobs
from support.simulated import training


def test_ranks_groups_and_peers_are_numbered_on():
    joined = join_jobs({"a": training(2), "b": training(3, world=False)})
    assert joined.first == (0, 2)
    assert joined.traces.ranks == (0, 1, 2, 3, 4)
    assert joined.traces.groups["a/"] == (0, 1)
    assert joined.traces.groups["b/all"] == (2, 3, 4)
    last = joined.traces.bindings[
        4
    ]  # rank 2 of job b, which sends to its rank 0 and receives from 1
    assert last.groups["all"] == "b/all"
    assert {peer: last.peers[peer] for peer in (0, 1)} == {0: 2, 1: 3}


def test_a_job_gets_its_own_part_of_a_run_under_its_own_rank_numbers():
    """Rank 0 of the second job is rank 2 of all; its last row waited for rank 3, the job's rank 1."""
    joined = join_jobs({"a": training(2), "b": training(2)})
    rows = len(joined.traces.trace(0))
    waited = np.array([-1] * (rows - 1) + [3], np.int32)
    times = [
        ck.Times(np.full(rows, 10 * r), np.full(rows, 10 * r + 1), binding_rank=waited)
        for r in range(4)
    ]
    traces = joined.traces
    run = ck.Run(traces.bodies, traces.bindings, traces.groups, times=times)
    own = joined.run_of(run, 1)
    assert own.ranks == (0, 1)
    assert own.card.name == "b"
    assert own.card.settings["jobs"] == ["a", "b"]
    assert [int(own.start(r)[0]) for r in own.ranks] == [20, 30]
    assert own.times_of(0).binding_rank.tolist() == [-1] * (rows - 1) + [1]


def test_a_job_without_all_its_ranks_is_refused():
    part = ck.TraceSet([training(2).trace(0)], {1: ck.Binding(0)})
    with pytest.raises(ConfigError, match="job 'a' lacks ranks"):
        join_jobs({"a": part})
