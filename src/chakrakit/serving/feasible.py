"""Requests that an engine could never serve are refused before anything runs, with the arithmetic."""

from __future__ import annotations

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.serving.engine import EngineOptions
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.requests import Stream


def check_feasible(stream: Stream, engine: EngineOptions, capacity: Capacity) -> None:
    """Every request fits alone: in the cache, in the longest context, and in the token budget."""
    # The last token's keys and values are never needed; transformers may ask for one block more.
    most = stream.prompt + stream.output - 1
    spare = 1 if engine.discipline == "transformers" else 0
    blocks = -(-most // engine.block_size) + spare
    worst = int(np.argmax(blocks))
    if blocks[worst] > capacity.blocks:
        raise ConfigError(
            f"{_named(stream, worst)} can never fit: {stream.prompt[worst]:,} prompt and "
            f"{stream.output[worst]:,} output tokens need {blocks[worst]:,} blocks of "
            f"{engine.block_size}, and the cache has {capacity.blocks:,} ({capacity.explained()})"
        )
    total = stream.prompt + stream.output
    if engine.max_context and int(total.max()) > engine.max_context:
        worst = int(np.argmax(total))
        raise ConfigError(
            f"{_named(stream, worst)} has {total[worst]:,} tokens; "
            f"the engine takes {engine.max_context:,} at most"
        )
    longest = int(np.argmax(stream.prompt))
    if not engine.chunked and int(stream.prompt[longest]) > engine.token_budget:
        raise ConfigError(
            f"{_named(stream, longest)} has a prompt of {stream.prompt[longest]:,} tokens; "
            f"without chunks the budget of {engine.token_budget:,} tokens per step is never enough"
        )


def _named(stream: Stream, number: int) -> str:
    name = stream.names[number] if stream.names else str(number)
    return f"request {name} (number {number + 1})"
