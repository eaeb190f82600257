"""A job file that is wrong is refused with its line and a cure."""

from __future__ import annotations

import pytest

from chakrakit.campaigns.job import read_job
from chakrakit.campaigns.results import campaign
from chakrakit.errors import ConfigError

WRONG = [
    ({"failures": "{node_mtbf_hours: -5}"}, 6, "node_mtbf_hours"),
    ({"failures": "{node_mtbf_hours: 0}"}, 6, "> 0"),
    ({"failures": "{node_mtbf_hours: .nan}"}, 6, "finite"),
    ({"failures": "{node_mtbf: 5}"}, 6, "did you mean 'node_mtbf_hours'"),
    ({"failures": "{rack_mtbf_hours: 5}"}, 6, "cluster.nodes_per_rack"),
    ({"failures": "{processes: [{name: a}]}"}, 6, "either `mtbf_hours` or `interval_hours`"),
    ({"failures": "{processes: [{interval_hours: [3, 2]}]}"}, 6, "before it begins"),
    ({"failures": "{processes: [{mtbf_hours: 3, slow: {factor: 0.5, hours: 1}}]}"}, 6, "factor"),
    ({"failures": "{log: nothing.csv}"}, 6, "cannot be read"),
    ({"cluster": "{nodes: 0}"}, 6, ">= 1"),
    ({"cluster": "{nodes: 10000000000}"}, 6, "<= 1000000"),
    ({"cluster": "{nodes: 16, spares: -1}"}, 6, "spares"),
    ({"recovery": "hot_spares", "cluster": "{nodes: 16}"}, 5, "needs spare nodes"),
    ({"recovery": "live-migration", "cluster": "{nodes: 16}"}, 5, "needs spare nodes"),
    ({"recovery": "hope"}, 6, "there are restart, hot_spares"),
    ({"recovery": "{policy: restart, restart_seconds: -1}"}, 6, "restart_seconds"),
    ({"recovery": "{policy: elastic, replica_nodes: 16}"}, 6, "the plan cannot shrink"),
    ({"recovery": "{policy: elastic, replica_nodes: 3}"}, 6, "not whole replicas"),
    ({"recovery": "{policy: elastic, min_nodes: 17}"}, 6, "min_nodes is 17"),
    ({"checkpoint": "{interval_steps: 0, seconds: 5}"}, 6, "interval_steps"),
    ({"checkpoint": "{interval_steps: 5, seconds: -5}"}, 6, "seconds"),
    ({"checkpoint": "{interval_steps: 5}"}, 6, "seconds"),
    ({"checkpoint": "{policy: lazy}"}, 6, "no policy 'lazy'"),
    ({"checkpoint": "{interval_steps: 5, bytes: 2 TB, store: far}"}, 6, "no store 'far'"),
    ({"checkpoint": "{interval_steps: 5, bytes: 2 TB, store: [far]}"}, 6, "no store ['far']"),
    (
        {
            "checkpoint": "{interval_steps: 5, bytes: 2 TB}",
            "stores": "{far: {bandwidth: 1.0e-300}}",
        },
        6,
        "store 'far' moves 2 TB in more than a year",
    ),
    (
        {
            "checkpoint": "{interval_steps: 5, bytes: 2 TB}",
            "stores": "{far: {bandwidth: 1 GB/s, capacity: 1 TB}}",
        },
        6,
        "a checkpoint of 2 TB does not fit into store 'far' of 1 TB",
    ),
    (
        {
            "checkpoint": "{tiers: [{interval_steps: 4, seconds: 0}, {interval_steps: 6, seconds: 0}]}"
        },
        6,
        "not a multiple of the shortest, 4",
    ),
    ({"steps": None}, 1, "either `steps`"),
    ({"days": "3"}, 7, "either `steps`"),
    ({"step_seconds": None}, 1, "step_seconds"),
    ({"run": "x"}, 7, "one of `step_seconds`"),
    ({"step_seconds": None, "run": "nothing"}, 6, "nothing"),
    ({"step_seconds": None, "workload": "w"}, 6, "needs a `machine`"),
    ({"failures": "{node_mtbf_hours: 0.01}"}, 4, "never get from one checkpoint to the next"),
]


@pytest.mark.parametrize(("lines", "line", "message"), WRONG)
def test_wrong_jobs_are_refused_with_the_line(job_file, lines, line, message):
    path = job_file(**lines)
    with pytest.raises(ConfigError) as error:
        read_job(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("hour,node\n1,99\n", "log.csv:2: node 99 is not one of the 16 nodes"),
        ("hour,node\n1,2\nx,2\n", "log.csv:3: hour should be a number"),
        ("hour\n1\n", "no column 'node'"),
        ("hour,node,why\n1,2,3\n", "unknown column 'why'"),
        ("hour,node,factor\n1,2,1.5\n", "needs a factor of at least 1 and its hours"),
        ("hour,node,scope\n1,2,street\n", "scope 'street'"),
    ],
)
def test_wrong_logs_are_refused_with_the_line(job_file, tmp_path, rows, message):
    (tmp_path / "log.csv").write_text(rows)
    with pytest.raises(ConfigError, match=r"job\.yaml:6: ") as error:
        read_job(job_file(failures="{log: log.csv}"))
    assert message in str(error.value)


def test_a_job_that_can_never_end_is_given_up(job, monkeypatch):
    from chakrakit.campaigns.engine import history

    monkeypatch.setattr(history, "MOST_EVENTS", 2000)
    made = job(failures="{node_mtbf_hours: 1}", checkpoint="{interval_steps: 400, seconds: 0}")
    with pytest.raises(
        ConfigError, match=r"1 of 1 histories are given up: after [\d,]+ failures in"
    ):
        campaign(made, histories=1)


def test_a_job_of_centuries_is_refused_before_it_takes_long(job):
    """Its failures are rare and it makes headway, but there would be hundreds of thousands of them."""
    made = job(steps=str(2**31), failures="{node_mtbf_hours: 500}")
    with pytest.raises(
        ConfigError, match=r"of 2,147,483,648 steps are done; .* fewer steps or days"
    ):
        campaign(made, histories=2)


def test_a_size_and_a_store_give_the_seconds(job):
    """640 GB from 16 nodes: the nodes' links, the servers or requests in flight set the pace."""
    store = "{far: {bandwidth: 100 GB/s, node_bandwidth: 2 GB/s%s}}"
    checkpoint = "{interval_steps: 10, bytes: 640 GB}"
    assert job(checkpoint=checkpoint, stores=store % "").plan.tiers[0].stalls == (20.0,)
    slots = store % ", operations: 128, operation_bytes: 1 MB, latency_seconds: 0.0128"
    assert job(checkpoint=checkpoint, stores=slots).plan.tiers[0].stalls == (64.0,)


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
