"""Steps that engines ran, as traces: each on its own ranks, and caches that move between them."""

from __future__ import annotations

import numpy as np

from chakrakit.trace.validation import validate
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import CacheMove, EngineSteps, SteppedEngines
from chakrakit.workloads.generate.engine_steps import FIRST_TAG
from chakrakit.workloads.generate.requests import decodes, prefills

SMALL = Decoder(layers=4, hidden=64, heads=8, kv_heads=4, ffn=96, vocab=96)
WORKLOAD = Workload(model=SMALL, step=Step(kind="decode", seq=10))


def test_engines_lie_one_after_another_on_the_ranks() -> None:
    engines = [
        EngineSteps(Plan(tp=2), prefills([10], 1)),
        EngineSteps(Plan(pp=2), decodes([10], 2)),
    ]
    made = SteppedEngines(WORKLOAD, engines)
    assert [mesh.first for mesh in made.meshes] == [0, 2]
    assert made.size == 4
    traces = made.traces()
    assert traces.ranks == (0, 1, 2, 3)
    assert not [f for f in validate(traces).findings if f.severity == "error"]


def test_a_cache_leaves_one_engine_and_reaches_the_other() -> None:
    engines = [EngineSteps(Plan(), prefills([10], 1)), EngineSteps(Plan(tp=2), decodes([10], 1))]
    move = CacheMove(request=3, tokens=10, source=0, sent_after=0, target=1, used_by=0)
    traces = SteppedEngines(WORKLOAD, engines, [move]).traces()
    whole = 4 * 10 * 2 * 4 * 8 * 2
    sends = np.flatnonzero(traces.trace(0).types == 5)
    sender = traces.trace(0)
    assert sender.column("comm_dst", -1)[sends].tolist() == [1, 2]
    assert sender.column("comm_size", -1)[sends].tolist() == [whole // 2] * 2
    assert set(sender.column("comm_tag", -1)[sends].tolist()) == {FIRST_TAG + 6}
    assert not [f for f in validate(traces).findings if f.severity == "error"]


def test_an_engine_that_ran_nothing_has_no_ranks() -> None:
    made = SteppedEngines(
        WORKLOAD, [EngineSteps(Plan(tp=2), prefills([4], 1)), EngineSteps(Plan(), [])]
    )
    assert made.size == 2
