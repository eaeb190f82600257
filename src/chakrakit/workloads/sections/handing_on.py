"""What sections hand on: messages between ranks, what stays on a rank, and gathers where copies are wanted.

The sizes follow from how the giving section cuts its result and how the taking one wants it cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from chakrakit.workloads.description import PipelineTask
from chakrakit.workloads.layers import BYTES, Move, gathers, spread, transfers
from chakrakit.workloads.sections.one import OneSection


class Joint(NamedTuple):
    """A place in a rank's programs: a section's task, and whether it is its loss that takes part."""

    section: str
    task: PipelineTask
    loss: bool = False


class MessageEnd(NamedTuple):
    """One end of a message: before the task that takes it, or after the task that gives it."""

    joint: Joint
    op: str
    peer: int
    size: int
    tag: int
    name: str
    backward: bool


class Stays(NamedTuple):
    """What a rank hands to itself: one task waits for another of another section."""

    giver: Joint
    taker: Joint


class Gathered(NamedTuple):
    """A gather over the taking section's tp, before a task."""

    joint: Joint
    move: Move
    name: str


class Handed(NamedTuple):
    """All that sections hand on, by rank."""

    messages: Mapping[int, list[MessageEnd]]
    stays: Mapping[int, list[Stays]]
    gathered: Mapping[int, list[Gathered]]


_TAG_BITS = 24
"""A section has fewer than 2^24 messages of its own between two ranks, so that tags do not meet."""


def tag_base(number: int) -> int:
    """Where the tags of a section, or of what is handed on between two, begin."""
    return number << _TAG_BITS


class _Batches(NamedTuple):
    """A micro-batch of the giving section and one of the taking section that share samples."""

    giver: int
    given: int
    taker: int
    taken: int


def handed_on(sections: Mapping[str, OneSection]) -> Handed:
    """What all sections hand on."""
    handed = Handed(defaultdict(list), defaultdict(list), defaultdict(list))
    number = len(sections)
    for taker in sections.values():
        for name in taker.section.after:
            _Edge(sections[name], taker, number, handed).add()
            number += 2
    return handed


class _Edge:
    """One section after another: `number` is where the tags of its two directions begin."""

    def __init__(self, giver: OneSection, taker: OneSection, number: int, handed: Handed) -> None:
        self.giver, self.taker, self.number, self.handed = giver, taker, number, handed
        self.logits = giver.section.output == "logits"

    def add(self) -> None:
        tokens: dict[_Batches, list[int]] = defaultdict(list)
        for sample, (replica, batch) in sorted(self.taker.samples.places.items()):
            given = self.giver.samples.places.get(sample)
            if given is not None:
                key = _Batches(given.replica, given.batch, replica, batch)
                tokens[key].append(self.giver.tokens_of(sample))
        for batches, counts in tokens.items():
            for (source, target), size in self._sizes(batches, counts).items():
                self._hand(batches, source, target, size)
        self._gather(tokens)

    def _sizes(self, batches: _Batches, counts: list[int]) -> dict[tuple[int, int], int]:
        """Bytes from rank to rank."""
        sizes: dict[tuple[int, int], int] = defaultdict(int)
        stage, _ = self.giver.home(batches.giver, batches.given, True)
        there, _ = self.taker.home(batches.taker, batches.taken, self.logits)
        sources = self.giver.holders(batches.giver, stage)
        targets = self.taker.holders(batches.taker, there)
        for count in counts:
            have = self.giver.result(count)
            want = self.taker.taken(count, self.giver.width, self.logits)
            arrives = spread(want, self.taker.degrees, ["tp"])
            for moved in transfers(
                have, self.giver.degrees, sources, arrives, self.taker.degrees, targets
            ):
                sizes[moved.source, moved.target] += moved.elements * BYTES[have.dtype]
        return sizes

    def _hand(self, batches: _Batches, source: int, target: int, size: int) -> None:
        """Forward, and where the giving section trains the gradients back."""
        given, taken = self._joints(batches, source, target, "F")
        tag = self._tag(batches)
        if source == target:
            self.handed.stays[source].append(Stays(given, taken))
        else:
            self._message(given, taken, source, target, size, tag, False)
        if not self.giver.section.trains:
            return
        giver, taker = self._joints(batches, source, target, "B")
        if source == target:
            self.handed.stays[source].append(Stays(taker, giver))
        else:
            self._message(taker, giver, target, source, size, tag + tag_base(1), True)

    def _message(
        self, first: Joint, second: Joint, source: int, target: int, size: int, tag: int, back: bool
    ) -> None:
        name = f"{self.giver.name}.{'gradient' if back else 'result'}"
        out = MessageEnd(first, "send", target, size, tag, f"{name}.send", back)
        self.handed.messages[source].append(out)
        into = MessageEnd(second, "recv", source, size, tag, f"{name}.recv", back)
        self.handed.messages[target].append(into)

    def _joints(
        self, batches: _Batches, source: int, target: int, kind: str
    ) -> tuple[Joint, Joint]:
        """The giving section's task and the taking one's, forward or backward."""
        _, chunk = self.giver.home(batches.giver, batches.given, True)
        _, there = self.taker.home(batches.taker, batches.taken, self.logits)
        given = self.giver.task(source, kind, batches.given, chunk)
        taken = self.taker.task(target, kind, batches.taken, there)
        loss = self.logits and kind == "F"
        return Joint(self.giver.name, given), Joint(self.taker.name, taken, loss)

    def _tag(self, batches: _Batches) -> int:
        """Both ends compute it; replicas that do the same use the same."""
        most = max(len(b) for b in self.taker.samples.of)
        return tag_base(self.number) + batches.given * most + batches.taken

    def _gather(self, tokens: Mapping[_Batches, list[int]]) -> None:
        """What arrives in parts is made whole before the taking task."""
        total: dict[tuple[int, int], int] = defaultdict(int)
        for batches, counts in tokens.items():
            total[batches.taker, batches.taken] += sum(counts)
        for (replica, batch), count in total.items():
            want = self.taker.taken(count, self.giver.width, self.logits)
            stage, chunk = self.taker.home(replica, batch, self.logits)
            for move in gathers(want, self.taker.degrees, ["tp"]):
                for holder in self.taker.holders(replica, stage):
                    task = self.taker.task(holder.rank, "F", batch, chunk)
                    joint = Joint(self.taker.name, task, self.logits)
                    gathered = Gathered(joint, move, f"{self.giver.name}.result.gather")
                    self.handed.gathered[holder.rank].append(gathered)
