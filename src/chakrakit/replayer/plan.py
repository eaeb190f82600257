"""Plan: what one rank does, as plain data. The runner needs this and PyTorch, nothing else.

A plan is JSON. Steps are done in order; tensors live in numbered *slots*. In the arguments of a call a
tensor is `{"slot": 3}`, a data type `{"dtype": "float32"}`, a device `{"device": "cuda"}`, a memory
format `{"format": "channels_last"}`; all else stands for itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = "chakra-replay"
VERSION = 1


class Fill(msgspec.Struct, omit_defaults=True):
    """Values of an external storage: `normal`, `positive`, `index` (below `limit`), `zero` or `one`.

    `unset` are integers that the runner makes when it knows what they are for.
    """

    kind: str
    limit: int = 0


class External(msgspec.Struct, omit_defaults=True):
    """A storage that is there before the first step; views are (slot, dtype, shape, strides, offset)."""

    bytes: int
    device: str
    dtype: str
    fill: Fill
    views: list[tuple[int, str, list[int], list[int], int]]
    pinned: bool = False
    """Whether it is host memory that a device copies from or to by itself."""


class ReplayStep(msgspec.Struct, tag_field="do", omit_defaults=True, kw_only=True):
    """Something to do. `free` are slots that are needed no more after it."""

    thread: int = 0
    stream: int = 0
    gap_ns: int = 0
    """Time the host did something that is not replayed before this step."""
    free: list[int] = []
    after: list[int] = []
    """Steps of other streams that must be over on the device before this one runs there."""
    needs: list[int] = []
    """Steps of other threads of the host that must be over before this one begins."""
    borrowed: list[int] = []
    """Slots whose memory belongs to another stream."""
    graph: int = 0
    """Number of the graph this is part of: consecutive steps of one are launched as one; 0 for none."""


class View(ReplayStep, tag="view"):
    """A view nobody was seen to make: same storage as `base`, other shape."""

    base: int
    slot: int
    dtype: str
    shape: list[int]
    strides: list[int]
    offset: int


class Call(ReplayStep, tag="call"):
    """An operator. `outs` says where results go: slots, None for results that nobody needs."""

    op: str
    overload: str
    args: list[Any]
    kwargs: dict[str, Any] = {}
    outs: list[Any] = []
    made: list[tuple[int, str, list[int], list[int], int]] = []
    """Recorded geometry of the results that are kept, for checks and stand-ins."""
    ns: int = 0
    """What it took when recorded: on the device, else on the host."""


class Collective(ReplayStep, tag="collective"):
    """Communication of a group. Sizes are elements per member; `work` numbers it for its wait."""

    op: str
    group: int
    work: int
    inputs: list[int]
    outputs: list[int]
    wait: bool = False
    root: int = 0
    tag: int = 0
    in_splits: list[int] = []
    out_splits: list[int] = []
    reduce: str = "sum"
    ns: int = 0


class Wait(ReplayStep, tag="wait"):
    """Until this communication is over."""

    work: int


class StandIn(ReplayStep, tag="stand_in"):
    """Something that cannot be replayed, for as long as it took; its results are made empty."""

    name: str
    host_ns: int = 0
    device_ns: int = 0
    made: list[tuple[int, str, list[int], list[int], int, str]] = []
    """(slot, dtype, shape, strides, offset, device)."""


class Kernel(ReplayStep, tag="kernel"):
    """A kernel that a compiler generated: a `code` of the plan, launched in `grid` blocks."""

    op: str
    code: str
    args: list[Any]
    grid: list[int]
    ns: int = 0
    """What it took when recorded."""


class Synchronize(ReplayStep, tag="synchronize"):
    """The host waits for the device."""


AnyStep = Call | View | Collective | Wait | StandIn | Kernel | Synchronize


class GeneratedCode(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel as the collector recorded it, for the GPU's driver."""

    name: str
    ptx: str
    arguments: list[tuple[str, str]] = []
    """Name and type of what it was called with; what the compiler made a constant is a `constexpr`."""
    threads: int
    shared: int
    """Threads of a block, and bytes of shared memory."""
    plain: bool = True
    """Whether it needs neither scratch memory nor clusters of blocks."""


class ProcessGroup(msgspec.Struct):
    """A process group: its name in the recording, and its members among the ranks of the replay."""

    name: str
    ranks: list[int]


class RankPlan(msgspec.Struct, kw_only=True):
    """What every plan says: whose it is, and how much of the trace it covers."""

    format: str
    version: int
    mode: str
    rank: int
    recorded_rank: int
    world: int
    device: str
    backend: str
    groups: list[ProcessGroup]
    memory: dict[str, int]
    """Bytes needed at most, by device."""
    count: list[int]
    """Operators and communications that are replayed, and all there are."""
    time_ns: list[int]
    """The same in recorded time."""


class ReplayPlan(RankPlan, kw_only=True):
    """All one rank does in an iteration."""

    settings: dict[str, Any] = {}
    """Global settings of PyTorch under which it ran."""
    externals: list[External]
    slots: int
    steps: list[AnyStep]
    codes: dict[str, GeneratedCode] = {}
    """Kernels that a compiler generated, where whoever replays allowed them."""
