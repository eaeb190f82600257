"""What several passes ask of nodes: own times, phase, module, class of work, and which nodes are meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64, U64, Mask, Texts
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device import operations_of
from chakrakit.trace.communication import Binding, Body, bind
from chakrakit.trace.model import COMMUNICATION, EdgeKind, NodeType, Trace
from chakrakit.trace.placement import is_communication, on_host
from chakrakit.trace.sets import Run, TraceSet


def texts_of(trace: Trace, column: str) -> Texts:
    """A text column, "" where a node has none; what was launched belongs where its launcher does."""
    if column not in trace.table.column_names:
        return np.full(len(trace), "", object)
    values = trace.table.column(column).cast(pa.string()).fill_null("")
    found: Texts = np.array(values.to_numpy(zero_copy_only=False), object)
    edges = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
    bare = found[edges.dst] == ""
    found[edges.dst[bare]] = found[edges.src[bare]]
    return found


def names_of(trace: Trace) -> Texts:
    """The name of each node."""
    found: Texts = np.array(trace.names.cast(pa.string()).to_numpy(zero_copy_only=False), object)
    return found


def modules_of(trace: Trace) -> Texts:
    """The module path of each node: as recorded, else what generated names begin with."""
    found = texts_of(trace, "module")
    generated = (found == "") & (trace.has("op_type") | trace.has("layer"))
    names = names_of(trace)[generated]
    found[generated] = [name.rpartition(".")[0] for name in names]
    return found


def coded(texts: Texts) -> tuple[list[str], I64]:
    """The distinct texts, and the number of each row's."""
    found = pa.array(texts, pa.string()).dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy().astype(np.int64)


def where(texts: Texts, test: Callable[[str], object]) -> Mask:
    """Rows whose text passes a test, which is asked once for each distinct one."""
    known, codes = coded(texts)
    return np.array([bool(test(text)) for text in known] or [False], np.bool_)[codes]


def begins_to_match(texts: Texts, patterns: Sequence[str], what: str) -> Mask:
    """Rows whose text begins to match one of the patterns."""
    try:
        tests = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise ConfigError(f"{what}: not a regular expression: {error}") from None
    return where(texts, lambda text: text and any(test.match(text) for test in tests))


# The class of work a node does: gemm, attention, elementwise, communication, host, ….


_COPY = re.compile(r"^mem(cpy|set)\b", re.IGNORECASE)
_OP_TYPES = {"matmul": "gemm", "vector": "elementwise"}
"""What generators call the classes that profiles are made in."""
COMPUTE = "compute"
"""All device compute, whatever its class."""
_NOT_COMPUTE = ("host", "communication", "copy", "none")


def classes_of(trace: Trace) -> Texts:
    """One class per node; metadata is `none`.

    A kernel of which nothing is known has the class of others of its name, or is `other`.
    """
    found: Texts = np.full(len(trace), "none", object)
    host = on_host(trace)
    compute = trace.is_type(NodeType.COMP_NODE)
    found[compute] = np.where(host[compute], "host", "other")
    op_type = texts_of(trace, "op_type")
    told = compute & ~host & (op_type != "")
    if (compute & ~host & ~told).any():
        for work in operations_of(trace):
            found[list(work.rows)] = work.operation.kind
    found[told] = [_OP_TYPES.get(name, name) for name in op_type[told]]
    device = np.flatnonzero(compute & ~host)
    names = names_of(trace)[device]
    found[device[where(names, _COPY.match)]] = "copy"
    found[device] = same_name(names, found[device], found[device] != "other")
    found[trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)] = "copy"
    found[trace.is_type(*COMMUNICATION)] = "communication"
    return found


def same_name(names: Texts, values: NDArray[Any], known: Mask) -> NDArray[Any]:
    """Values, where one is not known that of the first node of the same name of which it is."""
    if known.all():
        return values
    have = dict(zip(names[known][::-1], values[known][::-1], strict=True))
    out = values.copy()
    for i in np.flatnonzero(~known).tolist():
        out[i] = have.get(names[i], values[i])
    return out


def is_compute(classes: Texts) -> Mask:
    """Rows of any class of device compute."""
    return where(classes, lambda name: name not in _NOT_COMPUTE)


# Which nodes are meant: by name, class, module, phase, step or id. What is not given means all.


