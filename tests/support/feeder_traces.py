"""Traces for the feeder, written byte by byte, and the order in which it must hand out nodes."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable

Graph = list[tuple[int, list[int]]]  # (id, data_deps) in file order


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def frame(message: bytes) -> bytes:
    return varint(len(message)) + message


def node(id: int, deps: Iterable[int] = (), ctrl: Iterable[int] = (), name: str = "") -> bytes:
    packed = [b"".join(map(varint, each)) for each in (ctrl, deps)]
    message = field(1, id) + field(2, name.encode()) + field(3, 4)
    return frame(message + field(4, packed[0]) + field(5, packed[1]))


def trace(*nodes: bytes) -> io.BytesIO:
    return io.BytesIO(b"\x00" + b"".join(nodes))


def trace_of(graph: Graph) -> io.BytesIO:
    return trace(*(node(id, deps) for id, deps in graph))


def random_graph(rng: random.Random, n: int) -> Graph:
    """A DAG in random file order, with ids from all over and edges that repeat."""
    ids = (
        rng.sample(range(3 * n), n)
        if rng.random() < 0.5
        else rng.sample(range(2**64 - n, 2**64), n)
    )
    graph = []
    for i, id in enumerate(ids):
        deps = [ids[rng.randrange(max(0, i - 9), i)] for _ in range(rng.randrange(4))] if i else []
        graph.append((id, deps))
    if rng.random() < 0.8:
        rng.shuffle(graph)
    return graph


class Model:
    """The window rule in the plainest words."""

    def __init__(self, graph: Graph, window: int) -> None:
        self.unread, self.window = list(graph), window
        self.waiting: dict[int, list[int]] = {}
        self.taken: set[int] = set()
        self.finished: set[int] = set()

    def ready(self) -> list[int]:
        return sorted(id for id, deps in self.waiting.items() if self.finished.issuperset(deps))

    def take(self) -> int | None:
        while self.unread and (len(self.waiting) < self.window or not (self.ready() or self.taken)):
            id, deps = self.unread.pop(0)
            self.waiting[id] = deps
        if not (ready := self.ready()):
            return None
        del self.waiting[ready[0]]
        self.taken.add(ready[0])
        return ready[0]

    def done(self, id: int) -> None:
        self.taken.remove(id)
        self.finished.add(id)


def attribute(name: str, member: int, content: bytes | int) -> bytes:
    return field(10, field(1, name.encode()) + field(member, content))
