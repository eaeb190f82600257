"""What an anonymized set still says: column by column, and every text that is no pseudonym."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.passes.anonymize.policy import Policy
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import TraceSet

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
