"""Profiles of XLA programs (`xplane.pb`): what ran when, on which device."""

from __future__ import annotations

from chakrakit.sources.xla.xplane.reader import read_devices
from chakrakit.sources.xla.xplane.space import is_xplane

__all__ = ["is_xplane", "read_devices"]
