"""Requests that could never be served are refused before anything runs."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.engine import engine_from
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.plan import check_feasible
from chakrakit.serving.requests import stream_of


def check(prompt, output, blocks, engine="vllm"):
    stream = stream_of([0.0, 1.0], [1, prompt], [1, output], names=["small", "big"])
    check_feasible(
        stream,
        engine_from(engine),
        Capacity(blocks=blocks, block_size=16, bytes_per_token=1, fixed=True),
    )


def test_the_last_tokens_keys_are_never_needed():
    """33 + 16 - 1 tokens are three blocks of 16."""
    check(33, 16, 3)
    with pytest.raises(ConfigError, match=r"request big \(number 2\) can never fit: 34 prompt"):
        check(34, 16, 3)


def test_transformers_may_ask_for_one_block_more():
    check(33, 16, 4, "transformers")
    with pytest.raises(ConfigError, match="need 4 blocks of"):
        check(33, 16, 3, "transformers{block_size=16}")


def test_the_longest_context_is_the_engines():
    with pytest.raises(ConfigError, match="has 60 tokens; the engine takes 50 at most"):
        check(40, 20, 99, "vllm{max_model_len=50}")


def test_without_chunks_a_prompt_has_to_fit_the_budget():
    engine = "vllm{enable_chunked_prefill=false, max_num_batched_tokens=64}"
    check(64, 1, 99, engine)
    with pytest.raises(ConfigError, match="a prompt of 65 tokens; without chunks the budget of 64"):
        check(65, 1, 99, engine)
