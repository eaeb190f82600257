"""Text that nodes carry about where they belong, read with the launching operator's where they have none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask, Texts
from chakrakit.errors import ConfigError
from chakrakit.trace.model import EdgeKind, Trace


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
