"""Raft, PBFT and Chord as programs that run in a simulation and over sockets alike.

Each program ends at a set time and returns what its node decided: the committed log, the decided requests,
the owners found. `cast` puts one of them on anything that takes actors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chakrakit.simulator import live

BEAT_MS, LEAST_MS, MOST_MS = 50.0, 150.0, 300.0
"""Raft's heartbeat, and from when to when an election begins: the authors' own figures."""
SIZE = 200
"""Bytes of a message."""
RETRY_MS = 100.0
"""Until a searcher of Chord asks another node."""


def raft(me: live.Actor, nodes: int, entries: int, until_ms: float) -> live.Program:
    """A node of Raft: follows, stands for election, leads; a leader adds an entry with each heartbeat."""
    term, voted, role, votes = 0, -1, "follower", set[int]()
    log: list[tuple[int, int]] = []
    committed, match = 0, [0] * nodes
    others = [n for n in range(nodes) if n != me.number]
    wakes = me.now + _patience(me)
    while not _due(me, until_ms * live.MS):
        message = None
        if not _due(me, wakes):
            got = yield live.receive(timeout=min(wakes, until_ms * live.MS) - me.now)
            message = got[0] if got else None
        if message is None and _due(me, wakes):
            if role != "leader":
                term, voted, role, votes = term + 1, me.number, "candidate", {me.number}
                wakes = me.now + _patience(me)
                for n in others:
                    yield live.send(n, SIZE, ("vote?", term, len(log), log[-1][0] if log else 0))
            else:
                wakes = me.now + BEAT_MS * live.MS
                if len(log) < entries:
                    log.append((term, len(log)))
                for n in others:
                    yield live.send(n, SIZE, ("append", term, tuple(log), committed))
        if message is None:
            continue
        kind, its_term, *rest = message.body
        sender = message.sender.number
        if its_term > term:
            term, voted, role = its_term, -1, "follower"
        if kind == "vote?":
            fresh = (rest[1], rest[0]) >= (log[-1][0] if log else 0, len(log))
            grants = its_term == term and voted in (-1, sender) and fresh
            if grants:
                voted, wakes = sender, me.now + _patience(me)
            yield live.send(sender, SIZE, ("vote", term, grants))
        elif kind == "vote" and role == "candidate" and its_term == term and rest[0]:
            votes.add(sender)
            if 2 * len(votes) > nodes:
                role, match, wakes = "leader", [0] * nodes, me.now
        elif kind == "append" and its_term == term:
            role, wakes = "follower", me.now + _patience(me)
            log, committed = list(rest[0]), max(committed, min(rest[1], len(rest[0])))
            yield live.send(sender, SIZE, ("appended", term, len(log)))
        elif kind == "appended" and role == "leader" and its_term == term:
            match[sender] = max(match[sender], rest[0])
            match[me.number] = len(log)
            agreed = sorted(match)[(nodes - 1) // 2]
            committed = max(committed, agreed)
    return tuple(value for _, value in log[:committed])


def _due(me: live.Actor, at: float) -> bool:
    """Whether a time has come; the clock counts whole picoseconds, so one is to spare."""
    return me.now >= at - 0.001


def _patience(me: live.Actor) -> float:
    return me.random.uniform(LEAST_MS, MOST_MS) * live.MS


def pbft(me: live.Actor, nodes: int, requests: int, until_ms: float) -> live.Program:
    """A replica of PBFT in its first view: node 0 proposes, the others prepare and commit."""
    faulty = (nodes - 1) // 3
    prepared: dict[Any, set[int]] = {}
    committed: dict[Any, set[int]] = {}
    proposed: dict[int, Any] = {}
    decided: dict[int, Any] = {}
    said: set[Any] = set()
    everybody = range(nodes)
    if me.number == 0:
        for number in range(requests):
            for n in everybody:
                yield live.send(n, SIZE, ("propose", number, f"request {number}"))
    while not _due(me, until_ms * live.MS):
        got = yield live.receive(timeout=until_ms * live.MS - me.now)
        for message in got:
            kind, number, value = message.body
            sender, key = message.sender.number, (number, value)
            if kind == "propose" and sender == 0 and number not in proposed:
                proposed[number] = value
                for n in everybody:
                    yield live.send(n, SIZE, ("prepare", number, value))
            elif kind == "prepare":
                prepared.setdefault(key, set()).add(sender)
            elif kind == "commit":
                committed.setdefault(key, set()).add(sender)
            agreed = proposed.get(number) == value and len(prepared.get(key, ())) > 2 * faulty
            if agreed and key not in said:
                said.add(key)
                for n in everybody:
                    yield live.send(n, SIZE, ("commit", number, value))
            if agreed and len(committed.get(key, ())) > 2 * faulty:
                decided.setdefault(number, value)
    return tuple(sorted(decided.items()))


def chord(me: live.Actor, nodes: int, searches: int, until_ms: float) -> live.Program:
    """A node of a ring with fingers: finds owners of keys, and passes on what others seek."""
    fingers = [(me.number + (1 << k)) % nodes for k in range(nodes.bit_length() - 1)]
    keys = [me.random.randrange(nodes) for _ in range(searches)]
    found: dict[int, int] = {}
    gone: set[int] = set()
    wakes, asked = 0.0, -1
    while not _due(me, until_ms * live.MS):
        open_keys = [k for k in keys if k not in found]
        if open_keys and _due(me, wakes):
            if asked >= 0:
                gone.add(asked)  # it did not answer in time: the next best is asked
            yield from _forward(me, nodes, fingers, gone, open_keys[0], me.number)
            ways = [f for f in fingers if f not in gone]
            asked = _nearest(nodes, ways, open_keys[0]) if ways else -1
            wakes = me.now + RETRY_MS * live.MS
        rest = until_ms * live.MS - me.now
        got = yield live.receive(timeout=min(rest, max(0.0, wakes - me.now)) if open_keys else rest)
        for message in got:
            kind, key, who = message.body
            if kind == "owner":
                found[key] = who
                wakes, asked = me.now, -1
            else:
                yield from _forward(me, nodes, fingers, set(), key, who)
    return tuple(sorted(found.items()))


def _nearest(nodes: int, ways: list[int], key: int) -> int:
    return min(ways, key=lambda f: (key - f) % nodes)


def _forward(
    me: live.Actor, nodes: int, fingers: list[int], gone: set[int], key: int, who: int
) -> live.Program:
    """Answers for a key of its own, or passes the question to the finger nearest before the key."""
    ways = [f for f in fingers if f not in gone]
    if key == me.number:
        yield live.send(who, SIZE, ("owner", key, me.number))
    elif ways:
        yield live.send(_nearest(nodes, ways, key), SIZE, ("find", key, who))


PROTOCOLS: dict[str, tuple[Callable[..., live.Program], int, int]] = {
    "Raft": (raft, 5, 10),
    "PBFT": (pbft, 4, 6),
    "Chord": (chord, 16, 3),
}
"""Program, nodes, and entries, requests or searches."""
UNTIL_MS = 1500.0
FAULTS = ("none", "crash", "drop")


def faults_of(fault: str, node: int) -> list[live.FaultStrategy]:
    """What is wrong with a node: node 1 is away for 0.7 s, or all lose a twentieth of what they send."""
    if fault == "crash" and node == 1:
        return [live.Crash(0.0, 700 * live.MS)]
    return [live.Drop(0.05)] if fault == "drop" else []


def cast(world: Any, protocol: str, fault: str) -> int:
    """The protocol's nodes in a world or on sockets; how many they are."""
    program, nodes, size = PROTOCOLS[protocol]
    for node in range(nodes):
        faults = faults_of(fault, node)
        world.actor(program, nodes, size, UNTIL_MS, rank=node, name=f"node {node}", faults=faults)
    return nodes


def outcome(returned: dict[str, Any], messages: int) -> dict[str, float]:
    """Messages, what a node decided on average, and whether no two nodes decided otherwise."""
    values = [v or () for v in returned.values()]
    logs = [dict(v) if v and isinstance(v[0], tuple) else dict(enumerate(v)) for v in values]
    agree = all(
        a[k] == b[k] for i, a in enumerate(logs) for b in logs[:i] for k in a.keys() & b.keys()
    )
    decided = sum(len(log) for log in logs) / max(1, len(logs))
    return {"messages": float(messages), "decided": decided, "safe": float(agree)}
