"""What Kineto alone says of an operator's tensors: dimensions and types, as texts."""

from __future__ import annotations

import json
import math
from typing import Any

from chakrakit.sources.pytorch.communication.names import ITEM_BYTES
from chakrakit.sources.pytorch.read import Kineto

_NAMES = {"long int": "long", "unsigned char": "byte", "signed char": "char", "short int": "short"}


def tensor_sizes(kineto: Kineto, event: int) -> tuple[list[int], str]:
    """Bytes of each tensor an event was given, and the first one's type; of lists nothing is known."""
    dims, types = _texts(kineto, "in_dims", event), _texts(kineto, "in_types", event)
    sizes, dtype = [], ""
    for shape, kind in zip(dims, types, strict=False):
        said = str(kind).removeprefix("c10::").lower()
        name = _NAMES.get(said, said)
        if name in ITEM_BYTES and isinstance(shape, list):
            sizes.append(math.prod(n for n in shape if type(n) is int) * ITEM_BYTES[name])
            dtype = dtype or said
    return sizes, dtype


def plain_values(kineto: Kineto, event: int) -> list[Any]:
    """Numbers and lists of numbers among an event's arguments, in their order."""
    out = []
    for text in _texts(kineto, "in_values", event):
        try:
            value = json.loads(text)
        except (ValueError, TypeError):
            continue  # tensors, names and Python's True
        out.append(value)
    return out


def _texts(kineto: Kineto, column: str, event: int) -> list[Any]:
    try:
        found = json.loads(kineto.texts[int(kineto.text_columns[column][event])])
    except ValueError:
        return []
    return found if isinstance(found, list) else []
