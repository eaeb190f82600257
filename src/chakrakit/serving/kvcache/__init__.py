"""The cache of keys and values: how much of it there is."""

from chakrakit.serving.kvcache.capacity import Capacity, capacity_of

__all__ = ["Capacity", "capacity_of"]
