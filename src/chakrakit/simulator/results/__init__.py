"""`simulate`: from names to a result, its summary and its Run."""

from __future__ import annotations

from chakrakit.simulator.results.collective_table import (
    CollectiveTable,
    ExpertExchange,
    Kernels,
    parse_members,
    parse_sizes,
    time_collective,
)
from chakrakit.simulator.results.result import Detail, to_run
from chakrakit.simulator.results.settings import read_network_model, read_placement, split_fault
from chakrakit.simulator.results.simulation import Simulation, simulate
from chakrakit.simulator.results.summary import CollectiveSummary, RankSummary, SimulationSummary

__all__ = [
    "CollectiveSummary",
    "CollectiveTable",
    "Detail",
    "ExpertExchange",
    "Kernels",
    "RankSummary",
    "Simulation",
    "SimulationSummary",
    "parse_members",
    "parse_sizes",
    "read_network_model",
    "read_placement",
    "simulate",
    "split_fault",
    "time_collective",
    "to_run",
]
