"""Custom collective algorithms: graphs of messages given as ETs, or MSCCL's XML.

Both become CollectiveSteps in which every message is a step of its own that waits for the messages before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from chakrakit.errors import FormatError, TraceError
from chakrakit.simulator.collectives import CollectiveSteps, Step
from chakrakit.simulator.engine import Custom
from chakrakit.trace.model import Graph, NodeType, Trace
from chakrakit.trace.sets import TraceSet


@dataclass
class Message:
    """A message of a custom algorithm; `size` counts in pieces."""

    src: int
    dst: int
    size: float
    piece: int = 0
    reduce: bool = False
    after: set[int] = field(default_factory=set)
    wait: float = 0.0


def moves(n: int, pieces: int, messages: list[Message], name: str) -> CollectiveSteps:
    """Messages as steps, each of which waits for those before it."""
    steps = [
        Step(
            np.array([m.src]),
            np.array([m.dst]),
            np.array([m.piece]),
            np.array([m.size]),
            m.reduce,
            pieces,
            after=tuple(sorted(m.after)),
            wait=m.wait,
        )
        for m in messages
    ]
    return CollectiveSteps(n, pieces, tuple(steps), name=name)


# --- ETs ----------------------------------------------------------------------------------------


def moves_from_traces(traces: TraceSet, total: float, name: str = "custom") -> CollectiveSteps:
    """Rank p's ET is what member p does: sends, receives and local work, ranks being positions.

    `comm_size` is bytes out of `total`, the collective's data, so that other sizes scale with it. Local
    work (durations) delays the messages that depend on it.
    """
    nodes, edges, partner = _joined_graph(traces)
    order = (
        Graph(len(nodes), *map(np.array, zip(*edges, strict=True))).topological_order()
        if edges
        else range(len(nodes))
    )
    before: list[set[int]] = [set() for _ in nodes]
    delay = [0.0] * len(nodes)
    parents: dict[int, list[int]] = defaultdict(list)
    for a, b in edges:
        parents[b].append(a)
    messages: list[Message] = []
    number: dict[int, int] = {}
    for v in list(order):
        trace, row, rank = nodes[v]
        for p in parents[v]:
            if p in number:
                before[v].add(number[p])
            else:
                before[v] |= before[p]
                delay[v] = max(delay[v], delay[p] + _own_seconds(nodes[p]))
        if v in partner:
            number[v] = len(messages)
            size = float(trace.column("comm_size", 0)[row])
            messages.append(Message(rank, partner[v], size, 0, False, before[v], delay[v]))
    pieces = max(1, round(total))
    return moves(len(traces.ranks), pieces, messages, name)


def _own_seconds(node: tuple[Trace, int, int]) -> float:
    return float(node[0].duration_ns[node[1]]) * 1e-9


def _joined_graph(
    traces: TraceSet,
) -> tuple[list[tuple[Trace, int, int]], list[tuple[int, int]], dict[int, int]]:
    """All nodes, a send and its receive being one, the edges among them, and who each message goes to."""
    nodes: list[tuple[Trace, int, int]] = []
    place: dict[tuple[int, int], int] = {}
    partner: dict[int, int] = {}
    ends: dict[int, dict[bool, tuple[int, int]]] = defaultdict(dict)
    named: dict[int, tuple[int, int, int]] = {}
    for m in traces.collectives.messages.to_pylist():
        ends[m["message"]][m["is_send"]] = (m["rank"], m["row"])
        named[m["message"]] = (m["src"], m["dst"], m["tag"])
    for number, both in ends.items():
        src, dst, tag = named[number]
        if len(both) != 2:
            raise TraceError(
                f"custom algorithm: the message from {src} to {dst} (tag {tag}) has one end only"
            )
        place[both[True]] = place[both[False]] = len(nodes)
        partner[len(nodes)] = dst
        nodes.append((traces.trace(src), both[True][1], src))
    edges = []
    for rank, trace in traces:
        for row in np.flatnonzero(
            ~trace.is_type(NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
        ).tolist():
            place[rank, row] = len(nodes)
            nodes.append((trace, row, rank))
        e = trace.edges
        edges += [
            (place[rank, a], place[rank, b])
            for a, b in zip(e.src.tolist(), e.dst.tolist(), strict=True)
        ]
    return nodes, edges, partner


# --- MSCCL --------------------------------------------------------------------------------------


def moves_from_msccl(path: Path) -> CollectiveSteps:
    """An MSCCL algorithm: `gpu/tb/step` with types s, r, rcs, rrc, rrs, rrcs, cpy, re, nop.

    A message is a sending step and the receiving step of the other end on the same channel, in order. It
    waits for what its two thread blocks did before and for what their steps depend on.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise FormatError(f"not MSCCL XML: {error}", path=str(path)) from None
    if root.tag != "algo" or root.find("gpu") is None:
        raise FormatError("not MSCCL XML: no <algo> with <gpu> in it", path=str(path))
    reader = _Msccl(root, str(path))
    try:
        messages = reader.messages()
    except RecursionError:
        raise FormatError("steps depend on each other without end", path=str(path)) from None
    return moves(reader.gpus, reader.pieces, messages, root.get("name") or "msccl")


_SENDS = {"s", "rcs", "rrs", "rrcs"}
_RECEIVES = {"r", "rcs", "rrc", "rrs", "rrcs"}
_LOCAL = {"cpy", "re", "nop"}
_LARGEST = 1 << 20
"""GPUs, chunks and steps of an algorithm are far fewer."""


