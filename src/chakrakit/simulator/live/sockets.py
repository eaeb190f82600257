"""The same programs over real sockets of this machine: threads that send each other datagrams.

Programs that sleep, compute for a time, send and receive run here as they run in a `World`, with the same
faults and the same random numbers of each actor; the clock is this machine's. Bodies of messages are what
JSON can say; sequences arrive as tuples.
"""

from __future__ import annotations

import heapq
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.simulator.live.actors import Actor
from chakrakit.simulator.live.faults import Crash, FaultStrategy, Faulty, checked_faults
from chakrakit.simulator.live.running import program_of
from chakrakit.simulator.live.stuck import COMPUTE, RECEIVE, SEND, SLEEP
from chakrakit.simulator.live.verbs import Program, S, Verb

LARGEST = 60_000
"""Bytes of a message: a datagram has at most 65,507."""
_POLL_S = 0.05
"""How often a thread that waits looks whether the run is over."""


@dataclass(frozen=True)
class SocketMessage:
    """A message that came over a socket; the fields of `Message`."""

    sender: Actor
    body: Any
    size: int
    sent_ns: float
    arrived_ns: float


@dataclass
class SocketsResult:
    """What programs returned, who had not ended in time, and what was sent."""

    returned: dict[str, Any] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    messages: int = 0
    message_bytes: int = 0
    seconds: float = 0.0


