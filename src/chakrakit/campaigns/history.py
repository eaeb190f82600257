"""One history of a campaign: events in the order of time, and progress between them by arithmetic.

The engine knows places (`nodes` of them, filled or empty), spares, repairs and the job's stages; what is
done about a failure is the recovery policy's choice. Nothing is simulated step by step, so a history
costs what its failures cost. Of events at the same time, the job's own comes first, then repairs and
other timers in the order they were set, then failures in the order of the processes.
"""

from __future__ import annotations

import heapq
import math
from itertools import islice
from random import Random
from typing import Protocol

import msgspec

from chakrakit.campaigns.failures import FailureProcess, FailureSource, Scope
from chakrakit.campaigns.hidden import HiddenNodes
from chakrakit.campaigns.plan import CampaignPlan
from chakrakit.campaigns.spot import PricePath

# --- the outcome --------------------------------------------------------------------------------


class HistoryOutcome(msgspec.Struct):
    """Seconds by what they were spent on; together they are `seconds`."""

    seconds: float = 0.0
    useful: float = 0.0
    """Steps that count, at the healthy job's speed."""
    rework: float = 0.0
    """Work and checkpoints that failures undid, at the healthy job's speed."""
    detection: float = 0.0
    waiting: float = 0.0
    """For nodes: more were in repair than there were spares."""
    preempted: float = 0.0
    """While the price of nodes was above the bid."""
    restart: float = 0.0
    checkpoint: float = 0.0
    degraded: float = 0.0
    """What slow or missing nodes added to steps."""
    steps: float = 0.0
    checkpoints: int = 0
    restarts: int = 0
    slowdowns: int = 0
    preemptions: int = 0
    excluded: int = 0
    """Nodes that measured slow and are not used any more."""
    excluded_healthy: int = 0
    """How many of them were not slow."""
    paid: float = 0.0
    """For one node, at prices that move."""
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
            + self.preempted
            + self.restart
            + self.checkpoint
        )


RUN, DETECTION, WAITING, RESTART = "run", "detection", "waiting", "restart"

DAY = 86_400.0
MOST_EVENTS = 50_000
"""A history with more events than this, four for every failure, is given up: it would be a job of decades, or
one that loses work faster than it does it."""
STALLED = 20_000
"""So is one in which so many events pass without one more checkpoint."""


class Watcher(Protocol):
    """Whoever wants to see a history as it happens."""

    def stage(self, kind: str, start: float, end: float, steps: float) -> None:
        """The job was in a stage; `done` steps at its end."""

    def checkpoint(self, start: float, end: float) -> None:
        """The job stood for a checkpoint while it was in the stage of running."""

    def rolled_back(self, time: float, seconds: float) -> None:
        """What the job did in the last `seconds` is lost."""

    def node(self, slot: int, kind: str, start: float, end: float) -> None:
        """A place was empty, or its node slow."""


