"""What a workload is: model, parallel plan, step, pipeline schedule and mesh."""

from __future__ import annotations

from chakrakit.workloads.description import description
from chakrakit.workloads.description.decoder_layers import (
    Attention,
    CompressedAttention,
    DeltaNet,
    Experts,
    FeedForward,
    Index,
    LatentAttention,
    Layer,
    Linear,
    Matrix,
    Mixer,
    Mlp,
    Recorded,
    StateSpace,
)
from chakrakit.workloads.description.description import (
    Convolutional,
    Decoder,
    Diffusion,
    Lengths,
    Model,
    Plan,
    Recommender,
    Samples,
    Step,
    Tower,
    Vision,
    Workload,
)
from chakrakit.workloads.description.feasibility import MOST_LAYERS, check, even_split
from chakrakit.workloads.description.mesh import EXCHANGES, Mesh
from chakrakit.workloads.description.precision import UNQUANTIZED, WHOLE_ROW, Format, Precision
from chakrakit.workloads.description.rows import LayerRows, layer_rows
from chakrakit.workloads.description.schedules import (
    SCHEDULES,
    UPDATE,
    PipelineSchedule,
    PipelineTask,
    gpipe,
    schedule_named,
    schedule_of,
)
from chakrakit.workloads.description.sections import Section, SectionGraph

__all__ = [
    "EXCHANGES",
    "MOST_LAYERS",
    "SCHEDULES",
    "UNQUANTIZED",
    "UPDATE",
    "WHOLE_ROW",
    "Attention",
    "CompressedAttention",
    "Convolutional",
    "Decoder",
    "DeltaNet",
    "Diffusion",
    "Experts",
    "FeedForward",
    "Format",
    "Index",
    "LatentAttention",
    "Layer",
    "LayerRows",
    "Lengths",
    "Linear",
    "Matrix",
    "Mesh",
    "Mixer",
    "Mlp",
    "Model",
    "PipelineSchedule",
    "PipelineTask",
    "Plan",
    "Precision",
    "Recommender",
    "Recorded",
    "Samples",
    "Section",
    "SectionGraph",
    "StateSpace",
    "Step",
    "Tower",
    "Vision",
    "Workload",
    "check",
    "description",
    "even_split",
    "gpipe",
    "layer_rows",
    "schedule_named",
    "schedule_of",
]
