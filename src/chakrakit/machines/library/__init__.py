"""Collective communication libraries: their costs, their choice of algorithm, and fitting their constants."""

from __future__ import annotations

from chakrakit.machines.library.constants import (
    EngineKernels,
    ExchangeConstants,
    ExpertKernels,
    Library,
    Protocol,
    Span,
    Tuner,
    bus_factor,
)
from chakrakit.machines.library.cost import (
    SLOTS,
    LibraryCost,
    average_hop,
    cost,
    crossed,
    reduction_factor,
)
from chakrakit.machines.library.engines import (
    Routing,
    engine_cost,
    engine_kernel,
    latency_terms,
    nodes_reached,
    places_reached,
    reached,
    throughput_terms,
    token_bytes,
)
from chakrakit.machines.library.fit import Measurement, descend, fit_library, predict
from chakrakit.machines.library.tuner import Choice, choose

__all__ = [
    "SLOTS",
    "Choice",
    "EngineKernels",
    "ExchangeConstants",
    "ExpertKernels",
    "Library",
    "LibraryCost",
    "Measurement",
    "Protocol",
    "Routing",
    "Span",
    "Tuner",
    "average_hop",
    "bus_factor",
    "choose",
    "cost",
    "crossed",
    "descend",
    "engine_cost",
    "engine_kernel",
    "fit_library",
    "latency_terms",
    "nodes_reached",
    "places_reached",
    "predict",
    "reached",
    "reduction_factor",
    "throughput_terms",
    "token_bytes",
]
