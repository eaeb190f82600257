"""A neural network cut twice: its first layers on a small board, then on a laptop, the rest on a PC.

The frame's tensor crosses the links between them where it is cut, and the answer comes back. Links have a
bandwidth that wanders. Whoever chooses cuts knows all FLOPs and sizes, and believes in some bandwidths.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import Fault

FRAME = 4 * 3 * 224 * 224
"""Bytes of a picture, in single precision."""
ANSWER = 4000
RATES = {"board": 12e9, "laptop": 150e9, "pc": 4e12}
"""FLOP/s that networks reach. Assumed: a Raspberry Pi 4's cores, a laptop's, a PC with a GPU."""
WATTS = {"board": (6.0, 2.5), "laptop": (45.0, 10.0), "pc": (250.0, 40.0)}
"""While it works or sends, and idle. Assumed, as data sheets have them."""
MEGABITS = (20.0, 50.0)
"""Mean bandwidth from board to laptop (a weak WLAN) and from there to the PC. Assumed."""
LATENCY_S = (0.003, 0.008)
Layers = list[tuple[float, float]]
"""FLOPs and bytes that come out, layer by layer."""


def _convolutions(widths: list[tuple[int, int]], size: int) -> Layers:
    """Blocks of 3×3 convolutions, each with half the side of the one before at its end."""
    layers: Layers = []
    channels = 3
    for width, count in widths:
        for _ in range(count):
            layers.append((2.0 * 9 * channels * width * size**2, 4.0 * width * size**2))
            channels = width
        size //= 2
        layers[-1] = (layers[-1][0], 4.0 * channels * size**2)
    return layers


def _dense(*widths: int) -> Layers:
    return [(2.0 * a * b, 4.0 * b) for a, b in pairwise(widths)]


def _mobilenet() -> Layers:
    """MobileNetV2: inverted residuals as (expansion, width, count, stride)."""
    layers: Layers = [(2.0 * 27 * 32 * 112**2, 4.0 * 32 * 112**2)]
    size, channels = 112, 32
    blocks = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    for expansion, width, count, stride in [*blocks, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for number in range(count):
            before, size = size, size // (stride if number == 0 else 1)
            hidden = channels * expansion
            widened = before**2 * channels * hidden if expansion > 1 else 0
            inside = widened + size**2 * hidden * (9 + width)
            layers.append((2.0 * inside, 4.0 * width * size**2))
            channels = width
    return [*layers, (2.0 * 49 * 320 * 1280, 4.0 * 1280), (2.0 * 1280 * 1000, ANSWER)]


NETWORKS = {
    "VGG16": _convolutions([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], 224)
    + _dense(512 * 49, 4096, 4096, 1000),
    "AlexNet": [
        (2.0 * 363 * 64 * 55**2, 4.0 * 64 * 27**2),
        (2.0 * 1600 * 192 * 27**2, 4.0 * 192 * 13**2),
        (2.0 * 1728 * 384 * 13**2, 4.0 * 384 * 13**2),
        (2.0 * 3456 * 256 * 13**2, 4.0 * 256 * 13**2),
        (2.0 * 2304 * 256 * 13**2, 4.0 * 256 * 6**2),
        *_dense(9216, 4096, 4096, 1000),
    ],
    "MobileNetV2": _mobilenet(),
}


@cache
def _cut_table(network: str) -> tuple[list[tuple[int, int]], F64, F64]:
    """All pairs of cuts; seconds of computing, and bytes on each of the two links."""
    layers = NETWORKS[network]
    flops = np.cumsum([0.0, *(f for f, _ in layers)])
    out = [FRAME, *(b for _, b in layers)]
    cuts = [(a, b) for a in range(len(layers) + 1) for b in range(a, len(layers) + 1)]
    board, laptop, pc = RATES.values()
    seconds = [
        flops[a] / board + (flops[b] - flops[a]) / laptop + (flops[-1] - flops[b]) / pc
        for a, b in cuts
    ]
    last = len(layers)
    sizes = [(out[a] * (a < last), out[b] * (b < last)) for a, b in cuts]
    return cuts, np.array(seconds), np.array(sizes, float)


def best_cuts(network: str, megabits: tuple[float, float]) -> tuple[int, int]:
    """The cuts with the shortest latency, if the links had these bandwidths."""
    return _cut_table(network)[0][int(np.argmin(_seconds(network, megabits)))]


def best_seconds(network: str, megabits: tuple[float, float]) -> float:
    """The latency with those cuts."""
    return float(_seconds(network, megabits).min())


def _seconds(network: str, megabits: tuple[float, float]) -> F64:
    """The latency of every pair of cuts."""
    _, seconds, sizes = _cut_table(network)
    for link in (0, 1):
        moved = sizes[:, link] > 0
        seconds = seconds + sizes[:, link] * 8 / (megabits[link] * 1e6)
        seconds = seconds + moved * (2 * LATENCY_S[link] + ANSWER * 8 / (megabits[link] * 1e6))
    return seconds


def continuum() -> Machine:
    """Board, laptop and PC in a row."""
    names = list(RATES)
    links = [
        {"ends": names[i : i + 2], "bandwidth": f"{MEGABITS[i]} Mb/s", "latency": LATENCY_S[i]}
        for i in (0, 1)
    ]
    changes = [{"ranks": [i], "device": _device(names[i])} for i in (1, 2)]
    text: dict[str, Any] = {"device": _device(names[0]), "changes": changes}
    return machine({**text, "graph": {"devices": names, "links": links}})


def _device(name: str) -> dict[str, Any]:
    power, idle = WATTS[name]
    peak, moved = {"fp32": RATES[name]}, "1 TB/s"  # the rates are those that networks reach
    draws = {"power": f"{power} W", "idle_power": f"{idle} W"}
    return {"name": name, "peak": peak, "memory_bandwidth": moved, **draws}


def wandering(spread: float, every_s: float, until_s: float, seed: int) -> list[Fault]:
    """Both links at another bandwidth every so many seconds: a logarithm that is drawn back to its mean."""
    rng, faults = random.Random(f"links {seed}"), []
    names = list(RATES)
    for link in (0, 1):
        at, level = 0.0, rng.gauss(0, 1)
        while spread and at < until_s:
            factor = float(np.exp(spread * level - spread**2 / 2))
            faults.append(Fault("link", (names[link], names[link + 1]), at * 1e9, factor))
            level = 0.8 * level + 0.6 * rng.gauss(0, 1)
            at += every_s
    return faults
