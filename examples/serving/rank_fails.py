"""A rank of an expert-parallel engine fails alone; the others fetch its experts, go on, and take it back.

Run it: it prints the pause, and the first token at p99, by where the lost experts come from.
"""

from __future__ import annotations

from chakrakit.serving import RankFailure, serving_of

TIERS = {"another rank's memory": 300.0, "a host": 25.0, "a disk": 3.0}
"""GB/s"""


def main() -> None:
    """One failure after ten seconds; the rank is back ten seconds later."""
    stream = "poisson{rate=40,n=1200,prompt=512,output=64,seed=2}"
    for name, gbps in TIERS.items():
        failure = RankFailure(at_s=10.0, rank=3, tier_gbps=gbps, detect_s=0.5, away_s=10.0)
        serving = serving_of(
            "deepseek-v3-16b", "dgx-h100", stream, dp=8, ep=8, rank_faults=[failure]
        )
        pause = failure.pause(serving.expert_bytes).pause_s
        done = serving.served().result()
        print(f"{name}: a pause of {pause:.2f} s; first token {done.ttft_ms.p99:.0f} ms at p99")


if __name__ == "__main__":
    main()
