"""Running programs: generators of generator functions, and of objects that answer messages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.simulator.live.actors import Actor
from chakrakit.simulator.live.verbs import Message, Program, receive


def program_of(program: Callable[..., Any] | object, me: Actor, args: Sequence[object]) -> Program:
    """A running program: of a generator function, or of an object with `on_message(me, message)`."""
    if hasattr(program, "on_message"):
        return _answering(program, me)
    if not callable(program):
        raise ConfigError(
            f"{me.name} is {program!r}; give a generator function, or an object with on_message"
        )
    running = program(me, *args)
    if not isinstance(running, Generator):
        name = getattr(program, "__name__", repr(program))
        raise ConfigError(
            f"{me.name}: {name} is not a generator function; a program yields verbs, such as "
            "`yield live.sleep(10)`"
        )
    return running


def _answering(handler: Any, me: Actor) -> Program:
    while True:
        message: Message
        (message,) = yield receive()
        reaction = handler.on_message(me, message)
        if isinstance(reaction, Generator):
            yield from reaction
