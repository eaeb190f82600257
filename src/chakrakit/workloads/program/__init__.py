"""One stage's program: cells tiled over micro-batches, the end of the step, memory."""

from __future__ import annotations

from chakrakit.workloads.program.cells import OWN, Template
from chakrakit.workloads.program.held_memory import memory, model_state
from chakrakit.workloads.program.layout import Held, Layout, even_split
from chakrakit.workloads.program.program import (
    MESSAGES,
    Program,
    Stage,
    finished,
    stage_program,
    streams_of,
)
from chakrakit.workloads.program.tables import COLUMNS, Book, Ints, table_of
from chakrakit.workloads.program.tail import tail_nodes
from chakrakit.workloads.program.traces import Ranks, trace_of
from chakrakit.workloads.program.variation import document_lengths, variants, varied

__all__ = [
    "COLUMNS",
    "MESSAGES",
    "OWN",
    "Book",
    "Held",
    "Ints",
    "Layout",
    "Program",
    "Ranks",
    "Stage",
    "Template",
    "document_lengths",
    "even_split",
    "finished",
    "memory",
    "model_state",
    "stage_program",
    "streams_of",
    "table_of",
    "tail_nodes",
    "trace_of",
    "variants",
    "varied",
]
