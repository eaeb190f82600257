"""A simulation as a Run: written and read back, in more or less detail."""

import numpy as np
import pytest

from chakrakit import (
    Binding,
    CollectiveType,
    Groups,
    NodeType,
    TraceBuilder,
    TraceSet,
    generate,
    read,
    write,
)
from chakrakit.simulator.engine import Disturbance, native
from chakrakit.simulator.results import simulate
from support.simulated import collective, machine_of

AR = CollectiveType.ALL_REDUCE


@pytest.mark.slow
def test_a_run_is_written_and_read_back(tmp_path):
    done = simulate(collective(AR, 10**6, 4), "dgx-h100")
    write(done.run(), tmp_path / "run")
    again = read(tmp_path / "run")
    assert again.makespan_ns == pytest.approx(done.makespan_ns)
    assert set(again.counters) >= {"links", "collectives"}
    assert again.card.tick_ps == 1


@pytest.mark.parametrize("detail", ["summary", "classes", "full"])
def test_details(detail):
    t = TraceBuilder()
    work = t.comp("w", duration_ns=10)
    t.collective("c", AR, 1000, pg_name="pair", deps=[work])
    groups = Groups({"p0": (0, 1), "p1": (2, 3)})
    bindings = {i: Binding(0, {"pair": f"p{i // 2}"}) for i in range(4)}
    slow = Disturbance(stragglers={1: 3.0, 3: 3.0})
    done = simulate(
        TraceSet([t.build()], bindings, groups),
        machine_of("switch", 4),
        options=native.SimulationOptions(disturbance=slow),
    )
    run = done.run(detail)
    assert done.outcome.classes.factor == 2
    if detail == "summary":
        assert run.times_of(0).reason is None
    else:
        assert run.times_of(0).binding_rank[1] == 1
        assert run.times_of(2).binding_rank[1] == (3 if detail == "full" else 1)


@pytest.mark.parametrize("plan", [{"dp": 2, "tp": 2, "pp": 2}, {"tp": 2, "pp": 4}, {"dp": 4}])
def test_ranks_simulated_for_others_wait_for_whom_they_would_wait_alone(plan):
    """Messages come from the same rank; of a group that waits together, from one that arrives as late."""
    settings = {"model": "gpt3-125m", "layers": 4, "seq": 128, "global_batch": 8}
    traces = generate(**settings, **plan).traces
    folded, alone = (
        simulate(traces, "dgx-h100", options=native.SimulationOptions(fold=fold)).run("full")
        for fold in (True, False)
    )
    for rank in traces.ranks:
        ours, own, trace = folded.times_of(rank), alone.times_of(rank), traces.body(rank)
        messages = trace.is_type(NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
        assert ours.binding_rank[messages].tolist() == own.binding_rank[messages].tolist()
        for row in np.flatnonzero(own.binding_rank >= 0).tolist():
            a, b = (int(t.binding_rank[row]) for t in (ours, own))
            assert folded.times_of(a).end.tolist() == alone.times_of(b).end.tolist()


def test_the_card_of_a_run_still_tells_the_workload_and_its_passes():
    given = collective(AR, 1000, 4)
    card = given.card.replace(settings={"model": "m", "undilate": True}, passes=["compact"])
    run = simulate(given.with_card(card), machine_of("switch", 4)).run()
    assert run.card.settings["model"] == "m"
    assert run.card.settings["engine"] == "native"
    assert "undilate" not in run.card.settings
    assert run.card.passes == ["compact"]
