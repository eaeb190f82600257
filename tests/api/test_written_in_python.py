"""Descriptions that Python writes are as good as files, and NumPy's numbers as good as Python's."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck


def test_a_job_as_a_dictionary_runs_as_its_file_does(tmp_path):
    job = {"step_seconds": np.float64(10), "steps": np.int64(8640), "cluster": {"nodes": 16}}
    (tmp_path / "job.yaml").write_text("{step_seconds: 10, steps: 8640, cluster: {nodes: 16}}")
    assert ck.campaign(job, histories=2).days.mean == 1.0
    assert ck.campaign(job, histories=2) == ck.campaign(tmp_path / "job.yaml", histories=2)


def test_an_error_in_a_dictionary_names_the_field_and_the_nearest_one():
    with pytest.raises(ck.ConfigError, match="no field 'stepz'; did you mean 'steps'"):
        ck.campaign({"step_seconds": 10, "stepz": 3, "cluster": {"nodes": 16}})


def test_a_machine_as_a_dictionary():
    level = {"topology": "switch", "size": np.int64(2), "bandwidth": np.float64(1e9)}
    made = ck.machine({"name": "two", "device": {"memory": np.int64(10**9)}, "network": [level]})
    assert (made.name, made.size, made.devices[0].memory) == ("two", 2, 1e9)
    with pytest.raises(ck.ConfigError, match="either `network`"):
        ck.machine({"device": {"name": "gpu"}})


def test_a_model_is_as_good_as_its_name():
    named = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2)
    described = ck.generate(
        model=ck.models("gpt3-125m"), dp=np.int64(2), seq=np.int32(128), global_batch=2
    )
    assert described.figures == named.figures


def test_numpy_numbers_in_traces_and_simulations():
    t = ck.TraceBuilder()
    gemm = t.comp(
        "gemm", duration_ns=np.int64(1_500), num_ops=np.float64(5), tensor_size=np.int32(7)
    )
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, np.int64(64), deps=[np.int64(gemm)])
    traces = ck.TraceSet.of(t, ranks=np.int64(2))
    assert traces.trace(1)[0].duration_ns == 1_500
    level = {"topology": "switch", "size": 2, "bandwidth": "1 GB/s"}
    done = ck.simulate(
        traces, ck.machine({"network": [level]}), compute="measured", stragglers={np.int64(1): 2}
    )
    assert done.summary.makespan_s == pytest.approx(done.summary.makespan_ns / 1e9)
    assert done.summary.makespan_s > 3e-6
