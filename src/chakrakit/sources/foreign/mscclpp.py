"""MSCCL++'s execution plans (JSON), an algorithm of one collective: `gpus` → `threadblocks` → `ops`.

Operations of thread blocks become messages: they are interpreted as far as needed to know who sends what to
whom, and after what. A `pipeline` runs its operations once over all of its data, and a switch channel's
load-reduce and store are messages from and to each member of the channel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from chakrakit.configuration import decode_json
from chakrakit.errors import FormatError
from chakrakit.sources.foreign.algorithm import AlgorithmMessage, AlgorithmPlan, traces_of_algorithm
from chakrakit.trace.sets import TraceSet

_LOCAL = {"nop", "copy", "re", "cpkt", "upkt", "repkt", "recpkt", "flush", "barrier"}
_READS = {"get", "rre", "rres", "glre", "glres"}
_WRITES = {
    "put",
    "pws",
    "pwsf",
    "ppkt",
    "rppkt",
    "res",
    "rres",
    "respkt",
    "recspkt",
    "gstore",
    "gstorepkt",
    "glres",
}
_SIGNALS = {"signal", "rlxsignal", "pws", "pwsf"}
_WAITS = {"wait", "rlxwait"}
_SEMAPHORES = {"sem_acquire", "sem_release"}
_PACKET = 2.0
"""A packet of 16 bytes carries 8 of data, the rest are its flags."""


class _Buffer(msgspec.Struct):
    type: str = ""
    buffer_id: int = -1
    switch_channel_id: int = -1
    index: int = 0
    size: int = 1


class _Share(msgspec.Struct, frozen=True):
    """A block's place in a group of thread blocks, which divide an operation's data among them."""

    tb_id: int = 0
    tbg_size: int = 1


class _Op(msgspec.Struct):
    name: str
    tbg_info: _Share = _Share()
    src_buff: list[_Buffer] = []
    dst_buff: list[_Buffer] = []
    channel_ids: list[int] = []
    channel_type: str = ""
    semaphore_ids: list[int] = []
    barrier_id: int = -1
    ops: list[_Op] = []


class _Group(msgspec.Struct):
    ranks: list[int] = []


class _Channel(msgspec.Struct):
    channel_type: str
    connected_to: list[int] = []
    rank_groups: list[_Group] = []


class _Refs(msgspec.Struct):
    channel_type: str = ""
    channel_ids: list[int] = []
    access_channel_type: str = ""
    remote_buffer_ids: list[int] = []


class _Block(msgspec.Struct):
    id: int
    ops: list[_Op] = []
    channels: list[_Refs] = []
    remote_buffer_refs: list[_Refs] = []


class _Remote(msgspec.Struct):
    rank: int
    type: str = ""


class _Semaphore(msgspec.Struct):
    init_value: int = 0


class _Gpu(msgspec.Struct):
    id: int
    input_chunks: int = 0
    output_chunks: int = 0
    scratch_chunks: int = 0
    channels: list[_Channel] = []
    remote_buffers: list[_Remote] = []
    semaphores: list[_Semaphore] = []
    threadblocks: list[_Block] = []


class _Plan(msgspec.Struct):
    collective: str
    gpus: list[_Gpu]
    name: str = "mscclpp"
    min_message_size: int = 0


def is_mscclpp(head: bytes) -> bool:
    """Whether a file's first bytes are those of a plan: GPUs with chunks."""
    return head.lstrip()[:1] == b"{" and b'"gpus"' in head and b'"input_chunks"' in head


def read_mscclpp(data: bytes, path: str) -> TraceSet:
    """The plan's messages as traces of all its GPUs."""
    return traces_of_algorithm(parse_mscclpp(data, path), "MSCCL++", path)


def parse_mscclpp(data: bytes, path: str) -> AlgorithmPlan:
    """The messages of a plan, each after those it waits for."""
    plan = decode_json(data, _Plan, path, "an MSCCL++ plan")
    reader = _Reader(plan, path)
    pieces = max((max(g.input_chunks, g.output_chunks) for g in plan.gpus), default=0)
    if pieces < 1:
        raise FormatError("the plan divides its data into no chunks", path=path)
    least = max(plan.min_message_size, 0)
    messages = reader.messages()
    return AlgorithmPlan(plan.name, plan.collective, len(plan.gpus), pieces, messages, least)


@dataclass
class _Node:
    """One operation of a thread block, with the numbers of the operations it waits for."""

    gpu: int
    op: _Op
    block: _Block
    after: set[int] = field(default_factory=set)


