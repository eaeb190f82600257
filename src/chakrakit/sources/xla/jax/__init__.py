"""JAX functions compiled for devices that need not exist. Needs jax once something is captured."""

from __future__ import annotations

from chakrakit.sources.xla.jax.capturing import capture_jax, capture_jax_command

__all__ = ["capture_jax", "capture_jax_command"]
