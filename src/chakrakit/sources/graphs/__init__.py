"""CUDA and HIP graphs: what was captured, what is replayed, and the batches of serving steps."""

from chakrakit.sources.graphs.captures import (
    Capture,
    Operator,
    Recorded,
    find_captures,
    has_captures,
)
from chakrakit.sources.graphs.replays import (
    Graphs,
    Replay,
    add_graph_causes,
    find_replays,
    name_rows,
)

__all__ = [
    "Capture",
    "Graphs",
    "Operator",
    "Recorded",
    "Replay",
    "add_graph_causes",
    "find_captures",
    "find_replays",
    "has_captures",
    "name_rows",
]
