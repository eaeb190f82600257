"""Steps as engines form them, small enough to be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chakrakit.serving.requests import stream_of
from support.serving_engines import Serve, by_tokens, constant, pool, together


def steps(done: object, *names: str) -> list[tuple[int, ...]]:
    table = done.steps  # type: ignore[attr-defined]
    return list(zip(*(table[n].tolist() for n in names), strict=True))


def test_decodes_go_first_and_prompts_fill_the_budget(serve: Serve) -> None:
    """Two prompts of 24 tokens in steps of 32: 24 + 8, then a decode and the other 16, then decodes."""
    done = serve(together(2, 24, 3), pool(token_budget=32))
    assert steps(done, "tokens", "prompt_tokens", "requests") == [
        (32, 32, 2),
        (17, 16, 2),
        (2, 0, 2),
        (1, 0, 1),
    ]


def test_prefill_first_puts_waiting_prompts_before_decodes(serve: Serve) -> None:
    """With a budget of 8, the second prompt goes before the first request's decode."""
    own = pool(token_budget=8, prefill_first=True)
    done = serve(together(2, 8, 2), own)
    assert steps(done, "tokens", "prompt_tokens") == [(8, 8), (8, 8), (2, 0)]


def test_prompts_alone_never_share_a_step_with_decodes(serve: Serve) -> None:
    """SGLang's way: a step is all prompt or all decode."""
    stream = stream_of([0.0, 0.015], [8, 8], [3, 3])
    done = serve(stream, pool(discipline="prefill_alone", token_budget=8))
    assert steps(done, "tokens", "prompt_tokens") == [(8, 8), (1, 0), (8, 8), (2, 0), (1, 0)]


def test_the_sequence_limit_holds(serve: Serve) -> None:
    """Never more than three requests in a step."""
    done = serve(together(10, 8, 4), pool(max_requests=3))
    assert done.steps["requests"].max() == 3


def test_without_chunks_a_prompt_waits_for_a_budget_of_its_own(serve: Serve) -> None:
    """Prompts of 20 in a budget of 32 go one at a time."""
    done = serve(together(2, 20, 1), pool(token_budget=32, chunked=False))
    assert steps(done, "tokens") == [(20,), (20,)]


def test_an_overlapped_engine_hides_its_own_time(serve: Serve) -> None:
    """Ten steps of 10 ms with 4 ms of host time each: 14 ms per step, or 10 where the next is prepared."""
    alone = serve(together(1, 8, 10), pool(host_ms=4.0))
    hidden = serve(together(1, 8, 10), pool(host_ms=4.0, depth=2))
    assert alone.requests["finish"][0] == 140_000_000_000
    assert hidden.requests["finish"][0] == 104_000_000_000


def test_what_is_scheduled_ahead_misses_what_arrives_meanwhile(serve: Serve) -> None:
    """A request that comes during step n joins step n + 1, or n + 2 where n + 1 is formed already."""
    stream = stream_of([0.0, 0.025], [8, 8], [9, 2])
    alone = serve(stream, pool())
    ahead = serve(stream, pool(depth=2))
    assert alone.requests["first"][1] == 40_000_000_000
    assert ahead.requests["first"][1] == 50_000_000_000


def test_decode_steps_are_padded_to_captured_sizes(serve: Serve) -> None:
    """Three decodes cost what four do; prompts are not padded."""
    cost = by_tokens(0.0, 0.001)
    done = serve(together(3, 8, 2), pool(graphs=(1, 2, 4, 8), cost=cost, token_budget=24))
    lengths = (done.steps["end"] - done.steps["start"]).tolist()
    assert lengths == [24_000_000_000, 4_000_000_000]


def test_speculation_gives_several_tokens_a_step(serve: Serve) -> None:
    """With every draft accepted, four tokens come of each step; with none, one."""
    sure = serve(together(1, 8, 9), pool(drafts=3, acceptance=1.0))
    never = serve(together(1, 8, 9), pool(drafts=3, acceptance=0.0))
    assert len(sure.steps["start"]) == 3
    assert len(never.steps["start"]) == 9
    assert sure.totals[0]["accepted"] == 6


def test_speculation_accepts_by_its_rate(serve: Serve) -> None:
    """Accepted runs of up to four drafts at 0.6: 0.6 + 0.36 + 0.216 + 0.1296 tokens per step."""
    done = serve(together(50, 8, 400), pool(drafts=4, acceptance=0.6, blocks=10_000))
    tokens = 50 * 399 / done.totals[0]["pieces"]
    assert tokens == pytest.approx(1 + 1.3056, rel=0.03)


