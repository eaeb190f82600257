"""Sessions of agents: every turn's prompt is all that was said so far, with some of it rewritten."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.serving.requests.processes import (
    UNIT,
    LengthDistribution,
    Process,
    labels,
    refuse_more,
)
from chakrakit.serving.requests.stream import Contents, RequestStream, stream_of

_HEADER = 16
"""Tokens at the very front that a turn may rewrite: a date, a counter, the state of an environment."""


class Agents(Process, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions of `turns` requests: a header, a system prompt of `prefix` tokens, a piece for each turn.

    The system prompt is one of `prefixes`; pieces have `prompt` tokens. In each turn after the first, with
    the probability `edits`, something is rewritten with other content of the same length, so that what stands
    behind it keeps its content and loses its prefix: the header for a share `front` of the edits, else one of
    the earlier pieces.
    """

    edits: float = 0.0
    front: float = 0.0


@dataclass(frozen=True)
class Piece:
    """A part of a prompt that is known by its content."""

    content: int
    tokens: int


def agent_stream(process: Agents) -> RequestStream:
    """The stream of the process, with its prompts as prefixes and as pieces of content."""
    process.check()
    if not (0 <= process.edits <= 1 and 0 <= process.front <= 1):
        raise ConfigError("requests: edits is a probability and front a share, from 0 to 1")
    rng = np.random.default_rng([process.seed, 23])
    sessions = -(-process.n // process.turns)
    starts = process.arrivals(rng, sessions)
    sizes = LengthDistribution.parse(process.prompt, "prompt").draw(rng, process.n)
    output = LengthDistribution.parse(process.output, "output").draw(rng, process.n)
    prompts: list[list[Piece]] = []
    fresh = iter(range(1 + process.prefixes, 2**62))  # 0 is the header that all begin with
    for number in range(process.n):
        turn = number % process.turns
        if turn == 0:
            system = Piece(1 + int(rng.integers(process.prefixes)), max(1, process.prefix))
            history = [Piece(0, _HEADER), system]
        elif rng.random() < process.edits:
            behind = 2 + int(rng.integers(len(history) - 2))
            place = 0 if rng.random() < process.front else behind
            history = history.copy()
            history[place] = Piece(next(fresh), history[place].tokens)
        history = [*history, Piece(next(fresh), int(sizes[number]))]
        prompts.append(history)
    refuse_more(sum(len(p) for p in prompts), "the number of pieces of prompts")
    turns = np.arange(process.n) % process.turns
    session = np.arange(process.n) // process.turns
    return stream_of(
        np.where(turns > 0, process.think, starts[session]),
        [sum(piece.tokens for piece in p) for p in prompts],
        output,
        ids=[prefix_ids(p) for p in prompts],
        after=np.where(turns > 0, np.arange(process.n) - 1, -1),
        group=session,
        contents=Contents.of([[(p.content, p.tokens) for p in prompt] for prompt in prompts]),
        unit=UNIT,
        **labels(process, rng, session),
    )


def prefix_ids(pieces: list[Piece]) -> list[int]:
    """Ids of each unit of tokens with all that stands before it."""
    ids, before, place = [], 0, 0
    for piece in pieces:
        before = hash((before, piece.content)) & (2**63 - 1)
        end = place + piece.tokens
        first = -(-(place + 1) // UNIT)
        ids += [hash((before, unit)) & (2**63 - 1) for unit in range(first, end // UNIT + 1)]
        place = end
    return ids
