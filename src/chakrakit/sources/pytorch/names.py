"""The CollectiveType that a name means, with numbers of our own for messages and unknown names."""

from __future__ import annotations

from chakrakit.operators import collective_of
from chakrakit.trace.model import CollectiveType

SEND, RECV, UNKNOWN = -1, -2, -3
"""Kinds that are not collectives: the two ends of a message, and unknown names."""
_OTHERS = {"SEND": SEND, "RECV": RECV, "": UNKNOWN}


def kind_of(name: str) -> int:
    """The CollectiveType that a name means, or SEND, RECV or UNKNOWN."""
    return kind_named(collective_of(name))


def kind_named(kind: str) -> int:
    """The number of a collective by Chakra's name for it, or SEND, RECV or UNKNOWN."""
    return _OTHERS[kind] if kind in _OTHERS else CollectiveType[kind]
