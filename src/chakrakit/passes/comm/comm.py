"""Comm: the pass that changes communication in the same way on all ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.machines.device import Quantity, parse, positive
from chakrakit.passes.base import Pass, with_bodies, with_run_times
from chakrakit.passes.comm.buckets import bucket, fuse, split
from chakrakit.passes.comm.compress import MessageCodec, compress
from chakrakit.passes.comm.job import CallFilter, CommJob
from chakrakit.passes.comm.meeting import check_runs
from chakrakit.passes.comm.overlap import offload, serialize, shift
from chakrakit.passes.comm.rewrite import is_comm
from chakrakit.passes.comm.swap import (
    join_all_reduce,
    set_algorithm,
    set_link_rank,
    split_all_reduce,
)
from chakrakit.trace.communication import UNKNOWN
from chakrakit.trace.model import NodeType, collective_words, node_type_name
from chakrakit.trace.sets import Run, TraceSet

# --- the report: calls and bytes by type, over all ranks ----------------------------------------


def report(before: TraceSet, after: TraceSet) -> dict[str, Any]:
    """Compares calls and bytes before and after, one row per type of communication."""
    old, new = _counted(before), _counted(after)
    rows = [
        {
            "type": kind,
            "calls before": old[0][kind],
            "calls after": new[0][kind],
            "bytes before": old[1][kind],
            "bytes after": new[1][kind],
        }
        for kind in sorted(old[0].keys() | new[0].keys())
    ]
    return {"communication": rows}


def _counted(traces: TraceSet) -> tuple[Counter[str], Counter[str]]:
    """Counts calls and bytes of all ranks by type."""
    calls, moved = Counter[str](), Counter[str]()
    for number, ranks in Counter(b.body for b in traces.bindings.values()).items():
        body = traces.body_at(number)
        rows = np.flatnonzero(is_comm(body))
        kinds = np.where(
            body.types[rows] == NodeType.COMM_COLL_NODE, body.column("comm_type", -1)[rows], -1
        )
        keys = np.stack([body.types[rows], kinds])
        for key in np.unique(keys, axis=1).T.tolist():
            mine = rows[(keys == np.array(key)[:, None]).all(axis=0)]
            name = _name(*key)
            calls[name] += ranks * len(mine)
            moved[name] += ranks * int(body.column("comm_size", 0)[mine].sum())
    return calls, moved


def _name(node_type: int, kind: int) -> str:
    if kind >= 0:
        return collective_words(kind)
    return node_type_name(node_type).removesuffix("_NODE").lower().replace("_", "-")


@dataclass(frozen=True)
class Comm(Pass):
    """Change communication: types, buckets, message sizes, compression, overlap, streams.

    `action` says what; `groups` (names in bodies or of groups), `types` (all-reduce, …, message),
    `phases` and `min_size` which calls, all if they are empty. Calls that meet are changed alike on
    all ranks. docs/comm.md says what each action does and preserves.
    """

    name = "comm"
    preserves = (
        "ranks, groups and folding; calls that match across ranks; compute and what it costs; the "
        "bytes of all calls of a group (compress divides them, split-all-reduce and join-all-reduce "
        "keep those of the data); what can be reached along data; freedom from deadlock"
    )
    action: Literal[
        "algorithm",
        "prioritize",
        "split-all-reduce",
        "join-all-reduce",
        "bucket",
        "fuse",
        "split",
        "compress",
        "prefetch",
        "delay",
        "serialize",
        "offload",
    ]
    groups: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    min_size: Quantity = 0
    algorithm: str | None = None
    size: Quantity | None = None
    parts: int | None = None
    ratio: float | None = None
    throughput: Quantity | None = None
    decode_throughput: Quantity | None = None
    stream: int | None = None
    calls: int | None = None
    priority: int | None = None
    weight: int | None = None

    def __post_init__(self) -> None:
        needs, takes, _ = _ACTIONS[self.action]
        for option in sorted(_OPTIONS - {*needs, *takes}):
            if getattr(self, option) is not None:
                raise ConfigError(
                    f"comm: {self.action} has no {option}; it takes {_listed(needs, takes)}"
                )
        for option in needs:
            if getattr(self, option) is None:
                raise ConfigError(f"comm: {self.action} needs {option}")
        if self.action == "split" and (self.size is None) == (self.parts is None):
            raise ConfigError("comm: split needs size or parts, and not both")
        if self.action == "prioritize" and self.priority is None and self.weight is None:
            raise ConfigError("comm: prioritize needs priority or weight")
        _check_positive(self)
        self._choice()

    def _choice(self) -> CallFilter:
        least = parse(self.min_size, "bytes", "comm: min_size") or UNKNOWN
        return CallFilter(self.groups, self.types, self.phases, least)

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the changed traces, which must be simulated again."""
        if isinstance(traces, Run) and traces.times is not None:
            traces = with_run_times(traces)
        job = CommJob(traces, self._choice())
        _ACTIONS[self.action][2](self, job)
        after = job.result()
        if self.action in _MAY_DEADLOCK:
            check_runs(traces, after, f"comm: {self.action}")
            return with_bodies(traces, [after.body_at(i) for i in range(after.body_count)])
        return after

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """Calls and bytes by type, over all ranks, before and after."""
        return report(before, after)

    def bytes_of_size(self) -> float:
        """The option `size` in bytes."""
        return positive(self.size or 0, "bytes", "comm: size")

    def codec(self) -> MessageCodec:
        """The options of a compression."""
        encode = positive(self.throughput or 0, "bandwidth", "comm: throughput")
        both = self.throughput if self.decode_throughput is None else self.decode_throughput
        decode = positive(both or 0, "bandwidth", "comm: decode_throughput")
        return MessageCodec(self.ratio or 1, encode, decode, self.stream)


