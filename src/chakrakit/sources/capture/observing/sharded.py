"""Lists of sharded tensors taken apart here: element by element there is nothing to redistribute.

DTensor works out a sharding for every element of a list, which takes seconds for an optimizer's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor

from chakrakit.operators import by_elements


def fits(func: Any, args: Any) -> bool:
    """Whether an operator treats lists of sharded tensors element by element, all cut the same."""
    if not by_elements(getattr(getattr(func, "_schema", None), "name", "")):
        return False
    lists = [
        a for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)
    ]
    first = lists[0] if lists else []
    return all(
        not isinstance(t, DTensor) or (isinstance(f, DTensor) and t.placements == f.placements)
        for found in lists
        if len(found) == len(first)
        for f, t in zip(first, found, strict=True)
    )


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operator on the local shards; results are cut as the first list is."""
    out = func(*[_local(a) for a in args], **{k: _local(v) for k, v in kwargs.items()})
    if out is None:
        return None
    if getattr(func, "_schema", None) is not None and func._schema.name.endswith("_"):
        return args[0]
    return [
        DTensor(made, like._spec, requires_grad=False) if isinstance(like, DTensor) else made
        for made, like in zip(out, args[0], strict=True)
    ]


def _local(value: Any) -> Any:
    if isinstance(value, DTensor):
        return value._local_tensor
    return [_local(v) for v in value] if isinstance(value, (list, tuple)) else value
