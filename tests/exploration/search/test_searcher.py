"""Bounds and simulations of plans on one machine."""

from __future__ import annotations

import pytest

from chakrakit.exploration.search.searcher import Searcher, objective_of
from chakrakit.machines import parse_machine
from chakrakit.workloads.description import Decoder, Plan, Step, Workload

MODEL = Decoder(name="m", layers=2, hidden=64, heads=4, vocab=100)


def searcher(memory: str = "80 GB") -> Searcher:
    device = {"peak": {"bf16": "1 TFLOP/s"}, "memory_bandwidth": "1 TB/s", "memory": memory}
    network = [{"topology": "switch", "size": 4, "bandwidth": "10 GB/s", "latency": "1 us"}]
    machine = parse_machine({"device": device, "network": network}, "four")
    return Searcher(machine, "auto", objective_of("step", machine, None))


def plan(**fields) -> Workload:
    return Workload(model=MODEL, plan=Plan(**fields), step=Step(seq=64, global_batch=4))


def test_a_bound_lies_between_the_least_and_the_simulation() -> None:
    made = searcher()
    for one in (plan(dp=4), plan(dp=2, tp=2)):
        least, bound = made.least(one), made.bound(one)
        assert 0 < least <= bound <= made.evaluate(one).result.value
    assert made.least(plan()) == pytest.approx(4 * made.least(plan(dp=4)))


def test_the_best_so_far_is_the_limit() -> None:
    made = searcher()
    assert made.limit() == float("inf")
    slow, fast = made.evaluate(plan()), made.evaluate(plan(dp=4))
    assert [e.result.dp for e in made.ranking()] == [4, 1]
    assert made.limit() == fast.result.value < slow.result.value
    assert fast.result.spelled == "dp 4 tp 1 pp 1 cp 1 ep 1, micro-batch 1, ddp, 1f1b"


def test_what_does_not_fit_is_noted_and_never_ranked() -> None:
    made = searcher(memory="1 kB")
    assert not made.fits(plan(dp=4))
    assert [workload.plan.dp for _, workload in made.over] == [4]
    assert not made.evaluate(plan(dp=4)).result.fits
    assert made.ranking() == []
