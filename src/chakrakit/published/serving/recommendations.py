"""Prompts of a recommender that is a language model: instructions, a user's history, items to choose from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.serving import EngineView, RequestView
from chakrakit.serving.requests import UNIT, Contents, Piece, RequestStream, prefix_ids, stream_of

USERS, ITEMS, KINDS = 400, 2000, 8
"""Users, items, and kinds of items; a user likes one kind."""
INSTRUCTION, HISTORY, ITEM, SHOWN = 192, 480, 64, 20
"""Tokens of the instruction, of a history and of an item, and items of a prompt."""
LIKED = 0.8
"""The share of the items of a prompt that are of the kind that its user likes."""


def prompts(rate: float, again: float, count: int, seed: int) -> RequestStream:
    """Requests of users, popular ones more often.

    A share `again` shows a user the same list as always, of items that nobody else sees; the others show new
    items, drawn by popularity. The group of a request is the kind of items that its user likes.
    """
    rng = np.random.default_rng([seed, 46])
    user_of = rng.choice(USERS, count, p=_popularity(USERS))
    pieces: list[list[Piece]] = []
    for user in user_of.tolist():
        own = range(ITEMS + user * SHOWN, ITEMS + (user + 1) * SHOWN)
        items = own if rng.random() < again else _shown(rng, user % KINDS)
        head = [Piece(0, INSTRUCTION), Piece(1 + user, HISTORY)]
        pieces.append([*head, *(Piece(1 + USERS + item, ITEM) for item in items)])
    return stream_of(
        np.cumsum(rng.exponential(1 / rate, count)),
        [sum(p.tokens for p in prompt) for prompt in pieces],
        np.ones(count),
        ids=[prefix_ids(prompt) for prompt in pieces],
        contents=Contents.of([[(p.content, p.tokens) for p in prompt] for prompt in pieces]),
        group=user_of % KINDS,
        unit=UNIT,
    )


def _popularity(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = 1 / np.arange(1, count + 1)
    return np.asarray(weights / weights.sum())


def _shown(rng: np.random.Generator, kind: int) -> list[int]:
    liked = round(LIKED * SHOWN)
    own = rng.choice(ITEMS // KINDS, liked, replace=False, p=_popularity(ITEMS // KINDS))
    other = rng.choice(ITEMS, SHOWN - liked, replace=False)
    items = {int(item) * KINDS + kind for item in own} | {int(item) for item in other}
    return [int(item) for item in rng.permutation(sorted(items))]


class NearItsKind:
    """A request goes to the engine that has items of its kind, unless that is much busier than another."""

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int:
        """The number of the engine."""
        own = engines[request.group % len(engines)]
        idle = min(engines, key=lambda e: (e.waiting + e.running, e.number))
        ahead = own.waiting + own.running - idle.waiting - idle.running
        return idle.number if ahead > 2 else own.number
