"""An algorithm of one collective: the messages between its members, and the same as a workload."""

from __future__ import annotations

from dataclasses import dataclass, field

from chakrakit.errors import FormatError
from chakrakit.sources.foreign.goal import RECV, SEND, GoalRank, traces_of_goal
from chakrakit.trace.sets import TraceSet

_ASSUMED_BYTES = 1 << 20
"""Of the whole data, where a file does not say for which sizes it is."""
MOST_BYTES = 1 << 50
"""Of the data of one collective, a petabyte: a larger number is a mistake in the file."""


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


@dataclass(frozen=True)
class AlgorithmPlan:
    """The messages of a collective, each after those it waits for."""

    name: str
    collective: str
    ranks: int
    pieces: int
    messages: list[AlgorithmMessage]
    least_bytes: int = 0
    """The smallest data it is for; 0 where its file does not say."""


def traces_of_algorithm(plan: AlgorithmPlan, tool: str, path: str) -> TraceSet:
    """The sends and receives of every member, for data of the smallest size that the file says."""
    total = min(plan.least_bytes or _ASSUMED_BYTES, MOST_BYTES)
    writer = _Writer(plan.ranks, total / plan.pieces)
    for message in plan.messages:
        writer.add(message)
    if not plan.messages:
        raise FormatError("no messages in this algorithm", path=path)
    traces = traces_of_goal(writer.members, path)
    settings: dict[str, object] = {"algorithm": plan.name, "collective": plan.collective}
    settings["assumed"] = [f"{total:,} bytes of data, which {plan.pieces} chunks divide"]
    return traces.with_card(traces.card.replace(tool=tool, settings=settings))


class _Writer:
    """Both ends of each message, as operations of its members."""

    def __init__(self, ranks: int, piece_bytes: float) -> None:
        self.members = [GoalRank() for _ in range(ranks)]
        self.piece_bytes = piece_bytes
        self.ends: list[tuple[int, int, int, int]] = []
        """Of each message: its members, and the numbers of its send and of its receive."""
        self._tag = 0

    def add(self, message: AlgorithmMessage) -> None:
        """Adds a message: its ends wait for what its members did before, or for a word from those who did."""
        before: dict[int, set[int]] = {message.src: set(), message.dst: set()}
        for number in sorted(message.after):
            src, dst, sent, received = self.ends[number]
            if dst in before:
                before[dst].add(received)
            if src in before and src != dst:
                before[src].add(sent)
            if src not in before and dst not in before:
                before[message.src].add(self._word(dst, message.src, received))
        size = max(1, round(message.size * self.piece_bytes)) if message.size else 0
        self.ends.append(self._message(message.src, message.dst, size, before))

    def _word(self, src: int, dst: int, after: int) -> int:
        """An empty message that says that something has ended; the number of its receive."""
        return self._message(src, dst, 0, {src: {after}, dst: set()})[3]

    def _message(
        self, src: int, dst: int, size: int, before: dict[int, set[int]]
    ) -> tuple[int, int, int, int]:
        self._tag += 1
        numbers = []
        for way, member, peer in ((SEND, src, dst), (RECV, dst, src)):
            name = f"{'send to' if way == SEND else 'receive from'} {peer}"
            number = self.members[member].add(way, size, peer, self._tag, name=name)
            self.members[member].ends += [(b, number) for b in sorted(before[member])]
            numbers.append(number)
        return src, dst, numbers[0], numbers[1]
