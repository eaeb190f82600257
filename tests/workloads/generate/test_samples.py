"""Workloads with samples: totals equal closed forms, whatever batcher and plan."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.trace.validation import validate
from chakrakit.workloads.description import Lengths, Samples, Step, Workload, check
from chakrakit.workloads.generate import Generated, dry_run, generated
from chakrakit.workloads.program import RowShape
from chakrakit.workloads.samples import Batcher, Limits, MicroBatch, Sample
from support.commands import data, succeeded
from support.forms import training_flops
from support.joined import join
from support.random_plans import random_workload

COUNT = int(os.environ.get("CHAKRA_RANDOM_SAMPLES", "4"))
"""Random workloads that are tried; three hundred were, by hand."""


def with_samples(rng: Random) -> Workload:
    """A random plan whose micro-batches come from a batcher."""
    while True:
        plain = random_workload(rng)
        batcher = rng.choice(["fixed", "tokens", "power", "online", "best-fit"])
        samples = Samples(
            batcher=batcher,
            budget=rng.choice([0, 128, 200]),
            power=rng.choice([1.0, 1.4, 2.0]),
            window=rng.choice([8, 64]),
        )
        lengths = Lengths(distribution=rng.choice(["uniform", "lognormal"]), mean=24, sigma=0.7)
        step = plain.step.replace(
            samples=samples, lengths=lengths, imbalance=0.0, steps=rng.choice([1, 2, 3])
        )
        workload = plain.replace(step=step, plan=plain.plan.replace(tasks=[]))
        try:
            check(workload)
        except ConfigError:
            continue
        return workload


def expected_flops(made: Generated) -> int:
    """The closed form, added up over micro-batches: linear in tokens, and in the squares of documents."""
    w = made.workload

    def flops(rows: int, length: int) -> int:
        return training_flops(w.model, w.plan, Step(seq=length, global_batch=rows))

    square = (flops(1, 4) - 2 * flops(1, 2)) // 8
    token = (flops(1, 2) - 4 * square) // 2

    def shaped(s: RowShape) -> int:
        if s.documents and w.model.kernel == "flash":
            return token * s.length + square * sum(d**2 for d in s.documents)
        return flops(s.rows, s.length)

    return sum(shaped(s) for r in range(w.plan.dp) for s in made.shapes_of(r))


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_workloads_equal_closed_forms_and_run_to_the_end(seed: int) -> None:
    made = generated(with_samples(Random(seed)))
    figures, traces = dry_run(made), made.traces()
    dealt = made.dealt
    assert dealt is not None
    assert figures.samples is not None
    numbers = Counter(s.number for b in dealt.batches() for s in b.samples)
    assert set(numbers.values()) == {1}
    assert figures.samples.samples == len(numbers)
    assert figures.tokens == sum(s.length for b in dealt.batches() for s in b.samples)
    extra = sum(r.flops for r in figures.replicated)
    assert figures.flops_total - extra == pytest.approx(expected_flops(made), rel=1e-6)
    assert not [f for f in validate(traces).findings if f.severity == "error"], made.workload
    joined = join(traces)
    joined.run(np.ones(joined.n, np.int64))


def test_replicas_with_like_samples_share_a_body() -> None:
    same = ck.generate(model="gpt3-125m", layers=1, seq=64, dp=8, batcher="fixed", sizes=[32])
    assert len(same.traces.bindings) == 8
    assert same.traces.body_count == 1
    mixed = ck.generate(model="gpt3-125m", layers=1, seq=64, dp=8, batcher="fixed", sizes=[32, 64])
    assert mixed.traces.body_count == 2


def test_quotas_give_replicas_more_or_fewer_micro_batches() -> None:
    fields = {"model": "gpt3-125m", "layers": 1, "seq": 64, "dp": 3, "batcher": "fixed"}
    made = ck.generate(**fields, quotas=[1, 2, 3])
    counts = [len(np.unique(made.traces.trace(r).column("micro_batch", -1))) - 1 for r in range(3)]
    assert counts == [1, 2, 3]
    with pytest.raises(
        ConfigError, match="one group dp would make different numbers of collectives"
    ):
        ck.generate(**fields, quotas=[1, 2, 3], data="fsdp")
    with pytest.raises(
        ConfigError, match="quotas has 2 entries; give one of 1 or more for each of dp 3"
    ):
        ck.generate(**fields, quotas=[1, 2])


def test_a_sample_that_costs_more_is_more_work(tmp_path: Path) -> None:
    def flops(cost: float) -> int:
        (tmp_path / "s.jsonl").write_text(json.dumps({"length": 64, "cost": cost}) + "\n")
        made = ck.generate(
            model="gpt3-125m",
            layers=1,
            seq=64,
            batcher="fixed",
            sample_file=str(tmp_path / "s.jsonl"),
        )
        return made.figures.flops_total

    assert flops(2.0) == 2 * flops(1.0)


def test_frames_of_a_diffusion_model_are_lengths() -> None:
    made = ck.generate(
        model="wan2.1-1.3b", layers=1, height=16, width=16, frames=8, dp=2, batcher="power", power=2.0,
        sizes=[8], longest_batch=2, budget=10**6, global_batch=2,
    )  # fmt: skip
    assert [(b.rows, b.length) for b in made.programs.dealt.batches()] == [(2, 8)] * 2
    assert made.figures.tokens == 2 * 2 * 8 * 8 * 8
    plain = ck.generate(
        model="wan2.1-1.3b",
        layers=1,
        height=16,
        width=16,
        frames=8,
        dp=2,
        micro_batch=2,
        global_batch=4,
    )
    assert made.figures.flops_total == plain.figures.flops_total


def test_samples_from_a_file_and_from_the_shell(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "model: {base: gpt3-125m, layers: 1}\nplan: {dp: 2}\n"
        "step: {seq: 64, global_batch: 4, micro_batch: 2, steps: 2,"
        " lengths: {distribution: uniform, mean: 20}, samples: {batcher: tokens, budget: 128}}\n"
    )
    shown = succeeded("generate", tmp_path / "w.yaml", "-o", tmp_path / "out")
    assert "GFLOP in 2 steps" in shown
    assert "padding" in shown
    assert ck.read(tmp_path / "out").trace(0).column("step", -1).max() == 1
    figures = data("generate", tmp_path / "w.yaml", "--batcher", "online", "--json")
    assert figures["steps"] == 2
    assert figures["samples"]["padded_tokens"] >= figures["samples"]["tokens"] == figures["tokens"]


BATCHERS = int(os.environ.get("CHAKRA_RANDOM_BATCHERS", "4"))
"""Batchers that group samples at random; two hundred were tried, by hand."""


def random_batcher(seed: int) -> Batcher:
    """A batcher that nobody would write: any grouping, in any order, padded or packed."""

    def batches(samples: Iterable[Sample], limits: Limits) -> Iterator[MicroBatch]:
        rng = Random(seed)
        source = iter(samples)
        while window := list(itertools.islice(source, rng.randint(1, limits.window))):
            rng.shuffle(window)
            while window:
                taken = [window.pop() for _ in range(min(len(window), rng.randint(1, 5)))]
                packs = rng.random() < 0.3
                room = sum(s.length for s in taken)
                if packs and room <= limits.room:
                    yield MicroBatch(
                        tuple(taken), packed=True, room=rng.choice([room, limits.room])
                    )
                else:
                    yield MicroBatch(tuple(taken))

    return batches


@pytest.mark.parametrize("seed", range(BATCHERS))
def test_random_batchers_never_deadlock(seed: int) -> None:
    drawn = with_samples(Random(1000 + seed))
    samples = drawn.step.samples.replace(batcher="own", batcher_file="random.py:batches")
    workload = drawn.replace(step=drawn.step.replace(samples=samples))
    made = generated(workload, random_batcher(seed))
    numbers = Counter(s.number for b in made.dealt.batches() for s in b.samples)
    assert set(numbers.values()) == {1}
    extra = sum(r.flops for r in dry_run(made).replicated)
    total = dry_run(made).flops_total - extra
    assert total == pytest.approx(expected_flops(made), rel=1e-6)
    joined = join(made.traces())
    joined.run(np.ones(joined.n, np.int64))


OWN = """
from chakrakit.workloads.samples import MicroBatch

