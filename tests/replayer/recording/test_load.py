"""What is to be replayed: a linked run, or PyTorch's own files, and of those one step."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.replayer.recording import load_traces, one_step
from support.recorded import ADD, Sheet, plain, tensor


@pytest.fixture
def recorded(tmp_path):
    sheet = Sheet()
    given = [tensor(1, 4), tensor(1, 4), plain(1, "Int")]
    sheet.op("aten::add", ADD, given, [tensor(2, 4)])
    return sheet.write(tmp_path / "et_0.json")


def test_files_of_the_profiler_are_linked_first(recorded):
    assert load_traces(str(recorded)).trace(0).names.to_pylist() == ["aten::add"]
    assert load_traces(str(recorded.parent)).trace(0).names.to_pylist() == ["aten::add"]


def test_a_trace_is_read_as_it_is(recorded, tmp_path):
    ck.write(load_traces(str(recorded)), tmp_path / "run")
    assert load_traces(str(tmp_path / "run")).trace(0).names.to_pylist() == ["aten::add"]


def steps(*numbers):
    columns = {"name": [f"s{n}" for n in numbers], "step": list(numbers)}
    return ck.TraceSet([ck.Trace.from_columns(columns)])


@pytest.mark.parametrize(("wanted", "names"), [(-1, ["s5", "s5"]), (3, ["s3"])])
def test_one_step_is_taken_and_by_default_the_last(wanted, names):
    assert one_step(steps(3, 5, 5), wanted)[0].names.to_pylist() == names


def test_where_no_steps_are_marked_all_is_one():
    traces = ck.TraceSet([ck.Trace.from_columns({"name": ["a", "b"]})])
    assert len(one_step(traces, -1)[0]) == 2


def test_a_step_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"--step 4: no such step of rank 0; .*3"):
        one_step(steps(3, 5), 4)
    with pytest.raises(TraceError, match="rank 0 has no nodes"):
        one_step(ck.TraceSet([ck.Trace.from_columns({"name": []})]), -1)


def test_a_run_s_own_times_are_in_the_nodes():
    traces = steps(1)
    times = [ck.Times(np.array([5_000]), np.array([9_000]))]
    run = ck.Run(traces.bodies, traces.bindings, card=ck.Card(tick_ps=1), times=times)
    found = one_step(run, -1)[0]
    assert (found.start_ns.tolist(), found.duration_ns.tolist()) == ([5], [4])
