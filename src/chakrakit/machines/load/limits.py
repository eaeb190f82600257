"""What a machine may be made of: counted from its description, before anything is built."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chakrakit.errors import ConfigError

MAX_DEVICES = 1 << 20
MAX_LINKS = 1 << 23
"""Directed links of one fabric; one takes 32 bytes, and routes pass over all of them."""
MAX_NAMED_LINKS = 1 << 20
"""Of a graph given link by link, whose ends have names."""
MAX_MACHINE_LINKS = 10_000_000
"""Of all copies of all fabrics."""
MAX_LEVELS = 32


def check_devices(sizes: Sequence[int], where: str, what: str = "devices") -> None:
    """Refuses dimensions whose places multiply to more devices than can be."""
    if len(sizes) > MAX_LEVELS:
        raise ConfigError(f"{where}: {len(sizes):,} dimensions; {MAX_LEVELS} is the most")
    devices = math.prod(sizes)
    if devices > MAX_DEVICES:
        raise ConfigError(f"{where}: {_short(devices)} {what}; {MAX_DEVICES:,} is the most")


def check_links(count: int, what: str, where: str, most: int = MAX_LINKS) -> None:
    """Refuses more links than can be."""
    if count > most:
        raise ConfigError(
            f"{where}: a {what} has {_short(count)} links, which is too large; {most:,} is the most"
        )


def tree_links(arity: Sequence[int], oversubscription: float, uplinks: Sequence[int]) -> int:
    """Links of a fat tree with these children by level and ways up."""
    ways = list(uplinks) or [max(1, math.ceil(k / oversubscription)) for k in arity[:-1]]
    ports = math.prod(arity)
    total = ports
    for level, way in enumerate(ways[: len(arity) - 1]):
        total += ports // math.prod(arity[: level + 1]) * math.prod(ways[:level]) * way
    return 2 * total


def dragonfly_links(groups: int, routers: int, hosts: int) -> int:
    """Links of a dragonfly."""
    return 2 * groups * routers * hosts + groups * routers * (routers - 1) + groups * (groups - 1)


def _short(number: int) -> str:
    """A number for a message, without hundreds of digits."""
    return f"{number:,}" if number < 10**15 else f"about 10^{len(str(number)) - 1}"
