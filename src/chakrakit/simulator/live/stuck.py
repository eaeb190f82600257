"""The error of a run that stops while programs wait: who waits for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chakrakit.errors import DeadlockError
from chakrakit.simulator.live.actors import Actor
from chakrakit.simulator.live.pools import Pool

_SHOWN = 6
"""Waits that an error lists: enough to see a pattern, few enough to read."""
SLEEP, COMPUTE, SEND, RECEIVE, COLLECTIVE, ACCESS, USE, ALL_OF, ANY_OF, SPAWN, PLAY = range(11)
"""Kinds of verbs, as the core numbers them."""


def check_finished(waits: list[Any], actors: Sequence[Actor], pools: Sequence[Pool]) -> None:
    """Raises a DeadlockError unless nobody waits."""
    if not waits:
        return
    told = [_told(wait, actors, pools) for wait in waits[:_SHOWN]]
    more = f"; and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    raise DeadlockError(
        f"nothing more can happen and {len(waits)} wait: {'; '.join(told)}{more}. Give a receive a "
        "`timeout`, mark actors that may wait for ever as `daemon`, or run `until` a time"
    )


def _told(wait: Any, actors: Sequence[Actor], pools: Sequence[Pool]) -> str:
    actor, op, since, size, got, number, what, missing = wait
    head = f"{actors[actor].name} waits since {since / 1000:,g} ns "
    if op == RECEIVE:
        return head + f"to receive {size} message{'s' * (size != 1)}, of which {got} came"
    if op == COLLECTIVE:
        absent = ", ".join(actors[m].name for m in missing) or "links that have failed"
        return head + f"in {what} of {size:,} bytes for {absent}"
    if op == USE:
        return head + f"for a place of pool {pools[number].name!r}"
    if op == SEND:
        return head + f"for a message of {size:,} bytes to arrive: a link has failed"
    if op == ACCESS:
        return head + f"for {size:,} bytes at store {what!r}: it has failed"
    if op == PLAY:
        return (
            head + "for the end of traces that are played: ranks are missing, or a link has failed"
        )
    return head + "for its device, which has failed"