def pairs(samples, limits):
    held = []
    for sample in samples:
        held.append(sample)
        if len(held) == 2:
            yield MicroBatch(tuple(held))
            held = []

def repeats(samples, limits):
    first = next(iter(samples))
    while True:
        yield MicroBatch((first,))
"""


def test_a_batcher_of_ones_own_runs_only_where_programs_may(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "w.yaml").write_text(
        "model: {base: gpt3-125m, layers: 1}\nplan: {dp: 2}\nstep: {seq: 64, global_batch: 4,"
        " lengths: {distribution: uniform, mean: 20},"
        " samples: {batcher: own, batcher_file: 'mine.py:pairs'}}\n"
    )
    figures = data("generate", tmp_path / "w.yaml", "--allow-programs", "--json")
    assert figures["samples"]["samples"] == 2 * 4
    for name, allowed, message in (
        ("mine.py:pairs", False, "is a program, which would run; if it may, give --allow-programs"),
        ("mine.py:nothing", True, "has no nothing"),
        ("mine.py:repeats", True, "micro-batch 1: holds a sample twice"),
        ("mine:pairs", True, "should look like FILE.py:NAME"),
    ):
        with pytest.raises(ConfigError, match=message):
            ck.generate(tmp_path / "w.yaml", batcher_file=name, allow_programs=allowed)
