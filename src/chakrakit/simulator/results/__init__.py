"""Simulates by name, and turns the outcome into results: a summary, a Run, tables, several jobs.

Names are imported when first used: one simulation does not load jobs, tables and edits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names

if TYPE_CHECKING:
    from chakrakit.simulator.results.collective_table import (
        CollectiveTable,
        ExpertExchange,
        Kernels,
        collective_name,
        parse_members,
        parse_sizes,
        time_collective,
    )
    from chakrakit.simulator.results.editing import EditedRun, EditSession, machine_of
    from chakrakit.simulator.results.energy import DeviceWork, joules_of, run_within_limits
    from chakrakit.simulator.results.hung import HungSimulation
    from chakrakit.simulator.results.jobs import (
        JobsSimulation,
        place_jobs,
        read_job_placement,
        simulate_jobs,
    )
    from chakrakit.simulator.results.measured_collective import beside_measured
    from chakrakit.simulator.results.records import write_records
    from chakrakit.simulator.results.simulation import (
        Detail,
        Simulation,
        outcome_of,
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

_HOME = {
    "CollectiveSummary": "summary",
    "CollectiveTable": "collective_table",
    "Detail": "simulation",
    "DeviceWork": "energy",
    "EditSession": "editing",
    "EditedRun": "editing",
    "ExpertExchange": "collective_table",
    "HungSimulation": "hung",
    "JobsSimulation": "jobs",
    "Kernels": "collective_table",
    "LinkClassSummary": "summary",
    "RankSummary": "summary",
    "Simulation": "simulation",
    "SimulationSummary": "summary",
    "beside_measured": "measured_collective",
    "collective_name": "collective_table",
    "joules_of": "energy",
    "machine_of": "editing",
    "outcome_of": "simulation",
    "parse_members": "collective_table",
    "parse_sizes": "collective_table",
    "place_jobs": "jobs",
    "read_job_placement": "jobs",
    "read_network_model": "simulation",
    "read_placement": "simulation",
    "run_within_limits": "energy",
    "simulate": "simulation",
    "simulate_jobs": "jobs",
    "split_fault": "simulation",
    "time_collective": "collective_table",
    "to_run": "simulation",
    "write_records": "records",
}

__all__ = [
    "CollectiveSummary",
    "CollectiveTable",
    "Detail",
    "DeviceWork",
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
    "beside_measured",
    "collective_name",
    "joules_of",
    "machine_of",
    "outcome_of",
    "parse_members",
    "parse_sizes",
    "place_jobs",
    "read_job_placement",
    "read_network_model",
    "read_placement",
    "run_within_limits",
    "simulate",
    "simulate_jobs",
    "split_fault",
    "time_collective",
    "to_run",
    "write_records",
]

__getattr__ = late_names(__name__, _HOME)