_Run = Callable[[Comm, CommJob], None]
_ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...], _Run]] = {
    "algorithm": (("algorithm",), (), lambda o, job: set_algorithm(job, o.algorithm or "auto")),
    "prioritize": (
        (),
        ("priority", "weight"),
        lambda o, job: set_link_rank(job, o.priority, o.weight),
    ),
    "split-all-reduce": ((), (), lambda _, job: split_all_reduce(job)),
    "join-all-reduce": ((), (), lambda _, job: join_all_reduce(job)),
    "bucket": (("size",), (), lambda o, job: bucket(job, o.bytes_of_size())),
    "fuse": (("size",), (), lambda o, job: fuse(job, o.bytes_of_size())),
    "split": ((), ("size", "parts"), lambda o, job: split(job, *_pieces(o))),
    "compress": (
        ("ratio", "throughput"),
        ("decode_throughput", "stream"),
        lambda o, job: compress(job, o.codec()),
    ),
    "prefetch": ((), ("calls",), lambda o, job: shift(job, o.calls or 1)),
    "delay": ((), ("calls",), lambda o, job: shift(job, -(o.calls or 1))),
    "serialize": ((), (), lambda _, job: serialize(job)),
    "offload": (("stream",), (), lambda o, job: offload(job, o.stream or 0)),
}
"""Action → the options it needs, the options it may have, and the function that does it."""
_OPTIONS = {
    "algorithm",
    "size",
    "parts",
    "ratio",
    "throughput",
    "decode_throughput",
    "stream",
    "calls",
    "priority",
    "weight",
}
_MAY_DEADLOCK = ("compress", "prefetch", "delay", "serialize", "offload")


def _pieces(options: Comm) -> tuple[float, int]:
    return (0.0, options.parts) if options.parts else (options.bytes_of_size(), 0)


def _listed(needs: tuple[str, ...], takes: tuple[str, ...]) -> str:
    return ", ".join([*needs, *takes, "groups, types, phases, min_size"])


def _check_positive(options: Comm) -> None:
    if options.size is not None:
        options.bytes_of_size()
    if options.action == "compress":
        options.codec()
    if options.ratio is not None and not 1 <= options.ratio < float("inf"):
        raise ConfigError(f"comm: a ratio of {options.ratio}; it should be 1 or more")
    for name in ("parts", "calls"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise ConfigError(f"comm: {name} is {value}; it should be 1 or more")
    if options.weight is not None and not 1 <= options.weight <= 65_535:
        raise ConfigError(f"comm: weight is {options.weight}; it should be from 1 to 65,535")
    if options.priority is not None and not -(2**31) <= options.priority < 2**31:
        raise ConfigError(f"comm: priority is {options.priority}; give a number of 32 bits")
    if options.stream is not None and not 0 <= options.stream < 2**31:
        raise ConfigError(f"comm: stream {options.stream}; streams are numbers from 0")