class _Msccl:
    """Steps by (gpu, thread block, number), and the messages between them."""

    def __init__(self, root: ElementTree.Element, path: str) -> None:
        self.path = path
        self.gpus = self._whole(root, "ngpus", len(root.findall("gpu")), 1)
        self.pieces = self._whole(root, "nchunksperloop", 1, 1)
        self.steps: dict[tuple[int, int, int], dict[str, str]] = {}
        self.peers: dict[tuple[int, int], tuple[int, int, int]] = {}
        for gpu in root.findall("gpu"):
            for block in gpu.findall("tb"):
                at = (self._gpu(gpu, "id"), self._whole(block, "id", 0))
                peers = (self._gpu(block, "send", -1), self._gpu(block, "recv", -1))
                self.peers[at] = (*peers, self._whole(block, "chan", -1, -1))
                for step in block.findall("step"):
                    self.steps[(*at, self._whole(step, "s", 0))] = dict(step.attrib)

    def _gpu(self, element: ElementTree.Element, name: str, missing: int = 0) -> int:
        number = self._whole(element, name, missing, missing)
        if number >= self.gpus:
            raise FormatError(f"{name} is {number}; there are {self.gpus} gpus", path=self.path)
        return number

    def _whole(
        self, said: ElementTree.Element | dict[str, str], name: str, missing: int, least: int = 0
    ) -> int:
        """An attribute that is a whole number."""
        text = said.get(name)
        try:
            number = missing if text is None else int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= _LARGEST:
            raise FormatError(
                f"{name} is {text!r:.40}; it should be a number from {least} on", path=self.path
            )
        return number

    def messages(self) -> list[Message]:
        """In an order in which each comes after those it waits for."""
        pairs = self._pairs()
        receive_of = dict(pairs)
        sends = {r: s for s, r in pairs}
        number: dict[tuple[int, int, int], int] = {}
        out: list[Message] = []
        waiting = [s for s, _ in pairs]
        while waiting:
            late = []
            for key in waiting:
                needs = self._needs(key, True) | self._needs(receive_of[key], False)
                needs = {sends.get(k, k) for k in needs} - {key}
                if any(k in receive_of and k not in number for k in needs):
                    late.append(key)
                    continue
                number[key] = len(out)
                out.append(
                    self._message(key, receive_of[key], {number[k] for k in needs if k in number})
                )
            if len(late) == len(waiting):
                raise FormatError(
                    f"the steps wait for each other in a circle, at {late[0]}", path=self.path
                )
            waiting = late
        return out

    def _message(
        self, send: tuple[int, int, int], receive: tuple[int, int, int], after: set[int]
    ) -> Message:
        step, kind = self.steps[send], self.steps[receive].get("type", "r")
        piece = self._whole(step, "srcoff", 0) % self.pieces
        count = float(self._whole(step, "cnt", 1))
        return Message(send[0], receive[0], count, piece, kind.startswith("rr"), after)

    def _pairs(self) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
        """Each sending step with the receiving step it meets."""
        ends: dict[
            tuple[int, int, int], tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]
        ] = {}
        for key in sorted(self.steps):
            kind = self.steps[key].get("type", "")
            if kind not in _SENDS | _RECEIVES | _LOCAL:
                raise FormatError(
                    f"step {key} has type {kind!r}, which is not known", path=self.path
                )
            to, source, channel = self.peers[key[:2]]
            if kind in _SENDS:
                ends.setdefault((key[0], to, channel), ([], []))[0].append(key)
            if kind in _RECEIVES:
                ends.setdefault((source, key[0], channel), ([], []))[1].append(key)
        out = []
        for (a, b, channel), (sent, got) in ends.items():
            if len(sent) != len(got):
                raise FormatError(
                    f"gpu {a} sends {len(sent)} times to {b} on channel {channel}, which "
                    f"receives {len(got)} times",
                    path=self.path,
                )
            out += list(zip(sent, got, strict=True))
        return out

    def _needs(self, key: tuple[int, int, int], sending: bool) -> set[tuple[int, int, int]]:
        """Communicating steps this one comes after: in its thread block, by `depid`, or its own receipt."""
        found: set[tuple[int, int, int]] = set()
        step = self.steps[key]
        if sending and step.get("type") in _RECEIVES:
            found.add(key)  # what it passes on arrives first
        if key[2] > 0:
            found |= self._through((key[0], key[1], key[2] - 1), sending)
        block = self._whole(step, "depid", -1, -1)
        if block >= 0:
            found |= self._through((key[0], block, self._whole(step, "deps", 0, -1)), sending)
        return found

    def _through(self, key: tuple[int, int, int], sending: bool) -> set[tuple[int, int, int]]:
        """A step before: its receipt, or its sending where that holds up another.

        Sends are buffered, so a receive need not wait until an earlier send has arrived.
        """
        if key not in self.steps:
            raise FormatError(f"a step depends on {key}, which does not exist", path=self.path)
        kind = self.steps[key].get("type")
        if kind in _RECEIVES or (kind in _SENDS and sending):
            return {key}
        return self._needs(key, False)


def custom_for(collective: str, steps: CollectiveSteps) -> Custom:
    """Uses the schedule for this collective whenever a group has as many members."""

    def choose(asked: str, members: int, _size: int) -> CollectiveSteps | None:
        return steps if asked == collective and members == steps.n else None

    return choose
