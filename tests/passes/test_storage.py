"""Data loading and checkpoints added to a trace, and what comes of them on a machine with stores."""

from __future__ import annotations

import json

import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.errors import ConfigError
from chakrakit.passes.storage import Storage

MACHINE = """\
name: small
device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s, memory: 80 GB}
network:
  - {topology: switch, size: 2, bandwidth: 100 GB/s}
  - {topology: switch, size: 3, bandwidth: 10 GB/s}
storage:
  store: {kind: remote, nodes: [2], bandwidth: 4 GB/s, latency: 1 ms, operations: 2}
"""


@pytest.fixture
def step():
    """Four ranks compute for 100 ms, then reduce nothing."""
    t = ck.TraceBuilder()
    first = t.comp("forward", duration_ns=40_000_000)
    t.comp("backward", duration_ns=60_000_000, deps=[first])
    return ck.TraceSet([t.build()], {r: ck.Binding(0) for r in range(4)})


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE)
    return str(path)


def test_work_waits_for_its_data_and_the_checkpoint_for_the_work(step, machine):
    """Two ranks at a time read for 1 ms + 2·40 MB / 4 GB/s, so the last two begin after 42 ms."""
    after = step | Storage(load=40_000_000, save=20_000_000)
    assert [n.name for n in after.trace(0)] == [
        "forward",
        "backward",
        "load data",
        "save checkpoint",
    ]
    done = ck.simulate(after, machine)
    finish = [round(r.finish_ns / 1e6, 3) for r in done.summary.ranks]
    assert finish == [132, 132, 153, 153]
    (server,) = done.summary.storage
    assert (server.operations, server.read_bytes, server.written_bytes) == (8, 160e6, 80e6)
    assert server.wait_ns == pytest.approx(2 * 21e6)


def test_beside_the_step_storage_costs_only_what_it_takes_of_the_network(step, machine):
    done = ck.simulate(step | Storage(load=40_000_000, save=20_000_000, wait=False), machine)
    assert done.makespan_ns == pytest.approx(100e6)
    # Reading 160 MB takes 40 ms, and twice nobody reads during a latency of 1 ms.
    assert done.summary.storage[0].busy_ns == pytest.approx(42e6)


def test_nothing_to_add_is_refused():
    with pytest.raises(ConfigError, match="give bytes per rank"):
        Storage()


def test_servers_are_in_every_result(step, machine, tmp_path, capfd):
    """Transformed, simulated, analyzed and reported by command."""
    ck.write(step, tmp_path / "w")
    with_storage, run = str(tmp_path / "s"), str(tmp_path / "run")
    main(
        ["transform", str(tmp_path / "w"), "--pass", "storage{save=20000000}", "-o", with_storage],
        standalone_mode=False,
    )
    capfd.readouterr()
    main(
        ["simulate", with_storage, "--machine", machine, "-o", run, "--json"], standalone_mode=False
    )
    (server,) = json.loads(capfd.readouterr().out)["storage"]
    assert (server["store"], server["operations"], server["longest_queue"]) == ("store", 4, 2)
    main(["analyze", run, "--json"], standalone_mode=False)
    assert json.loads(capfd.readouterr().out)["storage"] == [server]
    main(["simulate", with_storage, "--machine", machine], standalone_mode=False)
    assert "longest queue" in capfd.readouterr().out
    main(["report", run, "-o", str(tmp_path / "page.html")], standalone_mode=False)
    assert "<h2>Storage</h2>" in (tmp_path / "page.html").read_text()
    main(["compare", run, run, "--json"], standalone_mode=False)
    # Two operations at a time write 20 MB each at 2 GB/s after 1 ms, so two of four wait 11 ms.
    waited = json.loads(capfd.readouterr().out)["metrics"]["storage_wait"]
    assert waited == [pytest.approx(2 * 11e6 / 4)] * 2
    timeline = str(tmp_path / "t.json")
    main(["export", run, timeline], standalone_mode=False)
    assert "save checkpoint" in (tmp_path / "t.json").read_text()


def test_what_a_step_waits_for_is_part_of_it(machine):
    """A slower store makes steps longer; data loaded ahead and checkpoints beside the step do not."""
    traces = ck.generate(model="gpt3-125m", layers=1, seq=64, dp=4, global_batch=4, steps=2).traces
    alone = ck.simulate(traces, machine).run()
    spans = {}
    for name, added in {
        "load": Storage(load=40_000_000),
        "save": Storage(save=40_000_000),
        "beside": Storage(load=40_000_000, save=40_000_000, wait=False),
    }.items():
        run = ck.simulate(traces | added, machine).run()
        steps = sorted((s.step, s.period_ns) for s in ck.analyze(run).steps.steps if s.rank == 3)
        spans[name] = [period / 1e6 for _, period in steps]
        assert run.step_ms == pytest.approx(ck.analyze(run).steps.median_ns / 1e6, abs=1e-3)
    first, second = (s.period_ns / 1e6 for s in ck.analyze(alone).steps.steps if s.rank == 3)
    assert spans["load"][0] >= first + 20
    assert spans["load"][1] == pytest.approx(second, rel=0.01)
    assert spans["save"][0] == pytest.approx(first, rel=0.01)
    assert spans["save"][1] >= second + 20
    assert sum(spans["beside"]) < first + second + 20


@pytest.mark.parametrize("last", [2**63, 2**64 - 1])
def test_nodes_are_added_to_a_trace_that_has_the_largest_id(last):
    trace = ck.Trace.from_columns({"id": [0, last], "name": ["a", "b"], "type": [4, 4]})
    after = ck.TraceSet([trace]) | Storage(load=8, save=8)
    assert ck.validate(after).ok
    assert len(set(after.trace(0).ids.tolist())) == 4
