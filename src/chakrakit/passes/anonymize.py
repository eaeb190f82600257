"""Anonymize: rebuilds traces from what may be shared, with pseudonyms for names, and reports what is left."""

from __future__ import annotations

import dataclasses
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.passes.anonymize_policy import STARTS, ColumnPolicy
from chakrakit.passes.base import PASSES, Pass, map_bodies, with_run_times
from chakrakit.passes.launched import launch_facts
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.memory import StatePart, model_state, with_model_state
from chakrakit.trace.model import Metadata, Trace, edge_columns_that_mean_something
from chakrakit.trace.sets import CAPTURED, Card, Run, TraceSet

# --- pseudonyms ---------------------------------------------------------------------------------

_GROUP_NUMBERS = 10**9
"""New group names are below this: ASTRA-sim reads group names as signed 32-bit numbers (up to 2.1 × 10⁹)."""


class Pseudonyms:
    """Replaces texts by pseudonyms: the same text under the same key always gets the same digits.

    Pseudonyms are digits alone, since letters could spell the word that was to be hidden.
    """

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key).digest()
        self.of = cache(self._of)

    def _of(self, text: str) -> str:
        """Returns the pseudonym of a text; an empty text stays empty."""
        return f"{self._number(text):020d}" if text else ""

    def path(self, text: str) -> str:
        """Returns a dotted path with each part replaced, so that modules keep their nesting."""
        return ".".join(self.of(part) for part in text.split("."))

    def groups(self, names: Iterable[str]) -> dict[str, str]:
        """Maps each group name to a new one, all different. Plain numbers, and "" for all ranks, stay."""
        names = set(names)
        new_names = {n: n for n in names if not n or (n.isascii() and n.isdecimal())}
        used_numbers = {*new_names.values(), "0"}  # "0" means all ranks where nobody defines it
        for name in sorted(names - new_names.keys(), key=self._number):
            number = self._number(name) % _GROUP_NUMBERS
            while str(number) in used_numbers:
                number = (number + 1) % _GROUP_NUMBERS
            new_names[name] = str(number)
            used_numbers.add(str(number))
        return new_names

    def _number(self, text: str) -> int:
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, "big")


def renamed(values: pa.ChunkedArray, name_of: Callable[[str], str]) -> pa.Array:
    """Returns a text column with each distinct text renamed; the old texts appear nowhere in the result."""
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # an empty column stays chunked
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    new = [None if t is None else name_of(t) for t in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(new, pa.string()))


# --- the report ---------------------------------------------------------------------------------

_RAW = "(attributes and fields kept as bytes)"
_LEFT = (
    "how many nodes of which type depend on which, what they compute and move, when and for how long",
    "how many ranks and groups there are and who is in which",
)
"""What remains visible under every policy, in words."""


def report(policy: ColumnPolicy, before: TraceSet, after: TraceSet) -> dict[str, Any]:
    """Returns `columns` (what happened to each), `words` (texts that stayed), `left` (what always stays)."""
    values_before, values_after, words = Counter[str](), Counter[str](), set[str]()
    for number in range(before.body_count):
        values_before.update(dict(_present(before.body_at(number))))
    for number in range(after.body_count):
        values_after.update(dict(_present(after.body_at(number))))
        words |= set(_texts(policy, after.body_at(number)))
    columns = [
        {
            "column": c,
            "treatment": "dropped" if c == _RAW else policy.treatment(c),
            "values before": n,
            "values left": values_after[c],
        }
        for c, n in sorted(values_before.items())
        if n
    ]
    return {"columns": columns, "words": sorted(words), "left": list(_LEFT)}


def _present(trace: Trace) -> Iterator[tuple[str, int]]:
    """Yields each column with the number of nodes that have a value in it."""
    raw = 0
    for column in trace.table.column_names:
        values = trace.table.column(column)
        count = len(values) - values.null_count
        if column.startswith("_"):
            raw += count if column != "_layout" else 0
        else:
            yield column, count
    yield _RAW, raw


def _texts(policy: ColumnPolicy, trace: Trace) -> Iterator[str]:
    """Yields every distinct text of a body that was not renamed."""
    for column in trace.table.column_names:
        kind = trace.table.schema.field(column).type
        text = pa.types.is_string(kind) or pa.types.is_dictionary(kind)
        if not text or policy.treatment(column) == "renamed":
            continue
        for value in pc.unique(trace.table.column(column)).to_pylist():
            if value is not None and (
                policy.treatment(column) == "kept" or policy.is_word(column, value)
            ):
                yield value


