"""ASTRA-sim's files in, ASTRA-sim's cycles out. Sealed: shares only the traces' formats and Run.

What needs Arrow is imported when first used: cycles alone do not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
"""Name → the module that has it."""

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'chakrakit.simulator.astra' has no attribute {name!r}")
    value = getattr(import_module(f"chakrakit.simulator.astra.{_HOME[name]}"), name)
    globals()[name] = value
    return value
