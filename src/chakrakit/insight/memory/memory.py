"""Memory over time: what lives when, by kind, and who holds the peak.

From tensors named by the nodes: a storage lives from the operator that first gives it out to the end of
the last that takes it; one that is taken before it was given out was there before, and stays. What no
node names (workspaces, memory kept by the allocator, tensors only Python held) is not seen.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import msgspec
import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.insight.memory.tensors import Uses, uses_of
from chakrakit.insight.rank import RankView, Table, ms, percent, rank_views
from chakrakit.results import Result
from chakrakit.trace.sets import Run

_ROUND = 512
"""PyTorch's caching allocator hands out multiples of this many bytes."""
_OPTIMIZER = re.compile(r"^Optimizer\.step|_foreach_|_fused_adam|addcdiv|addcmul")
_POINTS = 500


class Holder(Result, msgspec.Struct):
    """What holds memory at the peak: tensors of one kind from one operator."""

    kind: str
    operator: str
    bytes: int
    tensors: int


class Moment(Result, msgspec.Struct):
    """Bytes alive from a moment on."""

    time_ns: int
    bytes: int


class RankMemory(Result, msgspec.Struct):
    """One rank's device memory. `by_kind` is at the peak; `before_bytes` was there before the window."""

    rank: int
    peak_bytes: int
    peak_ns: int
    before_bytes: int
    by_kind: dict[str, int]
    holders: list[Holder]
    timeline: list[Moment]
    tensors: int


class Memory(Result, msgspec.Struct):
    """All ranks. `peak_bytes` is the largest rank's; 0 where the trace names no tensors."""

    peak_bytes: int
    peak_rank: int
    source: str
    ranks: list[RankMemory]

    def table(self) -> Table:
        """Who holds the peak."""
        top = next((r for r in self.ranks if r.rank == self.peak_rank), None)
        rows = [
            (
                h.kind,
                h.operator,
                round(h.bytes / 2**20, 1),
                h.tensors,
                percent(h.bytes, self.peak_bytes),
            )
            for h in (top.holders if top else [])
        ]
        when = f" at {ms(top.peak_ns):,} ms" if top else ""
        title = f"memory: peak {self.peak_bytes / 2**20:,.1f} MiB on rank {self.peak_rank}{when}"
        return Table.of(title, ("kind", "operator", "MiB", "tensors", "%"), rows)


@dataclass(frozen=True, eq=False)
class _Lives:
    """A life a tensor: when, how large, made by which row (-1: there before), of which kind."""

    start: I64
    end: I64
    bytes: I64
    maker: I64
    kind: list[str]


def memory_of(view: RankView) -> RankMemory | None:
    """The part of one rank; None where no tensors are named."""
    uses = _on_device(uses_of(view))
    if not len(uses):
        return None
    lives = _lives(view, uses)
    at, alive = _timeline(lives)
    top = int(np.argmax(alive))
    there = np.flatnonzero((lives.start <= at[top]) & (lives.end > at[top]))
    return RankMemory(
        view.rank,
        int(alive[top]),
        int(at[top]),
        int(lives.bytes[lives.maker < 0].sum()),
        _by_kind(lives, there),
        _holders(view, lives, there),
        _thinned(at, alive),
        len(lives.bytes),
    )


def _on_device(uses: Uses) -> Uses:
    """Only the device's tensors, where there is one."""
    device = np.array(
        [d.startswith(("cuda", "hip", "xpu", "privateuse")) for d in uses.devices] or [False]
    )
    if not len(uses) or not device.any():
        return uses
    chosen = device[uses.device]
    return Uses(
        uses.row[chosen],
        uses.storage[chosen],
        uses.bytes[chosen],
        uses.output[chosen],
        uses.device[chosen],
        uses.devices,
    )


