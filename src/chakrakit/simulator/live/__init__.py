"""Programs that react: actors that decide while the simulation runs, on a machine and with its network.

A program is a generator that yields verbs (`verbs.py`) and goes on with their results. `World` holds a
machine, actors and pools; what comes of it is a Run like any other (docs/programs.md).
"""

from __future__ import annotations

from chakrakit.simulator.live.actors import Actor, ActorGroup
from chakrakit.simulator.live.faults import (
    Crash,
    Delay,
    Drop,
    Equivocate,
    FaultStrategy,
    Parcel,
    Silent,
    Slow,
)
from chakrakit.simulator.live.outcome import LiveResult, LiveSummary, PoolSummary
from chakrakit.simulator.live.pools import Place, PlacementPolicy, Pool, Task
from chakrakit.simulator.live.program_file import populate, read_program_file
from chakrakit.simulator.live.scores import Score
from chakrakit.simulator.live.sockets import Sockets, SocketsResult
from chakrakit.simulator.live.verbs import (
    MS,
    US,
    Message,
    Program,
    S,
    Verb,
    all_of,
    any_of,
    collective,
    compute,
    join,
    load,
    new_group,
    play,
    receive,
    send,
    sleep,
    spawn,
    store,
    use,
)
from chakrakit.simulator.live.world import World, from_traces

__all__ = [
    "MS",
    "US",
    "Actor",
    "ActorGroup",
    "Crash",
    "Delay",
    "Drop",
    "Equivocate",
    "FaultStrategy",
    "LiveResult",
    "LiveSummary",
    "Message",
    "Parcel",
    "Place",
    "PlacementPolicy",
    "Pool",
    "PoolSummary",
    "Program",
    "S",
    "Score",
    "Silent",
    "Slow",
    "Sockets",
    "SocketsResult",
    "Task",
    "Verb",
    "World",
    "all_of",
    "any_of",
    "collective",
    "compute",
    "from_traces",
    "join",
    "load",
    "new_group",
    "play",
    "populate",
    "read_program_file",
    "receive",
    "send",
    "sleep",
    "spawn",
    "store",
    "use",
]
