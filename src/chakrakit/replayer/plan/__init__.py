"""Plans: what one rank does, as plain data."""

from __future__ import annotations

from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.plan.plan import (
    FORMAT,
    VERSION,
    AnyStep,
    Call,
    Collective,
    External,
    Fill,
    Group,
    Plan,
    RankPlan,
    StandIn,
    Synchronize,
    View,
    Wait,
)
from chakrakit.replayer.plan.ranks import WORLD_NAME, World
from chakrakit.replayer.plan.schema_text import OperatorSchema, parse_schema
from chakrakit.replayer.plan.tensors import (
    INTEGERS,
    ITEM_BYTES,
    Tensor,
    Unsupported,
    item_types,
    storages_in,
    tensor_type,
)
from chakrakit.replayer.plan.values import check_integer, plan_value, recorded_tensors

__all__ = [
    "FORMAT",
    "INTEGERS",
    "ITEM_BYTES",
    "VERSION",
    "WORLD_NAME",
    "AnyStep",
    "Call",
    "Collective",
    "External",
    "Fill",
    "Group",
    "OperatorSchema",
    "Plan",
    "RankPlan",
    "ReplayOptions",
    "StandIn",
    "Synchronize",
    "Tensor",
    "Unsupported",
    "View",
    "Wait",
    "World",
    "check_integer",
    "item_types",
    "parse_schema",
    "plan_value",
    "recorded_tensors",
    "storages_in",
    "tensor_type",
]
