"""ASTRA-sim's files in, ASTRA-sim's cycles out. Sealed: shares only the traces' formats and Run."""

from __future__ import annotations

from chakrakit.simulator.astra.config import Config, make_config, read_config
from chakrakit.simulator.astra.options import Options
from chakrakit.simulator.astra.result import Result
from chakrakit.simulator.astra.simulate import simulate, simulate_program

__all__ = [
    "Config",
    "Options",
    "Result",
    "make_config",
    "read_config",
    "simulate",
    "simulate_program",
]
