"""Several jobs on one machine: as alone where they do not meet, slower where they do."""

from __future__ import annotations

import json

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines import load_machine
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import place_jobs, simulate, simulate_jobs
from chakrakit.simulator.results.jobs import _shared, join_jobs
from chakrakit.trace.sets import CAPTURED
from support.simulated import training


@pytest.mark.first(1)
@pytest.mark.parametrize("world", [True, False])
@pytest.mark.parametrize("network", ["flow", "analytical"])
def test_jobs_on_nodes_of_their_own_come_out_exactly_as_alone(network, world):
    machine = load_machine("dgx-h100:4")
    options = SimulationOptions(network=network)
    jobs = {"a": training(8, world=world), "b": training(6, "other"), "c": training(8)}
    done = simulate_jobs(jobs, machine, options=options)
    assert [j.slowdown for j in done.summary.jobs] == [1, 1, 1]
    assert done.summary.jobs[1].devices == list(range(8, 14))
    for name, run in done.runs().items():
        alone = simulate(jobs[name], machine, options=options).run()
        for rank in jobs[name].ranks:
            assert (run.start(rank) == alone.start(rank)).all()
            assert (run.end(rank) == alone.end(rank)).all()


def test_jobs_that_share_a_link_slow_each_other_down(narrow):
    """Spread over all nodes, both jobs reduce over the same ways up at the same time."""
    jobs = {"a": training(8), "b": training(8)}
    spread = place_jobs([8, 8], narrow, spread=True)
    done = simulate_jobs(jobs, narrow, placement=spread)
    first, second = done.summary.jobs
    assert first.slowdown > 1.2
    assert first.makespan_ns == second.makespan_ns
    assert done.summary.shared_links > 0
    packed = simulate_jobs(jobs, narrow)
    assert all(1 <= j.slowdown < first.slowdown for j in packed.summary.jobs)


def test_only_jobs_that_can_meet_are_simulated_together(narrow):
    """Jobs 0 and 2 meet on the way between nodes 0 and 1; job 1 has node 2 to itself."""
    jobs = {"a": training(4), "b": training(4), "c": training(4)}
    places = [(0, 1, 4, 5), (8, 9, 10, 11), (2, 3, 6, 7)]
    done = simulate_jobs(jobs, narrow, placement=places)
    assert [part.numbers for part in done.parts] == [(0, 2), (1,)]
    assert list(done.runs()) == ["a", "b", "c"]
    slow = [job.slowdown for job in done.summary.jobs]
    assert slow[1] == 1
    assert slow[0] > 1.2
    assert done.summary.makespan_ns == done.summary.jobs[0].makespan_ns


def test_ranks_that_are_disturbed_are_counted_through_all_jobs():
    """Rank 5 is rank 1 of the second job, with the same jitter as in the run alone that is compared with."""
    from chakrakit.simulator.engine import Disturbance

    jobs = {"a": training(4), "b": training(4)}
    disturbed = SimulationOptions(disturbance=Disturbance(jitter=0.1, stragglers={5: 2.0}))
    done = simulate_jobs(jobs, "dgx-h100:1", options=disturbed)
    assert [j.slowdown for j in done.summary.jobs] == [1, 1]
    assert done.summary.jobs[1].makespan_ns > 1.2 * done.summary.jobs[0].makespan_ns
    wrong = SimulationOptions(disturbance=Disturbance(stragglers={8: 2.0}))
    with pytest.raises(ConfigError, match="--straggler: no rank 8"):
        simulate_jobs(jobs, "dgx-h100:1", options=wrong)


def test_a_device_runs_one_rank():
    jobs = {"a": training(2), "b": training(2)}
    with pytest.raises(ConfigError, match="device 1 is given to job 0 and job 1"):
        simulate_jobs(jobs, "dgx-h100:1", placement=[(0, 1), (1, 2)])


def test_shared_bodies_stay_shared():
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 1 << 20, pg_name="dp")
    bound = {r: ck.Binding(0, {"dp": f"dp{r % 2}"}) for r in range(8)}
    groups = ck.Groups({f"dp{i}": range(i, 8, 2) for i in range(2)})
    folded = ck.TraceSet([t.build()], bound, groups)
    joined = join_jobs({"a": folded, "b": folded})
    assert joined.traces.body_count == 2
    assert joined.traces.groups["b/dp1"] == (9, 11, 13, 15)
    done = simulate_jobs({"a": folded, "b": folded}, "dgx-h100:2")
    assert [j.slowdown for j in done.summary.jobs] == [1, 1]


