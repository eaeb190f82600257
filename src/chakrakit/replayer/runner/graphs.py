"""Steps that were recorded in a graph of the device's, captured again and launched as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .calling import Do


def stretches(steps: list[dict[str, Any]]) -> list[range]:
    """Every run of consecutive steps of one graph."""
    out: list[range] = []
    numbers = [step.get("graph", 0) for step in steps]
    for i, number in enumerate(numbers):
        if number and (not i or numbers[i - 1] != number):
            out.append(range(i, i + 1))
        elif number:
            out[-1] = range(out[-1].start, i + 1)
    return out


def awaited_before(steps: list[dict[str, Any]], inside: range) -> list[int]:
    """Steps before a graph that its own wait for, so that its launch has to."""
    causes = {c for i in inside for c in steps[i].get("after", [])}
    return sorted(causes - set(inside))


def awaited_after(steps: list[dict[str, Any]], inside: range) -> list[int]:
    """Steps of a graph that others wait for: they are done when the whole graph is."""
    others = (s for i, s in enumerate(steps) if i not in inside)
    return sorted({c for s in others for c in s.get("after", [])} & set(inside))


def captured(
    torch: Any, device: str, steps: list[dict[str, Any]], inside: range, do: Mapping[int, Do]
) -> Any:
    """A graph of these steps; streams beside the first step's fork from it and join it at the end.

    Events recorded in a capture are known to that capture alone, so that these are its own.
    """
    cuda = torch.cuda
    first = steps[inside[0]].get("stream", 0)
    beside = {steps[i].get("stream", 0) for i in inside} - {first}
    streams = {number: cuda.Stream(device) for number in sorted(beside)}
    done = {c: cuda.Event() for i in inside for c in steps[i].get("after", []) if c in inside}
    graph = cuda.CUDAGraph()
    cuda.synchronize()
    with cuda.graph(graph):
        here = cuda.current_stream()
        for stream in streams.values():
            stream.wait_stream(here)
        for i in inside:
            with cuda.stream(streams.get(steps[i].get("stream", 0))):
                for cause in steps[i].get("after", []):
                    if cause in done:
                        cuda.current_stream().wait_event(done[cause])
                do[i]()
                if i in done:
                    done[i].record()
        for stream in streams.values():
            here.wait_stream(stream)
    return graph
