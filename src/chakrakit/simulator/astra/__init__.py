"""An engine compatible with ASTRA-sim: reads its files and gives its cycles.

It shares only the formats of traces and Run with the rest of chakrakit. Modules that need Arrow are imported
when first used, so that a caller who wants only cycles does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names
from chakrakit.simulator.astra.config import Config, make_config, read_config
from chakrakit.simulator.astra.result import (
    AstraOptions,
    AstraSimulation,
    AstraSummary,
    about,
    rows,
)
from chakrakit.simulator.astra.simulation import simulate, simulate_program

if TYPE_CHECKING:
    from chakrakit.simulator.astra.log import log_lines
    from chakrakit.simulator.astra.run import to_run

_HOME = {"log_lines": "log", "to_run": "run"}
"""The module that defines each name that is imported late."""

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


__getattr__ = late_names(__name__, _HOME)
