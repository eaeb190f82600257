"""Dynamo's forward pass metrics, `dynamo.fpm.trace.v1`: JSON lines, each a record of one pass of an engine.

`event` has `observed_at_unix_ms`, when the pass had ended, `capture_mode` (`sampled` keeps the newest record
of each interval), and `fpm`: `worker_id`, `dp_rank`, a `counter_id` that grows by one with every pass,
`wall_time` in seconds, and `scheduled_requests` with how many requests were in prefill, their new and cached
tokens, how many were decoding and the sum of their contexts. A worker's data-parallel rank becomes a rank,
a pass one row on its device and a step with its batch. Records of nothing scheduled are signs of life.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from chakrakit.errors import FormatError
from chakrakit.sources.activities import Activities
from chakrakit.sources.pytorch import Batch, BatchShare, batch_name
from chakrakit.sources.pytorch.read import Kind, Kineto, Whole

UNWRITTEN = "passes that were not written"
"""Under which the report counts those that the counter tells of."""
_SCHEMA = b'"dynamo.fpm.trace.v1"'


def is_forward_passes(head: bytes) -> bool:
    """Whether the first line names the schema."""
    return head.lstrip()[:1] == b"{" and _SCHEMA in head.split(b"\n", 1)[0]


class _Scheduled(msgspec.Struct):
    num_prefill_requests: Whole = 0
    sum_prefill_tokens: Whole = 0
    sum_prefill_kv_tokens: Whole = 0
    num_decode_requests: Whole = 0
    sum_decode_kv_tokens: Whole = 0

    @property
    def batch(self) -> Batch:
        """The batch of the pass: cached tokens are keys of prompts, and a decoding request has one query."""
        queries = self.sum_prefill_tokens
        context = BatchShare(
            self.num_prefill_requests, queries, queries + self.sum_prefill_kv_tokens
        )
        decoding = self.num_decode_requests
        generation = BatchShare(decoding, decoding, self.sum_decode_kv_tokens)
        return Batch(queries + decoding, context, generation)


class _Pass(msgspec.Struct):
    worker_id: str = ""
    dp_rank: Whole = 0
    counter_id: Whole = -1
    wall_time: float = 0.0
    scheduled_requests: _Scheduled = msgspec.field(default_factory=_Scheduled)


class _Event(msgspec.Struct):
    fpm: _Pass
    schema: str = ""
    observed_at_unix_ms: float = 0.0


class _Line(msgspec.Struct):
    event: _Event


_JSON = msgspec.json.Decoder(_Line, strict=False)
_LONGEST_S = 86_400.0
"""A day: no pass takes longer."""
_LATEST_MS = 4e12
"""The year 2096."""


def read_processes(data: bytes, path: str = "") -> list[Kineto]:
    """Every worker's data-parallel rank of a file (uncompressed), by their names and numbers."""
    ranks: defaultdict[tuple[str, int], list[_Event]] = defaultdict(list)
    for event in _events(data, path):
        ranks[event.fpm.worker_id, event.fpm.dp_rank].append(event)
    return [_columns(ranks[key], path) for key in sorted(ranks)]


def _events(data: bytes, path: str) -> Iterator[_Event]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            event = _JSON.decode(line).event
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(
                f"line {number} is not a forward pass: {error}", path=path or None
            ) from None
        took, scheduled = event.fpm.wall_time, event.fpm.scheduled_requests
        seen = event.observed_at_unix_ms
        counts = msgspec.structs.astuple(scheduled)
        if not (0 <= took < _LONGEST_S and 0 <= seen < _LATEST_MS and min(counts) >= 0):
            raise FormatError(
                f"line {number}: a pass of {took:g} s, seen at {seen:g} ms, with {scheduled}; the file is "
                "damaged",
                path=path or None,
            )
        yield event


def _columns(events: list[_Event], path: str) -> Kineto:
    """The passes of one rank: of each a step on the host, and its work on the device."""
    activities = Activities(path)
    passes = [e for e in events if e.fpm.scheduled_requests.batch.tokens]
    activities.leave_out("records with nothing scheduled", len(events) - len(passes))
    passes.sort(key=lambda e: e.fpm.counter_id)
    numbers = [e.fpm.counter_id for e in passes]
    missing = max(numbers, default=0) - min(numbers, default=0) + 1 - len(set(numbers))
    activities.leave_out(UNWRITTEN, max(0, missing) if passes else 0)
    spans = list(_spans(passes, activities))
    names = [batch_name(e.fpm.scheduled_requests.batch) for e in passes]
    starts, ends = [s for s, _ in spans], [e for _, e in spans]
    place = {"pid": 1, "tid": 1}
    activities.add(Kind.ANNOTATION, names, starts, ends, **place)
    activities.add(Kind.CALL, ["launch"] * len(spans), starts, starts, correlation=numbers, **place)
    device = {"device": 0, "stream": 0, "pid": 0, "tid": 0}
    activities.add(
        Kind.KERNEL, ["forward pass"] * len(spans), starts, ends, correlation=numbers, **device
    )
    base = int(passes[0].observed_at_unix_ms * 1e6) if passes else 0
    return activities.kineto(base)


def _spans(passes: list[_Event], activities: Activities) -> Iterator[tuple[int, int]]:
    """When each pass began and ended, in ns after the first was seen.

    They are seen in whole milliseconds: one that would begin before the last has ended is moved behind it.
    """
    seen = [e.observed_at_unix_ms - passes[0].observed_at_unix_ms for e in passes]
    end, moved = None, 0
    for at_ms, event in zip(seen, passes, strict=True):
        took = round(event.fpm.wall_time * 1e9)
        begin = round(at_ms * 1e6) - took
        if end is not None and begin < end:
            begin, moved = end, moved + 1
        end = begin + took
        yield begin, end
    activities.leave_out("beginnings that were moved behind the pass before", moved)