class _Reader:
    """The operations of all thread blocks, linked by signals, semaphores, barriers and packets."""

    def __init__(self, plan: _Plan, path: str) -> None:
        self.path = path
        self.gpus = {g.id: g for g in plan.gpus}
        if sorted(self.gpus) != list(range(len(plan.gpus))):
            raise FormatError("the plan's GPUs are not numbered from 0", path=path)
        self.nodes: list[_Node] = []
        for gpu in plan.gpus:
            for block in gpu.threadblocks:
                self._sequence(gpu.id, block, _flat(block.ops))
        self._tie_signals()
        self._tie_semaphores()
        self._tie_barriers()
        self._tie_packets()

    def _sequence(self, gpu: int, block: _Block, ops: Iterable[_Op]) -> None:
        supported = _LOCAL | _READS | _WRITES | _SIGNALS | _WAITS | _SEMAPHORES
        before: int | None = None
        for op in ops:
            if op.name not in supported:
                raise FormatError(
                    f"gpu {gpu}, threadblock {block.id}: operation {op.name!r} is not known",
                    path=self.path,
                )
            self.nodes.append(_Node(gpu, op, block, set() if before is None else {before}))
            before = len(self.nodes) - 1

    # --- channels and peers -----------------------------------------------------------------------

    def _channels(self, node: _Node) -> list[tuple[int, int]]:
        """The peer of each channel of an operation, and the channel's number among those of the two."""
        refs = [c for c in node.block.channels if c.channel_type == node.op.channel_type]
        ids = [i for r in refs for i in r.channel_ids]
        listed = [c for c in self.gpus[node.gpu].channels if c.channel_type == node.op.channel_type]
        peers = [p for c in listed for p in c.connected_to]
        numbers = [
            self._at(ids, i, node, "channel") for i in node.op.channel_ids or range(len(ids))
        ]
        out = []
        for number in numbers:
            peer = self._at(peers, number, node, "channel")
            out.append((peer, peers[:number].count(peer)))
        return out

    def _at(self, values: list[int], index: int, node: _Node, kind: str) -> int:
        if not 0 <= index < len(values):
            raise self._wrong(node, f"names {kind} {index} of {len(values)}")
        return values[index]

    def _wrong(self, node: _Node, problem: str) -> FormatError:
        where = f"gpu {node.gpu}, threadblock {node.block.id}"
        return FormatError(f"{where}: {node.op.name} {problem}", path=self.path)

    def _remote(self, node: _Node, buffer: _Buffer) -> list[tuple[int, str]]:
        """The GPUs and buffers that a buffer stands for: one remote, all of a switch channel, or none."""
        if buffer.switch_channel_id >= 0:
            return [(p, buffer.type) for p in self._members(node, buffer.switch_channel_id)]
        if buffer.buffer_id < 0:
            return []
        ids = [i for r in node.block.remote_buffer_refs for i in r.remote_buffer_ids]
        listed = self.gpus[node.gpu].remote_buffers
        at = self._at(ids, buffer.buffer_id, node, "remote buffer") if ids else buffer.buffer_id
        self._at(list(range(len(listed))), at, node, "remote buffer")
        return [(listed[at].rank, listed[at].type)]

    def _members(self, node: _Node, channel: int) -> list[int]:
        ids = [i for r in node.block.channels if r.channel_type == "switch" for i in r.channel_ids]
        groups = [
            g
            for c in self.gpus[node.gpu].channels
            if c.channel_type == "switch"
            for g in c.rank_groups
        ]
        number = self._at(ids, channel, node, "switch channel")
        self._at(list(range(len(groups))), number, node, "switch channel")
        return [r for r in groups[number].ranks if r != node.gpu]

    # --- dependencies -------------------------------------------------------------------------------

    def _tie_signals(self) -> None:
        signalled: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        awaited: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            if node.op.name in _SIGNALS:
                for peer, channel in self._channels(node):
                    signalled[node.gpu, peer, channel].append(number)
            elif node.op.name in _WAITS:
                for peer, channel in self._channels(node):
                    awaited[peer, node.gpu, channel].append(number)
        for key, waits in awaited.items():
            signals = signalled.get(key, [])
            if len(signals) < len(waits):
                raise FormatError(
                    f"gpu {key[1]} waits {len(waits)} times for gpu {key[0]}, which signals "
                    f"{len(signals)} times",
                    path=self.path,
                )
            for wait, signal in zip(waits, signals, strict=False):
                self.nodes[wait].after.add(signal)

    def _tie_semaphores(self) -> None:
        released: dict[tuple[int, int], list[int]] = defaultdict(list)
        acquired: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            if node.op.name in _SEMAPHORES:
                into = released if node.op.name == "sem_release" else acquired
                for semaphore in node.op.semaphore_ids:
                    into[node.gpu, semaphore].append(number)
        for (gpu, semaphore), nodes in acquired.items():
            semaphores = self.gpus[gpu].semaphores
            free = semaphores[semaphore].init_value if 0 <= semaphore < len(semaphores) else 0
            for nth, number in enumerate(nodes):
                if nth >= free and nth - free < len(released[gpu, semaphore]):
                    self.nodes[number].after.add(released[gpu, semaphore][nth - free])

    def _tie_barriers(self) -> None:
        """The n-th barriers with the same id wait for whatever comes before each of them."""
        passed: dict[tuple[int, int, int], int] = defaultdict(int)
        meetings: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            if node.op.name == "barrier" and node.op.barrier_id >= 0:
                key = node.gpu, node.block.id, node.op.barrier_id
                meetings[node.gpu, node.op.barrier_id, passed[key]].append(number)
                passed[key] += 1
        for numbers in meetings.values():
            before = set().union(*(self.nodes[n].after for n in numbers))
            for n in numbers:
                self.nodes[n].after |= before

    def _tie_packets(self) -> None:
        """An operation that reads a part of its scratch buffer waits for the packets written there."""
        packets: dict[int, list[tuple[_Buffer, int]]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            if node.op.name.endswith("pkt"):
                for buffer in node.op.dst_buff:
                    for gpu, kind in self._remote(node, buffer):
                        if kind == "s":
                            packets[gpu].append((buffer, number))
        for node in self.nodes:
            if node.op.name.endswith("pkt"):
                for buffer in node.op.src_buff:
                    if buffer.type == "s":
                        node.after |= {n for b, n in packets[node.gpu] if _overlap(b, buffer)}

    # --- messages -----------------------------------------------------------------------------------

    def messages(self) -> list[AlgorithmMessage]:
        """All messages, each after those it waits for."""
        out: list[AlgorithmMessage] = []
        last: dict[int, set[int]] = {}
        for number in self._order():
            node = self.nodes[number]
            before: set[int] = set().union(*(last[a] for a in node.after)) if node.after else set()
            fetched = self._add(out, node, before, fetch=True)
            pushed = self._add(out, node, fetched or before, fetch=False)
            last[number] = pushed or fetched or before
        return out

    def _order(self) -> list[int]:
        waiting = {n: set(node.after) for n, node in enumerate(self.nodes)}
        followers: dict[int, list[int]] = defaultdict(list)
        for n, after in waiting.items():
            for a in after:
                followers[a].append(n)
        ready = [n for n, after in waiting.items() if not after]
        out: list[int] = []
        while ready:
            n = ready.pop()
            out.append(n)
            for follower in followers[n]:
                waiting[follower].discard(n)
                if not waiting[follower]:
                    ready.append(follower)
        if len(out) < len(self.nodes):
            raise FormatError(
                "the plan's operations wait for each other in a circle", path=self.path
            )
        return out

    def _blocks(self, node: _Node) -> int:
        """How many thread blocks divide an operation's data among them."""
        share = node.op.tbg_info
        if not 0 <= share.tb_id < share.tbg_size:
            raise self._wrong(node, f"is of thread block {share.tb_id} of {share.tbg_size}")
        return share.tbg_size

    def _add(
        self, out: list[AlgorithmMessage], node: _Node, before: set[int], fetch: bool
    ) -> set[int]:
        """Adds the messages that an operation fetches, or those it sends; returns their numbers."""
        if node.op.name not in (_READS if fetch else _WRITES):
            return set()
        buffers: list[_Buffer] = node.op.src_buff if fetch else node.op.dst_buff
        factor = (_PACKET if node.op.name.endswith("pkt") else 1.0) / self._blocks(node)
        reduces = "r" in node.op.name.replace("pkt", "") and node.op.name not in ("gstore", "rppkt")
        added: set[int] = set()
        for buffer in buffers:
            if buffer.index < 0 or buffer.size < 0:
                raise self._wrong(node, f"has a part at {buffer.index} of {buffer.size} chunks")
            for peer, _ in self._remote(node, buffer):
                if peer not in self.gpus:
                    raise self._wrong(node, f"names gpu {peer} of {len(self.gpus)}")
                ends = (peer, node.gpu) if fetch else (node.gpu, peer)
                added.add(len(out))
                out.append(
                    AlgorithmMessage(
                        *ends, buffer.size * factor, buffer.index, fetch and reduces, set(before)
                    )
                )
        return added


def _flat(ops: list[_Op]) -> Iterable[_Op]:
    for op in ops:
        if op.name == "pipeline":
            yield from _flat(op.ops)
        else:
            yield op


def _overlap(a: _Buffer, b: _Buffer) -> bool:
    return a.index < b.index + b.size and b.index < a.index + a.size
