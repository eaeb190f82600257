"""The error of a run that stops while programs wait: who waits for what; and a word on verbs not yielded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import chakrakit.core as core
from chakrakit.errors import DeadlockError
from chakrakit.simulator.live.actors import Actor
from chakrakit.simulator.live.places import line_of, moment
from chakrakit.simulator.live.pools import Pool
from chakrakit.simulator.live.verbs import Message

_SHOWN = 6
"""Waits that an error lists: enough to see a pattern, few enough to read."""
_LONGEST = 60
"""Characters of a message's body that an error shows."""
SLEEP, COMPUTE, SEND, RECEIVE, COLLECTIVE, ACCESS, USE, ALL_OF, ANY_OF, SPAWN, PLAY = range(11)
"""Kinds of verbs, as the core numbers them."""
ON_HOST, TIMED = 1, 2
"""Of a kernel: the host ran it; its program said how long it takes."""


class LiveWait(NamedTuple):
    """What a part of a program waits for, as the core tells it."""

    actor: int
    op: int
    since: int
    size: int
    got: int
    number: int
    what: Any
    missing: list[int]
    box: list[Message]
    """Messages that have come for the actor and that nothing has taken."""
    program: Any


def check_finished(world: core.LiveWorld, actors: Sequence[Actor], pools: Sequence[Pool]) -> None:
    """Raises a DeadlockError unless nobody waits."""
    waits = [LiveWait(*wait) for wait in world.stuck()]
    if not waits:
        return
    shown = "; ".join(_described(wait, actors, pools) for wait in waits[:_SHOWN])
    more = f"; and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    raise DeadlockError(
        f"nothing more can happen and {len(waits)} wait: {shown}{more}."
        f"{_too_late(world.unread(), actors)} Give a receive a `timeout`, mark actors that may wait for "
        "ever as `daemon`, or run `until` a time"
    )


def warn_of_undone(verbs: int) -> None:
    """Warns of verbs that programs made and did not yield."""
    if verbs > 0:
        warnings.warn(
            f"programs made {verbs:,} verb{'s' * (verbs != 1)} and did not yield them: `live.send(…)` "
            "alone does nothing, `yield live.send(…)` sends",
            RuntimeWarning,
            stacklevel=3,
        )


def _too_late(unread: Sequence[tuple[int, int]], actors: Sequence[Actor]) -> str:
    """Messages that came for programs that had ended."""
    named = [f"{actors[a].name} ({n:,})" for a, n in unread[:_SHOWN]]
    return f" Messages came after a program had ended: {', '.join(named)}." if named else ""


def _described(wait: LiveWait, actors: Sequence[Actor], pools: Sequence[Pool]) -> str:
    line = line_of(wait.program)
    place = f" ({line})" if line else ""
    return f"{actors[wait.actor].name} waits since {moment(wait.since)} {_aim(wait, actors, pools)}{place}"


def _aim(wait: LiveWait, actors: Sequence[Actor], pools: Sequence[Pool]) -> str:
    if wait.op == RECEIVE:
        return _receiving(wait)
    if wait.op == COLLECTIVE:
        absent = ", ".join(actors[m].name for m in wait.missing) or "links that have failed"
        return f"in {wait.what} of {wait.size:,} bytes for {absent}"
    if wait.op == USE:
        return f"for a place of pool {pools[wait.number].name!r}"
    if wait.op == SEND:
        return f"for a message of {wait.size:,} bytes to arrive: a link has failed"
    if wait.op == ACCESS:
        return f"for {wait.size:,} bytes at store {wait.what!r}: it has failed"
    if wait.op == PLAY:
        return "for the end of traces that are played: ranks are missing, or a link has failed"
    return "for its device, which has failed"


def _receiving(wait: LiveWait) -> str:
    aim = f"to receive {wait.size} message{'s' * (wait.size != 1)}, of which {wait.got} came"
    if not wait.box:
        return aim
    first, count = wait.box[0], len(wait.box)
    lie = "others lie" if count > 1 else "other lies"
    return (
        f"{aim}; {count} {lie} in its mailbox that did not match, the first from "
        f"{first.sender.name} with {_short(first.body)}"
    )


def _short(body: object) -> str:
    text = repr(body)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
