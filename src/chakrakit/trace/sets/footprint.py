"""Footprint: what a simulated run takes and gives (energy, carbon, money, tokens), and how sure that is."""

from __future__ import annotations

import msgspec

from chakrakit.trace.sets.card import Card

_KEY = "footprint"


class Footprint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all devices of a run come to; None where the machine or the workload does not say."""

    energy_joules: float | None = None
    """What the devices draw over the run."""
    energy_by_class: dict[str, float] = {}
    """The same by class of work, in joules; `idle` is what devices draw while they do nothing."""
    facility_joules: float | None = None
    """With the servers around the devices and the building around the servers."""
    carbon_kg: float | None = None
    """CO2 equivalent of the facility's energy."""
    price: float | None = None
    """In US dollars, by the devices' price per hour."""
    tokens_per_s: float | None = None
    """Tokens of the step over its time, all ranks together."""
    extrapolated_share: float | None = None
    """Share of the devices' operation time that nobody measured or measured the like of."""
    compute_error: float | None = None
    """By what share operations' times may be off: each one's own estimate, weighted by its time."""

    def figures(self) -> dict[str, float]:
        """What is known, one number per name."""
        found = {n: getattr(self, n) for n in self.__struct_fields__ if n != "energy_by_class"}
        return {name: value for name, value in found.items() if value is not None}

    def put(self, card: Card) -> Card:
        """The card with this on it."""
        told = {"passes": len(card.passes), **msgspec.to_builtins(self)}
        return card.replace(measured={**card.measured, _KEY: told})


def footprint_of(card: Card) -> Footprint | None:
    """What a run's card says; None where it says nothing, or passes changed the run since."""
    told = card.measured.get(_KEY)
    if not isinstance(told, dict) or told.get("passes") != len(card.passes):
        return None
    try:
        return msgspec.convert({k: v for k, v in told.items() if k != "passes"}, Footprint)
    except msgspec.ValidationError:
        return None
