"""How long a step takes: given, of a Run, or simulated; and with fewer nodes."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.campaigns import read_job
from chakrakit.errors import ConfigError


def test_a_simulated_workload_gives_the_step_and_the_smaller_jobs(job):
    """One of two replicas is left: its step has half the batch, so the work takes about twice as long."""
    workload = (
        "{model: {family: decoder, layers: 2, hidden: 256, heads: 4, ffn: 512, vocab: 1000}, "
        "plan: {dp: 2, tp: 2}, step: {seq: 128, global_batch: 4}}"
    )
    made = job(
        step_seconds=None,
        workload=workload,
        machine="dgx-h100:1",
        cluster="{nodes: 2}",
        recovery="elastic",
    )
    plan = made.plan
    assert made.tokens_per_step == 512
    assert plan.replica_nodes == 1
    assert 1.2 < plan.step_with(1) / plan.step_seconds < 2.1


def test_a_workload_of_one_replica_cannot_shrink(job_file):
    workload = (
        "{model: {family: decoder, layers: 2, hidden: 256, heads: 4, ffn: 512, vocab: 1000}, "
        "plan: {dp: 1, tp: 4}, step: {seq: 128, global_batch: 4}}"
    )
    path = job_file(
        step_seconds=None,
        workload=workload,
        machine="dgx-h100:1",
        cluster="{nodes: 2}",
        recovery="elastic",
    )
    with pytest.raises(ConfigError, match="the plan cannot shrink"):
        read_job(path)


def test_a_step_that_is_given(job):
    made = job()
    assert made.plan.step_seconds == 10
    assert made.tokens_per_step is None


def test_the_step_of_a_run_is_its_own(job, tmp_path):
    t = ck.TraceBuilder()
    t.comp("w", start_ns=1, duration_ns=2_000_000_000)
    ck.write(ck.Run([t.build()], card=ck.Card(measured={"tokens": 77})), tmp_path / "run")
    made = job(step_seconds=None, run="run")
    assert made.plan.step_seconds == 2
    assert made.tokens_per_step == 77
    assert made.notes[0].startswith("a step of 2 s, from run")


def test_a_run_that_takes_no_time_has_no_step(job_file, tmp_path):
    t = ck.TraceBuilder()
    t.comp("w", start_ns=1, duration_ns=0)
    ck.write(ck.Run([t.build()]), tmp_path / "run")
    with pytest.raises(ConfigError, match="its step takes no time"):
        read_job(job_file(step_seconds=None, run="run"))
