"""Anonymize: what may be shared of a trace, and nothing else."""

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

from chakrakit.passes.anonymize_policy import STARTS, Policy
from chakrakit.passes.base import PASSES, Pass, map_bodies, with_run_times
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.memory import StatePart, model_state, with_model_state
from chakrakit.trace.model import Metadata, Trace, edge_columns_that_mean_something
from chakrakit.trace.sets import Card, Run, TraceSet

# Pseudonyms: the same text gives the same digits under the same key, and nothing back without it.
#
# They are digits alone, since letters can spell a word that was to be hidden.


_GROUP_NUMBERS = 10**9
"""ASTRA-sim reads group names as 32-bit numbers."""


class Pseudonyms:
    """Names under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key).digest()
        self.of = cache(self._of)

    def _of(self, text: str) -> str:
        """The pseudonym of a text; an empty one says nothing and stays."""
        return f"{self._number(text):020d}" if text else ""

    def path(self, text: str) -> str:
        """A dotted path part by part, so that what was inside something still is."""
        return ".".join(self.of(part) for part in text.split("."))

    def groups(self, names: Iterable[str]) -> dict[str, str]:
        """Old name → new one, all different. Plain numbers, and "" for all ranks, stay."""
        names = set(names)
        found = {n: n for n in names if not n or (n.isascii() and n.isdecimal())}
        taken = {*found.values(), "0"}  # "0" means all ranks where nobody defines it
        for name in sorted(names - found.keys(), key=self._number):
            number = self._number(name) % _GROUP_NUMBERS
            while str(number) in taken:
                number = (number + 1) % _GROUP_NUMBERS
            found[name] = str(number)
            taken.add(str(number))
        return found

    def _number(self, text: str) -> int:
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, "big")


def renamed(values: pa.ChunkedArray, name_of: Callable[[str], str]) -> pa.Array:
    """A text column with each distinct text renamed once; the old texts are nowhere in the result."""
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # an empty column stays chunked
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    new = [None if t is None else name_of(t) for t in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(new, pa.string()))


# What an anonymized set still says: column by column, and every text that is no pseudonym.


_RAW = "(attributes and fields kept as bytes)"
_LEFT = (
    "how many nodes of which type depend on which, what they compute and move, when and for how long",
    "how many ranks and groups there are and who is in which",
)
"""What no policy takes away, in words."""


def report(policy: Policy, before: TraceSet, after: TraceSet) -> dict[str, Any]:
    """`columns`: what happened to each; `words`: the texts left as they were; `left`: the rest."""
    values, left, words = Counter[str](), Counter[str](), set[str]()
    for number in range(before.body_count):
        values.update(dict(_present(before.body_at(number))))
    for number in range(after.body_count):
        left.update(dict(_present(after.body_at(number))))
        words |= set(_texts(policy, after.body_at(number)))
    columns = [
        {
            "column": c,
            "treatment": "dropped" if c == _RAW else policy.treatment(c),
            "values before": n,
            "values left": left[c],
        }
        for c, n in sorted(values.items())
        if n
    ]
    return {"columns": columns, "words": sorted(words), "left": list(_LEFT)}


def _present(trace: Trace) -> Iterator[tuple[str, int]]:
    """How many nodes of a body have each attribute or field."""
    raw = 0
    for column in trace.table.column_names:
        values = trace.table.column(column)
        count = len(values) - values.null_count
        if column.startswith("_"):
            raw += count if column != "_layout" else 0
        else:
            yield column, count
    yield _RAW, raw


def _texts(policy: Policy, trace: Trace) -> Iterator[str]:
    """Every distinct text of a body that was not renamed."""
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
        Policy.of(self.times, self.keep, self.drop)

    def __str__(self) -> str:
        """Without the key: the card travels with the traces."""
        return super(Anonymize, dataclasses.replace(self, key="")).__str__()

    def apply(self, traces: TraceSet) -> TraceSet:
        """The anonymized traces; a run stays one if its times do. Counters are dropped."""
        policy = Policy.of(self.times, self.keep, self.drop)
        if self.times != "exact" and isinstance(traces, Run) and traces.times is not None:
            traces = with_run_times(traces)
        names = Pseudonyms(self.key.encode() or secrets.token_bytes(32))
        groups = {} if "pg_name" in policy.keep else names.groups(_group_names(traces))
        worker = _Worker(policy, names, groups, _own_names(traces), _clock_base(traces, policy))
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
        """What is left, column by column, and every word that is no pseudonym."""
        return report(Policy.of(self.times, self.keep, self.drop), before, after)


def _group_names(traces: TraceSet) -> set[str]:
    bound = {n for b in traces.bindings.values() for pair in b.groups.items() for n in pair}
    return bound | set(traces.groups)


def _own_names(traces: TraceSet) -> frozenset[str]:
    """Every name of an operator, kernel or module: none may stay, not even where it is a common word."""
    found: set[str] = set()
    for number in range(traces.body_count):
        trace = traces.body_at(number)
        for column in {"name", "module"} & set(trace.table.column_names):
            texts = pc.unique(trace.table.column(column)).to_pylist()
            parts = (t.split(".") for t in texts if t and column == "module")
            found.update((t for t in texts if t), *parts)
    return frozenset(found)


def _bound(binding: Binding, groups: dict[str, str]) -> Binding:
    own = {groups.get(role, role): groups.get(n, n) for role, n in binding.groups.items()}
    return dataclasses.replace(binding, groups=own)


def _clock_base(traces: TraceSet, policy: Policy) -> int:
    """What is taken off every start, in ns, so that nobody learns when the recording was made.

    Whole microseconds, and one less than the first start: a node that has no start stays before it.
    """
    if not any(policy.treatment(c) == "kept" for c in STARTS):
        return 0
    starts = [traces.body_at(i).start_ns for i in range(traces.body_count)]
    first = min((int(s[s > 0].min()) for s in starts if (s > 0).any()), default=0)
    return max(0, first // 1000 - 1) * 1000


def _card(card: Card, is_run: bool) -> Card:
    """Only what the numbers need to be read right; of earlier passes, which they were."""
    bare = [name for p in card.passes if (name := p.partition("{")[0]) in PASSES]
    settings = {"undilate": True} if card.settings.get("undilate") else {}
    return Card(
        kind="run" if is_run else "traces",
        tool="chakra transform",
        settings=settings,
        passes=bare,
        tick_ps=card.tick_ps,
        partial=card.partial,
    )


@dataclass(frozen=True)
class _Worker:
    """Changes one body after another in the same way."""

    policy: Policy
    names: Pseudonyms
    groups: dict[str, str]
    secret: frozenset[str]
    base: int

    def anonymized(self, trace: Trace) -> Trace:
        """A body rebuilt from what may stay, so that nothing else can come along."""
        trace = trace.with_nesting()  # the times that tell it may go
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
        data |= self._starts(trace, data)
        made = self._with_state(trace, Trace.from_columns(data, None, _header(trace.metadata)))
        if "parent" in data:  # ids that no node has could say anything
            made = made.with_parent(trace.parent)
        return made if self.policy.times == "exact" else _in_issue_order(trace, made)

    def _with_state(self, trace: Trace, made: Trace) -> Trace:
        """Bytes that were held before, as one sum, if the bytes that nodes hold may stay."""
        held = sum(part.bytes for part in model_state(trace))
        if not held or self.policy.treatment("mem_alloc") != "kept":
            return made
        return with_model_state(made, [StatePart("other", held)])

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
        """Words of the vocabulary, unless they are a name here; the roofline needs element types."""
        secret = text in self.secret and not column.endswith("dtype")
        return self.policy.is_word(column, text) and not secret

    def _starts(self, trace: Trace, data: dict[str, Any]) -> dict[str, Any]:
        """Starts since the set's first; a node without one has none afterwards either."""
        found: dict[str, Any] = {}
        if "start_time_micros" in data:
            micros = trace.column("start_time_micros")
            found["start_time_micros"] = np.where(
                micros > 0, micros - np.uint64(self.base // 1000), micros
            )
        if "start_time_ns" in data:
            nanos = trace.column("start_time_ns", 0)
            moved = np.where(nanos > 0, nanos - self.base, nanos)
            found["start_time_ns"] = pa.array(moved, mask=~trace.has("start_time_ns"))
        return found


def _header(metadata: Metadata) -> Metadata:
    """A version that is only a number may stay."""
    plain = all(p.isascii() and p.isdecimal() for p in metadata.version.split("."))
    return Metadata.of(metadata.version if plain else "")


def _in_issue_order(before: Trace, after: Trace) -> Trace:
    """Numbered in the order of the starts that are gone, which is the order work was issued in."""
    number = np.empty(len(before), np.uint64)
    number[np.lexsort((before.ids, before.start_ns))] = np.arange(len(before), dtype=np.uint64)
    edges = before.edges
    if "edge_lags_ns" not in after.table.column_names:
        edges = dataclasses.replace(edges, lag=np.zeros(len(edges), np.int64))
    moved = after.with_columns({"id": number}).with_edges(edges)
    return moved.with_parent(after.parent) if after.has("parent").any() else moved
