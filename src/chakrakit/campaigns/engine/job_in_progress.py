"""What a recovery policy sees of a job, and what it can do."""

from __future__ import annotations

from random import Random
from typing import Protocol

from chakrakit.campaigns.engine.failures import Scope


class JobInProgress(Protocol):
    """A job between two events. The engine implements it; policies use nothing else."""

    chance: Random
    spares: int
    """Nodes that stand by."""

    @property
    def runs(self) -> bool:
        """Whether the job makes progress."""

    @property
    def waits(self) -> bool:
        """Whether the job stands still for want of nodes."""

    @property
    def missing(self) -> int:
        """How many places are empty."""

    @property
    def present(self) -> int:
        """How many places are filled."""

    def can_grow(self) -> bool:
        """Whether there are spares for another replica."""

    def roll_back(self, scope: Scope) -> None:
        """Back to the newest copy that survives a failure of this scope."""

    def redo_step(self) -> None:
        """Only the step in progress is lost."""

    def detect(self, seconds: float) -> None:
        """The job stands; after `seconds` the policy is told."""

    def wait(self) -> None:
        """The job stands until a node returns."""

    def restart(self, seconds: float, success: float) -> None:
        """The job runs again after `seconds` and the loading of its checkpoint, if the attempt works."""

    def fill(self) -> bool:
        """Puts spares into empty places; whether all are filled."""

    def shrink(self, least: int) -> bool:
        """Goes on with whole replicas only, nodes left over become spares; whether enough are left."""

    def regrow_at_checkpoint(self) -> None:
        """Asks for `regrow` when the checkpoint in progress is complete."""
