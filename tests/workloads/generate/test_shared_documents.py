"""Ranks that share documents in blocks: the same work as a ring, and only the keys that are met are sent."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.trace.validation import validate
from chakrakit.workloads.blocks import exchange_of
from chakrakit.workloads.description import Lengths
from chakrakit.workloads.generate import dry_run, generated
from support.commands import data, succeeded
from support.joined import join
from support.random_plans import random_workload

SMALL: dict[str, Any] = {"model": "llama3.2-1b", "layers": 2, "seq": 4096, "cp": 4}


def sent(figures: ck.GeneratedTraces, group: str) -> list[int]:
    """Bytes that each rank sends of a kind."""
    return [
        sum(m.bytes for m in c.comm if m.type == "SEND" and m.group.startswith(group))
        for c in figures.figures.per_rank
        for _ in range(c.ranks)
    ]


@pytest.mark.parametrize("causal", [True, False])
def test_one_document_is_as_in_a_ring(causal: bool) -> None:
    ring = ck.generate(**SMALL, context="ring", causal=causal)
    blocks = ck.generate(**SMALL, context="blocks", assignment="per-document", causal=causal)
    [whole] = ring.figures.per_rank
    for one in blocks.figures.per_rank:
        assert (one.flops, one.memory) == (whole.flops, whole.memory)
    passed = sum(m.bytes for m in whole.comm if m.group == "cp_next")
    received = sum(sent(blocks, ""))
    assert received <= 4 * passed
    if not causal:  # then all keys are met
        assert received == 4 * passed
    times = [ck.simulate(g.traces, "dgx-h100").summary.makespan_ns for g in (ring, blocks)]
    assert times[1] == pytest.approx(times[0], rel=0.01)


def test_messages_carry_exactly_the_keys_that_are_needed() -> None:
    made = ck.generate(**SMALL, context="blocks", block=256, mean=700, distribution="lognormal")
    [shape] = made.programs.shapes_of(0)
    shared = made.programs.shared.assignment(shape.attended)
    needed = exchange_of(shared).tokens.sum(axis=0) * 2 * 8 * 64 * 2  # 8 key heads of 64, bf16
    # Forward and again backward on 2 layers; gradients of those that came go back once.
    assert np.array(sent(made, "keys")) == pytest.approx(needed * 4)
    assert sum(sent(made, "grads")) == pytest.approx(needed.sum() * 2)


def test_whole_documents_are_not_sent_and_a_rank_may_have_none() -> None:
    made = ck.generate(**SMALL, context="blocks", assignment="whole")
    assert not any(sent(made, ""))
    assert [c.memory["activations"] > 0 for c in made.figures.per_rank].count(True) >= 1
    assert ck.simulate(made.traces, "dgx-h100").summary.makespan_ns > 0


def test_the_printed_evenness_is_that_of_the_printed_work() -> None:
    """All work over speeds that add up to seven would take that long if it was even."""
    made = ck.generate(
        **SMALL, context="blocks", assignment="flops", block=256, speeds=[4.0, 1.0, 1.0, 1.0]
    )
    flops = [c.flops for c in made.figures.per_rank]
    longest = max(flops[0] / 4, *flops[1:])
    assert made.figures.blocks.imbalance == pytest.approx(longest / (sum(flops) / 7) - 1)
    assert (
        made.figures.blocks.imbalance > 0.5
    )  # a quarter of tokens and a quarter more is the most of a rank


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_do_all_work_once_and_run_to_the_end(seed: int) -> None:
    rng = Random(seed)
    while True:
        plain = random_workload(rng)
        if plain.plan.ep == 1 and plain.model.kernel == "flash":
            break
    plan = plain.plan.replace(
        cp=rng.choice([2, 3]), context="blocks", block=8, sequence_parallel=False,
        assignment=rng.choice(["per-document", "whole", "flops", "mixed"]),
    )  # fmt: skip
    lengths = Lengths(distribution="uniform", mean=20)
    workload = plain.replace(plan=plan, step=plain.step.replace(lengths=lengths, imbalance=0.0))
    made = generated(workload)
    gathered = dry_run(generated(workload.replace(plan=plan.replace(cp=1, context="gather"))))
    assert dry_run(made).flops_total == pytest.approx(gathered.flops_total, rel=1e-6)
    traces = made.traces()
    assert not [f for f in validate(traces).findings if f.severity == "error"]
    joined = join(traces)
    joined.run(np.ones(joined.n, np.int64))


@pytest.mark.slow
def test_a_file_shares_documents_over_unlike_ranks(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "model: {base: llama3.2-1b, layers: 1}\n"
        "plan: {cp: 4, context: blocks, block: 256, speeds: [3, 3, 1, 1], shares: [0.5, 0.3, 0.2, 0.2]}\n"
        "step: {seq: 8192, lengths: {distribution: lognormal, mean: 2000}}\n"
    )
    figures = data("generate", tmp_path / "w.yaml", "--json")
    assert figures["blocks"]["assignment"] == "mixed"
    flops = [c["flops"] for c in figures["per_rank"]]
    times = [work / speed for work, speed in zip(flops, (3, 3, 1, 1), strict=True)]
    above = max(times) / (sum(flops) / 8) - 1
    # The second rank may hold 0.3 of the tokens, and would do 3 / 8 of the work if it was even.
    assert figures["blocks"]["imbalance"] == pytest.approx(above)
    assert above < 0.2
    assert min(flops[:2]) > 1.3 * max(flops[2:])
    succeeded("generate", tmp_path / "w.yaml", "-o", tmp_path / "t")
    assert data("simulate", tmp_path / "t", "--machine", "dgx-h100", "--json")["makespan_ns"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"context": "ring", "speeds": [1.0]}, "speeds is for attention in blocks; give context"),
        ({"context": "blocks", "speeds": [1.0]}, "speeds has 1 entries; give one above 0 for each"),
        ({"context": "blocks", "shares": [0.2] * 4}, "shares add up to 0.8 of all tokens"),
        ({"context": "blocks", "block": 0}, "block is 0; it is a number of tokens"),
        ({"context": "blocks", "kind": "prefill"}, "context blocks is for decoders that train"),
    ],
)
def test_what_blocks_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ck.generate(**SMALL, **fields)
