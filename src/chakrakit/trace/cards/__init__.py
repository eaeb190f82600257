"""The workload's card: what ran, on what, and what was measured."""

from __future__ import annotations

from chakrakit.trace.cards.known_fields import WORKLOAD, known_card
from chakrakit.trace.cards.workload_card import (
    WorkloadCard,
    card_from,
    fields_from,
    overlaid,
    plain_card,
    read_card_file,
)

__all__ = [
    "WORKLOAD",
    "WorkloadCard",
    "card_from",
    "fields_from",
    "known_card",
    "overlaid",
    "plain_card",
    "read_card_file",
]
