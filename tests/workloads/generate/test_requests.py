"""Requests and iterations: pieces of prompts and one token each in decoding."""

from __future__ import annotations

import pytest

from chakrakit.workloads.description import Lengths, Step
from chakrakit.workloads.generate import Iteration, RequestPiece
from chakrakit.workloads.generate.requests import iterations, prompts


@pytest.mark.parametrize("budget", [8, 64, 1000])
def test_continuous_batches(budget: int) -> None:
    """Every prompt is read once, every request gets its tokens, no iteration exceeds the budget."""
    step = Step(
        kind="serve",
        seq=50,
        new_tokens=5,
        token_budget=budget,
        concurrency=3,
        seed=1,
        lengths=Lengths(distribution="uniform", mean=20),
    )
    passes = iterations(step, 0, 7)
    assert all(0 < one.tokens <= budget for one in passes)
    assert all(len(one.pieces) <= 3 for one in passes)
    seen = dict.fromkeys(range(7), 0)
    made = dict.fromkeys(range(7), 0)
    for one in passes:
        for piece in one.pieces:
            assert piece.cached == seen[piece.request]
            seen[piece.request] += piece.new
            made[piece.request] += piece.samples
    assert set(made.values()) == {5}


def test_generated_batches_are_those_of_the_serving_engine() -> None:
    """Budget 8, two at a time: a prompt is cut where tokens run out, decodes go first."""
    step = Step(kind="serve", seq=10, new_tokens=2, token_budget=8, concurrency=2)
    found = [
        [(p.request, p.new, p.cached, p.samples) for p in one.pieces]
        for one in iterations(step, 0, 3)
    ]
    assert found == [
        [(0, 8, 0, False)],
        [(0, 2, 8, True), (1, 6, 0, False)],
        [(0, 1, 10, True), (1, 4, 6, True)],
        [(1, 1, 10, True), (2, 7, 0, False)],
        [(2, 3, 7, True)],
        [(2, 1, 10, True)],
    ]


def pieces(passes: list[Iteration]) -> list[list[tuple[int, int, int]]]:
    return [[(p.request, p.new, p.cached) for p in one.pieces] for one in passes]


def test_prompts_are_taken_whole_so_many_in_a_pass() -> None:
    step = Step(kind="prefill", seq=10, micro_batch=2)
    passes = iterations(step, 0, 3)
    assert pieces(passes) == [[(0, 10, 0), (1, 10, 0)], [(2, 10, 0)]]
    assert (passes[0].tokens, passes[0].cached, passes[0].sampled) == (20, 0, 2)
    assert passes[0].pairs == 100  # half a square of 10 for each


def test_decoding_reads_one_more_token_in_every_pass() -> None:
    passes = iterations(Step(kind="decode", seq=10, cached=7, new_tokens=2), 0, 2)
    assert pieces(passes) == [[(0, 1, 7), (1, 1, 7)], [(0, 1, 8), (1, 1, 8)]]
    assert passes[1].pairs == 2 * 9  # every cached token and itself


def test_a_chunk_meets_all_that_is_cached_and_half_of_itself() -> None:
    assert RequestPiece(0, 4, 6, False).pairs == 4 * 6 + 8
    assert RequestPiece(0, 1, 6, True).pairs == 7


def test_drawn_prompts_differ_between_replicas_and_not_between_runs() -> None:
    step = Step(kind="prefill", seq=50, seed=3, lengths=Lengths(distribution="uniform", mean=20))
    assert prompts(step, 0, 5) == prompts(step, 0, 5)
    assert prompts(step, 0, 5) != prompts(step, 1, 5)
    assert prompts(Step(kind="prefill", seq=50), 0, 2) == [50, 50]
