"""Recovery policies: what a job does when something fails.

A policy is a small frozen class whose fields are its options in the job file. The engine (`history.py`)
calls it at five moments and the policy answers with the verbs of `JobInProgress`:

    struck(job, scope)   something failed; the nodes it took are already gone
    detected(job)        the detection time is over
    returned(job)        a repaired node is back
    slow(job)            a node that has been slow for too long is to be replaced
    regrow(job)          the moment asked for with `regrow_at_checkpoint`
"""

from __future__ import annotations

import math
from random import Random
from typing import Annotated, ClassVar, Literal, Protocol

import msgspec

from chakrakit.campaigns.checkpoints import Share
from chakrakit.campaigns.failures import Scope
from chakrakit.configuration import Count, NotNegative, Positive

# --- what a recovery policy sees of a job, and what it can do ------------------------------------


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
        """Stops the job; after `seconds` the policy's `detected` is called."""

    def wait(self) -> None:
        """The job stands until a node returns."""

    def restart(self, seconds: float, success: float) -> None:
        """The job runs again after `seconds` and the loading of its checkpoint, if the attempt works."""

    def fill(self) -> bool:
        """Puts spares, then others of the pool, into empty places; whether all are filled."""

    def shrink(self, least: int) -> bool:
        """Goes on with whole replicas only, nodes left over become spares; whether enough are left."""

    def regrow_at_checkpoint(self) -> None:
        """Asks for `regrow` when the checkpoint in progress is complete."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop everything, fill the empty places, load the newest checkpoint that survived, go on."""

    spelling: ClassVar[str] = "restart"
    needs_spares: ClassVar[bool] = False
    shrinks: ClassVar[bool] = False
    restarting: ClassVar[tuple[str, ...]] = ("restart_seconds", "replacement_seconds")
    """The times that the job stops for once a failure is known, without loading the checkpoint."""

    detection_seconds: NotNegative = 0.0
    """From the failure until somebody knows."""
    restart_seconds: NotNegative = 0.0
    """From a complete set of nodes until the first step, without loading the checkpoint."""
    replacement_seconds: NotNegative = 0.0
    """Added to a restart that brings in a spare node."""
    restart_success: Annotated[float, msgspec.Meta(ge=0.001, le=1)] = 1.0
    """The share of restarts that work; a failed one is tried again, so that a job in which none does never
    ends."""
    replace_slow_after_seconds: NotNegative = math.inf
    """A slow node is replaced by a spare once it has been slow for so long; by default never."""

    def at_once(self) -> str:
        """Says which time of the policy's own is 0, and when those of a restart count beside it."""
        return ""

    def struck(self, job: JobInProgress, scope: Scope) -> None:
        """Work since the checkpoint is lost."""
        job.roll_back(scope)
        job.detect(self.detection_seconds)

    def detected(self, job: JobInProgress) -> None:
        """Restarts when every place is filled, waits for repairs otherwise."""
        before = job.missing
        if not job.fill():
            return job.wait()
        return job.restart(self.restart_after(before), self.restart_success)

    def restart_after(self, replaced: int) -> float:
        """Seconds of a restart that filled so many places."""
        return self.restart_seconds + (self.replacement_seconds if replaced else 0.0)

    def returned(self, job: JobInProgress) -> None:
        """A job that waits tries again."""
        if job.waits:
            self.detected(job)

    def regrow(self, job: JobInProgress) -> None:
        """Never asked for."""

    def slow(self, job: JobInProgress) -> None:
        """A slow node is to go: the job stops after its step, and nothing is done again."""
        job.detect(0.0)


class HotSpares(Recovery, frozen=True, kw_only=True):
    """Spares run with the job's software loaded, so that one takes a place within `swap_seconds`."""

    spelling: ClassVar[str] = "hot_spares"
    needs_spares: ClassVar[bool] = True
    restarting: ClassVar[tuple[str, ...]] = (*Recovery.restarting, "swap_seconds")

    swap_seconds: NotNegative = 0.0

    def at_once(self) -> str:
        """A swap that takes no time."""
        return (
            ""
            if self.swap_seconds
            else "swap_seconds taken as 0: a spare takes a place at once; restart_seconds and "
            "replacement_seconds count only after waiting for a repair and where no node was lost"
        )

    def detected(self, job: JobInProgress) -> None:
        """A swap while spares last; after waiting for a repair, a full restart."""
        waited, replaced = job.waits, job.missing
        if not job.fill():
            return job.wait()
        full = waited or not replaced
        seconds = self.restart_after(replaced) if full else self.swap_seconds
        return job.restart(seconds, self.restart_success)


