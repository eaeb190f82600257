"""Site: what stands around the devices: servers, the building, and where its electricity comes from."""

from __future__ import annotations

import msgspec

from chakrakit.errors import ConfigError

JOULES_PER_KWH = 3.6e6


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers of `devices_per_server` devices in a building."""

    devices_per_server: int
    server_watts: float = 0.0
    """What a server draws whatever its devices do: processors, memory, network cards, fans."""
    server_share: float = 0.0
    """What it draws more for every watt of its devices: conversion losses and fans."""
    pue: float = 1.0
    """What the building draws for every watt of its servers."""
    carbon_kg_per_kwh: float | None = None
    """CO2 equivalent of the electricity."""

    def facility_joules(self, device_joules: float, devices: int, seconds: float) -> float:
        """What the building draws for the devices' energy over a time."""
        servers = -(-devices // self.devices_per_server)
        return self.pue * (
            device_joules * (1 + self.server_share) + servers * self.server_watts * seconds
        )

    def carbon_kg(self, facility_joules: float) -> float | None:
        """Of that energy; None where nobody said where it comes from."""
        if self.carbon_kg_per_kwh is None:
            return None
        return facility_joules / JOULES_PER_KWH * self.carbon_kg_per_kwh


def check_site(site: Site, where: str) -> None:
    """An error where a number cannot be."""
    if site.devices_per_server < 1:
        raise ConfigError(f"{where}.devices_per_server: {site.devices_per_server} is below 1")
    if not 1 <= site.pue < float("inf"):
        raise ConfigError(
            f"{where}.pue: {site.pue} is below 1; a building adds to what servers draw"
        )
    for name in ("server_watts", "server_share", "carbon_kg_per_kwh"):
        value = getattr(site, name)
        if value is not None and not 0 <= value < float("inf"):
            raise ConfigError(f"{where}.{name}: {value} is not 0 or more")