def test_a_pipeline_works_on_one_step_per_stage(serve: Serve) -> None:
    """Two stages of 5 ms each: steps of two halves of the requests overlap, and one starts every 5 ms."""
    one = replace(pool(max_requests=8, token_budget=8), stages=2)
    done = serve(together(2, 8, 3), one)
    assert [s // 10**9 for s in done.steps["start"].tolist()][:4] == [0, 5, 10, 15]


def test_adapters_take_turns(serve: Serve) -> None:
    """At most one adapter is loaded: a request with another waits until it is free."""
    stream = stream_of([0.0, 0.0], [8, 8], [3, 3], adapter=[0, 1])
    done = serve(stream, pool(max_adapters=1))
    assert done.steps["requests"].max() == 1
    both = serve(stream, pool(max_adapters=2))
    assert both.steps["requests"].max() == 2


def test_swapping_keeps_what_was_computed(serve: Serve) -> None:
    """Short of blocks, a request put aside on the host computes nothing twice; recomputing does."""
    tight = {"blocks": 8, "block_size": 4, "token_budget": 64, "cost": constant(0.01)}
    stream = together(3, 8, 10)
    swap = serve(stream, pool(swap_gib=1.0, **tight))
    again = serve(stream, pool(**tight))
    assert swap.totals[0]["swaps"] > 0
    assert again.totals[0]["preemptions"] > 0
    assert swap.totals[0]["tokens"] == 3 * 17
    assert again.totals[0]["tokens"] > 3 * 17


def test_prompts_gather_beside_decodes(serve: Serve) -> None:
    """Two prompts that come during decoding wait until they fill half of the budget, or three steps."""
    stream = stream_of([0.0, 0.005, 0.025], [8, 8, 8], [9, 2, 2])
    alone = serve(stream, pool(token_budget=32, gather_steps=3, gather_share=1.0))
    assert steps(alone, "prompt_tokens")[:6] == [(8,), (0,), (0,), (0,), (16,), (0,)]
    enough = serve(stream, pool(token_budget=32, gather_steps=3, gather_share=0.5))
    assert steps(enough, "prompt_tokens")[:5] == [(8,), (0,), (0,), (16,), (0,)]
    at_once = serve(stream, pool(token_budget=32))
    assert steps(at_once, "prompt_tokens")[:5] == [(8,), (8,), (0,), (8,), (0,)]


def test_a_queue_is_looked_at_now_and_then(serve: Serve) -> None:
    """SGLang's receive interval: after a prompt, four decoding steps pass before the next two are seen."""
    stream = stream_of([0.0, 0.025, 0.035], [8, 8, 8], [9, 2, 2])
    done = serve(stream, pool(discipline="prefill_alone", look_steps=4))
    assert steps(done, "prompt_tokens")[:7] == [(8,), (0,), (0,), (0,), (0,), (16,), (0,)]


def test_nobody_is_put_aside_where_all_must_end_where_they_are(serve: Serve) -> None:
    """Eight blocks of four tokens hold one request of 18 tokens to its end beside none, not two."""
    tight = {"blocks": 8, "block_size": 4, "token_budget": 64, "cost": constant(0.01)}
    done = serve(together(3, 8, 10), pool(no_evict=True, **tight))
    assert done.totals[0]["preemptions"] == 0
    assert done.steps["requests"].max() == 1


def test_a_step_with_a_prompt_takes_its_launches_at_least(serve: Serve) -> None:
    """Ten milliseconds of work and 25 of launches: 25 with the prompt, 10 without."""
    done = serve(together(1, 8, 3), pool(prompt_launch_ms=25.0))
    lengths = (done.steps["end"] - done.steps["start"]).tolist()
    assert lengths == [25_000_000_000, 10_000_000_000, 10_000_000_000]


def test_ranks_that_step_together_start_their_prompts_together(serve: Serve) -> None:
    """A rank's second prompt waits for the other rank's, for two steps at most."""
    stream = stream_of([0.0, 0.0, 0.015, 0.025], [8] * 4, [9] * 4)
    own = replace(pool(balance_steps=5), engines=2, ranks=2)
    both = serve(stream, own)
    assert both.requests["first"][2:].tolist() == [40_000_000_000, 40_000_000_000]
    alone = serve(stream.first(3), replace(pool(balance_steps=2), engines=2, ranks=2))
    assert alone.requests["first"][2] == 40_000_000_000
    free = serve(stream.first(3), replace(pool(), engines=2, ranks=2))
    assert free.requests["first"][2] == 30_000_000_000
