"""What several passes need of nodes: texts, class of work, which ones a user selects, and own times."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64, U64, Mask, Texts
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device import operations_of
from chakrakit.patterns import begins_with
from chakrakit.trace.communication import Binding, Body, bind
from chakrakit.trace.model import COMMUNICATION, EdgeKind, NodeType, Trace
from chakrakit.trace.placement import is_communication, on_host
from chakrakit.trace.sets import Run, TraceSet


def texts_of(trace: Trace, column: str) -> Texts:
    """Returns a text column, "" where a node has none; a launched kernel takes its launcher's text."""
    if column not in trace.table.column_names:
        return np.full(len(trace), "", object)
    values = trace.table.column(column).cast(pa.string()).fill_null("")
    texts: Texts = np.array(values.to_numpy(zero_copy_only=False), object)
    edges = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
    bare = texts[edges.dst] == ""
    texts[edges.dst[bare]] = texts[edges.src[bare]]
    return texts


def names_of(trace: Trace) -> Texts:
    """The name of each node."""
    names: Texts = np.array(trace.names.cast(pa.string()).to_numpy(zero_copy_only=False), object)
    return names


def modules_of(trace: Trace) -> Texts:
    """Returns the module path of each node: as recorded, or taken from the names that generators give."""
    modules = texts_of(trace, "module")
    generated = (modules == "") & (trace.has("op_type") | trace.has("layer"))
    names = names_of(trace)[generated]
    modules[generated] = [name.rpartition(".")[0] for name in names]
    return modules


def coded(texts: Texts) -> tuple[list[str], I64]:
    """Returns the distinct texts, and for each row the number of its text among them."""
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def where(texts: Texts, test: Callable[[str], object]) -> Mask:
    """Returns the rows whose text passes a test, which is called once per distinct text."""
    distinct, codes = coded(texts)
    return np.array([bool(test(text)) for text in distinct] or [False], np.bool_)[codes]


def where_named(trace: Trace, test: Callable[[str], object]) -> Mask:
    """Returns the rows whose name passes a test, which is called once per distinct name."""
    codes, names = trace.texts("name")
    return np.array([*(bool(test(name)) for name in names), False], np.bool_)[codes]


def begin_to_match(texts: Sequence[str], patterns: Sequence[str], field: str) -> list[bool]:
    """Returns which texts match one of the regular expressions from their beginning."""
    try:
        tests = [begins_with(pattern) for pattern in patterns]
    except ValueError as error:
        raise ConfigError(f"{field}: not a regular expression: {error}") from None
    matches = [test.each(texts) for test in tests]
    return [bool(text) and any(hits) for text, *hits in zip(texts, *matches, strict=True)]


# --- the class of work a node does: gemm, attention, elementwise, communication, host, … --------


_COPY = re.compile(r"^mem(cpy|set)\b", re.IGNORECASE)
_OP_TYPES = {"matmul": "gemm", "vector": "elementwise"}
"""Generators' words for kinds of work → the classes that profiles use."""
COMPUTE = "compute"
"""The word that selects all device compute, whatever its class."""
_NOT_COMPUTE = ("host", "communication", "copy", "none")


_CLASSES: WeakKeyDictionary[Trace, Texts] = WeakKeyDictionary()
"""Classes of traces in use: finding out what every kernel computes takes seconds for 100,000 nodes."""


def classes_of(trace: Trace) -> Texts:
    """Returns one class per node, which nobody may change; metadata nodes have the class `none`.

    A kernel whose work is unknown takes the class of others with its name, or else `other`.
    """
    if trace not in _CLASSES:
        _CLASSES[trace] = _classes_of(trace)
        _CLASSES[trace].flags.writeable = False
    return _CLASSES[trace]


def _classes_of(trace: Trace) -> Texts:
    classes: Texts = np.full(len(trace), "none", object)
    host = on_host(trace)
    compute = trace.is_type(NodeType.COMP_NODE)
    classes[compute] = np.where(host[compute], "host", "other")
    op_type = texts_of(trace, "op_type")
    typed = compute & ~host & (op_type != "")
    if (compute & ~host & ~typed).any():
        for work in operations_of(trace):
            classes[list(work.rows)] = work.operation.kind
    classes[typed] = [_OP_TYPES.get(name, name) for name in op_type[typed]]
    device = np.flatnonzero(compute & ~host)
    names = names_of(trace)[device]
    classes[device[where(names, _COPY.match)]] = "copy"
    classes[device] = same_name(names, classes[device], classes[device] != "other")
    classes[trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)] = "copy"
    classes[trace.is_type(*COMMUNICATION)] = "communication"
    return classes


def same_name(names: Texts, values: NDArray[Any], has_value: Mask) -> NDArray[Any]:
    """Fills missing values with that of the first node of the same name that has one."""
    if has_value.all():
        return values
    value_of_name = dict(zip(names[has_value][::-1], values[has_value][::-1], strict=True))
    filled = values.copy()
    for i in np.flatnonzero(~has_value).tolist():
        filled[i] = value_of_name.get(names[i], values[i])
    return filled


def is_compute(classes: Texts) -> Mask:
    """Returns the rows whose class is one of device compute."""
    return where(classes, lambda name: name not in _NOT_COMPUTE)


# --- which nodes a user selects -----------------------------------------------------------------


