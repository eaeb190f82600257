"""When checkpoints are taken and how long each stops the job, as one clock."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

NEVER = 1 << 60
"""So many steps between checkpoints that none is ever taken."""


class Cadence:
    """Checkpoint i follows step i × `every` and stops the job for `stalls[(i - 1) % len(stalls)]` seconds.

    The *clock* counts the seconds an undisturbed job has run: steps and stalls. Progress between two
    events is therefore an addition, whatever number of checkpoints lies between them.
    """

    def __init__(self, every: int = NEVER, stalls: tuple[float, ...] = (0.0,)) -> None:
        self.every = every
        self.period = len(stalls)
        self._sums = [0.0, *accumulate(stalls)]

    def stalled(self, count: int) -> float:
        """Seconds that the first `count` checkpoints stop the job."""
        rounds, rest = divmod(count, self.period)
        return rounds * self._sums[-1] + self._sums[rest]

    def at(self, count: int, step: float) -> float:
        """The clock when checkpoint `count` is complete, with steps of `step` seconds."""
        return count * self.every * step + self.stalled(count)

    def before(self, steps: int) -> int:
        """How many checkpoints a job of so many steps takes before its last step ends."""
        return max(-(-steps // self.every) - 1, 0)

    def end(self, steps: int, step: float) -> float:
        """The clock when a job of so many steps ends; nothing follows that needs a checkpoint."""
        return steps * step + self.stalled(self.before(steps))

    def complete(self, clock: float, step: float) -> int:
        """How many checkpoints are complete at a clock."""
        if self.period == 1:
            return max(int(clock / (self.every * step + self._sums[1])), 0)
        rounds, rest = divmod(max(clock, 0.0), self.at(self.period, step))
        marks = [self.at(i, step) for i in range(1, self.period + 1)]
        return int(rounds) * self.period + bisect_right(marks, rest)

    def position(self, clock: float, step: float) -> tuple[int, float, float]:
        """Complete checkpoints, steps since the last of them, and seconds into the one being taken."""
        count = self.complete(clock, step)
        since = max(clock - self.at(count, step), 0.0)
        run = self.every * step
        if since <= run:
            return count, since / step, 0.0
        return count, float(self.every), since - run
