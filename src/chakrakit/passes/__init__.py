"""Changes to traces: `from chakrakit.passes import Recost, ScaleRanks`.

Each pass is imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.passes.base import PASSES, pass_class

if TYPE_CHECKING:
    from chakrakit.passes.anonymize import Anonymize as Anonymize
    from chakrakit.passes.comm import Comm as Comm
    from chakrakit.passes.compact import Compact as Compact
    from chakrakit.passes.edit import Edit as Edit
    from chakrakit.passes.fused import Ahead as Ahead
    from chakrakit.passes.fused import ChannelsLast as ChannelsLast
    from chakrakit.passes.fused import FusedAttention as FusedAttention
    from chakrakit.passes.fused import FusedOptimizer as FusedOptimizer
    from chakrakit.passes.fused import Graphed as Graphed
    from chakrakit.passes.launched import Launched as Launched
    from chakrakit.passes.portable import Portable as Portable
    from chakrakit.passes.recost import Recost as Recost
    from chakrakit.passes.scale import ScaleRanks as ScaleRanks
    from chakrakit.passes.select import Select as Select
    from chakrakit.passes.storage import Storage as Storage
    from chakrakit.passes.tiers import Cache as Cache
    from chakrakit.passes.tiers import Offload as Offload
    from chakrakit.passes.units import Units as Units
    from chakrakit.passes.unsync import Unsync as Unsync

_NAMES = {place.partition(":")[2]: name for name, place in PASSES.items()}

__all__ = list(_NAMES)


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'chakrakit.passes' has no attribute {name!r}")
    return pass_class(_NAMES[name])
