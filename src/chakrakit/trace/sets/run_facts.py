"""Facts of a simulated run as rows of its counters: traffic by class, ports, groups set up, tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from chakrakit.results import Result

DEVICE_TIER = "device"
"""The tier of the devices' own memory."""


class LinkClassSummary(Result, msgspec.Struct, kw_only=True):
    """Traffic of one class and weight on links, over all ranks."""

    priority: int
    weight: int
    operations: int
    bytes: float
    """As the operations say; how often a byte crosses a link depends on the algorithm."""
    mean_ns: float
    """From the last arrival of an operation to its end."""


class PortSummary(Result, msgspec.Struct, kw_only=True):
    """What messages cost at ports besides their bytes, where the machine says (`messages`)."""

    messages: int
    port_ns: float
    """Time that they held ports, over all ports."""
    busiest_ns: float
    """The same of the port where it is most."""
    busiest: str
    """That port, as the two ends of its link."""


class GroupSetup(Result, msgspec.Struct, kw_only=True):
    """What setting up groups took before their first collectives."""

    setup_ns: float
    """All groups together."""


class TierUse(Result, msgspec.Struct, kw_only=True):
    """One tier of memory: the devices' own, or a store."""

    tier: str
    peak_bytes: int
    """Held at the most: by the fullest device; of a store, the tensors that nodes name in it."""
    read_bytes: float
    written_bytes: float
    operations: int


Fact = TypeVar("Fact", bound=msgspec.Struct)


class RunFacts(msgspec.Struct, kw_only=True):
    """What a simulated run says of its network and its tiers; empty where nothing is known."""

    link_classes: list[LinkClassSummary] = []
    ports: PortSummary | None = None
    group_setup_ns: float = 0.0
    tiers: list[TierUse] = []

    def tables(self) -> dict[str, Any]:
        """The counters that hold them; none for those that are empty."""
        setup = [GroupSetup(setup_ns=self.group_setup_ns)] if self.group_setup_ns else []
        rows: dict[str, Sequence[msgspec.Struct]] = {
            "link_classes": self.link_classes,
            "ports": [self.ports] if self.ports else [],
            "group_setup": setup,
            "tiers": self.tiers,
        }
        return {name: _columns(structs) for name, structs in rows.items() if structs}

    @classmethod
    def of(cls, counters: Mapping[str, pa.Table]) -> RunFacts:
        """As a run's counters say."""
        ports = _structs(counters, "ports", PortSummary)
        setup = _structs(counters, "group_setup", GroupSetup)
        return cls(
            link_classes=_structs(counters, "link_classes", LinkClassSummary),
            ports=ports[0] if ports else None,
            group_setup_ns=setup[0].setup_ns if setup else 0.0,
            tiers=_structs(counters, "tiers", TierUse),
        )


def _columns(structs: Sequence[msgspec.Struct]) -> dict[str, Any]:
    return {n: [getattr(s, n) for s in structs] for n in structs[0].__struct_fields__}


def _structs(counters: Mapping[str, pa.Table], name: str, kind: type[Fact]) -> list[Fact]:
    return [kind(**row) for row in counters[name].to_pylist()] if name in counters else []
