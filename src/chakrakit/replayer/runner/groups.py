"""Process groups of a replay: made in the same order on every rank."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from .limits import ReplayError


def start_groups(torch: Any, plan: dict[str, Any], timeout_s: float) -> list[Any]:
    """Join the other ranks; gives a group for each of the plan's."""
    if not plan["groups"] or not _communicates(plan):
        return []
    distributed = torch.distributed
    if not distributed.is_available():
        raise ReplayError("this PyTorch was built without torch.distributed")
    if not distributed.is_backend_available(str(plan["backend"])):
        raise ReplayError(
            f"there is no backend {plan['backend']!r} here; use --backend gloo or nccl"
        )
    limit = timedelta(seconds=timeout_s)
    where = os.environ.get("CHAKRA_REPLAY_STORE")
    distributed.init_process_group(
        plan["backend"],
        init_method=f"file://{where}" if where else "env://",
        rank=plan["rank"],
        world_size=plan["world"],
        timeout=limit,
    )
    everybody = list(range(plan["world"]))
    world = distributed.distributed_c10d._get_default_group()
    made: dict[tuple[int, ...], Any] = {}
    out = []
    for group in plan["groups"]:
        ranks = tuple(group["ranks"])
        if list(ranks) == everybody and ranks not in made:
            made[ranks] = world
            out.append(world)
        else:
            out.append(distributed.new_group(list(ranks), timeout=limit))
    return out


def _communicates(plan: dict[str, Any]) -> bool:
    """All ranks join as soon as there are several, or one that talks to itself."""
    steps = plan.get("steps", [])
    talks = any(s["do"] == "collective" or "functional" in s.get("op", "") for s in steps)
    return plan["world"] > 1 or talks or bool(plan.get("communication"))


def end_groups(torch: Any) -> None:
    """Leave, if there is something to leave."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
