"""Traces as programs take exactly as long as `simulate` says, folded or not."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError, DeadlockError
from chakrakit.simulator import live
from chakrakit.simulator.engine import native
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet
from support.random_workloads import contended_case, crowded_case, random_case

CASES = (random_case, crowded_case, contended_case)


def simulated(traces, machine, network, share, fold):
    options = native.SimulationOptions(network=network, fold=fold, share_compute=share)
    try:
        out = native.run(traces, machine, options)
    except DeadlockError:
        return None
    rows = {r: out.rows(int(out.classes.rank[i])) for i, r in enumerate(traces.ranks)}
    return {r: (out.start[s].tolist(), out.end[s].tolist()) for r, s in rows.items()}


def played(traces, machine, network, share):
    world = live.from_traces(traces, machine, network=network, share_compute=share, compute="auto")
    try:
        run = world.run().run()
    except DeadlockError:
        return None
    return {r: (run.start(r).tolist(), run.end(r).tolist()) for r in traces.ranks}


def compare(case, seed: int) -> None:
    traces, machine, *_ = case(seed)
    how = traces, machine, "flow" if seed % 3 else "analytical", seed % 5 == 0
    alive = played(*how)
    assert alive == simulated(*how, True) == simulated(*how, False), (case.__name__, seed)


@pytest.mark.parametrize("case", CASES)
def test_every_row_begins_and_ends_to_the_picosecond(case) -> None:
    for seed in range(3):
        compare(case, seed)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_on_many_more(case) -> None:
    for seed in range(3, 40):
        compare(case, seed)


def test_a_score_can_be_played_again() -> None:
    traces, machine, *_ = random_case(0)
    ends = []

    def plays(me, scores):
        for score in scores:
            yield live.play(score)
            ends.append(me.now_ps)

    world = live.World(machine, compute="auto")
    score = world.score(traces)
    world.actor(plays, [score, score, score])
    world.run()
    alone = max(max(e) for _, e in simulated(traces, machine, "flow", False, True).values())
    assert ends == [alone, 2 * alone, 3 * alone]


def test_traces_that_name_units_are_refused() -> None:
    t = TraceBuilder()
    t.comp("gemm", duration_ns=10, unit="tensor")
    with pytest.raises(ConfigError, match="name units of their device"):
        live.World().score(TraceSet.of([t]))
