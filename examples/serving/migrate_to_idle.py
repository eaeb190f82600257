"""Migration: requests that run move to an engine with much less to do, and their caches with them.

Run it: a router that only knows turns meets outputs of very different length; it prints the time per token
at p99 and how many caches moved.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView, serve

STREAM = "bursts{rate=40,size=80,n=320,prompt=400,output=lognormal:200:1.5,seed=9}"
MORE = 4
"""Requests that an engine has more than another before one of them moves."""


class MigrateToIdle:
    """The newest request goes to the least busy engine, if that has far less to do."""

    def migrate(
        self, requests: Sequence[RequestView], engine: EngineView, engines: Sequence[EngineView]
    ) -> list[tuple[int, int]]:
        """Which requests move, and where."""
        idle = min(engines, key=lambda e: (e.waiting + e.running, e.number))
        gap = engine.waiting + engine.running - idle.waiting - idle.running
        newest = [r.number for r in requests if r.generated > 0][-1:]
        return [(n, idle.number) for n in newest] if gap > MORE else []


def main() -> None:
    """Either way."""
    for name, policy in (("stay", None), ("move", MigrateToIdle())):
        done = serve("llama-3.1-8b", "dgx-h100", STREAM, replicas=4, policy=policy)
        print(f"{name}: {done.tpot_ms.p99:.2f} ms per token at p99, {done.moves} caches moved")


if __name__ == "__main__":
    main()
