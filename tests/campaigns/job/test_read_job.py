"""A job file that is wrong is refused with its line and a cure."""

from __future__ import annotations

import pytest

from chakrakit.campaigns import read_job
from chakrakit.campaigns.checkpoints import NEVER
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
        {"checkpoint": "{interval_steps: 5, bytes: 2 TB}", "stores": "{far: {bandwidth: 1.0e-20}}"},
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
    ({"recovery": "{policy: restart, restart_success: 5.0e-324}"}, 6, "Expected `float` >= 0.001"),
    ({"pool": "{nodes: 8, sweep_limit: 1.05, noise: 1.0e+12}"}, 7, "Expected `float` <= 10.0"),
    ({"failures": "{node_mtbf_hours: 0.01}"}, 4, "never get from one checkpoint to the next"),
]


@pytest.mark.parametrize(("lines", "line", "message"), WRONG)
def test_wrong_jobs_are_refused_with_the_line(job_file, lines, line, message):
    path = job_file(**lines)
    with pytest.raises(ConfigError) as error:
        read_job(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert message in str(error.value)


def test_a_job_without_checkpoints_has_to_get_through_at_once(job, job_file):
    """A day of work: with a failure every 5,625 s that may still happen, with one every 225 s never."""
    assert job(failures="{node_mtbf_hours: 25}", checkpoint=None).plan.every == NEVER
    with pytest.raises(ConfigError, match="fail every 225 s and has to run 86,400 s without"):
        read_job(job_file(failures="{node_mtbf_hours: 1}", checkpoint=None))
