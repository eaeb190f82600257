"""Continuous batching of the serving engine, with all requests there from the start."""

from __future__ import annotations

from chakrakit.workloads.generate.requests import continuous_batches

Row = tuple[int, int, int, int, int]


def batches(prompts: list[int], output: int, budget: int, concurrency: int) -> list[Row]:
    """(step, request, tokens, context, output tokens) of every piece."""
    found = continuous_batches(prompts, output, budget, concurrency)
    columns = (found[n].tolist() for n in ("step", "request", "tokens", "context", "gives"))
    rows = [tuple(row) for row in zip(*columns, strict=True)]
    first = min(row[0] for row in rows)
    return [(row[0] - first, *row[1:]) for row in rows]


def test_a_prompt_and_then_a_token_in_every_step() -> None:
    assert batches([5], 3, 100, 1) == [(0, 0, 5, 0, 1), (1, 0, 1, 5, 1), (2, 0, 1, 6, 1)]


def test_a_prompt_is_cut_where_the_budget_ends() -> None:
    assert batches([5], 1, 3, 1) == [(0, 0, 3, 0, 0), (1, 0, 2, 3, 1)]


def test_a_request_waits_for_a_place() -> None:
    assert batches([4, 4], 2, 100, 1) == [
        (0, 0, 4, 0, 1),
        (1, 0, 1, 4, 1),
        (2, 1, 4, 0, 1),
        (3, 1, 1, 4, 1),
    ]


def test_decodes_go_before_prompts() -> None:
    second = [row for row in batches([4, 9], 3, 5, 2) if row[0] == 1]
    assert second[0] == (1, 0, 1, 4, 1)
    assert sum(row[2] for row in second) == 5
