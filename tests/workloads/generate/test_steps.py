"""Several steps in one trace: each as long as alone, weights by version, disturbances from a step on."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Plan, Step, Workload

SMALL = {"model": "gpt3-125m", "layers": 2, "seq": 64, "dp": 2, "global_batch": 4}


def milliseconds(traces: ck.TraceSet, **options: object) -> float:
    return ck.simulate(traces, "dgx-h100", compute="roofline", **options).summary.makespan_ns * 1e-6


@pytest.mark.parametrize("plan", [{"data": "zero1"}, {"data": "fsdp"}, {"pp": 2, "data": "ddp"}])
def test_steps_follow_each_other_without_a_gap(plan: dict[str, object]) -> None:
    one, three = (ck.generate(**SMALL, **plan, steps=n) for n in (1, 3))
    assert three.figures.flops_total == 3 * one.figures.flops_total
    assert milliseconds(three.traces) == pytest.approx(3 * milliseconds(one.traces), rel=0.01)
    trace = three.traces.trace(0)
    assert np.unique(trace.column("step", -1)).tolist() == [0, 1, 2]
    assert (trace.column("step", -1) == trace.column("weights_version", -1)).all()
    assert trace.column("micro_batch", -1).max() == 1


@pytest.mark.slow
def test_a_series_has_the_steps_one_by_one() -> None:
    made = ck.generate(**SMALL, steps=3, batcher="tokens", distribution="uniform", mean=20)
    assert len(made.series) == 3
    alone = sum(milliseconds(step) for step in made.series)
    assert alone >= milliseconds(made.traces) * 0.999  # without a barrier, replicas run ahead
    flops = [sum(t.trace(r).column("num_ops", 0).sum() for r in t.ranks) for t in made.series]
    assert sum(flops) == sum(
        made.traces.trace(r).column("num_ops", 0).sum() for r in made.traces.ranks
    )
    assert len(set(flops)) == 3


def test_documents_of_a_later_step_are_drawn_anew() -> None:
    made = ck.generate(
        **{**SMALL, "model": "llama3.1-8b"}, steps=2, distribution="lognormal", mean=16
    )
    first, second = made.series
    assert (first.trace(0).column("num_ops", 0) != second.trace(0).column("num_ops", 0)).any()
    both = made.traces.trace(0).column("num_ops", 0)
    joined = np.r_[first.trace(0).column("num_ops", 0), second.trace(0).column("num_ops", 0)]
    assert (both == joined).all()


def test_a_straggler_is_slow_from_its_step_on() -> None:
    traces = ck.generate(**SMALL, steps=4).traces
    even, late, always = (milliseconds(traces, stragglers=s) for s in ({}, {1: "2.0@3"}, {1: 2.0}))
    assert late - even == pytest.approx((always - even) / 4, rel=0.02)
    with pytest.raises(ConfigError, match="straggler 1: no step 9; the last is 3"):
        milliseconds(traces, stragglers={1: "2@9"})
    with pytest.raises(ConfigError, match="should be a factor, or FACTOR@STEP"):
        milliseconds(traces, stragglers={1: "slow"})


ASYNC = [
    ["F0", "F1", "B0", "U", "F2", "B1", "U", "F3", "B2", "U", "B3", "U"],
    ["F0", "B0", "U", "F1", "B1", "U", "F2", "B2", "U", "F3", "B3", "U"],
]


def asynchronous(cells: list[list[str]], clip: bool = False) -> ck.TraceSet:
    step = Step(seq=64, global_batch=1, steps=4, clip=clip)
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96)
    return ck.generate(Workload(model=model, plan=Plan(pp=2, tasks=cells), step=step)).traces


def test_cells_across_steps_show_how_stale_weights_are() -> None:
    traces = asynchronous(ASYNC)
    trace = traces.trace(0)
    version, step = trace.column("weights_version", -1), trace.column("step", -1)
    phase = np.array(trace.nodes["phase"].to_pylist())

    def of(kind: str, k: int) -> int:
        versions: list[int] = np.unique(version[(phase == kind) & (step == k)]).tolist()
        assert len(versions) == 1
        return versions[0]

    assert [of("backward", k) - of("forward", k) for k in range(4)] == [0, 1, 1, 1]
    assert milliseconds(traces) > 0
    with pytest.raises(ConfigError, match="every stage needs as many U"):
        asynchronous([ASYNC[0], ["F0", "B0", "U", "F1", "B1", "F2", "B2", "F3", "B3", "U"]])
    with pytest.raises(ConfigError, match="clip needs the gradients of all stages at once"):
        asynchronous(ASYNC, clip=True)
