"""Ranks and links that become slow are named, and nobody else is."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.diagnosis import RankPace, slow_ranks
from chakrakit.machines import load_machine
from chakrakit.simulator.engine import Disturbance, Fault, SimulationOptions
from chakrakit.simulator.results import simulate

STEPS, RANKS = 24, 16


def paces(noise: float, seed: int, ranks: int = 64, steps: int = 200, **slow):
    """Ranks that compute a second in every step, give or take; `slow` is rank, first, end and factor."""
    chance = np.random.default_rng(seed)
    spent = 1e9 * np.exp(noise * chance.standard_normal((ranks, steps)))
    if slow:
        spent[slow["rank"], slow["first"] : slow["end"]] *= slow["factor"]
    number = np.arange(steps)
    return [RankPace(r, number, number * 10**9, spent[r], b"same") for r in range(ranks)]


@pytest.mark.parametrize(
    ("first", "end", "factor", "noise"),
    [(0, 200, 1.1, 0.05), (50, 200, 1.05, 0.02), (150, 200, 1.5, 0.1), (80, 95, 1.4, 0.05)],
)
def test_a_rank_that_becomes_slow_is_named_with_its_step(first, end, factor, noise):
    culprits = slow_ranks(paces(noise, 1, rank=17, first=first, end=end, factor=factor))
    assert [c.rank for c in culprits] == [17]
    assert culprits[0].since_step == pytest.approx(first, abs=2)
    assert culprits[0].factor == pytest.approx(factor, rel=0.05)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_chance_is_nobody_s_fault(seed, noise):
    assert slow_ranks(paces(noise, seed)) == []


def test_steps_that_are_long_for_all_are_nobody_s_fault():
    steady = paces(0.01, 3)
    for pace in steady:
        pace.compute_ns[40:60] *= 3
    assert slow_ranks(steady) == []


def training(machine: str = "dgx-h100:2"):
    """Sixteen ranks that compute and reduce, step after step."""
    t, last = ck.TraceBuilder(), None
    for step in range(STEPS):
        last = t.comp(
            "layer", duration_ns=300_000, stream=7, step=step, deps=[] if last is None else [last]
        )
        last = t.collective(
            "sum",
            ck.CollectiveType.ALL_REDUCE,
            8 << 20,
            stream=7,
            step=step,
            pg_name="tp",
            deps=[last],
        )
        last = t.collective(
            "gradients",
            ck.CollectiveType.ALL_REDUCE,
            16 << 20,
            stream=7,
            step=step,
            pg_name="dp",
            deps=[last],
        )
    groups = {f"tp{n}": range(n * 8, n * 8 + 8) for n in range(2)}
    groups |= {f"dp{i}": (i, i + 8) for i in range(8)}
    bound = {r: ck.Binding(0, {"tp": f"tp{r // 8}", "dp": f"dp{r % 8}"}) for r in range(RANKS)}
    return ck.TraceSet([t.build()], bound, ck.Groups(groups)), load_machine(machine)


def culprits(network: str = "flow", *faults: Fault, jitter: float = 0.01):
    traces, machine = training()
    options = SimulationOptions(network=network, disturbance=Disturbance(jitter, 1, {}, faults))
    return ck.analyze(simulate(traces, machine, options=options).run()).culprits


@pytest.mark.parametrize("network", ["flow", "analytical"])
def test_a_clean_run_has_no_culprits(network):
    assert culprits(network) == []


@pytest.mark.slow
@pytest.mark.parametrize("network", ["flow", "analytical"])
def test_a_slow_device_and_a_slow_link_are_told_apart(network):
    device = culprits(network, Fault("device", 5, 4e6, 0.7))
    assert [(c.kind, c.rank) for c in device] == [("slow-rank", 5)]
    link = culprits(network, Fault("link", ("device 3", "switch 0.0"), 4e6, 0.3))
    assert [(c.kind, c.link) for c in link] == [("slow-link", "device 3-switch 0.0")]
    assert link[0].factor == pytest.approx(1 / 0.3)
    assert (link[0].since_step or 0) > 2


def test_a_link_that_is_merely_shared_is_full_at_its_bandwidth():
    traces, machine = training()
    table = simulate(traces, machine).run().counters["links"]
    rates = zip(table["full_rate"].to_pylist(), table["bandwidth"].to_pylist(), strict=True)
    full = [(rate, bandwidth) for rate, bandwidth in rates if rate != -1]
    assert full
    assert [rate for rate, _ in full] == pytest.approx([bandwidth for _, bandwidth in full])


@pytest.mark.parametrize(("first", "words"), [(0, "from the first step"), (3, "since step 3")])
def test_of_few_steps_it_is_said_from_which_on_a_rank_is_slow(first: int, words: str) -> None:
    spent = np.full((4, 6), 1e9)
    spent[2, first:] *= 1.4
    number = np.arange(6)
    ranks = [
        RankPace(r, number, number * 10**9, spent[r], b"same", by_name=spent[r].sum() * np.ones(20))
        for r in range(4)
    ]
    (one,) = slow_ranks(ranks)
    assert (one.rank, one.since_step, one.factor) == (2, first, pytest.approx(1.4))
    assert one.detail.endswith(words)
