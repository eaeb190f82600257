"""Simulates by name, and turns the outcome into results: a summary, a Run, tables, several jobs."""

from __future__ import annotations

from chakrakit.simulator.results.collective_table import (
    CollectiveTable,
    ExpertExchange,
    Kernels,
    parse_members,
    parse_sizes,
    time_collective,
)
from chakrakit.simulator.results.editing import EditedRun, EditSession, machine_of
from chakrakit.simulator.results.hung import HungSimulation
from chakrakit.simulator.results.jobs import (
    JobsSimulation,
    place_jobs,
    read_job_placement,
    simulate_jobs,
)
from chakrakit.simulator.results.records import write_records
from chakrakit.simulator.results.simulation import (
    Detail,
    Simulation,
    read_network_model,
    read_placement,
    simulate,
    split_fault,
    to_run,
)
from chakrakit.simulator.results.summary import (
    CollectiveSummary,
    LinkClassSummary,
    RankSummary,
    SimulationSummary,
)

__all__ = [
    "CollectiveSummary",
    "CollectiveTable",
    "Detail",
    "EditSession",
    "EditedRun",
    "ExpertExchange",
    "HungSimulation",
    "JobsSimulation",
    "Kernels",
    "LinkClassSummary",
    "RankSummary",
    "Simulation",
    "SimulationSummary",
    "machine_of",
    "parse_members",
    "parse_sizes",
    "place_jobs",
    "read_job_placement",
    "read_network_model",
    "read_placement",
    "simulate",
    "simulate_jobs",
    "split_fault",
    "time_collective",
    "to_run",
    "write_records",
]
