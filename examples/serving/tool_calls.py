"""A source: an agent's next request is made when the last one has ended and a tool has run, until it is done.

Run it: it prints how long tasks take with slow and with fast tools. Requests of a task continue each other,
so that they find what was said before in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.serving import FinishedRequest, Request, serve
from chakrakit.serving.requests import stream_of

TASKS, TURNS, ASKED, TOOL = 24, 5, 800, 200
"""Number of tasks and of turns; tokens of a task and of a tool's result."""


class Agents:
    """Each task begins with a prompt; every answer makes a tool run, whose result is the next prompt."""

    def __init__(self, tool_s: float) -> None:
        begun = {"group": np.arange(TASKS)}
        self.stream = stream_of(np.arange(TASKS) * 0.2, [ASKED] * TASKS, [40] * TASKS, **begun)
        self.tool_s, self.rng = tool_s, np.random.default_rng(1)

    def next(self, now_s: float, finished: Sequence[FinishedRequest]) -> list[Request]:
        """The requests that follow those that have ended."""
        made = []
        for one in finished:
            task, turn, prompt = one.tag or (one.number, 1, ASKED)
            if turn < TURNS:
                grown, at = prompt + one.generated + TOOL, now_s + self.rng.exponential(self.tool_s)
                same = {"continues": one.number, "group": task, "tag": (task, turn + 1, grown)}
                made.append(Request(prompt=grown, output=40, at_s=at, **same))
        return made


def main() -> None:
    """With fast and with slow tools."""
    for seconds in (0.1, 2.0):
        done = serve("llama-3.1-8b", "dgx-h100", Agents(seconds))
        assert done.group_ms is not None
        cached = f"{done.cache_hit_rate:.0%} cached"
        print(f"tools of {seconds} s: {done.group_ms.mean / 1e3:.1f} s for a task, {cached}")


if __name__ == "__main__":
    main()
