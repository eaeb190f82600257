"""ProgramStreams: the streams of a device that a program issues operators on, and which waits for which."""

from __future__ import annotations

from dataclasses import dataclass, field

from chakrakit.sources.capture.recording import FIRST_STREAM


@dataclass(eq=False)
class ProgramStreams:
    """Follows `torch.cuda.stream`, events and waits while operators, known by their numbers, are recorded."""

    current: int = FIRST_STREAM
    """The stream that operators are issued on."""
    _count: int = FIRST_STREAM
    _last: dict[int, int] = field(default_factory=dict)
    """The last operator of each stream."""
    _awaited: dict[int, list[int]] = field(default_factory=dict)
    """What the next operator of each stream waits for."""

    def new(self) -> int:
        """The number of the next stream that is made."""
        self._count += 1
        return self._count - 1

    def issue(self, operator: int) -> list[int]:
        """Note an operator on the current stream; returns those that it waits for."""
        self._last[self.current] = operator
        return self._awaited.pop(self.current, [])

    def last(self, stream: int) -> int:
        """The operator after which everything issued on a stream so far is done; -1 for none."""
        return self._last.get(stream, -1)

    def wait(self, stream: int, operator: int) -> None:
        """Let what is issued next on a stream wait for an operator."""
        if operator >= 0 and self.last(stream) != operator:
            self._awaited.setdefault(stream, []).append(operator)

    def forget(self) -> None:
        """Forget operators, since those that come next are not recorded."""
        self._last.clear()
        self._awaited.clear()
