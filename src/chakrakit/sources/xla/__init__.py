"""Programs that XLA compiled: HLO modules as traces, and JAX functions compiled to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.late_names import late_names
from chakrakit.sources.xla.hlo import Module
from chakrakit.sources.xla.hlo_read import is_hlo, parse_hlo
from chakrakit.sources.xla.xplane import is_xplane, read_devices

if TYPE_CHECKING:
    from chakrakit.sources.xla.jax import capture_jax, capture_jax_command

__getattr__ = late_names(__name__, {"capture_jax": "jax", "capture_jax_command": "jax"})

__all__ = [
    "Module",
    "capture_jax",
    "capture_jax_command",
    "is_hlo",
    "is_xplane",
    "parse_hlo",
    "read_devices",
]
