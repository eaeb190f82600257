"""World: a machine on which programs run that decide while they run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np

import chakrakit.core as core
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines import load_machine, machine
from chakrakit.machines.device import (
    HORIZON_DAYS,
    HORIZON_PS,
    PowerLimited,
    WorkModel,
    picoseconds,
    work_model,
)
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import (
    UNLIMITED,
    Disturbance,
    Fault,
    SimulationOptions,
    link_changes,
)
from chakrakit.simulator.live.actors import Actor, ActorGroup
from chakrakit.simulator.live.cast import Cast
from chakrakit.simulator.live.faults import Crash, FaultStrategy, Faulty, checked_faults
from chakrakit.simulator.live.outcome import LiveResult, result_of
from chakrakit.simulator.live.places import line_of, line_of_error, moment
from chakrakit.simulator.live.planning import Planning
from chakrakit.simulator.live.pools import DISCIPLINES, Discipline, Place, PlacementPolicy, Pool
from chakrakit.simulator.live.running import program_of
from chakrakit.simulator.live.scores import Score
from chakrakit.simulator.live.stuck import check_finished, warn_of_undone
from chakrakit.simulator.live.verbs import Program, play
from chakrakit.simulator.results import run_within_limits
from chakrakit.trace.sets import TraceSet

_ALONE = {"network": [{"topology": "switch", "size": 1, "bandwidth": 1e9}]}
"""A machine for programs that use pools and time alone."""


class World:
    """Actors with programs, and pools, on a machine; `run` lets them act.

    The same machine, programs and seed give the same result to the last bit. `compute` is the work model
    of `simulate` for FLOPs and played traces; `faults` are its links, devices and stores that slow down or
    fail. Without `record` there is no Run afterwards, and memory follows what is under way alone.
    """

    def __init__(
        self,
        machine: Machine | Mapping[str, Any] | str | None = None,
        *,
        seed: int = 0,
        compute: str | WorkModel = "roofline",
        network: Literal["flow", "analytical"] = "flow",
        share_compute: bool = False,
        faults: Sequence[Fault] = (),
        record: bool = True,
    ) -> None:
        self.machine = _machine(machine)
        self.seed, self.record = seed, record
        work = work_model(compute) if isinstance(compute, str) else compute
        self._work = work if isinstance(work, PowerLimited) else PowerLimited(work)
        self.options = SimulationOptions(
            network=network, work=self._work, fold=False, share_compute=share_compute
        )
        self.disturbance = Disturbance(faults=faults)
        self.faults = self.disturbance.on(
            self.machine, range(self.machine.size), np.arange(self.machine.size)
        )
        self.actors: list[Actor] = []
        self._by_name: dict[str, Actor] = {}
        self.pools: list[Pool] = []
        self.scores: list[Score] = []
        self.labels: list[str] = []
        self.played: Score | None = None
        """Traces whose ranks the actors are, in their order."""
        self._programs: list[Callable[[], Program]] = []
        self._core = self._new_core()
        self._planning = Planning(self._core, self.machine, self.options)

    def _new_core(self) -> core.LiveWorld:
        where, software = self.machine, self.machine.software
        changes = [(at, 1, link, by) for at, link, by in link_changes(where, self.faults.faults)]
        for fault in self.faults.faults:
            if fault.kind == "device":
                at = picoseconds(fault.at_ns * 1e-9, f"the time of the fault on {fault.target}")
                changes.append((at, 0, int(fault.target), fault.factor))  # type: ignore[arg-type]
        changes.sort(key=lambda change: change[0])
        columns: Any = list(zip(*changes, strict=True)) or [[], [], [], []]
        slots = [store.operations or UNLIMITED for store, _ in where.store_of_servers()]
        return core.LiveWorld(
            bandwidth=where.links.bandwidth,
            comm_slowdown=np.array([where.device(d).comm_slowdown for d in range(where.size)]),
            fair=self.options.share_compute,
            queue_depth=where.software.queue_depth,
            gate_slots=np.array(slots, np.int32),
            fault_time=np.array(columns[0], np.int64),
            fault_is_link=np.array(columns[1], np.int8),
            fault_target=np.array(columns[2], np.int32),
            fault_factor=np.array(columns[3], np.float64),
            flow=self.options.network == "flow",
            ways=where.ways,
            latency=where.links.latency,
            before=picoseconds(software.step_overhead, "the overhead of a step")
            + picoseconds(software.collective_overhead, "the overhead of a message"),
            plain=where.library is None and not where.messages_cost,
            timed=where.library is not None,
            records=self.record,
        )

    # --- what is there ------------------------------------------------------------------------

    def actor(
        self,
        program: Callable[..., Any] | object,
        *args: object,
        rank: int = 0,
        name: str = "",
        daemon: bool | None = None,
        faults: Sequence[FaultStrategy] = (),
        at_ns: float | None = None,
    ) -> Actor:
        """An actor on a rank of the machine; it begins at `at_ns`, or now.

        `program` is a generator function, called with the actor and `args`, or an object with
        `on_message(me, message)`. A `daemon` may wait for ever; objects with `on_message` are.
        """
        if not isinstance(rank, int) or not 0 <= rank < self.machine.size:
            raise ConfigError(f"rank {rank!r}; the machine has ranks 0 to {self.machine.size - 1}")
        number = len(self.actors)
        me = Actor(self._core, number, name or f"actor {number}", rank, self.seed)
        if me.name in self._by_name:
            raise ConfigError(
                f"there are two actors named {me.name!r}; give each a name of its own"
            )
        strategies = [f for f in checked_faults(me.name, faults) if not isinstance(f, Crash)]
        faulty = Faulty(me, strategies, self.labels) if strategies else None
        serves = hasattr(program, "on_message") if daemon is None else daemon
        self.actors.append(me)
        self._by_name[me.name] = me
        self._core.add_actor(me, me.name, rank, serves, faulty)
        self._programs.append(lambda: program_of(program, me, args))
        begins = self._core.now_ps if at_ns is None else _ps(at_ns)
        self._core.begin(number, self._programs[number](), begins)
        for crash in (f for f in faults if isinstance(f, Crash)):
            until = -1 if crash.until_ns is None else _ps(crash.until_ns)
            self._core.crash_at(number, _ps(crash.at_ns), until)
        return me

    def pool(
        self,
        name: str,
        width: int = 1,
        *,
        discipline: Discipline = "fifo",
        queue: int | None = None,
        holds: int = 1,
        policy: PlacementPolicy | None = None,
    ) -> Pool:
        """A pool of `width` places.

        At most `queue` tasks wait; one that comes when all is full is refused. A place holds the last
        `holds` items that were used there.
        """
        if discipline not in DISCIPLINES:
            raise ConfigError(f"no discipline {discipline!r}; {nearest(discipline, DISCIPLINES)}")
        if any(pool.name == name for pool in self.pools):
            raise ConfigError(f"there are two pools named {name!r}; give each a name of its own")
        if not (_whole(width, 1) and _whole(holds, 1) and (queue is None or _whole(queue, 0))):
            raise ConfigError(
                f"pool {name!r}: width and holds are whole and 1 or more, queue is whole and 0 or more"
            )
        if policy is not None and not hasattr(policy, "pick"):
            raise ConfigError(
                f"pool {name!r}: its policy is {policy!r}; give an object with `pick(tasks, places, now_ns)`"
            )
        most = -1 if queue is None else queue
        number = self._core.add_pool(width, DISCIPLINES.index(discipline), most, holds, policy)
        places = [Place(self._core, number, i) for i in range(width)]
        self.pools.append(Pool(number, name, width, discipline, places, policy))
        return self.pools[-1]

    def group(self, members: Sequence[Actor | str | int]) -> ActorGroup:
        """Actors that call collectives together; those named here may be added later."""
        return ActorGroup(members, self._actor)

    def _actor(self, who: Actor | str | int) -> Actor:
        if isinstance(who, Actor):
            return who
        if isinstance(who, str) and who in self._by_name:
            return self._by_name[who]
        if isinstance(who, int) and 0 <= who < len(self.actors):
            return self.actors[who]
        raise ConfigError(self.unknown(who))

    def score(
        self, traces: TraceSet, devices: Sequence[int] | None = None, name: str = "play"
    ) -> Score:
        """Traces laid on devices, one for each rank; by default rank r on device r."""
        places = list(traces.ranks if devices is None else devices)
        if len(places) != len(traces.ranks):
            raise ConfigError(f"{len(traces.ranks)} ranks are played on {len(places)} devices")
        number, offset = self._planning.score(traces, places)
        self.scores.append(Score(number, name, traces, places, offset))
        return self.scores[-1]

    def within_limits(self, traces: TraceSet) -> PowerLimited:
        """The work model at the clocks that devices have under their power limits where they play these."""
        options = replace(self.options, work=self._work.work, disturbance=self.disturbance)
        return run_within_limits(traces, self.machine, options)[1]

    # --- running ------------------------------------------------------------------------------

    def run(self, until: float | None = None) -> LiveResult:
        """Lets all actors act until nothing more can happen, or until a time in nanoseconds.

        A DeadlockError names who waits for what, where actors that are no daemons cannot go on.
        """
        undone = core.live_undone()
        try:
            self._core.run(HORIZON_PS if until is None else _ps(until), self)
            warn_of_undone(core.live_undone() - undone)
            if until is None:
                check_finished(self._core, self.actors, self.pools)
            return result_of(self._cast(), self._core)
        finally:
            self._core.let_go()

    def _cast(self) -> Cast:
        return Cast(
            machine=self.machine,
            work=self._work,
            seed=self.seed,
            record=self.record,
            actors=self.actors,
            pools=self.pools,
            labels=self.labels,
            played=self.played,
        )

    # --- what the core asks -------------------------------------------------------------------

    def noted(self, error: BaseException, actor: int, program: Program | None) -> None:
        """Says in an exception who raised it and when; where in its program, if it is one of ours."""
        if getattr(error, "__notes__", ()):
            return
        error.add_note(f"in actor {self.actors[actor].name!r} at {moment(self._core.now_ps)}")
        if isinstance(error, ConfigError):
            line = line_of(program) or line_of_error(error.__traceback__)
            error.args = (f"{self._who(actor, line)}: {error}",)

    def refuse(self, actor: int, text: str, program: Program | None) -> NoReturn:
        """Raises an error about what an actor asked for."""
        raise ConfigError(f"{self._who(actor, line_of(program))}: {text}")

    def _who(self, actor: int, line: str) -> str:
        place = f" ({line})" if line else ""
        return f"{self.actors[actor].name} at {moment(self._core.now_ps)}{place}"

    def unknown(self, who: object) -> str:
        """What is wrong with the name or number of an actor that is not there."""
        if isinstance(who, str):
            return f"there is no actor named {who!r}; {nearest(who, self._by_name)}"
        numbers = f"0 to {len(self.actors) - 1}"
        return f"there is no actor {who!r}; give a name, an actor or a number from {numbers}"

    def no_verb(self, what: object) -> str:
        """What is wrong with something that a program yields and that is no verb."""
        cure = ""
        if isinstance(what, Generator):
            cure = "; `yield from` goes on with what a generator does"
        elif isinstance(what, Sequence) and not isinstance(what, str):
            cure = "; `all_of(*verbs)` does several at once"
        return f"a program yields verbs such as sleep(…) or receive(…), not {what!r}{cure}"

    def disagree(
        self, first: int, kind: str, size: int, second: int, other: str, other_size: int
    ) -> str:
        """Two members of a group that call different collectives."""
        return (
            f"calls {other} of {other_size:,} bytes where {self.actors[first].name} called {kind} of "
            f"{size:,} bytes; members of a group call the same, with the same root"
        )

    def spawned(self, what: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> Actor:
        """A new actor."""
        program, args, options = what
        return self.actor(program, *args, **options)

    def restarted(self, actor: int) -> Program:
        """The program of an actor from its beginning."""
        return self._programs[actor]()

    def pick(self, pool: int, waiting: list[Any], free: list[int]) -> tuple[int, int] | None:
        """What a pool's policy picks."""
        return self.pools[pool].pick(waiting, free, self._core.now_ps / 1000)

    def late_work(
        self, pool: int, place: int, work: Callable[[Place], float], about: object
    ) -> int:
        """How long a task takes at the place it got."""
        return _ps(work(self.pools[pool].places[place]))

    def message_cost(self, *message: Any) -> tuple[float, int]:
        """What a message costs besides its bytes and its way."""
        return self._planning.message_cost(*message)

    def plan_collective(self, *call: Any) -> tuple[int, int]:
        """The plan of a collective."""
        return self._planning.plan_collective(*call)

    def plan_access(self, *access: Any) -> tuple[int, int]:
        """The plan of a read or write."""
        return self._planning.plan_access(*access)

    def work_ps(self, *work: Any) -> int:
        """How long a device computes."""
        return self._planning.work_ps(*work)


