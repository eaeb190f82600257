"""Verbs: what a program yields. It goes on when the verb is over, with the verb's result.

Times are nanoseconds (whole picoseconds count), sizes bytes. `US`, `MS` and `S` are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.simulator.live.actors import Actor, ActorGroup
from chakrakit.simulator.live.pools import Place, Pool
from chakrakit.simulator.live.scores import Score

Verb = core.LiveVerb
Message = core.LiveMessage
Program = Generator[Verb, Any, Any]
"""What runs: a generator of verbs."""
US, MS, S = 1e3, 1e6, 1e9


def sleep(ns: float) -> Verb:
    """Time passes."""
    return core.live_sleep(ns, None)


def compute(
    ns: float | None = None,
    *,
    flops: float = 0,
    bytes: float = 0,
    dtype: str = "",
    name: str = "compute",
    host: bool = False,
    priority: int = 0,
) -> Verb:
    """A kernel on the rank's device, or with `host` work of its host; one at a time, by priority.

    It takes `ns`, or as long as the device needs for `flops` and for moving `bytes`, by the work model.
    """
    return core.live_compute(ns, flops, bytes, dtype, name, host, priority)


def send(
    to: Actor | str | int,
    size: float,
    body: object = None,
    *,
    wait: bool = False,
    priority: int = 0,
    weight: int = 1,
    name: str = "message",
) -> Verb:
    """A message of `size` bytes on the network; it is over at once, or with `wait` when it has arrived.

    `body` is what the receiver gets to see; it takes no time. `priority` and `weight` are those of links.
    """
    return core.live_send(to, size, body, wait, priority, weight, name)


def receive(
    match: Callable[[Message], object] | None = None, count: int = 1, timeout: float | None = None
) -> Verb:
    """The next `count` messages for which `match` is true, as a tuple: a quorum waits for k of n.

    After `timeout` it is over with those that have come; one that arrives at that very moment counts.
    """
    return core.live_receive(match, count, timeout)


def collective(kind: str, size: float, group: ActorGroup, root: int = 0) -> Verb:
    """A collective such as `all-reduce` with all members of the group; sizes count as in traces.

    `root` is the place among the members of whom a broadcast comes from, or a reduction goes to.
    """
    if not isinstance(group, ActorGroup):
        raise ConfigError(f"a collective of {group!r}; give a group, which world.group([…]) makes")
    return core.live_collective(kind.replace("_", "-"), size, group.core, root)


def new_group(group: ActorGroup, cost: float) -> Verb:
    """The group, after the time that it takes to set it up."""
    return core.live_sleep(cost, group)


def load(store: str, size: float) -> Verb:
    """Bytes from one of the machine's stores."""
    return core.live_access(store, size, False)


def store(store: str, size: float) -> Verb:
    """Bytes to one of the machine's stores."""
    return core.live_access(store, size, True)


def use(
    pool: Pool,
    ns: float | Callable[[Place], float],
    *,
    priority: float = 0,
    deadline: float = float("inf"),
    item: object = None,
    change: float = 0,
    about: object = None,
) -> Verb:
    """A place of the pool for so long; its result is the number of the place, None if the pool was full.

    `ns` may be a function of the place that the task got. Where `item` is not resident at that place,
    `change` is added and it is from then on. A policy sees `about`.
    """
    if not isinstance(pool, Pool):
        raise ConfigError(f"a use of {pool!r}; give a pool, which world.pool(…) makes")
    key = deadline if pool.discipline == "deadline" else priority
    return core.live_use(pool.number, ns, key, item, change, about)


def all_of(*children: Verb | Program) -> Verb:
    """All of these at once; their results as a tuple."""
    return core.live_together(children, False)


def any_of(*children: Verb | Program) -> Verb:
    """All of these at once until the first is over: its number and its result.

    The others end: they leave mailboxes and pools. What is on a device or on links goes on unheard.
    """
    return core.live_together(children, True)


def spawn(program: Program, *, daemon: bool = False) -> Verb:
    """A generator that runs beside the program, as part of the same actor; a `daemon` may wait for ever."""
    if not isinstance(program, Generator):
        raise ConfigError(
            f"spawn of {program!r}; give a running generator, such as `spawn(serve(me))`, or `join` a "
            "program as a new actor"
        )
    return core.live_spawn(program, daemon)


def join(
    program: Callable[..., Any], *args: object, rank: int = 0, name: str = "", **options: Any
) -> Verb:
    """A new actor from now on; takes what `World.actor` takes, and its result is the Actor."""
    return core.live_spawn((program, args, {"rank": rank, "name": name, **options}), False)


def play(score: Score, rank: int | None = None) -> Verb:
    """Traces on the devices of the score (`World.score`): all ranks, or one whose peers others play."""
    if not isinstance(score, Score):
        raise ConfigError(f"play of {score!r}; give a score, which world.score(traces) makes")
    return core.live_play(score.playing(rank is None), -1 if rank is None else rank, score.name)
