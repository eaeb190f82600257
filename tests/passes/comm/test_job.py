"""Which calls an action is for, what is noted about them, and what a set becomes."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit
from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.passes.comm import Comm
from chakrakit.passes.comm.job import CallFilter, CommJob
from support.comm_cases import alike, case, gradients, values_of

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


def test_recorded_numbers_make_room_and_stay_in_step():
    t = gradients([2500, 300, 300])
    numbered = t.build().with_columns({"comm_seq": [None, 7, None, 8, None, 9, None]})
    out = (
        TraceSet([numbered], {r: Binding(0) for r in range(2)}) | Comm("bucket", size=1000)
    ).body(0)
    seqs = {n: v[0] for n, v in values_of(out, "comm_seq").items() if n.startswith("g")}
    assert seqs == {"g0 [1/3]": 7, "g0 [2/3]": 8, "g0 [3/3]": 9, "g2 [+1]": 11}


def test_a_folded_set_of_many_ranks_costs_what_its_bodies_cost():
    t = gradients([400] * 6)
    traces = TraceSet(
        [t.build()], {r: Binding(0, {"": "g"}) for r in range(20_000)}, Groups({"g": range(20_000)})
    )
    out = traces | Comm("bucket", size=1000)
    assert out.body_count == 1
    assert np.count_nonzero(out.body(0).types == 7) == 3


def test_a_run_gives_traces_to_be_timed_again(tmp_path):
    out = case("cnn_ddp_2")[0] | Comm("split", parts=2)
    assert type(out) is TraceSet
    chakrakit.write(out, tmp_path / "out")
    assert chakrakit.validate(tmp_path / "out").ok


def test_groups_types_phases_and_sizes_choose():
    traces, _, _ = case("dp-tp-pp")
    change = Comm("split", parts=2, groups=("dp",), min_size="100 MB")
    before, after = traces.body_at(0), (traces | change).body_at(0)
    chosen = (before.column("pg_name", "") == "dp") & (before.column("comm_size", 0) >= 1e8)
    assert 0 < chosen.sum() < (before.types >= 5).sum()
    assert len(after) == len(before) + chosen.sum()


def test_a_group_is_known_by_its_own_name_too():
    traces, _, _ = case("ddp")
    name = next(iter(traces.groups))
    role = next(iter(traces.bindings[0].groups))
    out = [traces | Comm("split", parts=2, groups=(g,)) for g in (name, role)]
    assert out[0].body(0).table.equals(out[1].body(0).table)


def test_a_group_that_nobody_uses_is_refused():
    with pytest.raises(ConfigError, match="no 'nobody' communicates"):
        case("ddp")[0] | Comm("serialize", groups=("nobody",))


def test_what_an_action_cannot_be_done_to_is_named():
    traces = alike(gradients([400]))
    with pytest.raises(ConfigError, match="types: this cannot be done to message; only to all-red"):
        list(CommJob(traces, CallFilter(types=("message",))).selected_calls(("all-reduce",)))
    with pytest.raises(ConfigError, match="types: no 'all-reuce'; did you mean 'all-reduce'"):
        CallFilter(types=("all-reuce",))


def test_calls_that_say_no_bytes_are_chosen_only_where_bytes_do_not_matter():
    t = TraceBuilder()
    t.collective("told", AR, 100)
    t.collective("untold", AR, 0)
    job = CommJob(alike(t), CallFilter())
    [(_, sized)] = job.selected_calls(("all-reduce",))
    assert sized.tolist() == [0]
    assert {body: rows.tolist() for body, rows in job.rows(("all-reduce",)).items()} == {0: [0, 1]}