def _lives(view: RankView, uses: Uses) -> _Lives:
    order = np.lexsort((np.arange(len(uses)), uses.storage))
    row = uses.row[order]
    makes = _makes(uses)[order]
    storage = uses.storage[order]
    first = np.flatnonzero(_begins(view, storage, row, makes))
    size = np.maximum.reduceat(uses.bytes[order], first)
    size = -(-size // _ROUND) * _ROUND
    latest = np.maximum.reduceat(view.end[row], first)
    made = makes[first]
    born = np.where(made, view.start[row[first]], view.start[view.ran].min())
    # What was there before is not the window's to free, unless its number is given away again.
    taken = np.r_[storage[first[1:]] == storage[first[:-1]], False]
    dead = np.where(made | taken, latest, view.end.max() + 1)
    maker = np.where(made, row[first], -1)
    return _Lives(born, np.maximum(dead, born + 1), size, maker, _kinds(view, maker, row, first))


def _makes(uses: Uses) -> Mask:
    """Mentions that give a storage out which the row did not take in."""
    key = uses.row * (int(uses.storage.max()) + 1) + uses.storage
    return np.asarray(uses.output & ~np.isin(key, key[~uses.output]))


def _begins(view: RankView, storage: I64, row: I64, makes: Mask) -> Mask:
    """Where a life begins: at a storage's first mention, and where an operator makes it anew.

    Numbers of storages are used again. An operator inside one that made the storage is the same making.
    """
    fresh = np.r_[True, storage[1:] != storage[:-1]]
    group = np.cumsum(fresh)
    width = int(view.end.max()) + 1
    reach = np.maximum.accumulate(np.where(makes, view.end[row], 0) + group * width)
    before = np.r_[0, reach[:-1]] - group * width
    return np.asarray(fresh | (makes & (view.start[row] >= before)))


def _kinds(view: RankView, maker: I64, row: I64, first: I64) -> list[str]:
    phase, names = view.texts("phase")
    told = [names[p] if p >= 0 else "" for p in phase.tolist()]
    optimizer = view.named(_OPTIMIZER.search)
    only_optimizer = np.minimum.reduceat(
        (optimizer[row] | np.array([told[r] == "optimizer" for r in row.tolist()])).astype(np.int8),
        first,
    ).astype(np.bool_)
    words = {"forward": "activation", "backward": "gradient", "optimizer": "optimizer temporary"}
    out = []
    for made_by, late in zip(maker.tolist(), only_optimizer.tolist(), strict=True):
        if made_by < 0:
            out.append("optimizer state" if late else "held before")
        else:
            out.append(words.get(told[made_by], "other"))
    return out


def _timeline(lives: _Lives) -> tuple[I64, I64]:
    """Moments of change and what is alive from each on; frees come before what begins at the same time."""
    at = np.concatenate([lives.start, lives.end])
    step = np.concatenate([lives.bytes, -lives.bytes])
    order = np.lexsort((step, at))
    return at[order], np.cumsum(step[order])


def _by_kind(lives: _Lives, there: I64) -> dict[str, int]:
    out: dict[str, int] = {}
    for i in there.tolist():
        out[lives.kind[i]] = out.get(lives.kind[i], 0) + int(lives.bytes[i])
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def _holders(view: RankView, lives: _Lives, there: I64) -> list[Holder]:
    sums: dict[tuple[str, str], list[int]] = {}
    for i in there.tolist():
        maker = int(lives.maker[i])
        key = (lives.kind[i], view.name(maker) if maker >= 0 else "(before the window)")
        total = sums.setdefault(key, [0, 0])
        total[0] += int(lives.bytes[i])
        total[1] += 1
    order = sorted(sums.items(), key=lambda item: -item[1][0])
    return [Holder(kind, name, size, count) for (kind, name), (size, count) in order[:20]]


def _thinned(at: I64, alive: I64) -> list[Moment]:
    """At most some hundred moments: of each stretch the highest."""
    if len(at) <= _POINTS:
        chosen = np.arange(len(at))
    else:
        edges = np.linspace(0, len(at), _POINTS + 1).astype(np.int64)
        chosen = np.array([a + int(np.argmax(alive[a:b])) for a, b in itertools.pairwise(edges)])
    return [Moment(int(at[i]), int(alive[i])) for i in chosen.tolist()]


def join_memory(parts: list[RankMemory | None]) -> Memory:
    """All ranks."""
    known = [p for p in parts if p is not None]
    if not known:
        return Memory(0, -1, "the trace names no tensors", [])
    top = max(known, key=lambda p: p.peak_bytes)
    return Memory(top.peak_bytes, top.rank, "tensors named by the nodes", known)


def memory(run: Run) -> Memory:
    """Memory over time by rank."""
    return join_memory([memory_of(view) for view in rank_views(run)])
