"""CUDA and HIP graphs: what was captured, what is replayed, and the batches of serving steps."""

from chakrakit.sources.graphs.captures import Capture, Operator, find_captures
from chakrakit.sources.graphs.replays import Graphs, add_graph_causes, find_replays, name_rows
from chakrakit.sources.graphs.steps import Batch, Share, read_batch

__all__ = [
    "Batch",
    "Capture",
    "Graphs",
    "Operator",
    "Share",
    "add_graph_causes",
    "find_captures",
    "find_replays",
    "name_rows",
    "read_batch",
]
