"""What one history came to."""

from __future__ import annotations

import msgspec


class Outcome(msgspec.Struct):
    """Seconds by what they were spent on; together they are `seconds`."""

    seconds: float = 0.0
    useful: float = 0.0
    """Steps that count, at the healthy job's speed."""
    rework: float = 0.0
    """Work and checkpoints that failures undid, at the healthy job's speed."""
    detection: float = 0.0
    waiting: float = 0.0
    """For nodes: more were in repair than there were spares."""
    restart: float = 0.0
    checkpoint: float = 0.0
    degraded: float = 0.0
    """What slow or missing nodes added to steps."""
    steps: float = 0.0
    checkpoints: int = 0
    restarts: int = 0
    slowdowns: int = 0
    failures: dict[str, int] = msgspec.field(default_factory=dict)
    """By cause."""
    given_up: bool = False

    @property
    def accounted(self) -> float:
        """All but what slow or missing nodes cost."""
        return (
            self.useful
            + self.rework
            + self.detection
            + self.waiting
            + self.restart
            + self.checkpoint
        )
