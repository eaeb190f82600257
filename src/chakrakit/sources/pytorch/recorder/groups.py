"""Process groups: which there are, and marks that say in which one a collective runs."""

from __future__ import annotations

import gc
import inspect
import os
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

GROUP_MARK = "chakra:group="
"""Prefix of the annotation that says which process group a collective runs in."""
REDUCE_MARK = "chakra:reduce="
"""Prefix of the annotation that says how a collective reduces, where that is not by sums."""
_REDUCTIONS = re.compile(r"\b(AVG|PRODUCT|MIN|MAX|BAND|BOR|BXOR)\b")

_COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "send",
    "recv",
    "isend",
    "irecv",
    "all_reduce_coalesced",
    "all_gather_into_tensor_coalesced",
)
_WAIT_S = 0.001
"""Seconds waited after each of gloo's collectives: longer slows steps, shorter risks a crash."""


def _distributed() -> Any:
    """torch.distributed where it is set up, else None."""
    import torch.distributed as distributed

    ready = distributed.is_available() and distributed.is_initialized()
    return distributed if ready else None


def rank() -> int:
    """Rank of the process; from the environment before torch.distributed is set up."""
    distributed = _distributed()
    return int(distributed.get_rank()) if distributed else int(os.environ.get("RANK", 0))


def world_size() -> int:
    """How many ranks there are."""
    distributed = _distributed()
    return (
        int(distributed.get_world_size()) if distributed else int(os.environ.get("WORLD_SIZE", 1))
    )


def group_name(group: Any) -> str:
    """The name PyTorch records for a group; None means the default one."""
    import torch.distributed.distributed_c10d as c10d

    try:
        return str(c10d._get_process_group_name(group or c10d._get_default_group()))
    except (AttributeError, KeyError, ValueError):
        return ""


def process_groups() -> list[dict[str, Any]]:
    """Every group this rank knows, with its ranks."""
    distributed = _distributed()
    if distributed is None:
        return []
    import torch.distributed.distributed_c10d as c10d

    return [
        {
            "pg_name": name,
            "pg_desc": str(getattr(group, "group_desc", "")),
            "ranks": sorted(c10d._world.pg_group_ranks.get(group, {})) or list(range(world_size())),
            "backend": str(c10d._world.pg_backend_config.get(group, "")),
        }
        for group, name in c10d._world.pg_names.items()
    ]


def ddp_groups() -> list[str]:
    """Groups of the DistributedDataParallel modules: their reducer issues collectives in C++."""
    if _distributed() is None:
        return []
    from torch.nn.parallel import DistributedDataParallel

    # By type: asking lazy objects for their class would wake them.
    modules = (o for o in gc.get_objects() if issubclass(type(o), DistributedDataParallel))
    return sorted({group_name(m.process_group) for m in modules})


def mark_groups(wait_after: Callable[[], bool] = lambda: False) -> Callable[[], None]:
    """Put an annotation that names the group around every collective; returns what undoes it.

    gloo's own records name none, and c10d's operators show it only as an object. Where `wait_after`
    says so, a moment is waited after each: gloo ends its record on another thread after the caller
    has gone on, and the observer is not safe against that.
    """
    import torch
    import torch.distributed as distributed

    if not distributed.is_available():
        return lambda: None
    import torch.distributed.distributed_c10d as c10d

    undo: list[Callable[[], None]] = []
    for module in (c10d, distributed):
        for name in _COLLECTIVES:
            _replace(module, name, lambda f: _followed_by_wait(_marked(f), wait_after), undo)
    # DDP's reducer communicates in C++ during the backward pass.
    _replace(torch.autograd, "backward", lambda f: _followed_by_wait(f, wait_after), undo)

    def restore() -> None:
        for put_back in undo:
            put_back()

    return restore


def _followed_by_wait(
    function: Callable[..., Any], wait_after: Callable[[], bool]
) -> Callable[..., Any]:
    """The function, which waits a moment after it where gloo may still write its record."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if wait_after() and _uses_gloo():
            time.sleep(_WAIT_S)
        return result

    return call


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside annotations that name its group and its reduction."""
    from torch.autograd.profiler import record_function as scope

    places = list(inspect.signature(function).parameters)

    def argument(name: str, args: Any, kwargs: Any) -> Any:
        place = places.index(name) if name in places else len(args)
        return args[place] if place < len(args) else kwargs.get(name)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        how = _REDUCTIONS.search(str(argument("op", args, kwargs)))
        mark = scope(REDUCE_MARK + how[1].lower()) if how else nullcontext()
        with scope(GROUP_MARK + group_name(argument("group", args, kwargs))), mark:
            return function(*args, **kwargs)

    return call


def _replace(
    owner: Any, name: str, wrap: Callable[[Any], Any], undo: list[Callable[[], None]]
) -> None:
    original = getattr(owner, name, None)
    if callable(original):
        setattr(owner, name, wrap(original))
        undo.append(lambda: setattr(owner, name, original))


def _uses_gloo() -> bool:
    distributed = _distributed()
    return distributed is not None and "gloo" in str(distributed.get_backend())
