"""Tenants: prompts start in the order in which their tenants have had the least, not in that of arrival.

Run it: one tenant of two sends nine requests of ten; it prints the mean time to the first token of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView, serve

STREAM = "poisson{rate=30,n=300,prompt=lognormal:2000:0.5,output=64,tenants=9:1,seed=4}"
BUDGET = 8192


class FairTenants:
    """Counts the tokens of each tenant's requests that have started; the least served goes first."""

    def __init__(self) -> None:
        self.served: Counter[int] = Counter()
        self.counted: set[int] = set()

    def batch(
        self, running: Sequence[RequestView], waiting: Sequence[RequestView], engine: EngineView
    ) -> list[tuple[int, int]]:
        """What a step works on: all that run, then prompts, tenant by tenant."""
        for request in running:
            if request.number not in self.counted:
                self.counted.add(request.number)
                self.served[request.tenant] += request.prompt
        soon, left, order = self.served.copy(), list(waiting), []
        while left:
            first = min(left, key=lambda r: soon[r.tenant])  # of equals the first in the queue
            soon[first.tenant] += first.prompt
            left.remove(first)
            order.append(first)
        return [(r.number, BUDGET) for r in (*running, *order)]


def main() -> None:
    """In order of arrival, then by tenant."""
    for name, policy in (("first come", None), ("fair", FairTenants())):
        done = serve("llama-3.1-8b", "dgx-h100", STREAM, policy=policy)
        print(f"{name}: {done.tenants['1'].ttft_ms.mean:.0f} ms for the tenant with less")


if __name__ == "__main__":
    main()