class Sockets:
    """Actors on sockets of this machine; `run` lets them act, at most for so many seconds."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.actors, self.labels = seed, list[SocketActor](), list[str]()
        self.key = secrets.token_bytes(8)
        """Before every datagram: what others send to our ports is not read."""
        self.began = time.monotonic()
        self.over = threading.Event()

    @property
    def now_ps(self) -> int:
        """Since the beginning, in picoseconds."""
        return int((time.monotonic() - self.began) * 1e12)

    def actor(
        self,
        program: Callable[..., Any] | object,
        *args: object,
        rank: int = 0,
        name: str = "",
        daemon: bool | None = None,
        faults: Sequence[FaultStrategy] = (),
    ) -> Actor:
        """An actor with a socket of its own, as in `World.actor`."""
        number = len(self.actors)
        me = Actor(self, number, name or f"actor {number}", rank, self.seed)
        serves = hasattr(program, "on_message") if daemon is None else daemon
        self.actors.append(
            SocketActor(self, me, program, args, checked_faults(me.name, faults), serves)
        )
        return me

    def number_of(self, who: Actor | str | int) -> int:
        """The number of an actor."""
        for number, actor in enumerate(self.actors):
            if who in (number, actor.me):
                return number
        raise ConfigError(f"no actor {who!r}; {nearest(who, [a.me.name for a in self.actors])}")

    def run(self, seconds: float) -> SocketsResult:
        """Runs all programs in threads of their own until all but daemons have ended, or time is up."""
        self.began = time.monotonic()
        threads = [threading.Thread(target=actor.run, daemon=True) for actor in self.actors]
        try:
            for thread in threads:
                thread.start()
            for thread, actor in zip(threads, self.actors, strict=True):
                if not actor.serves:
                    thread.join(max(0.0, self.began + seconds - time.monotonic()))
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
            for actor in self.actors:
                actor.socket.close()
        return self._result()

    def _result(self) -> SocketsResult:
        for actor in self.actors:
            error, actor.error = actor.error, None  # or its frames would keep us, and we them
            if error is not None:
                raise error
        ended = {a.me.name: a.returned for a in self.actors if a.ended}
        return SocketsResult(
            returned=ended,
            unfinished=[a.me.name for a in self.actors if not a.ended and not a.serves],
            messages=sum(a.sent for a in self.actors),
            message_bytes=sum(a.sent_bytes for a in self.actors),
            seconds=time.monotonic() - self.began,
        )


class _StoppedError(Exception):
    """The run is over, or the actor has crashed."""


class SocketActor:
    """One program in its thread: its socket, its mailbox, and what it still has to send."""

    def __init__(
        self,
        world: Sockets,
        me: Actor,
        program: Callable[..., Any] | object,
        args: tuple[object, ...],
        faults: Sequence[FaultStrategy],
        serves: bool,
    ) -> None:
        self.world, self.me, self.serves = world, me, serves
        self._program: Callable[[], Program] = lambda: program_of(program, me, args)
        self.crashes = sorted((f.at_ns, f.until_ns) for f in faults if isinstance(f, Crash))
        self.faulty = Faulty(me, [f for f in faults if not isinstance(f, Crash)], world.labels)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.box: list[SocketMessage] = []
        self.later: list[tuple[float, int, int, bytes]] = []
        self.sent = self.sent_bytes = 0
        self.returned: Any = None
        self.ended, self.error = False, None  # type: bool, BaseException | None

    def run(self) -> None:
        """The whole life of the actor, crashes included; an error is kept for the caller."""
        try:
            while not self.ended:
                try:
                    self._act(self._program())
                except _StoppedError:
                    if not self._restarts():
                        return
        except BaseException as error:
            self.error = error

    def _act(self, program: Program) -> None:
        value: Any = None
        while True:
            self._wait_until(self.me.now)
            try:
                verb = program.send(value)
            except StopIteration as end:
                self.returned, self.ended = end.value, True
                return
            value = self._do(verb)

    def _restarts(self) -> bool:
        """Whether a crashed actor begins anew; it does so when its time has come."""
        if self.world.over.is_set():
            return False
        _, until_ns = self.crashes.pop(0)
        if until_ns is None:
            return False
        self.world.over.wait(max(0.0, (until_ns - self.me.now) / S))
        self._read(0.0)
        self.box.clear()
        return not self.world.over.is_set()

    def _do(self, verb: Verb) -> Any:
        if verb.op in (SLEEP, COMPUTE):
            ns = (
                verb.ns
                if verb.op == SLEEP
                else self.faulty.compute(round(verb.ns * 1000))[0] / 1000
            )
            self._wait_until(self.me.now + max(0.0, ns))
            return verb.objects[0] if verb.op == SLEEP else None
        if verb.op == SEND:
            return self._send(*verb.objects[:2], verb.size)
        if verb.op == RECEIVE:
            return self._receive(verb.objects[0], verb.size, verb.ns)
        raise ConfigError(
            f"{self.me.name}: over sockets a program sleeps, computes for a time, sends and receives alone"
        )

    def _send(self, to: Any, body: Any, size: int) -> None:
        if size > LARGEST:
            raise ConfigError(
                f"{self.me.name}: a message of {size:,} bytes; datagrams hold {LARGEST:,}"
            )
        for delay_ps, number, told, _ in self.faulty.send(self.world.number_of(to), size, body):
            head = msgspec.json.encode([self.me.number, size, self.me.now, told])
            data = self.world.key + head.ljust(max(len(head), size))
            heapq.heappush(self.later, (self.me.now + delay_ps / 1000, self.sent, number, data))
            self.sent += 1
            self.sent_bytes += size
        self._flush()

    def _flush(self) -> None:
        while self.later and self.later[0][0] <= self.me.now:
            _, _, number, data = heapq.heappop(self.later)
            self.socket.sendto(data, self.world.actors[number].socket.getsockname())

    def _receive(self, match: Any, count: int, timeout_ns: float) -> tuple[SocketMessage, ...]:
        until = self.me.now + timeout_ns if timeout_ns >= 0 else float("inf")
        while True:
            fits = [m for m in self.box if match is None or match(m)][:count]
            if len(fits) == count or self.me.now >= until:
                self.box = [m for m in self.box if not any(m is taken for taken in fits)]
                return tuple(fits)
            self._pause(until)

    def _wait_until(self, until: float) -> None:
        self._pause(until)
        while self.me.now < until:
            self._pause(until)

    def _pause(self, until: float) -> None:
        """Reads what comes, sends what is due, and looks whether the actor is still to live."""
        crash = self.crashes[0][0] if self.crashes else float("inf")
        if self.world.over.is_set() or self.me.now >= crash:
            raise _StoppedError
        due = self.later[0][0] if self.later else float("inf")
        self._read(min(_POLL_S, max(0.0, (min(until, crash, due) - self.me.now) / S)))
        self._flush()

    def _read(self, seconds: float) -> None:
        """Takes what has come, and waits for more for at most so long."""
        while True:
            self.socket.settimeout(seconds)
            try:
                data = self.socket.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                return
            seconds = 0.0
            if data.startswith(self.world.key):
                sender, size, sent, body = msgspec.json.decode(data[len(self.world.key) :].rstrip())
                who = self.world.actors[sender].me
                message = SocketMessage(who, _tuples(body), size, sent, self.me.now)
                if self.faulty.receive(message):  # type: ignore[arg-type]
                    self.box.append(message)


def _tuples(body: Any) -> Any:
    """Sequences as tuples, as programs that run in one process would have sent them."""
    if isinstance(body, list):
        return tuple(_tuples(part) for part in body)
    return body
