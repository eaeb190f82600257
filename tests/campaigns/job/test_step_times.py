"""How long a step takes: given, of a Run, or simulated; and with fewer nodes."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.campaigns import campaign, read_job
from chakrakit.errors import ConfigError
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named


def test_a_simulated_workload_gives_the_step_and_the_smaller_jobs(job):
    """One of two replicas is left: its step has half the batch, so the work takes about twice as long."""
    workload = (
        "{model: {family: decoder, layers: 2, hidden: 256, heads: 4, ffn: 512, vocab: 1000}, "
        "plan: {dp: 2, tp: 2}, step: {seq: 128, global_batch: 4}}"
    )
    made = job(
        step_seconds=None,
        workload=workload,
        machine="dgx-a100:1",
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
        machine="dgx-a100:1",
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


SMALL = "{model: gpt3-125m, plan: {dp: 16}, step: {seq: 64, global_batch: 16}}"


@pytest.mark.parametrize(
    ("machine", "nodes", "answer"),
    [
        ("dgx-h100:2", 2, ""),
        ("dgx-h100:2", 4, "cluster.nodes is 4, and the workload's 16 ranks are on 2 of dgx-h100"),
        ("dgx-h100:2", 40, "cluster.nodes is 40, .* 8 devices each; give `nodes: 2`"),
        ("dgx-a100:2", 40, "cluster.nodes is 40"),
        ("gb200-nvl72", 4, ""),  # a rack of 72, whose trays have 4: nobody says which is a node
    ],
)
def test_nodes_are_those_that_the_workload_fills(job_file, machine, nodes, answer) -> None:
    """Failures are of the job's nodes, energy and price of the machine's: they are the same nodes."""
    lines = {"workload": SMALL, "machine": machine, "cluster": f"{{nodes: {nodes}}}"}
    path = job_file(step_seconds=None, **lines)
    if answer:
        with pytest.raises(ConfigError, match=f"job.yaml:[0-9]+: {answer}"):
            read_job(path)
    else:
        made = read_job(path)
        assert made.plan.nodes == nodes
        told = [note for note in made.notes if note.startswith("nodes of")]
        assert told == (
            ["nodes of 4 devices, of gb200-nvl72's 72 side by side"] if nodes == 4 else []
        )


def test_energy_is_that_of_the_step_with_servers_and_building(job) -> None:
    """Without failures a campaign takes what its steps take; a pue of the job goes before the machine's."""
    lines = {"workload": SMALL, "cluster": "{nodes: 2}", "failures": None, "checkpoint": None}
    made = job(step_seconds=None, machine="dgx-h100:2", **lines)
    workload = Workload(
        model=model_named("gpt3-125m"), plan=Plan(dp=16), step=Step(seq=64, global_batch=16)
    )
    step = simulate(generate(workload), "dgx-h100:2").summary
    kwh = 8640 * step.facility_joules / 3.6e6
    assert campaign(made, histories=1).energy_kwh == pytest.approx(kwh)
    assert "energy is with dgx-h100's servers, and the building by a pue of 1.3" in made.notes
    cooler = job(step_seconds=None, machine="dgx-h100:2", costs="{pue: 1.1}", **lines)
    assert campaign(cooler, histories=1).energy_kwh == pytest.approx(kwh * 1.1 / 1.3)
    without = job(step_seconds=None, machine="dgx-a100:2", **lines)
    assert any(note.startswith("energy is of the devices alone") for note in without.notes)
