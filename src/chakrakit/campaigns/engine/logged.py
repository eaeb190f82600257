"""A failure whose time and place are known."""

from __future__ import annotations

import msgspec

from chakrakit.campaigns.engine.failures import Scope


class LoggedFailure(msgspec.Struct, frozen=True, order=True):
    """One row: when and where; with a factor the node became slow for `seconds`, else it failed."""

    time: float
    node: int
    cause: str = "log"
    scope: Scope = "node"
    factor: float | None = None
    seconds: float = 0.0
    """How long it was slow, or in repair (0: as long as the cluster's repairs take)."""
