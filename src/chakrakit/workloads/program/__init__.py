"""One stage's program: tasks tiled over micro-batches, the end of the step, memory."""

from __future__ import annotations

from chakrakit.workloads.program.layout import HeldWeight, Layout
from chakrakit.workloads.program.program import (
    MESSAGES,
    Program,
    Stage,
    finished,
    stage_program,
    streams_of,
)
from chakrakit.workloads.program.step_end import step_end_nodes
from chakrakit.workloads.program.tables import COLUMNS, TextTables, TiledColumns, table_of
from chakrakit.workloads.program.task_templates import OWN, Template
from chakrakit.workloads.program.traces import MeshBindings, header, memory, model_state, trace_of
from chakrakit.workloads.program.variation import document_lengths, variants, varied

__all__ = [
    "COLUMNS",
    "MESSAGES",
    "OWN",
    "HeldWeight",
    "Layout",
    "MeshBindings",
    "Program",
    "Stage",
    "Template",
    "TextTables",
    "TiledColumns",
    "document_lengths",
    "finished",
    "header",
    "memory",
    "model_state",
    "stage_program",
    "step_end_nodes",
    "streams_of",
    "table_of",
    "trace_of",
    "variants",
    "varied",
]
