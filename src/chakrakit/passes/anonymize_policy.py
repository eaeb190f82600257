"""What may stay in an anonymized trace: every column is kept, kept in part, renamed or dropped.

Whatever is not listed here is dropped, so that an attribute nobody has thought of does not slip through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from chakrakit.errors import ConfigError, nearest
from chakrakit.operators import find_type
from chakrakit.trace.model import IO_COLUMNS, by_name

Treatment = Literal["kept", "words", "renamed", "dropped"]
TimePolicy = Literal["exact", "durations", "none"]

FIELDS = ("id", "type", "ctrl_deps", "data_deps")
"""What makes a node a node; always kept."""
STARTS = ("start_time_micros", "start_time_ns")
DURATIONS = ("duration_micros", "duration_ns", "own_ns", "edge_lags_ns")

_NUMBERS = (
    "is_cpu_op",
    "num_ops",
    "tensor_size",
    "tensor_loc",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "comm_priority",
    "link_priority",
    "link_weight",
    "comm_seq",
    "involved_dim",
    "in_splits",
    "out_splits",
    "out_size",
    "pg_inferred",
    "stream",
    "tid",
    "fw_tid",
    "seq_id",
    "scope",
    "edge_kinds",
    "layer",
    "micro_batch",
    "weights_version",
    "parent",
    "step",
    "chunk",
    "device",
    "orphan",
    "y_tensor_size",
    "mem_alloc",
    "mem_free",
    "unsharded",
    "is_copy",
    "list_tensors",
    "device_share",
    "side_ops",
    "pieces",
    "waves",
    "estimated_cycles",
    "batch_tokens",
    "context_k",
    "context_q",
    "context_qk",
    "context_qq",
    "context_requests",
    "generation_k",
    "generation_q",
    "generation_qk",
    "generation_qq",
    "generation_requests",
)
_UNIT = re.compile("(matrix|vector|scalar|cores?|cpu|gpu|npu|dpu|copy)((=[0-9.]+)?,?)*")
"""Names that say what a unit is, and shares of them."""
_WORDS: dict[str, Callable[[str], object]] = {
    "phase": re.compile("forward|backward|weight|recompute|sync|optimizer|other").fullmatch,
    "op_type": re.compile("matmul|attention|vector|lookup|optimizer|repack").fullmatch,
    "unit": _UNIT.fullmatch,
    "side_unit": _UNIT.fullmatch,
    "comm_algorithm": re.compile(
        "auto|ring|direct|halving-doubling|double-tree|hierarchical|in-switch|"
        "pairwise|tree|dissemination"
    ).fullmatch,
    "storage": re.compile("local|disk|peers?|memory|remote|store|storage").fullmatch,
    "dtype": find_type,
    "comm_dtype": find_type,
}
"""Column → test for texts that are words of the vocabulary and may stay; any other text in it is renamed."""
_RENAMED = ("name", "pg_name", "module", "tensor", "window")


@dataclass(frozen=True)
class ColumnPolicy:
    """How each column is treated.

    `keep` and `drop` name columns that are kept or dropped against the default.
    """

    times: TimePolicy
    keep: frozenset[str]
    drop: frozenset[str]

    @classmethod
    def of(cls, times: TimePolicy, keep: Iterable[str], drop: Iterable[str]) -> ColumnPolicy:
        """Builds a policy.

        Refuses to drop a column that every trace needs, or one that is also to be kept.
        """
        policy = cls(times, frozenset(keep), frozenset(drop))
        columns = {*FIELDS, *STARTS, *DURATIONS, *_RENAMED, *IO_COLUMNS, *by_name()}
        _check_known(policy.drop, columns)
        for column in sorted(policy.drop & {*FIELDS, *_RENAMED[:2], "edge_kinds"}):
            raise ConfigError(
                f"drop: {column!r} cannot be dropped; a trace means nothing without it"
            )
        for column in sorted(policy.drop & policy.keep):
            raise ConfigError(f"{column!r} is in keep and in drop; it can be in one")
        return policy

    def treatment(self, column: str) -> Treatment:
        """Returns what happens to a column.

        An attribute with the name of a field has the column `attr:NAME`.
        """
        if column in self.drop:
            return "dropped"
        if column in self.keep or column in FIELDS:
            return "kept"
        if column in STARTS:
            return "kept" if self.times == "exact" else "dropped"
        if column in DURATIONS:
            return "dropped" if self.times == "none" else "kept"
        if column in _RENAMED:
            return "renamed"
        return "words" if column in _WORDS else "kept" if column in _NUMBERS else "dropped"

    def is_word(self, column: str, text: str) -> bool:
        """Whether a text may stay: a word of the vocabulary, in a column that has such words."""
        return column in _WORDS and _WORDS[column](text) is not None


def _check_known(names: Collection[str], columns: Collection[str]) -> None:
    """Refuses to drop an unknown column: a misspelt name would leave in what was to be dropped."""
    for name in sorted(set(names) - set(columns)):
        hint = nearest(name, sorted(columns))
        raise ConfigError(f"drop: no attribute {name!r} is ever kept; {hint}")