@dataclass(frozen=True)
class Selection:
    """Nodes that every given list means. Names and modules are expressions that a text begins to match."""

    names: Sequence[str] = ()
    classes: Sequence[str] = ()
    modules: Sequence[str] = ()
    phases: Sequence[str] = ()
    steps: Sequence[int] = ()
    nodes: Sequence[int] = ()

    def rows(self, trace: Trace) -> Mask:
        """Which rows of a trace are meant."""
        found = np.ones(len(trace), np.bool_)
        if self.names:
            found &= begins_to_match(names_of(trace), self.names, "names")
        if self.modules:
            found &= begins_to_match(modules_of(trace), self.modules, "modules")
        if self.classes:
            found &= of_classes(trace, self.classes)
        if self.phases:
            found &= where(texts_of(trace, "phase"), set(self.phases).__contains__)
        if self.steps:
            found &= np.isin(trace.step, self.steps)
        if self.nodes:
            found &= np.isin(trace.ids, np.array(self.nodes, np.uint64))
        return found

    def refuse_absent(self, traces: TraceSet) -> None:
        """A ConfigError for a word that means no node of any rank, with the nearest that do."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        missing = {(field, word) for field, words in given.items() for word in words}
        seen: dict[str, set[object]] = {field: set() for field in given}
        for number in range(traces.body_count):
            body = traces.body_at(number)
            for field, word in sorted(missing, key=str):
                if Selection(**{field: (word,)}).rows(body).any():
                    missing.discard((field, word))
            if not missing:
                return
            for field in {field for field, _ in missing}:
                seen[field] |= _words(body, field)
        field, word = min(missing, key=str)
        raise ConfigError(
            f"{field}: {word!r} is no node's; {nearest(word, sorted(seen[field], key=str))}"
        )


def _words(trace: Trace, field: str) -> set[object]:
    """What nodes could have been chosen by; ids are too many to list."""
    if field == "steps":
        return set(trace.step[trace.step >= 0].tolist())
    if field == "nodes":
        return {int(trace.ids.min()), int(trace.ids.max())} if len(trace) else set()
    texts = {"names": names_of, "modules": modules_of, "classes": classes_of}
    found = texts[field](trace) if field in texts else texts_of(trace, "phase")
    return {text for text in coded(found)[0] if text}


def of_classes(trace: Trace, classes: Sequence[str]) -> Mask:
    """Rows of some classes; `compute` is every class of device compute."""
    have, wanted = classes_of(trace), set(classes)
    return where(have, wanted.__contains__) | (is_compute(have) & (COMPUTE in wanted))


# Times in nodes: what a pass reads and writes when it changes how long work takes.


def with_own_ns(trace: Trace, own: I64) -> Trace:
    """The trace with these times of its nodes' own work.

    A host row of a recording keeps its duration, which holds what ran inside it, and communication
    that was timed the one that holds waiting for peers; their own time is an attribute beside it.
    Every other row's duration is its own time.
    """
    changed = own != trace.own_ns
    if not changed.any():
        return trace
    own = np.maximum(own, 0)
    waits = on_host(trace) | is_communication(trace)
    beside = trace.has("own_ns") | (waits & trace.is_timed)
    duration = np.where(changed & ~beside, own, trace.duration_ns)
    micros = _micros(trace, own, changed)
    exact = trace.has("duration_ns") | (duration != micros.astype(np.int64) * 1000)
    columns: dict[str, object] = {
        "duration_micros": micros,
        "duration_ns": pa.array(duration, mask=~exact) if exact.any() else None,
    }
    if beside.any():
        said = np.where(changed, beside & (own != duration), trace.has("own_ns"))
        columns["own_ns"] = pa.array(own, mask=~said) if said.any() else None
    return trace.with_columns(columns)


def _micros(trace: Trace, own: I64, changed: Mask) -> U64:
    """For tools that know whole microseconds only, as the trace had them."""
    now = trace.column("duration_micros")
    if (now == _spread(trace.own_ns)).all():
        return _spread(own)
    found: U64 = np.where(changed, (own // 1000).astype(np.uint64), now)
    return found


def _spread(nanos: I64) -> U64:
    """As linked traces have them: what is cut off one row is given to a later one."""
    return np.diff(np.cumsum(nanos) // 1000, prepend=0).astype(np.uint64)


def with_run_times(traces: TraceSet) -> TraceSet:
    """The same ranks, every time in the nodes: a run's own times, and what a rank's scale makes of them.

    Ranks share a body where they shared one with the same times and scale.
    """
    timing = traces.timing if isinstance(traces, Run) and traces.times is not None else {}
    if not timing and all(b.scale == 1.0 for b in traces.bindings.values()):
        return traces
    numbers: dict[tuple[int, float, int], int] = {}
    bodies: list[Body] = []
    bindings = {}
    for rank, binding in traces.bindings.items():
        key = (binding.body, binding.scale, timing.get(rank, -1))
        if key not in numbers:
            numbers[key] = len(bodies)
            bodies.append(partial(_timed_body, traces, rank))
        bindings[rank] = replace(binding, body=numbers[key], scale=1.0)
    return TraceSet(bodies, bindings, traces.groups, traces.card.replace(kind="traces"))


def _timed_body(traces: TraceSet, rank: int) -> Trace:
    if isinstance(traces, Run) and traces.times is not None:
        return traces.timed_body(rank)
    return bind(traces.body(rank), Binding(0, scale=traces.bindings[rank].scale))
