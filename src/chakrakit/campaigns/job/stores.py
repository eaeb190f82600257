"""Checkpoints given by size: how long a store takes to write and to read them."""

from __future__ import annotations

from typing import Any

from chakrakit.campaigns.job.job_text import StoreText
from chakrakit.errors import ConfigError
from chakrakit.machines.device import parse, positive, show_bytes

_LONGEST = 365 * 86_400.0
"""Seconds; no job waits longer for one checkpoint."""


class Store:
    """A place for checkpoints, in bytes and seconds."""

    def __init__(self, name: str, text: StoreText, nodes: int) -> None:
        self.name = name
        limits = [positive(text.bandwidth, "bandwidth", f"{name}: bandwidth")]
        if text.node_bandwidth is not None:
            node = positive(text.node_bandwidth, "bandwidth", f"{name}: node_bandwidth")
            limits.append(nodes * node)
        if text.operations is not None and text.latency_seconds:
            size = positive(text.operation_bytes, "bytes", f"{name}: operation_bytes")
            # Little's law: what is in flight, over the time it is.
            limits.append(text.operations * size / text.latency_seconds)
        self.rate = min(limits)
        self.read_rate = self.rate
        if text.read_bandwidth is not None:
            self.read_rate = positive(text.read_bandwidth, "bandwidth", f"{name}: read_bandwidth")
        self.capacity = (
            None if text.capacity is None else parse(text.capacity, "bytes", f"{name}: capacity")
        )

    def seconds(self, size: float, rate: float) -> float:
        """How long so many bytes take."""
        if size > rate * _LONGEST:
            raise ConfigError(
                f"store {self.name!r} moves {show_bytes(size)} in more than a year at {rate:g} "
                "bytes/s; check its bandwidth and the checkpoint's size"
            )
        return size / rate

    def check(self, size: float) -> None:
        """Refuses what does not fit."""
        if self.capacity is not None and size > self.capacity:
            raise ConfigError(
                f"a checkpoint of {show_bytes(size)} does not fit into store {self.name!r} of "
                f"{show_bytes(self.capacity)}; give it a larger capacity or a smaller checkpoint"
            )


def timed(
    policy: dict[str, Any], stores: dict[str, Store], sizes: dict[str, str]
) -> dict[str, Any]:
    """A policy's fields with seconds for sizes: `sizes` maps a field of bytes to its field of seconds."""
    out = {name: value for name, value in policy.items() if name not in (*sizes, "store")}
    given = [name for name in sizes if name in policy]
    if not given:
        if "store" in policy:
            raise ConfigError("a store needs the checkpoint's size; give `bytes`")
        return out
    store = _store(policy, stores)
    for name in given:
        size = parse(policy[name], "bytes", name)
        store.check(size)
        out.setdefault(sizes[name], store.seconds(size, store.rate))
    if "bytes" in policy:
        size = parse(policy["bytes"], "bytes", "bytes")
        out.setdefault("restore_seconds", store.seconds(size, store.read_rate))
    return out


def _store(policy: dict[str, Any], stores: dict[str, Store]) -> Store:
    name = policy.get("store")
    if name is None and len(stores) == 1:
        return next(iter(stores.values()))
    if not isinstance(name, str) or name not in stores:
        known = ", ".join(stores) or "none; describe it under `stores`"
        raise ConfigError(f"no store {name!r}; there are {known}")
    return stores[name]
