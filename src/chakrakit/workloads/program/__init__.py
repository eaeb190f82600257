"""One stage's program: tasks tiled over micro-batches, the end of the step, memory."""

from __future__ import annotations

from chakrakit.workloads.program.layout import HeldWeight, WorkloadLayout
from chakrakit.workloads.program.program import (
    MESSAGES,
    Stage,
    StageProgram,
    TaskRows,
    in_order,
    ordered_program,
    pair_keys,
    stage_program,
    streams_of,
)
from chakrakit.workloads.program.shapes import RowShape, shape_of
from chakrakit.workloads.program.staying import StayingTasks, without_staying
from chakrakit.workloads.program.step_end import step_end_nodes
from chakrakit.workloads.program.tables import COLUMNS, TextTables, TiledColumns, table_of
from chakrakit.workloads.program.task_templates import OWN, Template
from chakrakit.workloads.program.traces import (
    MeshBindings,
    header,
    memory,
    model_state,
    peak_held,
    trace_of,
)
from chakrakit.workloads.program.variation import variants, varied

__all__ = [
    "COLUMNS",
    "MESSAGES",
    "OWN",
    "HeldWeight",
    "MeshBindings",
    "RowShape",
    "Stage",
    "StageProgram",
    "StayingTasks",
    "TaskRows",
    "Template",
    "TextTables",
    "TiledColumns",
    "WorkloadLayout",
    "header",
    "in_order",
    "memory",
    "model_state",
    "ordered_program",
    "pair_keys",
    "peak_held",
    "shape_of",
    "stage_program",
    "step_end_nodes",
    "streams_of",
    "table_of",
    "trace_of",
    "variants",
    "varied",
    "without_staying",
]