@dataclass(frozen=True)
class NodeSelection:
    """Selects nodes by all lists that are not empty.

    Names and modules are regular expressions, matched from the beginning.
    """

    names: Sequence[str] = ()
    classes: Sequence[str] = ()
    modules: Sequence[str] = ()
    phases: Sequence[str] = ()
    steps: Sequence[int] = ()
    nodes: Sequence[int] = ()

    def rows(self, trace: Trace) -> Mask:
        """Returns which rows of a trace are selected."""
        mask = np.ones(len(trace), np.bool_)
        if self.names:
            codes, names = trace.texts("name")
            mask &= np.array([*begin_to_match(names, self.names, "names"), False])[codes]
        if self.modules:
            modules, of_row = coded(modules_of(trace))
            mask &= np.array(begin_to_match(modules, self.modules, "modules"), np.bool_)[of_row]
        if self.classes:
            mask &= of_classes(trace, self.classes)
        if self.phases:
            mask &= where(texts_of(trace, "phase"), set(self.phases).__contains__)
        if self.steps:
            mask &= np.isin(trace.step, self.steps)
        if self.nodes:
            mask &= np.isin(trace.ids, np.array(self.nodes, np.uint64))
        return mask

    def refuse_absent(self, traces: TraceSet) -> None:
        """Raises a ConfigError, with the nearest words, for a word that selects no node of any rank."""
        words_of_field = {f.name: getattr(self, f.name) for f in fields(self)}
        missing = {(field, word) for field, words in words_of_field.items() for word in words}
        present_words: dict[str, set[object]] = {field: set() for field in words_of_field}
        for number in range(traces.body_count):
            body = traces.body_at(number)
            for field, word in sorted(missing, key=str):
                if NodeSelection(**{field: (word,)}).rows(body).any():
                    missing.discard((field, word))
            if not missing:
                return
            for field in {field for field, _ in missing}:
                present_words[field] |= _words(body, field)
        field, word = min(missing, key=str)
        raise ConfigError(
            f"{field}: no node has {word!r}; {nearest(word, sorted(present_words[field], key=str))}"
        )


def _words(trace: Trace, field: str) -> set[object]:
    """Returns the words that would select nodes; of ids, which are many, the lowest and the highest."""
    if field == "steps":
        return set(trace.step[trace.step >= 0].tolist())
    if field == "nodes":
        return {int(trace.ids.min()), int(trace.ids.max())} if len(trace) else set()
    readers = {"names": names_of, "modules": modules_of, "classes": classes_of}
    texts = readers[field](trace) if field in readers else texts_of(trace, "phase")
    return {text for text in coded(texts)[0] if text}


def of_classes(trace: Trace, classes: Sequence[str]) -> Mask:
    """Returns the rows of these classes; `compute` stands for every class of device compute."""
    class_of_row, class_names = classes_of(trace), set(classes)
    return where(class_of_row, class_names.__contains__) | (
        is_compute(class_of_row) & (COMPUTE in class_names)
    )


# --- times in nodes -----------------------------------------------------------------------------


def with_own_ns(trace: Trace, own_ns: I64) -> Trace:
    """Returns the trace with these own times of its nodes.

    A recorded host row keeps its duration, which includes what ran inside it, and timed communication keeps
    the duration that includes waiting for peers; their own time is a separate attribute. Every other row's
    duration is set to its own time.
    """
    changed = own_ns != trace.own_ns
    if not changed.any():
        return trace
    own_ns = np.maximum(own_ns, 0)
    waits = on_host(trace) | is_communication(trace)
    beside = trace.has("own_ns") | (waits & trace.is_timed)
    duration = np.where(changed & ~beside, own_ns, trace.duration_ns)
    micros = _micros(trace, own_ns, changed)
    exact = trace.has("duration_ns") | (duration != micros.astype(np.int64) * 1000)
    columns: dict[str, object] = {
        "duration_micros": micros,
        "duration_ns": pa.array(duration, mask=~exact) if exact.any() else None,
    }
    if beside.any():
        has_own_ns = np.where(changed, beside & (own_ns != duration), trace.has("own_ns"))
        columns["own_ns"] = pa.array(own_ns, mask=~has_own_ns) if has_own_ns.any() else None
    return trace.with_columns(columns)


def _micros(trace: Trace, own_ns: I64, changed: Mask) -> U64:
    """Returns durations in whole microseconds, rounded in the way in which the trace was rounded."""
    recorded = trace.column("duration_micros")
    if (recorded == _spread(trace.own_ns)).all():
        return _spread(own_ns)
    micros: U64 = np.where(changed, (own_ns // 1000).astype(np.uint64), recorded)
    return micros


def _spread(nanos: I64) -> U64:
    """Rounds down to microseconds; what one row loses, a later one gets, as in linked traces."""
    return np.diff(np.cumsum(nanos) // 1000, prepend=0).astype(np.uint64)


def with_run_times(traces: TraceSet) -> TraceSet:
    """Returns the same ranks with a run's times, multiplied by each rank's scale, written into the nodes.

    Ranks still share a body where they shared one with the same times and scale.
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


_HOST_EDGES = [int(k) for k in (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)]


def without_gaps(trace: Trace, rows: Mask) -> Trace:
    """The trace without the time that the host lets pass inside and before these of its rows."""
    edges = trace.edges
    holder = np.where(trace.parent >= 0, trace.parent, np.arange(len(trace)))
    inside = rows[edges.dst] | rows[holder[edges.dst]]
    lag = np.where(inside & np.isin(edges.kind, _HOST_EDGES) & (edges.lag > 0), 0, edges.lag)
    return trace.with_edges(replace(edges, lag=lag))
