"""Finishing: a request ends when it is sure of its answer, before all of its output is there.

Run it: it prints the time of requests with and without exits, of which one in two is sure after 20 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView, serve

STREAM = "poisson{rate=20,n=200,prompt=500,output=120,seed=2}"
SURE_AFTER = 20


class ExitWhenSure:
    """Every second request is sure after some tokens; here by its number, elsewhere by what it says."""

    def finish(self, requests: Sequence[RequestView], engine: EngineView) -> list[int]:
        """The requests that end now, of those that just got a token."""
        return [r.number for r in requests if r.number % 2 and r.generated >= SURE_AFTER]


def main() -> None:
    """Mean time and output tokens, either way."""
    for name, policy in (("all of it", None), ("until sure", ExitWhenSure())):
        done = serve("llama-3.1-8b", "dgx-h100", STREAM, policy=policy)
        print(f"{name}: {done.e2e_ms.mean:.0f} ms, {done.output_tokens_per_s:.0f} tokens/s")


if __name__ == "__main__":
    main()
