"""What is to be replayed: a path, and of what is there one step."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.replayer.recording import load_traces, one_step
from support.recorded import ADD, Sheet, tensor
from support.replayed import ONE


def steps(*numbers):
    t = ck.TraceBuilder()
    for number in numbers:
        t.comp(f"in {number}", **({} if number is None else {"step": number}))
    return ck.TraceSet([t.build()])


def names(traces, step):
    return one_step(traces, step)[0].names.to_pylist()


def test_the_last_of_several_steps_or_the_one_asked_for():
    traces = steps(3, 3, 4)
    assert names(traces, -1) == ["in 4"]
    assert names(traces, 3) == ["in 3", "in 3"]


def test_all_rows_where_fewer_than_two_steps_are_marked():
    assert names(steps(None, None), -1) == ["in None", "in None"]
    assert names(steps(3, None), -1) == ["in 3", "in None"]


def test_a_step_that_is_not_there_and_a_rank_of_nothing():
    with pytest.raises(ConfigError, match="--step 9: no such step of rank 0"):
        one_step(steps(3, 4), 9)
    with pytest.raises(TraceError, match="rank 0 has no nodes"):
        one_step(ck.TraceSet([ck.TraceBuilder().build()]), -1)


def test_files_of_the_profiler_are_linked_and_all_else_is_read(tmp_path):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(2, 4)])
    (tmp_path / "recorded").mkdir()
    file = sheet.write(tmp_path / "recorded" / "et_0.json")
    for path in (file, file.parent):
        assert "aten::add" in load_traces(str(path)).trace(0).names.to_pylist()
    ck.write(steps(1), tmp_path / "written")
    assert load_traces(str(tmp_path / "written")).trace(0).names.to_pylist() == ["in 1"]


def test_a_run_s_own_times_are_in_the_nodes():
    traces = steps(1)
    times = [ck.Times(np.array([5_000]), np.array([9_000]))]
    run = ck.Run(traces.bodies, traces.bindings, card=ck.Card(tick_ps=1), times=times)
    found = one_step(run, -1)[0]
    assert (found.start_ns.tolist(), found.duration_ns.tolist()) == ([5], [4])
