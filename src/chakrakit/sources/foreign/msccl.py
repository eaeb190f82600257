"""MSCCL's XML, an algorithm of one collective: `algo` → `gpu` → `tb` (a thread block) → `step`.

A thread block sends to one GPU and receives from one, on one channel (`send`, `recv`, `chan`). Its steps run
in order; a step also waits for step `deps` of the thread block `depid`. `cnt` chunks from `srcoff` on of a
buffer (`i` input, `o` output, `s` scratch) are sent (s), received (r), received and reduced (rrc), the same
and passed on (rcs, rrs, rrcs), copied (cpy) or reduced (re) locally, or only waited for (nop).
`nchunksperloop` chunks are the whole data. A message is a sending step and the matching receiving step on the
same channel, in order; it waits for the earlier steps of its two thread blocks and for the steps that those
two depend on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from chakrakit.configuration import read_xml
from chakrakit.errors import FormatError
from chakrakit.sources.foreign.algorithm import (
    MOST_BYTES,
    AlgorithmMessage,
    AlgorithmPlan,
    traces_of_algorithm,
)
from chakrakit.trace.sets import TraceSet

_ROOT = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<algo\b", re.DOTALL)


def is_msccl(head: bytes) -> bool:
    """Whether a file's first element is an MSCCL algorithm."""
    return _ROOT.match(head) is not None


def read_msccl(data: bytes, path: str) -> TraceSet:
    """The algorithm's messages as traces of all its GPUs."""
    return traces_of_algorithm(parse_msccl(data, path), "MSCCL", path)


def parse_msccl(data: bytes, path: str) -> AlgorithmPlan:
    """The messages of an algorithm, each after those it waits for."""
    try:
        root = read_xml(data, path)
    except FormatError as error:
        raise FormatError(f"not MSCCL XML: {error}", path=path) from None
    if root.tag != "algo" or root.find("gpu") is None:
        raise FormatError("not MSCCL XML: no <algo> with <gpu> in it", path=path)
    reader = _Msccl(root, path)
    try:
        messages = reader.messages()
    except RecursionError:
        raise FormatError("steps depend on each other without end", path=path) from None
    name, collective = root.get("name") or "msccl", root.get("coll") or ""
    least = reader.whole(root, "minBytes", 0)
    return AlgorithmPlan(name, collective, reader.gpus, reader.pieces, messages, least)


_SENDS = {"s", "rcs", "rrs", "rrcs"}
_RECEIVES = {"r", "rcs", "rrc", "rrs", "rrcs"}
_LOCAL = {"cpy", "re", "nop"}
_LARGEST = 1 << 20
"""Far more GPUs, chunks or steps than any algorithm has; a larger number is a mistake in the file."""


class _Msccl:
    """The steps of an MSCCL file by (gpu, thread block, number), and the messages between them."""

    def __init__(self, root: Element, path: str) -> None:
        self.path = path
        listed = len(root.findall("gpu"))
        self.gpus = self.whole(root, "ngpus", listed, 1)
        if self.gpus > listed:
            raise FormatError(f"ngpus is {self.gpus:,}, and {listed:,} are listed", path=path)
        self.pieces = self.whole(root, "nchunksperloop", 1, 1)
        self.steps: dict[tuple[int, int, int], dict[str, str]] = {}
        self.peers: dict[tuple[int, int], tuple[int, int, int]] = {}
        for gpu in root.findall("gpu"):
            for block in gpu.findall("tb"):
                at = (self._gpu(gpu, "id"), self.whole(block, "id", 0))
                peers = (self._gpu(block, "send", -1), self._gpu(block, "recv", -1))
                self.peers[at] = (*peers, self.whole(block, "chan", -1, -1))
                for step in block.findall("step"):
                    self.steps[(*at, self.whole(step, "s", 0))] = dict(step.attrib)

    def _gpu(self, element: Element, name: str, missing: int = 0) -> int:
        number = self.whole(element, name, missing, missing)
        if number >= self.gpus:
            raise FormatError(f"{name} is {number}; there are {self.gpus} gpus", path=self.path)
        return number

    def whole(
        self, attributes: Element | dict[str, str], name: str, missing: int, least: int = 0
    ) -> int:
        """The whole number of an attribute; `missing` where it is absent."""
        text = attributes.get(name)
        try:
            number = missing if text is None else int(text)
        except ValueError:
            number = least - 1
        most = MOST_BYTES if name == "minBytes" else _LARGEST
        if not least <= number <= most:
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
        piece = self.whole(step, "srcoff", 0) % self.pieces
        count = float(self.whole(step, "cnt", 1))
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
        block = self.whole(step, "depid", -1, -1)
        if block >= 0:
            needs |= self._through((key[0], block, self.whole(step, "deps", 0, -1)), sending)
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