def test_the_command_gives_every_job_its_times_and_a_run(tmp_path, capfd):
    ck.write(training(4), tmp_path / "a")
    ck.write(training(4), tmp_path / "b")
    (tmp_path / "place.json").write_text(json.dumps({"a": [0, 1, 2, 3], "b": [7, 6, 5, 4]}))
    jobs = [str(tmp_path / "a"), str(tmp_path / "b")]
    arguments = ["simulate", *jobs, "--machine", "dgx-h100:1", "--json"]
    more = ["--placement", str(tmp_path / "place.json"), "-o", str(tmp_path / "runs")]
    main([*arguments, *more], standalone_mode=False)
    found = json.loads(capfd.readouterr().out)
    assert [j["name"] for j in found["jobs"]] == ["a", "b"]
    assert set(found["jobs"][0]) >= {"name", "makespan_ns", "alone_ns", "slowdown"}
    run = ck.read(tmp_path / "runs" / "b")
    assert isinstance(run, ck.Run)
    assert run.makespan_ns == pytest.approx(found["jobs"][1]["makespan_ns"])
    main([*arguments[:-1]], standalone_mode=False)
    assert "slowdown" in capfd.readouterr().out


def test_a_wrong_placement_says_what_it_should_be(tmp_path):
    path = tmp_path / "place.json"
    path.write_text('{"a": [0, 1]}')
    with pytest.raises(FormatError, match="job 'b' has 2 ranks and the placement 0 devices"):
        ck.simulate_jobs({"a": training(2), "b": training(2)}, "dgx-h100:1", placement=path)
    path.write_text("[1]")
    with pytest.raises(ConfigError, match="not a placement of jobs"):
        ck.simulate_jobs({"a": training(2), "b": training(2)}, "dgx-h100:1", placement=path)


def test_every_job_has_the_interval_of_its_own_time():
    traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    done = simulate_jobs({"a": traces, "b": traces}, "dgx-h100:2")
    alone = simulate(traces, "dgx-h100").summary.interval_ns
    assert done.summary.jobs[1].interval_ns == pytest.approx(alone)
    assert ck.analyze(done.runs()["b"], advice=False).footprint.interval_ns == pytest.approx(alone)


def _on_card(traces, **settings):
    return traces.with_card(traces.card.replace(**settings))


def test_a_captured_job_is_launched_by_its_host_as_alone():
    """Kernels of a microsecond, which a host launches more slowly than they run."""
    program = _on_card(training(4), tool=CAPTURED)
    alone = simulate(program, "dgx-h100").summary.makespan_ns
    assert (
        alone
        > simulate(program, "dgx-h100", options=SimulationOptions(host=False)).summary.makespan_ns
    )
    done = simulate_jobs({"a": program, "b": program}, "dgx-h100:2")
    assert [job.makespan_ns for job in done.summary.jobs] == [alone, alone]
    assert all(len(run.trace(0)) == len(run.start(0)) for run in done.runs().values())
    free = simulate_jobs({"a": program}, "dgx-h100", options=SimulationOptions(host=False))
    assert free.summary.jobs[0].makespan_ns < alone


def test_jobs_recorded_on_different_devices_that_share_links_are_refused(narrow):
    here, there = (
        _on_card(training(8), settings={"recorded_on": name})
        for name in ("NVIDIA A100", "NVIDIA H100")
    )
    spread = place_jobs([8, 8], narrow, spread=True)
    with pytest.raises(ConfigError, match=r"a on NVIDIA A100, b on NVIDIA H100.*recost"):
        simulate_jobs({"a": here, "b": there}, narrow, placement=spread)
    simulate_jobs({"a": here, "b": here}, narrow, placement=spread)


def test_a_link_is_shared_that_more_than_one_job_uses():
    """Four links: one job uses all of them, the other all but the last."""
    assert _shared([np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0, 0.0])]) == 3
