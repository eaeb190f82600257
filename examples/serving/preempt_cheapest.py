"""Preemption: when blocks run out, the request gives way that has least to compute again.

Run it: it prints how many tokens are computed in all, with vLLM's rule (the newest request) and with this.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView, serving_of

STREAM = "closed{concurrency=32,n=160,prompt=lognormal:600:1,output=300,seed=6}"
ENGINE = "vllm{num_gpu_blocks_override=900, enable_prefix_caching=false}"


class PreemptCheapest:
    """The request with the fewest computed tokens; of equals the newest."""

    def preempt(self, candidates: Sequence[RequestView], engine: EngineView) -> int:
        """The number of the request that gives way."""
        return min(candidates, key=lambda r: (r.computed, -r.number)).number


def main() -> None:
    """Preemptions and tokens computed, either way."""
    for name, policy in (("newest", None), ("cheapest", PreemptCheapest())):
        served = serving_of("llama-3.1-8b", "dgx-h100", STREAM, ENGINE, policy=policy).served()
        tokens = sum(int(t["tokens"]) for t in served.outcome.totals)
        found = served.result()
        print(
            f"{name}: {found.preemptions} preemptions, {tokens:,} tokens in {found.duration_s:.1f} s"
        )


if __name__ == "__main__":
    main()