@dataclass(frozen=True)
class Anonymize(Pass):
    """Replace names by keyed pseudonyms and drop all that a simulation does not need.

    Operators, kernels, modules and groups get pseudonyms, the same for the same name under the same
    `key`; without a key one is drawn and forgotten. Arguments, shapes, schemas, files, unknown
    attributes, the header, where it came from and when are dropped. What is left is in the report
    (`explain`). `keep` and `drop` name attributes that are to be treated otherwise. `times` keeps
    starts and durations (`exact`; the first start becomes 1 µs), durations alone, or none.
    """

    name = "anonymize"
    preserves = (
        "the graph with its kinds of edges; types, sizes, ranks and groups of communication; work, "
        "streams and threads; durations unless times=none; so the simulated time of measured and "
        "roofline work on every machine"
    )
    key: str = field(default="", repr=False)
    times: Literal["exact", "durations", "none"] = "exact"
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ColumnPolicy.of(self.times, self.keep, self.drop)

    def __str__(self) -> str:
        """Spells the pass without its key, because the card travels with the traces."""
        return super(Anonymize, dataclasses.replace(self, key="")).__str__()

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the anonymized traces; a run stays a run if its exact times are kept.

        Counters are dropped.
        """
        policy = ColumnPolicy.of(self.times, self.keep, self.drop)
        if self.times != "exact" and isinstance(traces, Run) and traces.times is not None:
            traces = with_run_times(traces)
        names = Pseudonyms(self.key.encode() or secrets.token_bytes(32))
        groups = {} if "pg_name" in policy.keep else names.groups(_group_names(traces))
        worker = _Worker(
            policy,
            names,
            groups,
            secret=_own_names(traces),
            base=_clock_base(traces, policy),
            captured=traces.card.tool == CAPTURED,
        )
        changed = map_bodies(traces, worker.anonymized)
        bindings = {rank: _bound(b, groups) for rank, b in traces.bindings.items()}
        members = Groups({groups.get(n, n): ranks for n, ranks in traces.groups.items()})
        card = _card(traces.card, isinstance(traces, Run) and self.times == "exact")
        if card.kind == "run" and isinstance(traces, Run):
            return Run(
                changed.bodies, bindings, members, card, times=traces.times, timing=traces.timing
            )
        return TraceSet(changed.bodies, bindings, members, card)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """Says what is left, column by column, and lists every word that is not a pseudonym."""
        return report(ColumnPolicy.of(self.times, self.keep, self.drop), before, after)


def _group_names(traces: TraceSet) -> set[str]:
    bound = {n for b in traces.bindings.values() for pair in b.groups.items() for n in pair}
    return bound | set(traces.groups)


def _own_names(traces: TraceSet) -> frozenset[str]:
    """Collects the names of operators, kernels and modules; none may stay, not even as a common word."""
    texts_to_hide: set[str] = set()
    for number in range(traces.body_count):
        trace = traces.body_at(number)
        for column in {"name", "module"} & set(trace.table.column_names):
            texts = pc.unique(trace.table.column(column)).to_pylist()
            parts = (t.split(".") for t in texts if t and column == "module")
            texts_to_hide.update((t for t in texts if t), *parts)
    return frozenset(texts_to_hide)


def _bound(binding: Binding, groups: dict[str, str]) -> Binding:
    renamed_groups = {
        groups.get(role, role): groups.get(n, n) for role, n in binding.groups.items()
    }
    return dataclasses.replace(binding, groups=renamed_groups)


def _clock_base(traces: TraceSet, policy: ColumnPolicy) -> int:
    """Returns the nanoseconds to subtract from every start, which hides when the recording was made.

    It is a whole number of microseconds and one less than the first start, so that the first start becomes
    1 µs and still differs from 0, which means that a node has no start.
    """
    if not any(policy.treatment(c) == "kept" for c in STARTS):
        return 0
    starts = [traces.body_at(i).start_ns for i in range(traces.body_count)]
    first = min((int(s[s > 0].min()) for s in starts if (s > 0).any()), default=0)
    return max(0, first // 1000 - 1) * 1000


def _card(card: Card, is_run: bool) -> Card:
    """Returns a card with only what is needed to read the numbers, and the names of earlier passes."""
    bare = [name for p in card.passes if (name := p.partition("{")[0]) in PASSES]
    settings = {"undilate": True} if card.settings.get("undilate") else {}
    return Card(
        kind="run" if is_run else "traces",
        # A captured program is launched by a host in simulations, also without its names.
        tool=CAPTURED if card.tool == CAPTURED else "chakra transform",
        settings=settings,
        passes=bare,
        tick_ps=card.tick_ps,
        partial=card.partial,
    )


@dataclass(frozen=True)
class _Worker:
    """Anonymizes one body after another with the same pseudonyms."""

    policy: ColumnPolicy
    names: Pseudonyms
    groups: dict[str, str]
    secret: frozenset[str]
    base: int
    captured: bool

    def anonymized(self, trace: Trace) -> Trace:
        """A body rebuilt from what may stay, so that nothing else can come along."""
        trace = trace.with_nesting()  # the times that nesting follows from may be dropped
        data: dict[str, Any] = {}
        for column in trace.table.column_names:
            treatment = self.policy.treatment(column)
            if column.startswith("_") or treatment == "dropped":
                continue
            values = trace.table.column(column)
            data[column] = values if treatment == "kept" else self._renamed(column, values)
        for column in {"edge_kinds", "edge_lags_ns"} & data.keys():
            # Entries that fit no dependency could say anything.
            means = pa.array(edge_columns_that_mean_something(trace.table, column))
            data[column] = pc.if_else(means, data[column], None)
        data |= self._starts(trace, data) | self._launches(trace)
        rebuilt = self._with_state(trace, Trace.from_columns(data, None, _header(trace.metadata)))
        if "parent" in data:  # ids that no node has could say anything
            rebuilt = rebuilt.with_parent(trace.parent)
        return rebuilt if self.policy.times == "exact" else _in_issue_order(trace, rebuilt)

    def _launches(self, trace: Trace) -> dict[str, Any]:
        """What the host of a captured program needs to know of the rows that it launches."""
        columns = launch_facts(trace) if self.captured else {}
        return {n: v for n, v in columns.items() if v.any() and self.policy.treatment(n) == "kept"}

    def _with_state(self, trace: Trace, rebuilt: Trace) -> Trace:
        """Adds the model's state as one sum of bytes, if the bytes that nodes hold may stay."""
        state_bytes = sum(part.bytes for part in model_state(trace))
        if not state_bytes or self.policy.treatment("mem_alloc") != "kept":
            return rebuilt
        return with_model_state(rebuilt, [StatePart("other", state_bytes)])

    def _renamed(self, column: str, values: pa.ChunkedArray) -> pa.Array:
        if column == "pg_name":
            return renamed(values, self._group)
        if column == "module":
            return renamed(values, self.names.path)
        if column == "name":
            return renamed(values, self.names.of)
        return renamed(values, lambda t: t if self._may_stay(column, t) else self.names.of(t))

    def _group(self, name: str) -> str:
        return self.groups.get(name) or self.names.groups([name])[name]

    def _may_stay(self, column: str, text: str) -> bool:
        """Whether a text may stay: a word of the vocabulary that is not also a name here.

        Element types always may, since the roofline needs them.
        """
        secret = text in self.secret and not column.endswith("dtype")
        return self.policy.is_word(column, text) and not secret

    def _starts(self, trace: Trace, data: dict[str, Any]) -> dict[str, Any]:
        """Returns start columns relative to the set's first start; a node without a start still has none."""
        columns: dict[str, Any] = {}
        if "start_time_micros" in data:
            micros = trace.column("start_time_micros")
            columns["start_time_micros"] = np.where(
                micros > 0, micros - np.uint64(self.base // 1000), micros
            )
        if "start_time_ns" in data:
            nanos = trace.column("start_time_ns", 0)
            moved = np.where(nanos > 0, nanos - self.base, nanos)
            columns["start_time_ns"] = pa.array(moved, mask=~trace.has("start_time_ns"))
        return columns


def _header(metadata: Metadata) -> Metadata:
    """Returns metadata that keeps the version only if it is made of numbers."""
    plain = all(p.isascii() and p.isdecimal() for p in metadata.version.split("."))
    return Metadata.of(metadata.version if plain else "")


def _in_issue_order(before: Trace, after: Trace) -> Trace:
    """Numbers nodes in the order of their dropped starts, which is the order in which work was issued."""
    number = np.empty(len(before), np.uint64)
    number[np.lexsort((before.ids, before.start_ns))] = np.arange(len(before), dtype=np.uint64)
    edges = before.edges
    if "edge_lags_ns" not in after.table.column_names:
        edges = dataclasses.replace(edges, lag=np.zeros(len(edges), np.int64))
    moved = after.with_columns({"id": number}).with_edges(edges)
    return moved.with_parent(after.parent) if after.has("parent").any() else moved
