"""Recovery policies: what a job does when something fails.

A policy is a small frozen class whose fields are its options in the job file. The engine (`history.py`)
calls it at four moments and the policy answers with the engine's verbs:

    struck(history, scope)   something failed; the nodes it took are already gone
    detected(history)        the detection time is over
    returned(history)        a repaired node is back
    regrow(history)          the moment asked for with `history.regrow_at_checkpoint()`
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from chakrakit.campaigns.engine.bounds import Count, NotNegative, Positive, Share

if TYPE_CHECKING:
    from chakrakit.campaigns.engine.failures import Scope
    from chakrakit.campaigns.engine.history import History


class Recovery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop everything, fill the empty places, load the newest checkpoint that survived, go on."""

    spelling: ClassVar[str] = "restart"
    needs_spares: ClassVar[bool] = False
    shrinks: ClassVar[bool] = False

    detection_seconds: NotNegative = 0.0
    """From the failure until somebody knows."""
    restart_seconds: NotNegative = 0.0
    """From a complete set of nodes until the first step, without loading the checkpoint."""
    replacement_seconds: NotNegative = 0.0
    """Added to a restart that brings in a spare node."""
    restart_success: Share = 1.0
    """The share of restarts that work; a failed one is tried again."""
    replace_slow_after_seconds: NotNegative = math.inf
    """A slow node is replaced by a spare once it has been slow for so long; by default never."""

    def struck(self, history: History, scope: Scope) -> None:
        """Work since the checkpoint is lost."""
        history.roll_back(scope)
        history.detect(self.detection_seconds)

    def detected(self, history: History) -> None:
        """Restarts when every place is filled, waits for repairs otherwise."""
        before = history.missing
        if not history.fill():
            return history.wait()
        return history.restart(self.restart_after(before), self.restart_success)

    def restart_after(self, replaced: int) -> float:
        """Seconds of a restart that filled so many places."""
        return self.restart_seconds + (self.replacement_seconds if replaced else 0.0)

    def returned(self, history: History) -> None:
        """A job that waits tries again."""
        if history.waits:
            self.detected(history)

    def regrow(self, history: History) -> None:
        """Never asked for."""

    def slow(self, history: History) -> None:
        """A slow node is to go: the job stops after its step, and nothing is done again."""
        history.detect(0.0)


class HotSpares(Recovery, frozen=True, kw_only=True):
    """Spares run with the job's software loaded, so that one takes a place within `swap_seconds`."""

    spelling: ClassVar[str] = "hot_spares"
    needs_spares: ClassVar[bool] = True

    swap_seconds: NotNegative = 0.0

    def detected(self, history: History) -> None:
        """A swap while spares last; after waiting for a repair, a full restart."""
        waited, replaced = history.waits, history.missing
        if not history.fill():
            return history.wait()
        full = waited or not replaced
        seconds = self.restart_after(replaced) if full else self.swap_seconds
        return history.restart(seconds, self.restart_success)


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

    def detected(self, history: History) -> None:
        """Restarts with what there is, if that is enough."""
        before = history.missing
        if not history.fill() and not history.shrink(self.min_nodes):
            return history.wait()
        return history.restart(self.restart_after(before - history.missing), self.restart_success)

    def returned(self, history: History) -> None:
        """Grows at the next checkpoint."""
        if history.waits:
            self.detected(history)
        elif history.can_grow():
            history.regrow_at_checkpoint()

    def regrow(self, history: History) -> None:
        """Restarts with the nodes that have come back; the checkpoint is this very moment's."""
        if history.runs and history.can_grow():
            self.detected(history)


class InStep(Elastic, frozen=True, kw_only=True):
    """The other replicas finish the step and go on; only the step that was hit is done again.

    Every replica holds the whole state, so a checkpoint is needed only when too few are left.
    """

    spelling: ClassVar[str] = "in_step"

    rejoin_seconds: NotNegative = 0.0
    """How long the job stops when replicas leave or come back."""

    def struck(self, history: History, scope: Scope) -> None:
        """Nothing but the step is lost while enough replicas are left."""
        if history.runs and history.present >= self.min_nodes:
            history.redo_step()
        else:
            history.roll_back(scope)
        history.detect(self.detection_seconds)

    def detected(self, history: History) -> None:
        """Goes on with what there is; a job that had to wait starts again."""
        if history.waits:
            return Elastic.detected(self, history)
        if not history.fill() and not history.shrink(self.min_nodes):
            return history.wait()
        return history.restart(self.rejoin_seconds, 1.0)

    def returned(self, history: History) -> None:
        """Grows at once."""
        if history.waits:
            self.detected(history)
        elif history.runs and history.can_grow():
            history.redo_step()
            self.detected(history)


class LiveMigration(Recovery, frozen=True, kw_only=True):
    """The state of a failing node moves to a spare within `migration_seconds`; the step is done again.

    Where there is no spare, or in the share of failures that is not covered, the job restarts.
    """

    spelling: ClassVar[str] = "live_migration"
    needs_spares: ClassVar[bool] = True

    migration_seconds: NotNegative = 0.0
    coverage: Share = 1.0
    """The share of failures that leave the node's state within reach."""

    def struck(self, history: History, scope: Scope) -> None:
        """Moves if there is where to."""
        saved = history.runs and history.missing <= history.spares
        if saved and history.chance.random() < self.coverage:
            history.redo_step()
            history.fill()
            return history.restart(self.detection_seconds + self.migration_seconds, 1.0)
        return Recovery.struck(self, history, scope)


RECOVERY_POLICIES: dict[str, type[Recovery]] = {
    policy.spelling: policy for policy in (Recovery, HotSpares, Elastic, InStep, LiveMigration)
}
