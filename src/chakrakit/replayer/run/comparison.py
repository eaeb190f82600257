"""How a replay compares with the recording it was made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from chakrakit.results import Result


class Original(Result, msgspec.Struct):
    """What was recorded of one rank: its step, its time on the device, its kernels by name."""

    step_ns: int
    kernel_ns: int
    kernels: dict[str, int]


class Difference(Result, msgspec.Struct):
    """A kernel that ran another number of times than it was recorded."""

    name: str
    recorded: int
    replayed: int


class Comparison(Result, msgspec.Struct):
    """The recording, and what of it came out again.

    `step_ns` is the un-profiled step where it is known, else the recorded one corrected for what
    recording cost; `kernel_ns` the device's time of the busiest rank. The changes are shares of
    those: 0.02 is 2 % longer.
    """

    step_ns: int
    kernel_ns: int
    kernels_equal: bool
    """Whether every rank ran the recorded kernels and no others, by name and number."""
    kernels: int
    """How many were recorded, on all ranks."""
    kernels_same: int
    """How many of them ran again."""
    step_change: float
    kernel_change: float
    differences: list[Difference] = []
    """The kernels that differ most in number, at most twenty."""

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        parts = []
        if self.kernels:
            parts.append(f"{self.kernels_same:,} of {self.kernels:,} kernels the same")
            parts.append(f"kernels {self.kernel_ns / 1e6:,.3f} ms {self.kernel_change:+.1%}")
        parts.append(f"step {self.step_ns / 1e6:,.3f} ms {self.step_change:+.1%}")
        return f"against the recording: {', '.join(parts)}"


_SHOWN = 20


def compare_with_recording(
    *,
    step_ns: int,
    kernel_ns: int,
    kernels: Sequence[tuple[Mapping[str, int], Mapping[str, int]]],
    replayed_step_ns: int,
    replayed_kernel_ns: int,
) -> Comparison:
    """`kernels` are recorded and replayed counts by name, for each rank."""
    differs: Counter[tuple[str, int, int]] = Counter()
    same = 0
    for before, after in kernels:
        same += sum((Counter(before) & Counter(after)).values())
        for name in before.keys() | after.keys():
            was, now = before.get(name, 0), after.get(name, 0)
            if was != now:
                differs[name, was, now] += abs(was - now)
    most = sorted(differs.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    return Comparison(
        step_ns=step_ns,
        kernel_ns=kernel_ns,
        kernels_equal=not differs,
        kernels=sum(sum(before.values()) for before, _ in kernels),
        kernels_same=same,
        step_change=_change(step_ns, replayed_step_ns),
        kernel_change=_change(kernel_ns, replayed_kernel_ns),
        differences=[Difference(*key) for key, _ in most],
    )


def _change(before: int, after: int) -> float:
    return after / before - 1 if before else 0.0
