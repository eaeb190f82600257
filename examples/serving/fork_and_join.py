"""Forks and joins: parts of an answer share the cache of its plan, and the last answer waits for all of them.

Run it: it prints how long a task takes with its parts one after the other and side by side.
"""

from __future__ import annotations

from chakrakit.serving import serve
from chakrakit.serving.requests import RequestStream, stream_of

ASKED, PLAN, PARTS, PART, SUMMARY = 1000, 64, 4, 120, 40
"""Tokens of the task and its plan, number of parts, tokens of each and of the last answer."""


def tasks(side_by_side: bool, count: int = 20) -> RequestStream:
    """Plans, their parts, and an answer that waits for all parts."""
    rows: list[tuple[float, int, int, list[int], int, int]] = []
    for task in range(count):
        plan, known = len(rows), ASKED + PLAN
        rows.append((task * 0.5, ASKED, PLAN, [-1], -1, task))
        for part in range(PARTS):
            before = plan if side_by_side else plan + part
            said = known if side_by_side else known + part * PART
            rows.append((0.0, said, PART, [before], before, task))
        parts = list(range(plan + 1, plan + 1 + PARTS))
        rows.append((0.0, known + PARTS * PART, SUMMARY, parts, plan, task))
    at, prompt, output, after, continues, group = zip(*rows, strict=True)
    return stream_of(at, prompt, output, after=after, continues=continues, group=group)


def main() -> None:
    """Either way."""
    for name, side_by_side in (("one after the other", False), ("side by side", True)):
        done = serve("llama-3.1-8b", "dgx-h100", tasks(side_by_side))
        assert done.group_ms is not None
        cached = f"{done.cache_hit_rate:.0%} of prompts cached"
        print(f"{name}: {done.group_ms.mean / 1e3:.2f} s, {cached}")


if __name__ == "__main__":
    main()
