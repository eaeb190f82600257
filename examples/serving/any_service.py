"""Any service: an image encoder whose batches take as long as their kinds of images say.

Run it: it prints the time of requests for large and for small batches.
"""

from __future__ import annotations

from collections.abc import Mapping

from chakrakit.serving import Service, serve

SECONDS = {0: 0.4e-3, 1: 1.6e-3}
"""Of a small and of a large image; a batch also reads the weights once."""
WEIGHTS_S = 3e-3


def step_seconds(items: int, kinds: Mapping[int, int]) -> float:
    """The time of a batch."""
    return WEIGHTS_S + sum(SECONDS[kind] * count for kind, count in kinds.items())


def main() -> None:
    """Batches of up to 4 and up to 32 images; a request has one to four of one kind."""
    stream = "poisson{rate=200,n=1000,prompt=uniform:1:4,output=1,adapters=2,seed=3}"
    for most in (4, 32):
        images = Service(step_seconds, memory=8e9, item_bytes=20e6, max_items=most)
        done = serve(service=images, requests=stream)
        print(f"up to {most} images: {done.e2e_ms.mean:.1f} ms, {done.e2e_ms.p99:.1f} ms at p99")


if __name__ == "__main__":
    main()
