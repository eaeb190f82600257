"""One denoising step of a diffusion transformer on two GPUs, whose weights come from the host over PCIe."""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import Case, Setting, unsure
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

LAYERS, HIDDEN, INNER, WEIGHTS = 40, 5120, 13824, 700e6
"""Of Wan 2.1 14B: layers, sides, and the bytes of a layer's weights in bf16."""
RATE = 350e12
"""FLOP/s that an H100 PCIe reaches in bf16, of 756e12: what is measured of large products."""
HOST = 2


@cache
def site(seed: int) -> Machine:
    """Two GPUs (50 GB/s each way) and the host's memory on one PCIe switch."""
    links = [
        {"ends": [end, "pcie"], "bandwidth": f"{rate} GB/s", "latency": "2 us"}
        for end, rate in (("g0", 50), ("g1", 50), ("host", 100))
    ]
    text = {
        "device": {"name": "h100-pcie"},
        "graph": {"devices": ["g0", "g1", "host"], "links": links},
    }
    return unsure(machine(text), seed)


class DenoisingStep:
    """Writes one GPU's step and the host's sends to it."""

    def __init__(
        self, gpu: TraceBuilder, host: TraceBuilder, rank: int, case: Case, setting: Setting
    ) -> None:
        self.gpu, self.host, self.rank, self.setting = gpu, host, rank, setting
        self.part = int(WEIGHTS * (1 - case["resident"]) / setting["chunks"])
        self.loaded: dict[int, list[int]] = {}
        self.ends: list[int] = []

    def load(self, layer: int) -> None:
        """A layer's weights, piece after piece, once the buffer of an earlier layer is free."""
        priority = {"link_priority": -1} if self.setting["yields"] else {}
        free = (
            [self.ends[layer - self.setting["ahead"] - 1]] if layer > self.setting["ahead"] else []
        )
        before = self.loaded.get(layer - 1, [])[-1:]
        for chunk in range(self.setting["chunks"]):
            tag = layer * 1000 + chunk
            self.host.send("weights", HOST, self.rank, self.part, tag=tag, **priority)
            deps = [*before, *free]
            before = [
                self.gpu.recv("weights", HOST, self.rank, self.part, tag=tag, deps=deps, **priority)
            ]
            self.loaded.setdefault(layer, []).append(before[0])

    def layer(self, layer: int, tokens: int) -> None:
        """Queries, an all-to-all, attention, an all-to-all back, and the rest."""
        half = tokens / 2
        flops = (6 * HIDDEN**2, 4 * HIDDEN * tokens, 2 * (HIDDEN**2 + 2 * HIDDEN * INNER))
        last = self.ends[-1:] + self.loaded[layer][-1:]
        for part, work in enumerate(flops):
            last = [
                self.gpu.comp(
                    "work", duration_ns=int(work * half / RATE * 1e9), stream=0, deps=last
                )
            ]
            if part < 2:
                size = int((3, 1)[part] * HIDDEN * 2 * half)
                kind = CollectiveType.ALL_TO_ALL
                last = [
                    self.gpu.collective("exchange", kind, size, stream=1, pg_name="sp", deps=last)
                ]
        self.ends.append(last[0])


@cache
def traces(tokens: int, resident: float, chunks: int, yields: bool, ahead: int) -> TraceSet:
    """The step of both GPUs."""
    case = {"resident": resident}
    setting = {"chunks": chunks, "yields": yields, "ahead": ahead}
    builders = {f"rank{r}": TraceBuilder() for r in range(3)}
    host = builders["rank2"]
    for rank in (0, 1):
        step = DenoisingStep(builders[f"rank{rank}"], host, rank, case, setting)
        for layer in range(LAYERS):
            for ahead_of in range(layer, min(LAYERS, layer + setting["ahead"] + 1)):
                if ahead_of not in step.loaded and ahead_of - setting["ahead"] - 1 < len(step.ends):
                    step.load(ahead_of)
            step.layer(layer, tokens)
    host.comp("host", duration_ns=1, is_cpu_op=True)
    return TraceSet.of(list(builders.values()), groups={"sp": [0, 1]})


def work_seconds(tokens: int) -> float:
    """Seconds that one GPU computes in a layer."""
    flops = 6 * HIDDEN**2 + 4 * HIDDEN * tokens + 2 * (HIDDEN**2 + 2 * HIDDEN * INNER)
    return flops * tokens / 2 / RATE
