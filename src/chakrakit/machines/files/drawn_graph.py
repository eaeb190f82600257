"""A machine drawn link by link by a reader: devices in their order, links, and what had to be assumed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from chakrakit.errors import ConfigError
from chakrakit.machines.description import (
    MAX_NAMED_LINKS,
    GraphText,
    LinkText,
    MachineText,
    build_machine,
    check_links,
)
from chakrakit.machines.device import DeviceText
from chakrakit.machines.fabric import Machine


@dataclass
class DrawnGraph:
    """Collects devices, links and assumptions; `machine` builds."""

    where: str
    devices: list[str] = field(default_factory=list)
    links: list[LinkText] = field(default_factory=list)
    assumed: dict[str, None] = field(default_factory=dict)

    def link(self, a: str, b: str, bandwidth: float, latency: float = 0.0) -> None:
        """Adds a link that carries data both ways."""
        check_links(2 * len(self.links), "graph", self.where, MAX_NAMED_LINKS)
        self.links.append(LinkText(ends=(a, b), bandwidth=bandwidth, latency=latency))

    def assume(self, sentence: str) -> None:
        """Notes what the file does not say, once."""
        self.assumed[sentence] = None

    def machine(self, device: str = "", *, one_node: bool = True) -> Machine:
        """The machine, with devices of a preset by name or without rates."""
        if not self.devices:
            raise ConfigError(f"{self.where}: no GPU in it, so nothing to run ranks on")
        graph = GraphText(devices=self.devices, links=self.links)
        name = self.where.rsplit("/", 1)[-1]
        text = MachineText(name=name, graph=graph, device=device or DeviceText())
        machine = build_machine(text, self.where)
        return replace(machine, assumed=tuple(self.assumed), nodes_of_one=not one_node)
