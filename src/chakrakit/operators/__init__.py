"""What every room must know of operators and their tensors, once."""

from __future__ import annotations

from chakrakit.operators.element_types import (
    TYPES,
    ElementType,
    WorkingType,
    dtype_name,
    element_bytes,
    element_type,
    figure_for,
    find_type,
    rate_name,
    type_of_code,
    type_of_cpp,
)

__all__ = [
    "TYPES",
    "ElementType",
    "WorkingType",
    "dtype_name",
    "element_bytes",
    "element_type",
    "figure_for",
    "find_type",
    "rate_name",
    "type_of_code",
    "type_of_cpp",
]