class Elastic(Recovery, frozen=True, kw_only=True):
    """With too few spares the job goes on with fewer replicas, and grows again when nodes return.

    Shrinking starts from the checkpoint; growing waits for the next one, so that it costs a restart and
    no work. The step of a smaller job comes from the job file or from a simulation.
    """

    spelling: ClassVar[str] = "elastic"
    shrinks: ClassVar[bool] = True

    min_nodes: Count = 1
    replica_nodes: Count | None = None
    """Nodes that leave and join together; by default what the workload says, else one."""
    step_seconds_by_nodes: dict[int, Positive] = {}
    """The step of a smaller job; where not given, simulated or the same work spread over fewer nodes."""
    plan: Literal["scale-ranks", "search"] = "scale-ranks"
    """Where the smaller job's plan comes from: fewer replicas of the same, or the fastest there is."""

    def detected(self, job: JobInProgress) -> None:
        """Restarts with what there is, if that is enough."""
        before = job.missing
        if not job.fill() and not job.shrink(self.min_nodes):
            return job.wait()
        return job.restart(self.restart_after(before - job.missing), self.restart_success)

    def returned(self, job: JobInProgress) -> None:
        """Grows at the next checkpoint."""
        if job.waits:
            self.detected(job)
        elif job.can_grow():
            job.regrow_at_checkpoint()

    def regrow(self, job: JobInProgress) -> None:
        """Restarts with the nodes that have come back; the checkpoint is this very moment's."""
        if job.runs and job.can_grow():
            self.detected(job)


class InStep(Elastic, frozen=True, kw_only=True):
    """The other replicas finish the step and go on; only the step that was hit is done again.

    Every replica holds the whole state, so a checkpoint is needed only when too few are left.
    """

    spelling: ClassVar[str] = "in_step"
    restarting: ClassVar[tuple[str, ...]] = (*Recovery.restarting, "rejoin_seconds")

    rejoin_seconds: NotNegative = 0.0
    """How long the job stops when replicas leave or come back."""

    def at_once(self) -> str:
        """Replicas that take no time to leave and come back."""
        return (
            ""
            if self.rejoin_seconds
            else "rejoin_seconds taken as 0: replicas leave and come back at once; restart_seconds and "
            "replacement_seconds count only after waiting for a repair"
        )

    def struck(self, job: JobInProgress, scope: Scope) -> None:
        """Nothing but the step is lost while enough replicas are left."""
        if job.runs and job.present >= self.min_nodes:
            job.redo_step()
        else:
            job.roll_back(scope)
        job.detect(self.detection_seconds)

    def detected(self, job: JobInProgress) -> None:
        """Goes on with what there is; a job that had to wait starts again."""
        if job.waits:
            return Elastic.detected(self, job)
        if not job.fill() and not job.shrink(self.min_nodes):
            return job.wait()
        return job.restart(self.rejoin_seconds, 1.0)

    def returned(self, job: JobInProgress) -> None:
        """Grows at once."""
        if job.waits:
            self.detected(job)
        elif job.runs and job.can_grow():
            job.redo_step()
            self.detected(job)


class LiveMigration(Recovery, frozen=True, kw_only=True):
    """The state of a failing node moves to a spare within `migration_seconds`; the step is done again.

    Where there is no spare, or in the share of failures that is not covered, the job restarts.
    """

    spelling: ClassVar[str] = "live_migration"
    needs_spares: ClassVar[bool] = True
    restarting: ClassVar[tuple[str, ...]] = (*Recovery.restarting, "migration_seconds")

    migration_seconds: NotNegative = 0.0
    coverage: Share = 1.0
    """The share of failures that leave the node's state within reach."""

    def at_once(self) -> str:
        """A state that moves in no time."""
        return (
            ""
            if self.migration_seconds
            else "migration_seconds taken as 0: a node's state moves at once; restart_seconds and "
            "replacement_seconds count only without a spare and in the share that is not covered"
        )

    def struck(self, job: JobInProgress, scope: Scope) -> None:
        """Moves if there is where to."""
        saved = job.runs and job.missing <= job.spares
        if saved and job.chance.random() < self.coverage:
            job.redo_step()
            job.fill()
            return job.restart(self.detection_seconds + self.migration_seconds, 1.0)
        return Recovery.struck(self, job, scope)


RECOVERY_POLICIES: dict[str, type[Recovery]] = {
    policy.spelling: policy for policy in (Recovery, HotSpares, Elastic, InStep, LiveMigration)
}
