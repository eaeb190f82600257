"""Reads custom collective algorithms: graphs of messages as execution traces (ETs) or MSCCL's XML.

Both become CollectiveSteps in which every message is one step, which waits for the messages before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from chakrakit.errors import FormatError, TraceError
from chakrakit.simulator.collectives import CollectiveSteps, TransferStep
from chakrakit.simulator.engine import Custom
from chakrakit.trace.model import Graph, NodeType, Trace
from chakrakit.trace.sets import TraceSet


@dataclass
class AlgorithmMessage:
    """A message of a custom algorithm; `size` is in pieces."""

    src: int
    dst: int
    size: float
    piece: int = 0
    reduce: bool = False
    after: set[int] = field(default_factory=set)
    wait: float = 0.0


def moves(n: int, pieces: int, messages: list[AlgorithmMessage], name: str) -> CollectiveSteps:
    """The steps of messages, one for each, which waits for those before it."""
    steps = [
        TransferStep(
            src=np.array([m.src]),
            dst=np.array([m.dst]),
            first=np.array([m.piece]),
            count=np.array([m.size]),
            reduce=m.reduce,
            modulus=pieces,
            after=tuple(sorted(m.after)),
            wait=m.wait,
        )
        for m in messages
    ]
    return CollectiveSteps(n, pieces, tuple(steps), name=name)


# --- ETs ----------------------------------------------------------------------------------------


def moves_from_traces(traces: TraceSet, total: float, name: str = "custom") -> CollectiveSteps:
    """The steps of traces in which rank p has the sends, receives and local work of member p.

    `comm_size` is bytes out of `total`, the size of the collective; other sizes are scaled. Local work
    (durations) delays the messages that depend on it.
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
    messages: list[AlgorithmMessage] = []
    number: dict[int, int] = {}
    for v in list(order):
        trace, row, rank = nodes[v]
        for p in parents[v]:
            if p in number:
                before[v].add(number[p])
            else:
                before[v] |= before[p]
                delay[v] = max(delay[v], delay[p] + _work_seconds(nodes[p]))
        if v in partner:
            number[v] = len(messages)
            size = float(trace.column("comm_size", 0)[row])
            messages.append(AlgorithmMessage(rank, partner[v], size, 0, False, before[v], delay[v]))
    pieces = max(1, round(total))
    return moves(len(traces.ranks), pieces, messages, name)


def _work_seconds(node: tuple[Trace, int, int]) -> float:
    return float(node[0].duration_ns[node[1]]) * 1e-9


def _joined_graph(
    traces: TraceSet,
) -> tuple[list[tuple[Trace, int, int]], list[tuple[int, int]], dict[int, int]]:
    """All nodes, with a send and its receive as one, their edges, and the destination of each message."""
    nodes: list[tuple[Trace, int, int]] = []
    place: dict[tuple[int, int], int] = {}
    partner: dict[int, int] = {}
    ends: dict[int, dict[bool, tuple[int, int]]] = defaultdict(dict)
    routes: dict[int, tuple[int, int, int]] = {}
    for m in traces.collectives.messages.to_pylist():
        ends[m["message"]][m["is_send"]] = (m["rank"], m["row"])
        routes[m["message"]] = (m["src"], m["dst"], m["tag"])
    for number, both in ends.items():
        src, dst, tag = routes[number]
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
    """The steps of an MSCCL algorithm: `gpu/tb/step` of types s, r, rcs, rrc, rrs, rrcs, cpy, re, nop.

    A message is a sending step and the matching receiving step on the same channel, in order. It waits for
    the earlier steps of its two thread blocks and for the steps those two depend on.
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
"""Far more GPUs, chunks or steps than any algorithm has; a larger number is a mistake in the file."""


class _Msccl:
    """The steps of an MSCCL file by (gpu, thread block, number), and the messages between them."""

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
        self,
        attributes: ElementTree.Element | dict[str, str],
        name: str,
        missing: int,
        least: int = 0,
    ) -> int:
        """The whole number of an attribute; `missing` where it is absent."""
        text = attributes.get(name)
        try:
            number = missing if text is None else int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= _LARGEST:
            raise FormatError(
                f"{name} is {text!r:.40}; it should be a number from {least} on", path=self.path
            )
        return number

    def messages(self) -> list[AlgorithmMessage]:
        """All messages, each after those it waits for."""
        pairs = self._pairs()
        receive_of = dict(pairs)
        sends = {r: s for s, r in pairs}
        number: dict[tuple[int, int, int], int] = {}
        out: list[AlgorithmMessage] = []
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
    ) -> AlgorithmMessage:
        step, kind = self.steps[send], self.steps[receive].get("type", "r")
        piece = self._whole(step, "srcoff", 0) % self.pieces
        count = float(self._whole(step, "cnt", 1))
        return AlgorithmMessage(send[0], receive[0], count, piece, kind.startswith("rr"), after)

    def _pairs(self) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
        """Each sending step with its receiving step."""
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
        for (a, b, channel), (sends, receives) in ends.items():
            if len(sends) != len(receives):
                raise FormatError(
                    f"gpu {a} sends {len(sends)} times to {b} on channel {channel}, which "
                    f"receives {len(receives)} times",
                    path=self.path,
                )
            out += list(zip(sends, receives, strict=True))
        return out

    def _needs(self, key: tuple[int, int, int], sending: bool) -> set[tuple[int, int, int]]:
        """The communicating steps that a step waits for: in its block, by `depid`, or its own receive."""
        needs: set[tuple[int, int, int]] = set()
        step = self.steps[key]
        if sending and step.get("type") in _RECEIVES:
            needs.add(key)  # what it passes on arrives first
        if key[2] > 0:
            needs |= self._through((key[0], key[1], key[2] - 1), sending)
        block = self._whole(step, "depid", -1, -1)
        if block >= 0:
            needs |= self._through((key[0], block, self._whole(step, "deps", 0, -1)), sending)
        return needs

    def _through(self, key: tuple[int, int, int], sending: bool) -> set[tuple[int, int, int]]:
        """The steps to wait for because of an earlier step: itself if it communicates, else those before it.

        Sends are buffered, so a receive need not wait until an earlier send has arrived.
        """
        if key not in self.steps:
            raise FormatError(f"a step depends on {key}, which does not exist", path=self.path)
        kind = self.steps[key].get("type")
        if kind in _RECEIVES or (kind in _SENDS and sending):
            return {key}
        return self._needs(key, False)


def custom_for(collective: str, steps: CollectiveSteps) -> Custom:
    """A function that gives these steps for this collective in groups of as many members."""

    def choose(name: str, members: int, _size: int) -> CollectiveSteps | None:
        return steps if name == collective and members == steps.n else None

    return choose