def _machine(given: Machine | Mapping[str, Any] | str | None) -> Machine:
    if isinstance(given, str):
        return load_machine(given)
    if isinstance(given, Machine):
        return given
    return machine(_ALONE if given is None else given)


def _whole(number: object, least: int) -> bool:
    return isinstance(number, int) and number >= least


def _ps(ns: float) -> int:
    """Nanoseconds as the clock counts them, to the nearest picosecond."""
    if not 0 <= ns <= HORIZON_PS / 1000:
        raise ConfigError(f"a time of {ns:g} ns; give 0 or more, and at most {HORIZON_DAYS} days")
    return round(ns * 1000)


def from_traces(
    traces: TraceSet, machine: Machine | Mapping[str, Any] | str, **world: Any
) -> World:
    """A world in which every rank of the traces is an actor that plays its own.

    It takes as long as `simulate` says, to the picosecond.
    """
    made = World(_machine(machine), **world)
    if any(device.dynamic is not None for device in made.machine.devices):
        made = World(made.machine, **{**world, "compute": made.within_limits(traces)})
    score = made.score(traces)
    for place, rank in enumerate(traces.ranks):
        made.actor(_player, score, place, rank=rank, name=f"rank {rank}")
    made.played = score
    return made


def _player(me: Actor, score: Score, place: int) -> Program:
    yield play(score, place)
