"""ASTRA-sim's files in, ASTRA-sim's cycles out. Sealed: shares only the traces' formats and Run."""

from __future__ import annotations

from chakrakit.simulator.astra.config import Config, make_config, read_config
from chakrakit.simulator.astra.log import log_lines
from chakrakit.simulator.astra.options import AstraOptions
from chakrakit.simulator.astra.result import AstraSimulation, AstraSummary
from chakrakit.simulator.astra.run import to_run
from chakrakit.simulator.astra.simulation import simulate, simulate_program
from chakrakit.simulator.astra.summary import about, rows

__all__ = [
    "AstraOptions",
    "AstraSimulation",
    "AstraSummary",
    "Config",
    "about",
    "log_lines",
    "make_config",
    "read_config",
    "rows",
    "simulate",
    "simulate_program",
    "to_run",
]
