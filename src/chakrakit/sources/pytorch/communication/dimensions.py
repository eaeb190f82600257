"""What Kineto alone says of an operator's tensors: dimensions and types, as texts."""

from __future__ import annotations

import math
from typing import Any

from chakrakit.operators import find_type, json_list, json_value
from chakrakit.sources.pytorch.read import Kineto, whole


def tensor_sizes(kineto: Kineto, event: int) -> tuple[list[int], str]:
    """Bytes of each tensor an event was given, and the first one's type; of lists nothing is known."""
    dims, types = _texts(kineto, "in_dims", event), _texts(kineto, "in_types", event)
    sizes, dtype = [], ""
    for shape, kind in zip(dims, types, strict=False):
        element = find_type(str(kind))
        if element is not None and isinstance(shape, list):
            size = element.bytes_of(math.prod(n for n in shape if type(n) is int))
            sizes.append(-1 if whole(size) is None else size)
            dtype = dtype or str(kind).removeprefix("c10::").lower()
    return sizes, dtype


def plain_values(kineto: Kineto, event: int) -> list[Any]:
    """Numbers and lists of numbers among an event's arguments, in their order."""
    said = (t for t in _texts(kineto, "in_values", event) if isinstance(t, str))
    found = (json_value(text) for text in said)
    return [v for v in found if v is not None]  # tensors, names and Python's True are none


def _texts(kineto: Kineto, column: str, event: int) -> list[Any]:
    return json_list(kineto.texts[int(kineto.text_columns[column][event])])