# Writing.

_BUFFERS = {"allgather": "o", "broadcast": "o"}
"""Where a collective that works in place has all of its data; others have it in their input."""


def msccl_text(plan: AlgorithmPlan) -> str:
    """The XML of an algorithm: a thread block for each direction to or from each peer, on one channel."""
    root = Element("algo", name=plan.name, proto="Simple", nchannels="1")
    root.attrib |= {"nchunksperloop": str(plan.pieces), "ngpus": str(plan.ranks)}
    root.attrib |= {"coll": plan.collective or "custom", "inplace": "1"}
    if plan.least_bytes:
        root.set("minBytes", str(plan.least_bytes))
    writer = _Writer(plan)
    buffer, chunks = _BUFFERS.get(plan.collective, "i"), str(plan.pieces)
    for gpu in range(plan.ranks):
        held = {f"{b}_chunks": chunks if b == buffer else "0" for b in ("i", "o", "s")}
        writer.put(SubElement(root, "gpu", {"id": str(gpu)} | held), gpu)
    indent(root)
    return tostring(root, "unicode") + "\n"


@dataclass
class _Step:
    """A step of a thread block, which waits for the end of a message at its own GPU."""

    kind: str
    piece: int
    count: int
    after: int | None
    hasdep: bool = False


Lane = tuple[str, int]
"""A thread block of a GPU: its direction, and the peer."""


class _Writer:
    """The steps of every thread block, gathered message by message."""

    def __init__(self, plan: AlgorithmPlan) -> None:
        self.messages = plan.messages
        self.buffer = _BUFFERS.get(plan.collective, "i")
        self.blocks: list[dict[Lane, list[_Step]]] = [{} for _ in range(plan.ranks)]
        self.step_of: dict[tuple[int, int], int] = {}
        """By message and GPU, the number of its step in its thread block."""
        for number in range(len(self.messages)):
            self._add(number)
        for gpu, blocks in enumerate(self.blocks):
            for before in [s.after for steps in blocks.values() for s in steps]:
                if before is not None:
                    blocks[self._lane(before, gpu)][self.step_of[before, gpu]].hasdep = True

    def _lane(self, number: int, gpu: int) -> Lane:
        message = self.messages[number]
        return ("send", message.dst) if message.src == gpu else ("recv", message.src)

    def _add(self, number: int) -> None:
        message = self.messages[number]
        for gpu in (message.src, message.dst):
            lane = self._lane(number, gpu)
            block = self.blocks[gpu].setdefault(lane, [])
            sends = lane[0] == "send"
            waits = self._waits(number, gpu)
            # A step names one other: further ones are waited for before it.
            block += [_Step("nop", 0, 0, before) for before in waits[:-1]]
            kind = "s" if sends else "rrc" if message.reduce else "r"
            self.step_of[number, gpu] = len(block)
            last = waits[-1] if waits else None
            block.append(_Step(kind, message.piece, round(message.size), last))

    def _waits(self, number: int, gpu: int) -> list[int]:
        """The last message to wait for in each other thread block of a GPU."""
        message, own = self.messages[number], self._lane(number, gpu)
        last: dict[Lane, int] = {}
        for before in sorted(message.after):
            ends = self.messages[before]
            if gpu in (ends.src, ends.dst):
                last[self._lane(before, gpu)] = before
        last.pop(own, None)
        return sorted(last.values())

    def put(self, element: Element, gpu: int) -> None:
        """Writes the thread blocks of a GPU below its element."""
        blocks = self.blocks[gpu]
        for number, ((way, peer), steps) in enumerate(blocks.items()):
            peers = {"send": "-1", "recv": "-1"} | {way: str(peer)}
            block = SubElement(element, "tb", {"id": str(number)} | peers | {"chan": "0"})
            for place, step in enumerate(steps):
                where = (-1, -1)
                if step.after is not None:
                    lane = self._lane(step.after, gpu)
                    where = list(blocks).index(lane), self.step_of[step.after, gpu]
                facts = {"s": place, "type": step.kind, "srcbuf": self.buffer, "srcoff": step.piece}
                facts |= {"dstbuf": self.buffer, "dstoff": step.piece, "cnt": step.count}
                facts |= {"depid": where[0], "deps": where[1], "hasdep": int(step.hasdep)}
                SubElement(block, "step", {key: str(value) for key, value in facts.items()})
