"""Admission by room: requests of low priority start only while a quarter of the cache is free.

Run it: it prints the time to the first token of urgent requests and of all, with and without the rule.
"""

from __future__ import annotations

from chakrakit.serving import EngineView, RequestView, serving_of

STREAM = "poisson{rate=40,n=300,prompt=1000,output=200,priorities=2,seed=4}"
ENGINE = "vllm{scheduling_policy=priority, num_gpu_blocks_override=2500}"
BASE = ("llama-3.1-8b", "dgx-h100", STREAM, ENGINE)


class AdmitByRoom:
    """Priority 0 always starts; others leave a quarter of the blocks for it."""

    def admit(self, request: RequestView, engine: EngineView) -> bool:
        """Whether a waiting request may start now."""
        return request.priority == 0 or engine.free_blocks >= engine.total_blocks / 4


def main() -> None:
    """The first token of urgent requests, and preemptions, either way."""
    for name, policy in (("first come", None), ("by room", AdmitByRoom())):
        serving = serving_of(*BASE, policy=policy)
        done = serving.served()
        times = done.outcome.requests
        urgent = serving.stream.priority == 0
        first = (times["first"] - times["arrival"])[urgent].mean() * 1e-9
        moved = done.result().preemptions
        print(
            f"{name}: urgent requests have their first token after {first:.0f} ms; {moved} preemptions"
        )


if __name__ == "__main__":
    main()
