"""Which collective a name speaks of, as the number that a node has for it."""

from __future__ import annotations

from chakrakit.operators import collective_of
from chakrakit.trace.model import CollectiveType

SEND, RECV, UNKNOWN = -1, -2, -3
"""What is no collective: the two ends of a message, and what nobody here has heard of."""
_OTHERS = {"SEND": SEND, "RECV": RECV, "": UNKNOWN}


def kind_of(name: str) -> int:
    """The CollectiveType a name speaks of, or SEND, RECV or UNKNOWN."""
    kind = collective_of(name)
    return _OTHERS[kind] if kind in _OTHERS else CollectiveType[kind]
