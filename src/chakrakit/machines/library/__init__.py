"""Collective communication libraries: their costs, their choice of algorithm, and fitting their constants."""

from __future__ import annotations

from chakrakit.machines.library.constants import (
    Engine,
    Exchange,
    Experts,
    Library,
    Protocol,
    Span,
    Tuner,
    bus_factor,
)
from chakrakit.machines.library.cost import SLOTS, Cost, cost, crossed, reduction_factor
from chakrakit.machines.library.engines import (
    Routing,
    engine_cost,
    engine_kernel,
    latency_seconds,
    reached,
    throughput_seconds,
    token_bytes,
)
from chakrakit.machines.library.fit import Measurement, descend, fit_library, predict
from chakrakit.machines.library.tuner import Choice, choose

__all__ = [
    "SLOTS",
    "Choice",
    "Cost",
    "Engine",
    "Exchange",
    "Experts",
    "Library",
    "Measurement",
    "Protocol",
    "Routing",
    "Span",
    "Tuner",
    "bus_factor",
    "choose",
    "cost",
    "crossed",
    "descend",
    "engine_cost",
    "engine_kernel",
    "fit_library",
    "latency_seconds",
    "predict",
    "reached",
    "reduction_factor",
    "throughput_seconds",
    "token_bytes",
]
