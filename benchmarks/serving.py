"""How fast serving is simulated: CPU seconds and memory.

    python benchmarks/serving.py [MOONCAKE.jsonl.gz] [--requests 1000000]

A file is served on one engine of eight H100s; the rest are made: requests with shared prefixes on 64
engines behind a router that looks for them.
"""

from __future__ import annotations

import argparse
import resource
import time

from chakrakit.serving import serve


def timed(name: str, *what: str, **settings: object) -> None:
    """One line."""
    start = time.process_time()
    done = serve(*what, **settings)  # type: ignore[arg-type]
    spent = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{name}: {spent:.1f} s, {done.requests:,} requests, {done.steps:,} steps, {memory:.2f} GB"
    )


def main() -> None:
    """The file where given, then made streams of two sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?")
    parser.add_argument("--requests", type=int, default=1_000_000)
    arguments = parser.parse_args()
    if arguments.path:
        timed("one engine of 8 GPUs", "llama-3.1-70b", "dgx-h100", arguments.path, "vllm", tp=8)
    for count in (arguments.requests // 10, arguments.requests):
        stream = (
            f"poisson{{rate=1200,n={count},prompt=lognormal:512:0.5,output=lognormal:128:0.5,"
            "prefix=256,prefixes=1000}"
        )
        settings = {"replicas": 64, "router": "prefix"}
        timed("64 engines", "llama-3.1-8b", "dgx-h100:8", stream, "vllm", **settings)


if __name__ == "__main__":
    main()
