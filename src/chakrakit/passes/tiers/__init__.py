"""Tiers of memory: tensors that live in a store and come to the device when they are needed."""

from __future__ import annotations

from chakrakit.passes.tiers.cache import Cache
from chakrakit.passes.tiers.held import Access, CacheOutcome, cached
from chakrakit.passes.tiers.offload import Offload
from chakrakit.passes.tiers.policies import POLICIES, EvictionPolicy

__all__ = ["POLICIES", "Access", "Cache", "CacheOutcome", "EvictionPolicy", "Offload", "cached"]
