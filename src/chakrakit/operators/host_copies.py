"""Copies between a device and its host: what tracers call them, and which memory of the host they touch."""

from __future__ import annotations

import re

from chakrakit.operators.calls import Operation

HOST_COPY = "host_copy"
"""The kind of such an operation."""
PINNED, PAGEABLE = "host_copy.pinned", "host_copy.pageable"
"""Its classes. The driver stages what lies in memory that can be paged out."""
_NAME = re.compile(r"Memcpy (HtoD|DtoH)\b(.*)")


def host_copy_name(*, to_device: bool, pinned: bool) -> str:
    """The name of a copy, as PyTorch's profiler writes it."""
    memory = "Pinned" if pinned else "Pageable"
    return f"Memcpy HtoD ({memory} -> Device)" if to_device else f"Memcpy DtoH (Device -> {memory})"


def is_host_copy(name: str) -> bool:
    """Whether a row of this name copies between host and device."""
    return _NAME.match(name) is not None


def host_copy(name: str, size: float) -> Operation | None:
    """The operation of a copy of so many bytes, by its name; None for any other row and for no bytes."""
    match = _NAME.match(name)
    if match is None or size <= 0:
        return None
    table = PAGEABLE if "pageable" in match[2].lower() else PINNED
    return Operation(HOST_COPY, (int(size),), 0.0, float(size), table)