class JobHistory:
    """The state of a job between events, and the verbs that policies use."""

    def __init__(self, plan: CampaignPlan, seed: str, watcher: Watcher | None = None) -> None:
        self.plan = plan
        self.chance = Random(f"{seed}/policy")
        self.spares = plan.spares
        self._seed = seed
        self._repairs = Random(f"{seed}/repairs")
        self._watcher = watcher
        self._now = 0.0
        self._idle = 0.0
        self._stage, self._since, self._until = RUN, 0.0, math.inf
        self._clock, self._step = 0.0, plan.step_seconds
        self._running_nodes = plan.nodes
        self._floors = [0] * len(plan.tiers)
        self._resumed = 0
        self._restore = 0.0
        self._empty: dict[int, float] = {}
        self._slow: dict[int, tuple[float, float, float]] = {}
        self._timers: list[tuple[float, int, str, int]] = []
        self._count = 0
        self._sources: list[FailureSource] = [p.events(seed) for p in plan.processes]
        self._logged = list(reversed(plan.logged))
        self._degraded = False
        self.outcome = HistoryOutcome()
        self._prices = plan.market.path(seed) if plan.market else None
        self._held, self._taken_away = True, False
        self._hidden: HiddenNodes | None = None
        self._sweep = 0.0
        self._expect()
        if plan.pool:
            self._let_in(HiddenNodes(plan.pool, plan.guarding, seed, plan.nodes + plan.spares))
        if self._prices:
            self._set_timer(0.0, "price", 0)

    # What policies may ask.

    @property
    def runs(self) -> bool:
        """Whether the job makes progress."""
        return self._stage == RUN

    @property
    def waits(self) -> bool:
        """Whether the job stands still for want of nodes."""
        return self._stage == WAITING

    @property
    def missing(self) -> int:
        """How many places are empty."""
        return len(self._empty)

    @property
    def present(self) -> int:
        """How many places are filled."""
        return self.plan.nodes - len(self._empty)

    def can_grow(self) -> bool:
        """Whether there are spares for another replica."""
        size = self.plan.replica_nodes
        return (self.present + self.spares) // size > self._running_nodes // size

    # What policies may do.

    def roll_back(self, scope: Scope) -> None:
        """Back to the newest copy that survives a failure of this scope."""
        plan, cadence = self.plan, self.plan.cadence
        restored, restore = 0, 0.0
        for n, tier in enumerate(plan.tiers):
            count = self._durable(n)
            self._floors[n] = count if tier.outlives(scope) else 0
            if self._floors[n] > restored:
                restored, restore = self._floors[n], tier.restore(count)
        count, steps, stall = cadence.position(self._clock, self._step)
        steps_done = count * cadence.every + steps
        self.outcome.rework += (steps_done - restored * cadence.every) * plan.step_seconds
        self.outcome.rework += cadence.stalled(count) + stall - cadence.stalled(restored)
        if self._watcher:
            self._watcher.rolled_back(self._now, self._clock - cadence.at(restored, self._step))
        self._clock = cadence.at(restored, self._step)
        self._resumed = restored
        self._restore = restore

    def redo_step(self) -> None:
        """Only the step in progress is lost."""
        cadence = self.plan.cadence
        count, steps, stall = cadence.position(self._clock, self._step)
        part = steps - math.floor(steps)
        self.outcome.rework += part * self.plan.step_seconds
        if self._watcher:
            self._watcher.rolled_back(self._now, part * self._step)
        self._clock = cadence.at(count, self._step) + math.floor(steps) * self._step + stall
        self._restore = 0.0

    def detect(self, seconds: float) -> None:
        """The job stands; after `seconds` the policy is told."""
        self._enter(DETECTION, seconds)

    def wait(self) -> None:
        """The job stands until a node returns."""
        self._enter(WAITING, math.inf)

    def restart(self, seconds: float, success: float) -> None:
        """The job runs again after `seconds` and the loading of its checkpoint, if the attempt works."""
        attempts = 1
        while success < 1.0 and self.chance.random() >= success:
            attempts += 1
        self.outcome.restarts += attempts
        sweep, self._sweep = self._sweep, 0.0
        self._enter(RESTART, attempts * (seconds + self._restore) + sweep)

    def fill(self) -> bool:
        """Puts spares, then others of the pool, into empty places; whether all are filled."""
        while self._empty and (self.spares or (self._hidden and self._hidden.left)):
            slot = min(self._empty)
            if self.spares:
                self.spares -= 1
            elif self._hidden:
                self._hidden.left -= 1
            self._occupy(slot)
        if not self._empty:
            self._running_nodes = self.plan.nodes
            self._pace()
        return not self._empty

    def shrink(self, least: int) -> bool:
        """Goes on with whole replicas only, nodes left over become spares; whether enough are left."""
        size = self.plan.replica_nodes
        running = self.present // size * size
        if running < max(least, size):
            return False
        for slot in self._last_filled(self.present - running):
            self._empty[slot] = self._now
            self.spares += 1
        self._running_nodes = running
        self._degraded = True
        self._pace()
        return True

    def regrow_at_checkpoint(self) -> None:
        """Asks for `regrow` when the checkpoint in progress is complete."""
        if self._stage != RUN:
            return
        count = self.plan.cadence.complete(self._clock, self._step)
        ahead = self.plan.cadence.at(count + 1, self._step) - self._clock
        self._set_timer(ahead, "regrow", 0)

    # The engine.

    def run(self) -> HistoryOutcome:
        """From the first step to the last, or to the horizon."""
        complete = -1
        for number in range(MOST_EVENTS):
            if number % STALLED == 0 and math.isinf(self.plan.horizon):
                before, complete = complete, self.plan.cadence.complete(self._clock, self._step)
                if complete <= before:
                    break
            timer = self._timers[0][0] if self._timers else math.inf
            source = self._next_source()
            failure = math.inf if source is None else source.due + self._idle
            logged = self._logged[-1].time if self._logged else math.inf
            first = min(self._until, timer, failure, logged)
            if self.plan.horizon <= first:
                return self._finish(self.plan.horizon)
            if self._until <= first:
                if self._stage == RUN:
                    return self._finish(self._until)
                self._advance(self._until)
                self._stage_over()
            elif timer <= first:
                self._advance(timer)
                self._timer()
            elif failure <= first and source is not None:
                self._advance(failure)
                self._hit(source.process, source.take())
            else:
                self._advance(logged)
                self._hit_logged()
        self.outcome.given_up = True
        return self._finish(self._now)

    def _next_source(self) -> FailureSource | None:
        if self._stage == WAITING or not self._sources:
            return None
        if len(self._sources) == 1:
            return self._sources[0]
        return min(self._sources, key=_due)

    def _advance(self, time: float) -> None:
        if self._stage == RUN:
            clock, self._clock = self._clock, self._clock + (time - self._now)
            if self._watcher:
                ahead = self._now - clock
                for start, end in self.plan.cadence.stops(clock, self._clock, self._step):
                    self._watcher.checkpoint(start + ahead, end + ahead)
        self._now = time

    def _expect(self) -> None:
        """When the job ends if nothing happens."""
        if self.plan.steps is None:
            self._until = math.inf
        else:
            end = self.plan.cadence.end(self.plan.steps, self._step)
            self._until = self._now + (end - self._clock)

    def _enter(self, stage: str, seconds: float) -> None:
        """Leaves one stage for another; a stage of no length is over at once."""
        self._account()
        self._stage, self._since = stage, self._now
        if stage == RUN:
            self._expect()
        else:
            self._until = self._now + seconds
            if not seconds:
                self._stage_over()

    def _account(self) -> None:
        length = self._now - self._since
        if self._stage == DETECTION:
            self.outcome.detection += length
        elif self._stage == RESTART:
            self.outcome.restart += length
        elif self._stage == WAITING:
            if self._held:
                self.outcome.waiting += length
            else:
                self.outcome.preempted += length
            self._idle += length
        if self._prices and self._held:
            self.outcome.paid += self._prices.paid(self._since, self._now)
        if self._watcher:
            stage = self._stage if self._held else "preempted"
            self._watcher.stage(stage, self._since, self._now, self._steps_done())
        self._held = True

    def _stage_over(self) -> None:
        if self._stage == DETECTION:
            self.plan.recovery.detected(self)
        elif self._stage == RESTART:
            self._restore = 0.0
            self._enter(RUN, math.inf)

    def _hit(self, process: FailureProcess, slots: range) -> None:
        """Something failed or became slow."""
        if process.slow:
            for slot in slots:
                self._slow_down(slot, process.slow.factor, process.slow.lasts.draw(self._repairs))
            return None
        if process.scope == "process":
            return self._strike(process.name, process.scope)
        hit = [slot for slot in slots if slot not in self._empty]
        repair = process.repair or self.plan.repair
        for slot in hit:
            self._vacate(slot, repair.draw(self._repairs))
        if hit:
            self._strike(process.name, process.scope)
        return None

    def _hit_logged(self) -> None:
        event = self._logged.pop()
        if event.factor is not None:
            return self._slow_down(event.node, event.factor, event.seconds)
        if event.node in self._empty or self._stage == WAITING:
            return None
        if event.scope != "process":
            repair = event.seconds or self.plan.repair.draw(self._repairs)
            self._vacate(event.node, repair)
        return self._strike(event.cause, event.scope)

    def _strike(self, name: str, scope: Scope) -> None:
        self.outcome.failures[name] = self.outcome.failures.get(name, 0) + 1
        self.plan.recovery.struck(self, scope)

    def _vacate(self, slot: int, repair: float) -> None:
        self._empty[slot] = self._now
        self._recover_pace(slot)
        if repair:
            self._set_timer(repair, "repaired", slot)
        else:
            self.spares += 1

    def _occupy(self, slot: int) -> None:
        since = self._empty.pop(slot)
        if self._watcher:
            self._watcher.node(slot, "empty", since, self._now)
        for source in self._sources:
            source.renew(slot, self._now - self._idle)
        if self._hidden:
            self._sweep = self.plan.guarding.sweep_seconds * bool(self.plan.guarding.sweep_limit)
            self._admit(slot, self._hidden)

    def _slow_down(self, slot: int, factor: float, seconds: float) -> None:
        if slot in self._empty:
            return
        self.outcome.slowdowns += 1
        self._recover_pace(slot)
        self._slow[slot] = (factor, self._now, self._now + seconds)
        self._degraded = True
        self._set_timer(seconds, "recovered", slot)
        if self.plan.recovery.replace_slow_after_seconds < seconds:
            self._set_timer(self.plan.recovery.replace_slow_after_seconds, "replace", slot)
        self._pace()

    def _recover_pace(self, slot: int) -> None:
        slowness = self._slow.pop(slot, None)
        if slowness and self._watcher:
            self._watcher.node(slot, "slow", slowness[1], self._now)

    def _timer(self) -> None:
        _, _, kind, slot = heapq.heappop(self._timers)
        if kind == "repaired":
            self.spares += 1
            if not self._taken_away:
                self.plan.recovery.returned(self)
        elif kind == "price" and self._prices:
            self._look_at_price(self._prices)
        elif kind == "onset" and self._hidden:
            self._onset(self._hidden)
        elif kind == "named" and self._hidden and slot in self._slow:
            self._exclude(slot, self._hidden)
        elif kind == "false alarm" and self._hidden:
            self._false_alarm(self._hidden)
        elif kind == "regrow":
            self.plan.recovery.regrow(self)
        elif kind == "recovered" and slot in self._slow and self._slow[slot][2] <= self._now:
            self._recover_pace(slot)
            self._pace()
        elif kind == "replace" and slot in self._slow and self.spares and self._stage == RUN:
            self._vacate(slot, self.plan.repair.draw(self._repairs))
            self._restore = 0.0
            self.plan.recovery.slow(self)

    # Nodes at a price that moves.

    def _look_at_price(self, prices: PricePath) -> None:
        above = prices.above(self._now)
        self._set_timer(prices.next_time(self._now, above) - self._now, "price", 0)
        if above and not self._taken_away:
            self._take_away(prices.market.notice_seconds)
        elif self._taken_away and not above:
            self._taken_away = False
            self.plan.recovery.detected(self)

    def _take_away(self, notice: float) -> None:
        """All nodes go. With notice enough the job saves its work, which the next start loads."""
        self.outcome.preemptions += 1
        self._taken_away = True
        if self._stage == RUN:
            first = self.plan.tiers[0] if self.plan.tiers else None
            saves = first and notice >= max(first.stalls) + first.write_seconds
            if first and saves:
                self.redo_step()
                self._restore = first.restore_seconds
            else:
                self.roll_back("cluster")
        self._enter(WAITING, math.inf)
        self._held = False

    # Nodes that are slow without anybody knowing.

    def _let_in(self, hidden: HiddenNodes) -> None:
        self._hidden = hidden
        for slot in range(self.plan.nodes):
            self._admit(slot, hidden)
        self._set_timer(hidden.onset_after(self.plan.nodes), "onset", 0)
        self._set_timer(hidden.false_alarm_after(self.plan.nodes), "false alarm", 0)
        if self.plan.guarding.sweep_limit:
            self._enter(RESTART, self.plan.guarding.sweep_seconds)

    def _admit(self, slot: int, hidden: HiddenNodes) -> None:
        factor = hidden.admitted()
        self._count_excluded(hidden)
        if factor > 1:
            self._turn_slow(slot, factor, hidden)

    def _turn_slow(self, slot: int, factor: float, hidden: HiddenNodes) -> None:
        self.outcome.slowdowns += 1
        self._slow[slot] = (factor, self._now, math.inf)
        self._degraded = True
        self._set_timer(hidden.named_after(factor), "named", slot)
        self._pace()

    def _onset(self, hidden: HiddenNodes) -> None:
        slot = hidden.place(self.plan.nodes)
        if slot not in self._empty and slot not in self._slow:
            self._turn_slow(slot, hidden.slowness(), hidden)
        self._set_timer(hidden.onset_after(self.plan.nodes), "onset", 0)

    def _false_alarm(self, hidden: HiddenNodes) -> None:
        """The monitor names a node that is as fast as any, unless the job stands."""
        self._set_timer(hidden.false_alarm_after(self.plan.nodes), "false alarm", 0)
        slot = hidden.accused(self.plan.nodes)
        healthy = slot not in self._empty and slot not in self._slow
        if healthy and self._stage == RUN and (hidden.left or self.spares):
            self._exclude(slot, hidden)

    def _exclude(self, slot: int, hidden: HiddenNodes) -> None:
        """A node that the monitor named is replaced, from the pool or by a spare; without either it stays."""
        if self._stage != RUN or not (hidden.left or self.spares):
            return self._set_timer(DAY, "named", slot)
        if hidden.left:
            hidden.left -= 1
            self.spares += 1
        hidden.exclude(self._slow[slot][0] if slot in self._slow else 1.0)
        self._count_excluded(hidden)
        self._empty[slot] = self._now
        self._recover_pace(slot)
        self._restore = 0.0
        return self.plan.recovery.slow(self)

    def _count_excluded(self, hidden: HiddenNodes) -> None:
        self.outcome.excluded = hidden.excluded
        self.outcome.excluded_healthy = hidden.healthy

    def _pace(self) -> None:
        """The step changes with the number of nodes and with the slowest of them."""
        step = self.plan.step_with(self._running_nodes)
        if self._slow:
            step *= max(factor for factor, _, _ in self._slow.values())
        if step == self._step:
            return
        cadence = self.plan.cadence
        count, steps, stall = cadence.position(self._clock, self._step)
        for n in range(len(self._floors)):
            self._floors[n] = self._durable(n)
        self._clock = cadence.at(count, step) + steps * step + stall
        self._step = step
        if self._stage == RUN:
            self._expect()

    def _durable(self, n: int) -> int:
        """The newest checkpoint of a tier that could be restored now: taken since, or there before."""
        tier = self.plan.tiers[n]
        count = self.plan.cadence.complete(self._clock - tier.write_seconds, self._step)
        count -= count % tier.multiple
        return count if count > self._resumed else self._floors[n]

    def _steps_done(self) -> float:
        count, steps, _ = self.plan.cadence.position(self._clock, self._step)
        return count * self.plan.cadence.every + steps

    def _last_filled(self, count: int) -> list[int]:
        """The highest places that are filled."""
        places = reversed(range(self.plan.nodes))
        return list(islice((slot for slot in places if slot not in self._empty), count))

    def _set_timer(self, seconds: float, kind: str, slot: int) -> None:
        if math.isinf(seconds):
            return
        self._count += 1
        heapq.heappush(self._timers, (self._now + seconds, self._count, kind, slot))

    def _finish(self, time: float) -> HistoryOutcome:
        self._advance(time)
        self._account()
        plan, cadence, outcome = self.plan, self.plan.cadence, self.outcome
        if plan.steps is not None and time < plan.horizon and not outcome.given_up:
            outcome.steps, stalled = float(plan.steps), cadence.stalled(cadence.before(plan.steps))
            outcome.checkpoints = cadence.before(plan.steps)
        else:
            count, steps, stall = cadence.position(self._clock, self._step)
            outcome.steps, stalled = count * cadence.every + steps, cadence.stalled(count) + stall
            outcome.checkpoints = count
        outcome.seconds, outcome.checkpoint = time, stalled
        outcome.useful = outcome.steps * plan.step_seconds
        if self._degraded:
            outcome.degraded = max(time - outcome.accounted, 0.0)
        self._watch_the_end()
        return outcome

    def _watch_the_end(self) -> None:
        if self._watcher:
            for slot in list(self._slow):
                self._recover_pace(slot)
            for slot, since in self._empty.items():
                self._watcher.node(slot, "empty", since, self._now)


def _due(source: FailureSource) -> float:
    return source.due
