"""A run as OpenTelemetry spans: one line of OTLP's JSON for each rank, every node a span inside its parent's.

Attributes are the node's type and id, and of communication its bytes and group; the resource is the rank.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from chakrakit.trace.codecs import Exported
from chakrakit.trace.files import open_output
from chakrakit.trace.model import node_type_name
from chakrakit.trace.sets import Run, whole_ns


def write_spans(run: Run, path: str | os.PathLike[str]) -> Exported:
    """Writes all ranks; says how many spans there are, and how many are inside others."""
    spans = inside = 0
    with open_output(os.fspath(path), binary_only=False) as stream:
        for rank in run.ranks:
            rows = list(_spans(run, rank))
            resource = {
                "attributes": [_attribute("service.name", "chakra"), _attribute("rank", rank)]
            }
            document = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": rows}]}]}
            stream.write(msgspec.json.encode(document) + b"\n")
            spans += len(rows)
            inside += sum("parentSpanId" in row for row in rows)
    return Exported(spans, inside, 0)


def _spans(run: Run, rank: int) -> Iterator[dict[str, Any]]:
    """The rows that ran, in whole nanoseconds of the clock."""
    trace = run.trace(rank)
    start, end = whole_ns(run.times_of(rank), run.tick_ps)
    ran = (end >= np.maximum(start, 0)).tolist() if run.times is not None else [True] * len(trace)
    start, end = start + run.epoch_ns, end + run.epoch_ns
    trace_id = hashlib.blake2b(f"{run.card.name} {rank}".encode(), digest_size=16).hexdigest()
    names, kinds = trace.names.to_pylist(), trace.column("type", 0).tolist()
    parent, sizes = trace.parent.tolist(), trace.column("comm_size", -1).tolist()
    for row, node in enumerate(trace.ids.tolist()):
        if not ran[row]:
            continue
        attributes = [
            _attribute("chakra.id", node),
            _attribute("chakra.type", node_type_name(int(kinds[row]))),
        ]
        if sizes[row] >= 0:
            attributes.append(_attribute("chakra.comm_size", int(sizes[row])))
        span = {
            "traceId": trace_id,
            "spanId": f"{row + 1:016x}",
            "name": names[row],
            "startTimeUnixNano": str(start[row]),
            "endTimeUnixNano": str(end[row]),
            "attributes": attributes,
        }
        if parent[row] >= 0 and ran[parent[row]]:
            span["parentSpanId"] = f"{parent[row] + 1:016x}"
        yield span


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    typed = {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}
    return {"key": key, "value": typed}
